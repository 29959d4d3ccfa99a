//! Opening a store.

use std::fmt;
use std::path::Path;

use super::inbox::Inbox;
use super::tx::Tx;
use crate::base::clock::{Clock, SystemClock};
use crate::base::error::{BoxError, Error};
use crate::base::limits::{
    GROUP_MAX_BYTES, MEMORY_SEGMENT_BYTES, RECENT_MAX_CLAIMS, RESULT_MAX_BYTES, SEGMENT_BYTES,
    SEGMENT_MAX_BYTES, SEGMENT_MIN_BYTES,
};
use crate::base::random::Random;
use crate::base::sync::Arc;
use crate::claims::policy::Retention;
use crate::engine::{Config, Engine, Opening};
use crate::storage::directory::OpenMode;
use crate::storage::disk::{Disk, MemoryDisk, RealDisk};

/// Brings the application's state from one version to the next.
type Migration = Box<dyn FnOnce(u64, &mut Tx<'_>) -> Result<(), BoxError>>;

/// Settings for opening a store. Get one from [`Inbox::builder`].
///
/// ```
/// # use std::time::Duration;
/// use txinbox::{Inbox, Retention};
///
/// let dir = tempfile::tempdir()?;
/// let inbox = Inbox::builder(Retention::at_least(Duration::from_secs(3600)))
///     .cache_bytes(16 << 20)
///     .open(dir.path().join("orders"))?;
/// # drop(inbox);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Builder {
    retention: Retention,
    config: Config,
    ballast_bytes: Option<u64>,
    clock: Option<Arc<dyn Clock>>,
    random: Option<Random>,
    namespace: Option<String>,
    migration: Option<(u64, Migration)>,
}

/// How a group of events becomes durable.
///
/// Both keep every guarantee; they differ in speed. A store may be opened with either at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A group is durable once its record in a sequential journal file is: one write and one small
    /// sync. The database file is written later, for many groups at once.
    #[default]
    Journal,
    /// Every group is a durable commit of the database file: two syncs and some 60 KB of writes. No
    /// journal files are made, and the directory holds nothing but the database.
    EveryCommit,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("retention", &self.retention).finish_non_exhaustive()
    }
}

/// The shortest slice that can do any work.
const SWEEP_BUDGET_MIN_US: u64 = 100;
const CACHE_MIN_BYTES: usize = 1 << 20;
const RECENT_MIN_CLAIMS: usize = 1 << 10;
/// Room for a few of the largest groups. Only a real disk gets it unasked.
const BALLAST_BYTES: u64 = 4 * GROUP_MAX_BYTES as u64;

impl Builder {
    pub(crate) fn new(retention: Retention) -> Self {
        let config = Config {
            cache_bytes: 64 << 20,
            recent_max_claims: RECENT_MAX_CLAIMS,
            result_max_bytes: RESULT_MAX_BYTES,
            sweep_budget_us: 1_000,
            threads: true,
            journal: true,
            segment_bytes: 0,
            view_max_pinned_bytes: 4 << 30,
            ballast_bytes: 0,
        };
        Self {
            retention,
            config,
            ballast_bytes: None,
            clock: None,
            random: None,
            namespace: None,
            migration: None,
        }
    }

    /// Memory for pages of the database file, 64 MiB unless set; at least 1 MiB.
    ///
    /// Recent claims and filters come on top: 32 bytes for each of up to
    /// [`recent_max_claims`](Self::recent_max_claims), and about 1.2 bytes for each sealed one.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.config.cache_bytes = bytes;
        self
    }

    /// How many claims are kept in memory before they are sealed into sorted runs, 1,048,576
    /// unless set; at least 1,024. Small stores use only what they need.
    #[must_use]
    pub fn recent_max_claims(mut self, claims: usize) -> Self {
        self.config.recent_max_claims = claims;
        self
    }

    /// The largest result that [`Tx::set_result`](crate::Tx::set_result) takes, 16 MiB unless set
    /// lower.
    #[must_use]
    pub fn result_max_bytes(mut self, bytes: usize) -> Self {
        self.config.result_max_bytes = bytes;
        self
    }

    /// How long one slice of maintenance may hold up the writer, in microseconds: 1,000 unless
    /// set, at least 100. A single step of a slice, such as freeing one table, may take longer.
    #[must_use]
    pub fn sweep_budget_us(mut self, us: u64) -> Self {
        self.config.sweep_budget_us = us;
        self
    }

    /// How a group of events becomes durable; through the journal unless set.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.config.journal = durability == Durability::Journal;
        self
    }

    /// Length of each of the journal's two segments, 8 MiB unless set; from 16 KiB to 1 GiB. They
    /// are made at their full length when the store is first opened with a journal, grow when more
    /// is asked for, and never shrink.
    ///
    /// Longer ones make for fewer and larger checkpoints, more to replay after a crash, and some
    /// three times their length in memory at worst. An event that does not fit in one becomes a commit of its own.
    #[must_use]
    pub fn journal_segment_bytes(mut self, bytes: u64) -> Self {
        self.config.segment_bytes = bytes;
        self
    }

    /// Forbids threads of the store's own. [`Inbox::sweep`] and the calls that close a group then
    /// do the maintenance, in small steps.
    #[must_use]
    pub fn no_threads(mut self) -> Self {
        self.config.threads = false;
        self
    }

    /// How much may be written while a [`View`](crate::View) is open before the view is ended,
    /// 4 GiB unless set.
    #[must_use]
    pub fn view_max_pinned_bytes(mut self, bytes: u64) -> Self {
        self.config.view_max_pinned_bytes = bytes;
        self
    }

    /// Space on disk that the store keeps back for the day the disk is full, 32 MiB unless set; 0
    /// for none. A simulated disk, or a store in memory, has none unless set.
    ///
    /// It lies in a file of its own beside the database. When a write meets a full disk, the file is
    /// emptied and the write tried again, so that what was begun can end. From then on new events are
    /// refused ([`is_full`](Error::is_full)), until there is room to lay the file again; repeats, reads
    /// and forgetting go on. A disk without room for it when the store is opened is such a full disk.
    /// A device that counts every megabyte may do with less: twice the largest group or event is
    /// the least that helps.
    #[must_use]
    pub fn ballast_bytes(mut self, bytes: u64) -> Self {
        self.ballast_bytes = Some(bytes);
        self
    }

    /// What the ids of [messages](crate::outbox) and the idempotency keys of [leases](crate::lease) are derived
    /// from, besides consumer and event. Without it, from the store's own identity.
    ///
    /// Give one, 1 to 255 bytes, if a store that has to be made anew from the broker's history shall
    /// give the same events the same ids as the lost one did, so that the other sides still know them. It is
    /// kept with the store when that is made, and by backups; two stores of one namespace must not
    /// handle different events under one id. A store that was made with one may be opened without
    /// naming it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Retention};
    /// # let dir = tempfile::tempdir()?;
    /// let open = |namespace: &str| {
    ///     Inbox::builder(Retention::at_least(Duration::from_secs(60)))
    ///         .namespace(namespace)
    ///         .open(dir.path())
    /// };
    /// open("orders/eu")?.close()?;
    /// assert!(open("orders/us").unwrap_err().is_invalid());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Takes the time from `clock` instead of the machine.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Draws the store's id, hash key and epochs from a seed, so that a run can be repeated.
    ///
    /// For tests only: whoever knows the seed can make ids collide.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Some(Random::seeded(seed));
        self
    }

    /// Says which version the application's state has. If the store has a lower one, `migrate` is
    /// called with it, in a transaction that commits its writes together with the new version.
    /// A new store has version 0.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Map, Retention};
    /// # let dir = tempfile::tempdir()?;
    /// # let retention = || Retention::at_least(Duration::from_secs(60));
    /// let inbox = Inbox::builder(retention())
    ///     .state_version(2, |from, tx| {
    ///         assert_eq!(from, 0);
    ///         Ok(())
    ///     })
    ///     .open(dir.path())?;
    /// inbox.close()?;
    /// // A program that knows only version 1 is refused.
    /// let older = Inbox::builder(retention()).state_version(1, |_, _| Ok(())).open(dir.path());
    /// assert!(older.unwrap_err().is_newer_format());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn state_version(
        mut self,
        version: u64,
        migrate: impl FnOnce(u64, &mut Tx<'_>) -> Result<(), BoxError> + 'static,
    ) -> Self {
        self.migration = Some((version, Box::new(migrate)));
        self
    }

    /// Opens the store in `dir`, or makes one there if the directory is empty or absent.
    ///
    /// # Errors
    /// Settings out of range ([`is_invalid`](Error::is_invalid)); a directory that another handle has open ([`is_locked`](Error::is_locked)), that holds something
    /// else ([`is_not_a_store`](Error::is_not_a_store)), that a newer version wrote
    /// ([`is_newer_format`](Error::is_newer_format)) or that is damaged
    /// ([`is_corrupt`](Error::is_corrupt)); a migration's own error.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Inbox, Error> {
        self.open_real(dir.as_ref(), OpenMode::CreateIfEmpty)
    }

    /// Opens the store in `dir`, and errs if there is none: for deployments in which a missing
    /// store means a wrong path or a lost disk, and an empty one would handle everything again.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`is_missing`](Error::is_missing).
    pub fn open_existing(self, dir: impl AsRef<Path>) -> Result<Inbox, Error> {
        self.open_real(dir.as_ref(), OpenMode::ExistingOnly)
    }

    /// Opens a store that lives in memory and is gone with its last handle.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in_memory(self) -> Result<Inbox, Error> {
        self.or_segments_of(MEMORY_SEGMENT_BYTES)
            .open_disk(Arc::new(MemoryDisk::default()), OpenMode::CreateIfEmpty)
    }

    /// Opens the store on a simulated disk, or makes one there.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "testkit")]
    pub fn open_on(self, disk: &crate::api::testkit::SimDisk) -> Result<Inbox, Error> {
        self.or_segments_of(SEGMENT_MIN_BYTES)
            .open_disk(Arc::new(disk.clone()), OpenMode::CreateIfEmpty)
    }

    fn or_segments_of(mut self, bytes: u64) -> Self {
        if self.config.segment_bytes == 0 {
            self.config.segment_bytes = bytes;
        }
        self
    }

    fn check(&self) -> Result<(), Error> {
        let config = &self.config;
        for (what, got, least) in [
            ("sweep_budget_us", config.sweep_budget_us, SWEEP_BUDGET_MIN_US),
            ("journal_segment_bytes", config.segment_bytes, SEGMENT_MIN_BYTES),
            ("cache_bytes", config.cache_bytes as u64, CACHE_MIN_BYTES as u64),
            ("recent_max_claims", config.recent_max_claims as u64, RECENT_MIN_CLAIMS as u64),
        ] {
            if got < least {
                return Err(Error::invalid(format!("{what} is {got}; give it at least {least}")));
            }
        }
        for (what, got, limit) in [
            ("result_max_bytes", config.result_max_bytes as u64, RESULT_MAX_BYTES as u64),
            ("journal_segment_bytes", config.segment_bytes, SEGMENT_MAX_BYTES),
        ] {
            if got > limit {
                return Err(Error::limit(what, got, limit));
            }
        }
        Ok(())
    }

    fn open_real(mut self, dir: &Path, mode: OpenMode) -> Result<Inbox, Error> {
        self.ballast_bytes.get_or_insert(BALLAST_BYTES);
        self.open_disk(Arc::new(RealDisk::new(dir)), mode)
    }

    fn open_disk(self, disk: Arc<dyn Disk>, mode: OpenMode) -> Result<Inbox, Error> {
        let mut this = self.or_segments_of(SEGMENT_BYTES);
        this.check()?;
        this.config.ballast_bytes = this.ballast_bytes.unwrap_or_default();
        let opening = Opening {
            disk,
            mode,
            clock: this.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            random: this.random.unwrap_or(Random::System),
            policy: this.retention.policy()?,
            allow_shorter: this.retention.allows_shorter(),
            state_version: this.migration.as_ref().map(|(version, _)| *version),
            namespace: this.namespace,
        };
        let inbox = Inbox::new(Engine::open(opening, this.config)?);
        if let Some((version, migrate)) = this.migration {
            inbox.migrate(version, migrate)?;
        }
        Ok(inbox)
    }
}

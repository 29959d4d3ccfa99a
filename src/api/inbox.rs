//! The open store.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::audit::Record;
use super::builder::Builder;
use super::codec::{Key, Value};
use super::consumer::Consumer;
use super::map::{Map, codecs_of};
use super::outbox::Destination;
use super::stats::{Stats, Sweep};
use super::tx::Tx;
use super::view::View;
use crate::base::error::{BoxError, Error};
use crate::base::sync::Arc;
use crate::claims::policy::Retention;
use crate::engine::{Engine, Stage};

/// An open store: claims, application state, and the one writer that keeps them together.
///
/// One process at a time may open a directory. Cloning is cheap; all clones are one store, which is
/// closed by [`close`](Self::close) or when the last handle, consumers included, is dropped.
///
/// See the [crate's documentation](crate) for a whole program.
#[derive(Clone)]
pub struct Inbox {
    handle: Arc<Handle>,
}

/// Closes the store when the last handle is gone.
struct Handle {
    engine: Arc<Engine>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to tell. All that was answered is durable; only the clocks' last
        // minutes are lost, which the next opening makes up for.
        let _ = self.engine.close();
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.engine.fmt(f)
    }
}

impl Inbox {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { handle: Arc::new(Handle { engine }) }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    /// Begins to open a store that keeps claims for `retention`.
    ///
    /// There is no default: how long duplicates can come only you know. See [`Retention`].
    #[must_use]
    pub fn builder(retention: Retention) -> Builder {
        Builder::new(retention)
    }

    /// A store in memory, gone with its last handle; for tests and for state that may be lost.
    ///
    /// # Errors
    /// A retention out of range.
    pub fn in_memory(retention: Retention) -> Result<Self, Error> {
        Self::builder(retention).open_in_memory()
    }

    /// The consumer of that name, registered durably if it is new.
    ///
    /// # Errors
    /// An empty name or one above 255 bytes; errors of a commit.
    pub fn consumer(&self, name: &str) -> Result<Consumer, Error> {
        let entry = self.engine().consumer(name, None)?;
        Ok(Consumer::new(name, self.clone(), &entry))
    }

    /// The consumer of that name, keeping its claims for a retention of its own.
    ///
    /// A consumer that has one already keeps the longer, unless the new one
    /// [allows](Retention::allow_shorter) less. Claims made before keep the retention they were
    /// made with.
    ///
    /// # Errors
    /// As [`consumer`](Self::consumer); a retention out of range; more than 63 different ones.
    pub fn consumer_with(&self, name: &str, retention: Retention) -> Result<Consumer, Error> {
        let policy = (retention.policy()?, retention.allows_shorter());
        let entry = self.engine().consumer(name, Some(policy))?;
        Ok(Consumer::new(name, self.clone(), &entry))
    }

    /// The destination of that name, registered durably if it is new. See [`outbox`](crate::outbox).
    ///
    /// # Errors
    /// An empty name or one above 255 bytes; errors of a commit.
    pub fn destination(&self, name: &str) -> Result<Destination, Error> {
        let id = self.engine().destination(name)?;
        Ok(Destination::new(name, self.clone(), id))
    }

    /// The keyspace of that name, made durably if it is new.
    ///
    /// # Errors
    /// Other types than it was made with ([`is_type_mismatch`](Error::is_type_mismatch)); an empty
    /// name or one above 255 bytes; errors of a commit. A map of one store is refused by the transactions and
    /// views of another.
    pub fn map<K, V>(&self, name: &str) -> Result<Map<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let entry = self.engine().keyspace(name, &codecs_of::<K, V>())?;
        Ok(Map::new(name, &entry, self.engine().store_id()))
    }

    /// Reads the state of the last durable group. See [`View`].
    ///
    /// # Errors
    /// The closure's own; a store that is closed or cannot recover.
    pub fn read<T, E: From<Error>>(&self, f: impl FnOnce(&View) -> Result<T, E>) -> Result<T, E> {
        let pinned = self.engine().view()?;
        f(&View { pinned })
    }

    /// Does all maintenance that is due now: seals recent claims, forgets expired ones, frees
    /// their space. Returns what this call itself did.
    ///
    /// A store with its own thread does this by itself. Any number of threads may call it; the work
    /// is done once, in slices between the groups of others.
    ///
    /// # Errors
    /// A failed read or write; the work goes on at the next call.
    pub fn sweep(&self) -> Result<Sweep, Error> {
        let mut total = Sweep::default();
        while let Some(step) = self.engine().maintain_step()? {
            total.add(&step);
        }
        Ok(total)
    }

    /// How the store is doing, counted exactly since it was opened. Takes no write slot, and
    /// reads no more than a message for each destination.
    ///
    /// # Errors
    /// A store that is closed.
    pub fn stats(&self) -> Result<Stats, Error> {
        Stats::of(self.engine())
    }

    /// What was done by hand in this store, oldest first: events forgotten with a reason, positions given
    /// up. At most
    /// `limit` records behind `after`, or from the first; give the last one of a page to get the next.
    ///
    /// A record is kept for the retention that the store was opened with; older ones go as new ones
    /// come.
    ///
    /// # Errors
    /// A failed read or a damaged row.
    pub fn audit(&self, after: Option<&Record>, limit: usize) -> Result<Vec<Record>, Error> {
        Record::page(self.engine(), after, limit)
    }

    /// Writes a copy of the last durable group to `file`, with checksums, while the store goes on.
    ///
    /// The file is complete and durable when this returns; it must not exist before. See
    /// [`restore`](Self::restore).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention};
    /// # let dir = tempfile::tempdir()?;
    /// let retention = || Retention::at_least(Duration::from_secs(60));
    /// let inbox = Inbox::builder(retention()).open(dir.path().join("orders"))?;
    /// let event = Event::unchecked(EventId::text("order-1")?);
    /// inbox.consumer("billing")?.process(&event, |_| Ok(()))?;
    /// inbox.backup(dir.path().join("orders.backup"))?;
    ///
    /// Inbox::restore(dir.path().join("orders.backup"), dir.path().join("copy"))?;
    /// let copy = Inbox::builder(retention()).open_existing(dir.path().join("copy"))?;
    /// assert!(copy.consumer("billing")?.process(&event, |_| Ok(()))?.is_duplicate());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A file that exists; a failed read or write. What was written by then is removed.
    pub fn backup(&self, file: impl AsRef<Path>) -> Result<(), Error> {
        self.engine().backup(file.as_ref())
    }

    /// Makes a store in `dir`, which must be empty or absent, from a backup.
    ///
    /// The copy keeps the identity of the store, so its claims hold, and raises its epoch. Never
    /// run the copy and the original on one stream.
    ///
    /// # Errors
    /// A backup that is damaged or cut short ([`is_corrupt`](Error::is_corrupt)); a directory that
    /// is not empty ([`is_not_a_store`](Error::is_not_a_store)); a failed write.
    pub fn restore(file: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<(), Error> {
        crate::engine::restore(file.as_ref(), dir.as_ref())
    }

    /// Gives up what the journal in `dir` holds and the database file does not: the way out when a
    /// store does not open because a record of its journal is damaged, and there is no backup to go
    /// back to.
    ///
    /// Events settled in the groups given up will be handled again when they are delivered again. The
    /// store must not be open. The next opening begins with an empty journal.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Retention};
    /// # let dir = tempfile::tempdir()?;
    /// # Inbox::builder(Retention::at_least(Duration::from_secs(60))).open(dir.path())?.close()?;
    /// Inbox::salvage(dir.path())?;
    /// let inbox = Inbox::builder(Retention::at_least(Duration::from_secs(60)))
    ///     .open_existing(dir.path())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A directory without a store, or one that is open; a failed write.
    pub fn salvage(dir: impl AsRef<Path>) -> Result<(), Error> {
        crate::engine::salvage(dir.as_ref())
    }

    /// Checks every page of the database file and every claim against its checksum. Reads the
    /// whole store and holds up all writing while it runs.
    ///
    /// # Errors
    /// The first damage met, with its place ([`is_corrupt`](Error::is_corrupt)).
    pub fn verify(&self) -> Result<(), Error> {
        self.engine().verify()
    }

    /// Closes the store: commits what tickets left open, saves the clocks, stops the threads, and
    /// gives the directory back. Other handles of it answer [`is_closed`](Error::is_closed) then.
    ///
    /// # Errors
    /// Errors of committing what was still open, or of saving the clocks; why the store was down, if it was. A
    /// group that was already under way tells those who wait for it. The store is closed all the same.
    pub fn close(self) -> Result<(), Error> {
        self.engine().close()
    }

    /// How long claims of consumers without a retention of their own are kept at least: the window
    /// asked for at opening, or a longer one that was asked for before. `None` is for ever.
    #[must_use]
    pub fn retention(&self) -> Option<Duration> {
        self.engine().default_window_ms().map(Duration::from_millis)
    }

    pub(crate) fn migrate(
        &self,
        version: u64,
        migrate: impl FnOnce(u64, &mut Tx<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.engine().migrate(version, |from, stage: Stage<'_>| {
            let mut tx = Tx { stage };
            let result = migrate(from, &mut tx);
            (tx.stage, result)
        })
    }
}

//! What only the holder of the write slot may touch: the open group, the journal, the counters.
//!
//! Owns opening and healing. What must hold:
//! A1. At most one database is open on the directory. A2. After a failed write nothing is written or
//!     admitted until the database was dropped and opened again (trap 2 of redb). A3. After healing, the
//!     image equals what is durable.

use super::clocks::Clocks;
use super::group::Group;
use super::lease::Board;
use super::mark::{self, Mark};
use super::outbox::Tallies;
use super::overlay::Overlay;
use super::registry::Registry;
use super::writer::Writer;
use super::{Config, Engine};
use crate::base::canary::planted;
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::ids::{BucketId, ClassId, Epoch, RunId, Seq};
use crate::base::random::Random;
use crate::base::sync::Arc;
use crate::claims::run::parse_table_name;
use crate::claims::state::State;
use crate::claims::store_time::SavedClock;
use crate::storage::batch::Batch;
use crate::storage::db::Db;
use crate::storage::directory::Directory;
use crate::storage::journal::{End, Journal};
use crate::storage::memtable::Memtable;
use crate::storage::snapshot::{Snapshot, Stored};
use crate::storage::tables::TableId;

/// How long after a full disk, or a device that would not recover, the next attempt is made.
const RETRY_AFTER_US: u64 = 500_000;

/// The write side of an open store.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) group: Group,
    /// The last group that was closed.
    pub(crate) seq: Seq,
    pub(crate) epoch: Epoch,
    /// `None` if every group is a redb commit of its own.
    pub(crate) journal: Option<Journal>,
    /// The last group with a record in each segment.
    pub(crate) segment_last: [Seq; 2],
    /// All that was closed, and the open group: what handlers read.
    pub(crate) tip: Arc<Snapshot>,
    /// Empty, with room for what the next event stages.
    pub(crate) spare: Overlay,
    /// Every lease row as the newest group leaves it, the open one included.
    pub(crate) leases: Board,
    pub(crate) tallies: Tallies,
    pub(crate) next_bucket: BucketId,
    pub(crate) next_run: RunId,
    pub(crate) next_results: u32,
    /// The counter part of the next result's key.
    pub(crate) next_result: u64,
    /// Why the store is down, if it is, and when to try again.
    pub(crate) down: Option<(Error, u64)>,
    /// No new event before this, since the disk was full.
    pub(crate) full_until_us: Option<u64>,
    /// False once the store was closed.
    pub(crate) is_open: bool,
}

/// All that opening a store yields.
pub(crate) struct Opened {
    pub(crate) core: Core,
    pub(crate) db: Db,
    /// The last group that redb holds; those up to `core.seq` lie in the journal.
    pub(crate) applied: Seq,
    pub(crate) state: State,
    pub(crate) registry: Registry,
    /// The clocks as the last mark saved them.
    pub(crate) clocks: Vec<(ClassId, SavedClock)>,
}

impl Core {
    /// Opens the database and the journal, and reads what is durable into the image and the memtable.
    pub(crate) fn open(
        directory: &Directory,
        config: &Config,
        random: &Random,
        memtable: &Memtable,
    ) -> Result<Opened, Error> {
        memtable.discard();
        let db = directory.open_db(config.cache_bytes)?;
        let stored = Arc::new(Stored::new(db.read()?));
        let bare = memtable.snapshot(stored.clone(), Seq::MAX);
        let applied = Mark::load(&bare)?.seq;
        let (journal, seq) = open_journal(directory, config, memtable, &db, &bare, applied)?;
        let snapshot = Arc::new(memtable.snapshot(stored, seq));
        let mark = Mark::load(&snapshot)?;
        // Never that of the opening before, even where a test's seed makes both draw alike:
        // a half-built run of that one must not pass for ours.
        let epoch = Epoch(random.next_u64()?.wrapping_add(mark.epoch.0).wrapping_add(1));
        let epoch = unused_epoch(&snapshot, epoch)?;
        let registry = Registry::load(&snapshot)?;
        let state = State::load(snapshot.clone(), config.recent_max_claims)?;
        let journal = journal.map(|mut journal| {
            journal.set_epoch(epoch);
            journal
        });
        let core = Self {
            group: Group::default(),
            seq,
            epoch,
            journal,
            segment_last: [seq; 2],
            leases: Board::load(&snapshot)?,
            tallies: Tallies::load(&snapshot)?,
            tip: snapshot,
            spare: Overlay::default(),
            next_bucket: mark.next_bucket,
            next_run: mark.next_run,
            next_results: mark.next_results,
            next_result: mark.next_result,
            down: None,
            full_until_us: None,
            is_open: true,
        };
        Ok(Opened { core, db, applied, state, registry, clocks: mark.clocks })
    }

    /// The mark of a commit as group `seq`.
    pub(crate) fn mark(&self, seq: Seq, clocks: &Clocks, clock: &dyn Clock) -> Mark {
        Mark {
            seq,
            epoch: self.epoch,
            next_bucket: self.next_bucket,
            next_run: self.next_run,
            next_results: self.next_results,
            next_result: self.next_result,
            clocks: clocks.save(clock),
        }
    }

    /// Drops the database after a failed write and opens it again from what is durable.
    ///
    /// The caller holds the slot. A crash anywhere in here leaves what the failed write left; opening then
    /// does the same.
    pub(crate) fn heal(&mut self, engine: &Engine) -> Result<(), Error> {
        engine.clear_the_air();
        if planted("failed-commit-does-not-refuse") {
            if let Some(crashed) = engine.flight.reset(self.seq, self.seq) {
                crashed.done.set(Err(crashed.error));
            }
            return Ok(());
        }
        let _no_checkpoint = engine.checkpointing.lock();
        // Everything in the open group was staged over a base that may be gone.
        let group = std::mem::take(&mut self.group);
        let mut writer = engine.writer.lock();
        writer.db = None;
        self.journal = None;
        let parts = (&engine.directory, &engine.config, &engine.random);
        match Self::open(parts.0, parts.1, parts.2, &engine.memtable) {
            Ok(opened) => {
                // The clocks ran on: healing is not a process start and grants no second gap.
                *self = opened.core;
                engine.leases.note(&self.leases);
                engine.outbox.note(&self.tallies);
                *writer = Writer { db: Some(opened.db), epoch: self.epoch };
                let mut image = opened.state;
                if planted("memory-index-kept-after-a-failed-commit") {
                    std::mem::swap(&mut image.recent, &mut engine.state.write().recent);
                    image.snapshot =
                        Arc::new(engine.memtable.snapshot(image.snapshot.stored(), Seq::MAX));
                }
                *engine.state.write() = image;
                engine.registry.write().replace(opened.registry, self.seq);
                group.done.set(Err(given_up()));
                if let Some(crashed) = engine.flight.reset(self.seq, opened.applied) {
                    // What healing read was made durable first, so this is the truth for good.
                    let kept = self.seq >= crashed.seq;
                    let error = crashed.error;
                    crashed.done.set(Err(if kept { Error::unknown(error) } else { error }));
                }
                Ok(())
            }
            Err(error) => {
                group.done.set(Err(error.clone()));
                if let Some(crashed) = engine.flight.take_crashed() {
                    crashed.done.set(Err(Error::unknown(crashed.error)));
                }
                let retry_us = engine.clock.stopwatch_us().saturating_add(RETRY_AFTER_US);
                self.down = Some((error.clone(), retry_us));
                Err(error)
            }
        }
    }

    /// Makes sure that the store can write, healing it if it is due.
    pub(crate) fn ready(&mut self, engine: &Engine) -> Result<(), Error> {
        match &self.down {
            // A failed read is enough: redb will answer nothing more.
            None if engine.has_failed() => self.heal(engine),
            None => {
                if self.is_open {
                    Ok(())
                } else {
                    Err(Error::closed())
                }
            }
            Some((error, retry_us)) if engine.clock.stopwatch_us() < *retry_us => {
                Err(error.clone())
            }
            Some(_) => self.heal(engine),
        }
    }

    /// Refuses new events for a while after the disk was full.
    pub(crate) fn note_full(&mut self, clock: &dyn Clock) {
        self.full_until_us = Some(clock.stopwatch_us().saturating_add(RETRY_AFTER_US));
    }

    pub(crate) fn check_space(&self, clock: &dyn Clock) -> Result<(), Error> {
        match self.full_until_us {
            Some(until) if clock.stopwatch_us() < until => {
                Err(Error::full("admitting a new event"))
            }
            _ => Ok(()),
        }
    }
}

/// The first epoch from `epoch` on that no run's table is named by. What an opening built may be durable
/// without a mark of its own.
fn unused_epoch(snapshot: &Snapshot, mut epoch: Epoch) -> Result<Epoch, Error> {
    let names = snapshot.table_names()?;
    let used: Vec<Epoch> =
        names.iter().filter_map(|name| Some(parse_table_name(name)?.0.epoch)).collect();
    while used.contains(&epoch) {
        epoch = Epoch(epoch.0.wrapping_add(1));
    }
    Ok(epoch)
}

/// Why the events of an open group are given back: nothing of them was kept.
pub(super) fn given_up() -> Error {
    Error::io("recovering from a failed write", std::io::Error::other("the group was given up"))
}

/// Opens the journal and brings what lies behind the last checkpoint into the memtable; returns the
/// last group.
fn open_journal(
    directory: &Directory,
    config: &Config,
    memtable: &Memtable,
    db: &Db,
    bare: &Snapshot,
    applied: Seq,
) -> Result<(Option<Journal>, Seq), Error> {
    let row = bare.get(TableId::Mark, mark::JOURNAL_KEY)?;
    if !config.journal && row.is_none() {
        return Ok((None, applied));
    }
    let is_first = row.is_none();
    let known = bare.get(TableId::Mark, mark::JOURNAL_BYTES_KEY)?;
    let known_bytes = known.map_or(Ok(0), |row| mark::decode_journal_bytes(&row));
    let known_bytes = known_bytes.map_err(|m| Error::corrupt("the journal's length", m.0))?;
    if !is_first {
        directory.check_journal(known_bytes)?;
    }
    let from = row.map(|row| End::decode(&row)).transpose();
    let from = from.map_err(|m| Error::corrupt("the journal's row", m.0))?;
    let from = from.unwrap_or_default().through(applied);
    let (journal, records) = directory.open_journal(config.segment_bytes, from)?;
    let bytes = journal.segment_bytes();
    if is_first || bytes > known_bytes {
        // From now on the files must be there, and no shorter. An opening that was killed may have filled
        // them without a sync.
        journal.settle()?;
        let txn = db.write(true)?;
        {
            let mut mark = txn.table(&TableId::Mark.name())?;
            mark.insert(mark::JOURNAL_KEY, &from.encode())?;
            mark.insert(mark::JOURNAL_BYTES_KEY, &mark::encode_journal_bytes(bytes))?;
        }
        txn.commit()?;
    }
    let mut seq = applied;
    for record in records {
        let batch = Batch::decode(&record.payload)
            .map_err(|m| Error::corrupt(format!("group {} of the journal", record.seq), m.0))?;
        memtable.absorb(record.seq, batch.rows());
        seq = record.seq;
    }
    Ok((config.journal.then_some(journal), seq))
}

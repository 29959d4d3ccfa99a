//! What only the holder of the write slot may touch: the database, the open group, the counters.
//!
//! Owns opening and healing. What must hold:
//! A1. At most one database is open on the directory. A2. After a failed write nothing is written or
//!     admitted until the database was dropped and opened again (trap 2 of redb). A3. After healing, the
//!     image equals what is durable.

use super::Config;
use super::clocks::Clocks;
use super::group::Group;
use super::mark::Mark;
use super::registry::Registry;
use crate::base::canary::planted;
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::ids::{BucketId, Epoch, RunId, Seq};
use crate::base::random::Random;
use crate::base::sync::{Arc, RwLock};
use crate::claims::state::State;
use crate::storage::db::Db;
use crate::storage::directory::Directory;
use crate::storage::snapshot::Snapshot;

/// How long after a full disk, or a device that would not recover, the next attempt is made.
const RETRY_AFTER_US: u64 = 500_000;

/// The write side of an open store.
#[derive(Debug)]
pub(crate) struct Core {
    /// `None` while a failed write has not been healed.
    pub(crate) db: Option<Db>,
    pub(crate) group: Group,
    pub(crate) seq: Seq,
    pub(crate) epoch: Epoch,
    pub(crate) next_bucket: BucketId,
    pub(crate) next_run: RunId,
    pub(crate) next_results: u32,
    /// The counter part of the next result's key.
    pub(crate) next_result: u64,
    /// Why the store is down, if it is, and when to try again.
    pub(crate) down: Option<(Error, u64)>,
    /// No new event before this, since the disk was full.
    pub(crate) full_until_us: Option<u64>,
}

/// All that opening a store yields.
pub(crate) struct Opened {
    pub(crate) core: Core,
    pub(crate) state: State,
    pub(crate) registry: Registry,
    pub(crate) clocks: Clocks,
}

impl Core {
    /// Opens the database and reads what is durable.
    pub(crate) fn open(
        directory: &Directory,
        config: &Config,
        clock: &dyn Clock,
        random: &Random,
    ) -> Result<Opened, Error> {
        let db = directory.open_db(config.cache_bytes)?;
        let snapshot = Arc::new(Snapshot::new(db.read()?));
        let mark = Mark::load(&snapshot)?;
        let registry = Registry::load(&snapshot)?;
        let state = State::load(snapshot, config.recent_max_claims)?;
        let clocks = Clocks::resume(&mark.clocks, &state.catalogue.classes, clock);
        let core = Self {
            db: Some(db),
            group: Group::default(),
            seq: mark.seq,
            // Never that of the opening before, even where a test's seed makes both draw alike:
            // a half-built run of that one must not pass for ours.
            epoch: Epoch(random.next_u64()?.wrapping_add(mark.epoch.0).wrapping_add(1)),
            next_bucket: mark.next_bucket,
            next_run: mark.next_run,
            next_results: mark.next_results,
            next_result: mark.next_result,
            down: None,
            full_until_us: None,
        };
        Ok(Opened { core, state, registry, clocks })
    }

    /// The open database, or why there is none.
    pub(crate) fn db(&self) -> Result<&Db, Error> {
        match (&self.db, &self.down) {
            (Some(db), _) => Ok(db),
            (None, Some((error, _))) => Err(error.clone()),
            (None, None) => Err(Error::closed()),
        }
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
    /// A crash anywhere in here leaves what the failed write left; opening then does the same.
    pub(crate) fn heal(
        &mut self,
        engine: &super::Engine,
        state: &RwLock<State>,
    ) -> Result<(), Error> {
        if planted("failed-commit-does-not-refuse") {
            return Ok(());
        }
        // Everything in the open group was staged over a base that may be gone.
        let group = std::mem::take(&mut self.group);
        self.db = None;
        let parts = (&engine.directory, &engine.config, &*engine.clock, &engine.random);
        match Self::open(parts.0, parts.1, parts.2, parts.3) {
            Ok(opened) => {
                // The clocks ran on: healing is not a process start and grants no second gap.
                *self = opened.core;
                *state.write() = opened.state;
                *engine.registry.write() = opened.registry;
                group.done.set(Err(Error::io(
                    "recovering from a failed write",
                    std::io::Error::other("the group was given up"),
                )));
                Ok(())
            }
            Err(error) => {
                group.done.set(Err(error.clone()));
                let retry_us = engine.clock.stopwatch_us().saturating_add(RETRY_AFTER_US);
                self.down = Some((error.clone(), retry_us));
                Err(error)
            }
        }
    }

    /// Makes sure that the store can write, healing it if it is due.
    pub(crate) fn ready(
        &mut self,
        engine: &super::Engine,
        state: &RwLock<State>,
    ) -> Result<(), Error> {
        match &self.db {
            Some(db) if !db.has_failed() => return Ok(()),
            // A failed read is enough: redb will answer nothing more.
            Some(_) => return self.heal(engine, state),
            None => {}
        }
        match &self.down {
            Some((error, retry_us)) if engine.clock.stopwatch_us() < *retry_us => {
                Err(error.clone())
            }
            Some(_) => self.heal(engine, state),
            None => Err(Error::closed()),
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

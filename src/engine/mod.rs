//! The engine: groups of events, their commits, and the work behind them.
//!
//! Owns the write slot, the open group, what is in flight, checkpoints, recovery from failed writes and the
//! maintenance of claims. Called by `api`; calls `claims`, `storage` and `base`.
//!
//! Locks are taken in this order, and none is held while waiting for an earlier one: maintenance,
//! slot, core, checkpointing, writer, state, registry.

mod audit;
mod backup;
mod checkpoint;
mod clocks;
mod commit;
mod core;
mod counters;
#[cfg(feature = "testkit")]
pub(crate) mod decoders;
mod flight;
mod generations;
mod group;
pub(crate) mod lease;
mod maintenance;
mod mark;
mod names;
mod ordered;
pub(crate) mod outbox;
mod overlay;
mod process;
mod query;
mod registry;
mod results;
mod slot;
mod stage;
mod threads;
mod totals;
mod turn;
mod upkeep;
mod verify;
mod writer;

pub(crate) use audit::{Action, Entry, Note};
pub(crate) use backup::{restore, salvage};
pub(crate) use core::Core;
pub(crate) use counters::{ConsumerCounters, Counters};
pub(crate) use group::{Committed, Done};
pub(crate) use maintenance::SweepReport;
#[cfg(feature = "testkit")]
pub(crate) use mark::Mark;
pub(crate) use ordered::{Moment, Owning, Placed, PositionRow, Skipping, Source, Standing};
pub(crate) use process::{Ahead, Case, Delivery, Draft, Handling, Ran};
pub(crate) use query::PinnedView;
pub(crate) use registry::{ConsumerEntry, KeyspaceEntry};
pub(crate) use results::ResultBytes;
pub(crate) use stage::{Space, Stage, read_stored, scan_stored};

use std::fmt;

use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::hash::{HashKey, Namespace};
use crate::base::ids::{ClassId, StoreMs};
use crate::base::random::Random;
use crate::base::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use crate::claims::policy::Policy;
use crate::claims::state::State;
use crate::storage::directory::{Directory, OpenMode};
use crate::storage::disk::Disk;
use crate::storage::memtable::Memtable;
use crate::storage::tables::TableId;
use clocks::Clocks;
use core::Opened;
use flight::Flight;
use maintenance::Maintenance;
use registry::Registry;
use slot::Slot;
use threads::{Bell, Handover, Threads};
use writer::Writer;

/// The class of every consumer that has no retention of its own.
pub(crate) const DEFAULT_CLASS: ClassId = ClassId(0);
/// An event time may lie this far ahead at most, however long the retention.
const AHEAD_MAX_MS: u64 = 24 * 3_600_000;

/// The settings of an open store.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) cache_bytes: usize,
    pub(crate) recent_max_claims: usize,
    pub(crate) result_max_bytes: usize,
    /// How long one slice of maintenance may hold the write slot.
    pub(crate) sweep_budget_us: u64,
    /// Whether threads may be started at all.
    pub(crate) threads: bool,
    /// Whether groups become durable through the journal.
    pub(crate) journal: bool,
    /// Length of each of the journal's two segments.
    pub(crate) segment_bytes: u64,
    /// Bytes written since a view was opened past which the view is ended.
    pub(crate) view_max_pinned_bytes: u64,
    /// Space kept back for a full disk; 0 for none.
    pub(crate) ballast_bytes: u64,
}

/// An open store.
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    random: Random,
    directory: Directory,
    slot: Slot,
    core: Mutex<Core>,
    memtable: Memtable,
    flight: Flight,
    /// Held by whoever writes a checkpoint outside the slot.
    checkpointing: Mutex<()>,
    writer: Mutex<Writer>,
    /// Since when there is something that no checkpoint holds.
    unstored_since_us: AtomicU64,
    pub(crate) state: RwLock<State>,
    pub(crate) registry: RwLock<Registry>,
    clocks: Clocks,
    maintenance: Mutex<Maintenance>,
    pub(crate) counters: Counters,
    pub(crate) views: query::Views,
    pub(crate) owed: ordered::Owed,
    pub(crate) leases: lease::Shared,
    pub(crate) outbox: outbox::Outbox,
    pub(crate) namespace: Namespace,
    maintenance_bell: Bell,
    sync_bell: Bell,
    handover: Handover,
    checkpoint_bell: Bell,
    threads: Threads,
    opened_us: u64,
    closed: AtomicBool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("directory", &self.directory.describe()).finish()
    }
}

/// What the opener asks for, besides the settings.
pub(crate) struct Opening {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) mode: OpenMode,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) policy: Policy,
    pub(crate) allow_shorter: bool,
    /// The version of the application's state that the opener knows.
    pub(crate) state_version: Option<u64>,
    /// What outward keys are derived from, if not from the store itself.
    pub(crate) namespace: Option<String>,
}

impl Engine {
    /// Opens the store and brings its default retention class to the policy asked for.
    pub(crate) fn open(opening: Opening, config: Config) -> Result<Arc<Self>, Error> {
        let Opening { disk, mode, clock, random, policy, allow_shorter, state_version, namespace } =
            opening;
        let directory = Directory::open(disk, mode, &random, config.ballast_bytes)?;
        let memtable = Memtable::of_store(directory.header().store_id);
        let Opened { core, db, applied, state, registry, clocks } =
            Core::open(&directory, &config, &random, &memtable)?;
        if let Some(version) = state_version.filter(|version| *version < registry.state_version) {
            // Before anything is changed for a program that cannot read this state.
            return Err(Error::newer("the application's state", registry.state_version, version));
        }
        // What the clocks may leap goes by the retention that holds from now on.
        let mut classes = state.catalogue.classes.clone();
        if let Some(stored) = classes.get_mut(&DEFAULT_CLASS) {
            *stored = stored.settle(policy, allow_shorter).policy;
        }
        let clocks = Clocks::resume(&clocks, &classes, &*clock);
        let leases = lease::Shared::new(&core.leases);
        let outbox = outbox::Outbox::default();
        outbox.note(&core.tallies);
        let header = directory.header();
        let own = Namespace::of_store(&header.hash_key, header.store_id);
        let namespace = registry.choose_namespace(namespace.as_deref())?;
        let is_new_namespace = namespace.is_some() && registry.namespace.is_none();
        let outward = namespace.as_deref().map_or(own, Namespace::named);
        let flight = Flight::default();
        flight.reset(core.seq, applied);
        let writer = Writer { db: Some(db), epoch: core.epoch };
        let maintenance = Maintenance::new(&state, &registry)?;
        let opened_us = clock.stopwatch_us();
        let engine = Arc::new(Self {
            config,
            clock,
            random,
            directory,
            slot: Slot::default(),
            core: Mutex::new(core),
            memtable,
            flight,
            checkpointing: Mutex::default(),
            writer: Mutex::new(writer),
            unstored_since_us: AtomicU64::default(),
            state: RwLock::new(state),
            registry: RwLock::new(registry),
            clocks,
            maintenance: Mutex::new(maintenance),
            counters: Counters::default(),
            views: query::Views::default(),
            owed: ordered::Owed::default(),
            leases,
            outbox,
            namespace: outward,
            maintenance_bell: Bell::default(),
            sync_bell: Bell::default(),
            handover: Handover::default(),
            checkpoint_bell: Bell::default(),
            threads: Threads::default(),
            opened_us,
            closed: AtomicBool::new(false),
        });
        if let Some(namespace) = namespace.filter(|_| is_new_namespace) {
            engine.adopt_namespace(&namespace)?;
        }
        engine.adopt_default_policy(policy, allow_shorter)?;
        if engine.config.threads {
            engine.start_maintenance_thread();
            engine.start_checkpoint_thread();
        }
        Ok(engine)
    }

    /// Store time of a class now.
    pub(crate) fn now(&self, class: ClassId) -> StoreMs {
        self.clocks.now(class, &*self.clock)
    }

    pub(crate) fn store_id(&self) -> u128 {
        self.directory.header().store_id
    }

    pub(crate) fn hash_key(&self) -> &HashKey {
        &self.directory.header().hash_key
    }

    /// Errs once the store was closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
    }

    /// How far ahead of now an event's own time may lie.
    pub(crate) fn ahead_limit_ms(&self, class: ClassId) -> u64 {
        self.retention_ms(class).map_or(AHEAD_MAX_MS, |r| (r / 4).min(AHEAD_MAX_MS))
    }

    /// Closes the open group, saves the clocks, stops the threads and lets the directory go.
    /// Closing twice is not an error.
    pub(crate) fn close(&self) -> Result<(), Error> {
        if self.slot.is_mine() {
            return Err(Error::reentrant());
        }
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.maintenance_bell.stop();
        self.sync_bell.stop();
        self.checkpoint_bell.stop();
        let saved = self.save_on_close();
        self.threads.join();
        saved
    }

    /// Whether a failure is known that only opening anew heals.
    pub(crate) fn has_failed(&self) -> bool {
        self.flight.has_crashed() || self.state.read().snapshot.is_over()
    }

    fn save_on_close(&self) -> Result<(), Error> {
        self.slot.acquire(&*self.clock, None)?;
        let mut core = self.core.lock();
        let saved = match &core.down {
            Some((error, _)) => Err(error.clone()), // what lies in the journal was not stored in redb
            None if core.is_open => {
                let finished = self.finish_group(&mut core);
                finished.and(self.save_clocks(&mut core))
            }
            None => Ok(()),
        };
        core.is_open = false;
        core.down = None;
        // This ends the snapshots too: views stop here.
        match self.writer.lock().db.take() {
            Some(db) if saved.is_ok() => db.close(),
            other => drop(other),
        }
        self.directory.release();
        drop(core);
        self.slot.release(&*self.clock);
        saved
    }

    /// Writes all that the journal holds, and the mark if store time has moved since the last one, to
    /// redb: so the next opening has nothing to replay.
    fn save_clocks(&self, core: &mut Core) -> Result<(), Error> {
        if self.clocks.is_empty() {
            return self.checkpoint_here(core);
        }
        let mark = core.mark(core.seq, &self.clocks, &*self.clock);
        self.checkpoint_here(core)?;
        self.memtable.put(core.seq, TableId::Mark, mark::KEY, Some(&mark.encode()));
        self.commit_here(core, core.seq, |_| ())
    }
}

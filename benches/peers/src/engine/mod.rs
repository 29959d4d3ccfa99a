//! What an engine has to do, and which engines there are.
//!
//! The harness never sees an engine's own types: it loads claims, applies groups, and asks what it cost.

mod bare_sync;
mod fjall;
mod lmdb;
mod overlay;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;
mod txinbox;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use crate::events::Event;
use crate::workload::{Kind, Workload};
use bare_sync::Size;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Bulk loading: durability may wait until [`Engine::finish_load`].
    Load,
    /// Measuring: every group is durable when its call returns.
    Serve,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub mode: Mode,
    /// Claims loaded before the first window; engines that need a size up front derive it from this.
    pub claims: u64,
    pub cache_bytes: usize,
}

/// A store that keeps claims and counters.
pub trait Engine: Send + Sync {
    fn version(&self) -> Result<String>;

    /// Whether claims are to be loaded in the order of their making; otherwise each batch comes sorted by id.
    fn loads_in_order(&self) -> bool {
        false
    }

    /// Stores new claims in bulk.
    fn load_claims(&self, claims: &[Event]) -> Result<()>;

    /// Stores counters, ascending, with the value zero.
    fn load_counters(&self, counters: &[u64]) -> Result<()>;

    /// Makes everything loaded durable and lets background work end.
    fn finish_load(&self) -> Result<()>;

    /// Settles a group in one atomic, durable commit. `fresh` gets one answer per event: whether it was new. A group
    /// with nothing new may return without a commit, since all that it read is durable.
    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()>;

    /// Hands a group over in a workload with tickets. The answers may come later; see [`Engine::tickets`].
    fn submit(&self, events: &[Event]) -> Result<Pending<'_>> {
        let mut fresh = Vec::with_capacity(events.len());
        self.apply(events, &mut fresh)?;
        Ok(Pending::Settled(fresh))
    }

    /// How many groups one caller has under way before it waits for the oldest, where the workload lets it.
    fn tickets(&self) -> usize {
        1
    }

    /// Makes ready for a window of this workload.
    fn prepare(&self, _workload: &Workload) -> Result<()> {
        Ok(())
    }

    /// In a window whose upkeep rests: does what has piled up, if it is time. The window stands still meanwhile.
    fn catch_up(&self) -> Result<()> {
        Ok(())
    }

    /// Whether it tells new events from duplicates at all; the control does not.
    fn keeps_claims(&self) -> bool {
        true
    }

    /// Whether many threads call [`Engine::apply`] at once; otherwise one writer commits for those who wait.
    fn commits_concurrently(&self) -> bool {
        false
    }

    /// The sum of all counters, for the check at the end; none if the engine keeps no state.
    fn counter_total(&self) -> Result<Option<u64>>;

    /// Syncs issued since opening, where they can be counted.
    fn syncs(&self) -> Option<u64> {
        None
    }

    /// Waits until background work that the last window caused has ended.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// A window of this workload lasts until it has seen so many events, that it may contain the engine's periodic
    /// work. If that is above zero, the window must have moved both numbers of [`Engine::periodic_work`].
    fn min_window_events(&self, _workload: &Workload) -> u64 {
        0
    }

    /// Claims that the engine's periodic work has sealed and forgotten since opening; none where there is no such work.
    fn periodic_work(&self) -> Result<Option<PeriodicWork>> {
        Ok(None)
    }
}

/// Claims sealed and forgotten since opening, and the slices of time that took.
#[derive(Clone, Copy, Debug)]
pub struct PeriodicWork {
    pub sealed: u64,
    pub forgotten: u64,
    pub slices: u64,
}

impl PeriodicWork {
    pub fn since(self, before: Self) -> Self {
        Self {
            sealed: self.sealed - before.sealed,
            forgotten: self.forgotten - before.forgotten,
            slices: self.slices - before.slices,
        }
    }
}

/// The answers to a group: one per event, whether it was new.
pub enum Pending<'e> {
    Settled(Vec<bool>),
    UnderWay(Box<dyn FnOnce() -> Result<Vec<bool>> + 'e>),
}

impl Pending<'_> {
    /// Returns once the answers are durable.
    pub fn wait(self) -> Result<Vec<bool>> {
        match self {
            Self::Settled(fresh) => Ok(fresh),
            Self::UnderWay(wait) => wait(),
        }
    }
}

/// Every engine that is built in, in the order of the report.
pub const NAMES: &[&str] = &[
    "txinbox",
    "sqlite",
    "fjall",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    "lmdb",
    "redb",
    "sync",
    "sync-512",
    "sync-group",
];

/// `sqlite-N`: SQLite with a log of N pages, to find out which length is best.
fn sqlite_variant(engine: &str) -> Option<u32> {
    engine.strip_prefix("sqlite-")?.parse().ok()
}

pub fn is_built_in(engine: &str) -> bool {
    NAMES.contains(&engine) || sqlite_variant(engine).is_some()
}

/// Engines that keep nothing and only say what the disk charges.
pub fn is_control(engine: &str) -> bool {
    engine.starts_with("sync")
}

/// Whether the engine takes part in the workload: what upkeep does to calls is asked of txinbox alone, and the controls
/// write what one caller would.
pub fn takes_part(engine: &str, workload: &Workload) -> bool {
    match engine {
        "txinbox" => true,
        "sync" => workload.threads == 1 && workload.writes(),
        "sync-512" => workload.name == "g1",
        "sync-group" => workload.threads == 1 && workload.writes() && workload.group > 1,
        _ => !matches!(workload.kind, Kind::New(_)),
    }
}

pub fn open(name: &str, dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        "sqlite" => Box::new(sqlite::Sqlite::open(dir, settings, sqlite::LOG_PAGES)?),
        "fjall" => Box::new(fjall::Fjall::open(dir, settings)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocksdb::RocksDb::open(dir, settings)?),
        "lmdb" => Box::new(lmdb::Lmdb::open(dir, settings)?),
        "redb" => Box::new(redb::Redb::open(dir, settings)?),
        "txinbox" => Box::new(txinbox::Txinbox::open(dir, settings)?),
        "sync" => Box::new(bare_sync::BareSync::open(dir, Size::Bytes(4096))?),
        "sync-512" => Box::new(bare_sync::BareSync::open(dir, Size::Bytes(512))?),
        "sync-group" => Box::new(bare_sync::BareSync::open(dir, Size::OfGroup)?),
        _ => match sqlite_variant(name) {
            Some(log_pages) => Box::new(sqlite::Sqlite::open(dir, settings, log_pages)?),
            None => bail!("no engine {name} is built in; there are {}", NAMES.join(", ")),
        },
    })
}

/// The version of a dependency, as locked for this build.
fn locked_version(package: &str) -> String {
    let lock = include_str!("../../Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or("unknown").to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().ok().context("a caller panicked")
}

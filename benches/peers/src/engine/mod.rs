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

use anyhow::{Result, bail};
use std::path::Path;

use crate::events::Event;

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

    /// Stores new claims, sorted by id, in bulk.
    fn load_claims(&self, claims: &[Event]) -> Result<()>;

    /// Stores counters, ascending, with the value zero.
    fn load_counters(&self, counters: &[u64]) -> Result<()>;

    /// Makes everything loaded durable and lets background work end.
    fn finish_load(&self) -> Result<()>;

    /// Settles a group in one atomic, durable commit. `fresh` gets one answer per event: whether it was new. A group
    /// with nothing new may return without a commit, since all that it read is durable.
    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()>;

    /// Whether it tells new events from duplicates at all; the control does not.
    fn keeps_claims(&self) -> bool {
        true
    }

    /// Whether many threads call [`Engine::apply`] at once; otherwise a leader commits for those who wait.
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

    /// Claims that are surely retained, counted from the newest; those before may have been forgotten by design.
    fn retained_claims(&self) -> u64 {
        u64::MAX
    }

    /// A window in groups of this size lasts until it has seen so many events, that it may contain the engine's
    /// periodic work.
    fn min_window_events(&self, _group: usize) -> u64 {
        0
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
];

/// Whether the engine takes part in the workload; the bare sync is a control for single events only.
pub fn takes_part(engine: &str, workload: &str) -> bool {
    engine != "sync" || workload == "g1"
}

pub fn open(name: &str, dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        "sqlite" => Box::new(sqlite::Sqlite::open(dir, settings)?),
        "fjall" => Box::new(fjall::Fjall::open(dir, settings)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocksdb::RocksDb::open(dir, settings)?),
        "lmdb" => Box::new(lmdb::Lmdb::open(dir, settings)?),
        "redb" => Box::new(redb::Redb::open(dir, settings)?),
        "txinbox" => Box::new(txinbox::Txinbox::open(dir, settings)?),
        "sync" => Box::new(bare_sync::BareSync::open(dir)?),
        _ => bail!("no engine {name} is built in; there are {}", NAMES.join(", ")),
    })
}

/// The version of a dependency, as locked for this build.
fn locked_version(package: &str) -> String {
    let lock = include_str!("../../Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or("unknown").to_owned()
}

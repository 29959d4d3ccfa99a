//! A simulated disk: power cuts, torn writes, failing syncs, a full disk and damage, on purpose.
//!
//! Owns a machine's directory as processes see it and as a power cut would leave it. What must hold:
//! D1 to D4 of the disk seam, as long as no fault strikes. Z3. An image is independent of the disk it
//! was taken from, and costs about as much as its list of unsynced operations. Z4. Everything that
//! is drawn comes from a seed that is part of the plan.
//!
//! The model is harsher than any one file system: unsynced operations survive in any combination, a
//! name needs `sync_dir` even if its file was synced, and a length can be lost without its bytes.
//! For tests of this crate and, behind the feature `testkit`, of its users.

#![allow(unreachable_pub)] // re-exported behind a feature

mod call;
mod cut;
mod damage;
mod driver;
mod fault;
mod file;
mod keep;
mod pages;
mod plans;
mod state;

#[cfg(test)]
mod db_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod script;
#[cfg(test)]
mod sync_tests;

use std::time::Duration;

use super::{Disk, DiskFile, DiskLock};
use crate::base::sim_clock::SimClock;
use crate::base::sync::{Arc, Mutex};

pub use call::{Call, Traced};
pub use cut::Unsynced;
#[cfg_attr(not(feature = "testkit"), allow(unused_imports))] // users' tests name them
pub use driver::{Crash, Failure, PowerLoss, Report};
pub use fault::{Fault, Loss};
pub use keep::{Keep, UnknownPlan};
pub use pages::PAGE_BYTES;
pub use state::Capacity;

/// A directory on a simulated machine. Clones are handles to the same one.
///
/// A store is opened on it, worked with, and stopped in the middle by a [`Fault`] or simply by not
/// going on. [`power_cut`](Self::power_cut) then gives the machine as it starts again, with whatever
/// of the unsynced writes a [`Keep`] lets survive, and [`kill`](Self::kill) the same machine after
/// the death of the process alone. Both leave the original as it is, and what they give can be
/// stopped and cut again.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<state::State>>);

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("SimDisk")
            .field("files", &state.names.len())
            .field("calls", &state.calls)
            .field("unsynced", &state.unsynced.len())
            .finish()
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty directory.
    #[must_use]
    pub fn new() -> Self {
        let disk = Self::without_directory();
        disk.0.lock().exists = true;
        disk
    }

    /// A machine on which the directory is yet to be made.
    #[must_use]
    pub fn without_directory() -> Self {
        Self::from_state(state::State::default())
    }

    fn from_state(state: state::State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// The machine after a power cut at this moment, starting again; `keep` says what was saved of
    /// the unsynced operations. No fault is placed on it, its calls count from 1, nobody locks it.
    #[must_use]
    pub fn power_cut(&self, keep: Keep) -> Self {
        Self::from_state(self.0.lock().after_power_cut(keep))
    }

    /// The machine after the process was killed at this moment: what it wrote is there to be read,
    /// what it did not sync is still unsynced, and its locks are gone.
    #[must_use]
    pub fn kill(&self) -> Self {
        Self::from_state(self.0.lock().after_kill())
    }

    /// Places a fault.
    pub fn inject(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    /// Takes all faults away; a power cut that struck is not undone.
    pub fn clear_faults(&self) {
        self.0.lock().faults.clear();
    }

    /// Whether a [`Fault::crash`] has struck.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.0.lock().powerless
    }

    /// How many calls were made so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Counts calls from 1 again, and empties the trace.
    pub fn reset_calls(&self) {
        let mut state = self.0.lock();
        state.calls = 0;
        if let Some(trace) = &mut state.trace {
            trace.clear();
        }
    }

    /// Starts or stops recording calls; starting begins with an empty trace.
    pub fn record(&self, on: bool) {
        self.0.lock().trace = on.then(Vec::new);
    }

    /// The calls recorded since [`record`](Self::record).
    #[must_use]
    pub fn trace(&self) -> Vec<Traced> {
        self.0.lock().trace.clone().unwrap_or_default()
    }

    /// What a power cut at this moment may lose, oldest first.
    #[must_use]
    pub fn unsynced(&self) -> Vec<Unsynced> {
        self.0.lock().unsynced.iter().map(|op| op.describe()).collect()
    }

    /// Sets how much fits on the disk, from the next call on.
    pub fn set_capacity(&self, capacity: Capacity) {
        self.0.lock().capacity = capacity;
    }

    /// Lets calls of one kind take time on `clock`; a power cut or kill keeps that.
    pub fn set_latency(&self, clock: &SimClock, call: Call, latency: Duration) {
        let mut state = self.0.lock();
        state.clock = Some(clock.clone());
        state.latency.insert(call, latency);
    }
}

//! For tests of your own consumers: a simulated disk and clock.
//!
//! A store on a [`SimDisk`] meets every fault that a real one can meet, at the call you name:
//! power cuts that keep any part of what was not synced, torn writes, full disks, failing and lying syncs. With a
//! [`SimClock`] and [`Builder::seed`](crate::Builder::seed) a whole run repeats from one number.
//!
//! ```
//! use std::time::Duration;
//! use txinbox::testkit::{Keep, SimClock, SimDisk};
//! use txinbox::{Event, EventId, Inbox, Retention};
//!
//! let open = |disk: &SimDisk| {
//!     Inbox::builder(Retention::at_least(Duration::from_secs(3600)))
//!         .clock(SimClock::new(1_800_000_000_000))
//!         .seed(7)
//!         .no_threads()
//!         .open_on(disk)
//! };
//! let disk = SimDisk::new();
//! let event = Event::unchecked(EventId::text("order-1")?);
//! let inbox = open(&disk)?;
//! assert!(inbox.consumer("billing")?.process(&event, |_| Ok(()))?.is_applied());
//!
//! // The power fails, and nothing that was not synced survives: the answer does.
//! let after = open(&disk.power_cut(Keep::Nothing))?;
//! assert!(after.consumer("billing")?.process(&event, |_| Ok(()))?.is_duplicate());
//! # Ok::<(), txinbox::Error>(())
//! ```

mod audit;
mod check;
mod model;
mod op;
mod runner;

pub use crate::base::sim_clock::SimClock;
pub use crate::storage::disk::sim::*;
pub use audit::{Probe, audit};
pub use check::{Checked, HandlerCheck, check_handler};
pub use model::{
    Answer, Class, Known, LiveBucket, LiveResults, Model, ModelState, Stored, Through, Verdict,
};
pub use op::{End, Item, Op, Trouble};
pub use runner::{CONSUMERS, COUNTERS, Coverage, Runner, WALL_MS};

/// Planted bugs, for this crate's own tests.
#[cfg(feature = "__canaries")]
#[doc(hidden)]
pub mod canary {
    pub use crate::base::canary::{NAMES, plant};
}

#[doc(hidden)]
pub mod fuzz;
#[doc(hidden)]
pub mod internals;

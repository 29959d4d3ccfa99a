//! The store time of every retention class.
//!
//! Owns the running clocks, apart from the write side, so that a reader never waits for a handler to
//! tell how old a claim is. What must hold: CL1. Store time never goes back while the store is open,
//! whatever the machine's clocks do, recoveries included.

use std::collections::BTreeMap;

use crate::base::clock::Clock;
use crate::base::ids::{ClassId, StoreMs, WallMs};
use crate::base::sync::Mutex;
use crate::claims::policy::Policy;
use crate::claims::store_time::{SavedClock, StoreClock};

/// The clocks by class.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    by_class: Mutex<BTreeMap<ClassId, StoreClock>>,
}

impl Clocks {
    /// Goes on from what the mark saved; once per process start.
    pub(crate) fn resume(
        saved: &[(ClassId, SavedClock)],
        classes: &BTreeMap<ClassId, Policy>,
        clock: &dyn Clock,
    ) -> Self {
        let resumed = saved.iter().map(|(class, saved)| {
            let retention_ms = classes.get(class).and_then(|policy| policy.retention_ms);
            let wall = WallMs(clock.wall_ms());
            (*class, StoreClock::resume(Some(*saved), retention_ms, wall, clock.boot_ms()))
        });
        Self { by_class: Mutex::new(resumed.collect()) }
    }

    /// Store time of a class now; a class never met before begins at zero.
    pub(crate) fn now(&self, class: ClassId, clock: &dyn Clock) -> StoreMs {
        let boot_ms = clock.boot_ms();
        let mut by_class = self.by_class.lock();
        by_class
            .entry(class)
            .or_insert_with(|| StoreClock::resume(None, None, WallMs(0), boot_ms))
            .now(boot_ms)
    }

    /// What the mark keeps of them.
    pub(crate) fn save(&self, clock: &dyn Clock) -> Vec<(ClassId, SavedClock)> {
        let (wall, boot_ms) = (WallMs(clock.wall_ms()), clock.boot_ms());
        let mut by_class = self.by_class.lock();
        by_class.iter_mut().map(|(class, c)| (*class, c.save(wall, boot_ms))).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_class.lock().is_empty()
    }
}

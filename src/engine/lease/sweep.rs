//! Rows that nobody came back for: dead events, and attempts that ended with their lease.
//!
//! What must hold: SW1. A row stays for the retention of its consumer, in store time, since it was last
//! written; a lease that has not run out stays longer. SW2. A slice removes a bounded number.

use std::time::Duration;

use super::super::Engine;
use crate::base::error::Error;
use crate::base::ids::{ClassId, IdHash, StoreMs};

/// Rows removed in one group.
const SLICE_ROWS: usize = 256;

impl Engine {
    /// Store time of a class at or before which rows are past their retention; `None` if none ever is.
    fn outlived(&self, class: ClassId) -> Option<StoreMs> {
        let retention_ms = self.retention_ms(class)?;
        self.now(class).0.checked_sub(retention_ms).map(StoreMs)
    }

    /// Removes rows that are past their retention; false if there is none.
    pub(in crate::engine) fn sweep_leases(&self) -> Result<bool, Error> {
        let is_due =
            |(class, at): &(ClassId, StoreMs)| self.outlived(*class).is_some_and(|old| *at <= old);
        let due: Vec<_> = self.leases.oldest().into_iter().filter(is_due).collect();
        if due.is_empty() {
            return Ok(false);
        }
        let mut turn = self.turn(None)?;
        let core = turn.core();
        let now_ms = self.uptime_ms();
        let mut gone: Vec<IdHash> = Vec::new();
        for (class, _) in due {
            let Some(old) = self.outlived(class) else { continue };
            let aged = core.leases.older(class, old).take(2 * SLICE_ROWS);
            gone.extend(aged.filter(|(_, head)| !head.is_live(now_ms)).map(|(primary, _)| primary));
        }
        gone.truncate(SLICE_ROWS);
        for primary in &gone {
            self.remove(core, *primary);
        }
        let done = turn.attach_waiting();
        drop(turn);
        if let (false, Some(done)) = (gone.is_empty(), done) {
            self.wait(&done)?;
        }
        Ok(!gone.is_empty())
    }

    /// How long until the first row is past its retention.
    pub(in crate::engine) fn next_lease_due(&self) -> Option<Duration> {
        let left = self.leases.oldest().into_iter().filter_map(|(class, at)| {
            let end_ms = at.0.saturating_add(self.retention_ms(class)?);
            Some(Duration::from_millis(end_ms.saturating_sub(self.now(class).0)))
        });
        // A lease that outlives its consumer's retention must not keep the thread awake.
        left.min().map(|due| due.max(Duration::from_secs(1)))
    }
}

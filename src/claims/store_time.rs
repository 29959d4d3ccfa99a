//! Store time: the clock that retention counts by, one for each retention class.
//!
//! Owns the rule how it passes, and the layout of what is saved of it. Called by the engine, under
//! its lock, and when a store opens.
//!
//! What must hold:
//! M1. While a store is open, its time passes as the machine's boot clock does; the wall clock is
//!     not asked at all. M2. Each opening adds the wall clock's gap since the last save, if that is
//!     positive, but at most 1/32 of the retention. M3. Store time never goes back, whatever any
//!     clock says; it stops at the largest number rather than wrap.
//!
//! From these follows what a lie can cost. A wall clock that stands still or goes back changes
//! nothing while the store is open, and at an opening hides the time spent closed: claims live
//! longer by at most that. A wall clock that leaps ahead, or a long downtime, ages claims by R/32 an
//! opening; since R is the window times 32/31, one such opening still leaves the whole window. A
//! further n-1 openings, each with a further leap, cost (n-1) R/32 of it. A store opened for a
//! minute a day lives a day or R/32 each time, whichever is less, and so forgets after
//! max(32, R in days) openings and at most an eighth more, the span of a bucket.
//!
//! The boot clock is trusted not to run ahead. If it goes back, as in a machine restored from a
//! snapshot, store time waits for it or for the next opening.
//!
//! A crash loses the time since the last save; the next opening makes up for it by the wall clock
//! as it does for time spent closed.

use crate::base::canary::planted;
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::{StoreMs, WallMs};

#[cfg(test)]
mod tests;

/// An opening adds at most this part of the retention.
pub(crate) const LEAP_DIVISOR: u64 = 32;

const VERSION: u8 = 1;

/// What of a clock is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedClock {
    pub(crate) now: StoreMs,
    pub(crate) wall_at_save: WallMs,
}

impl SavedClock {
    /// Version, store time, wall time, checksum: 21 bytes.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut w = Writer::with_capacity(21);
        w.u8(VERSION);
        w.u64(self.now.0);
        w.i64(self.wall_at_save.0);
        w.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(bytes)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a store clock"));
        }
        let saved = Self { now: StoreMs(r.u64()?), wall_at_save: WallMs(r.i64()?) };
        r.finish()?;
        Ok(saved)
    }
}

/// The running clock of one retention class.
#[derive(Clone, Debug)]
pub(crate) struct StoreClock {
    base: StoreMs,
    boot_at_resume: u64,
    newest: StoreMs,
}

impl StoreClock {
    /// Starts the clock, once per opening; `saved` is `None` in a new store, whose time begins at 0.
    /// Without a retention nothing expires, and time spent closed is not counted.
    pub(crate) fn resume(
        saved: Option<SavedClock>,
        retention_ms: Option<u64>,
        wall_now: WallMs,
        boot_now_ms: u64,
    ) -> Self {
        let base = saved.map_or(StoreMs(0), |saved| {
            let gap = if wall_now > saved.wall_at_save {
                wall_now.0.abs_diff(saved.wall_at_save.0)
            } else {
                0
            };
            if planted("backward-clock-accepted") && wall_now < saved.wall_at_save {
                let back = saved.wall_at_save.0.abs_diff(wall_now.0);
                return StoreMs(saved.now.0.saturating_sub(back));
            }
            let most = retention_ms.unwrap_or(0) / LEAP_DIVISOR;
            StoreMs(saved.now.0.saturating_add(gap.min(most)))
        });
        Self { base, boot_at_resume: boot_now_ms, newest: base }
    }

    /// Store time at this reading of the boot clock.
    pub(crate) fn now(&mut self, boot_now_ms: u64) -> StoreMs {
        let passed = boot_now_ms.saturating_sub(self.boot_at_resume);
        let now = StoreMs(self.base.0.saturating_add(passed));
        self.newest = self.newest.max(now);
        self.newest
    }

    /// What to store, in the transaction of whatever else was done at this time.
    pub(crate) fn save(&mut self, wall_now: WallMs, boot_now_ms: u64) -> SavedClock {
        SavedClock { now: self.now(boot_now_ms), wall_at_save: wall_now }
    }
}

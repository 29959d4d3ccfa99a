//! A clock that moves only when told, for simulations and for users' own tests.
//!
//! What must hold: K1. No reading changes by itself. K2. The three readings move apart only through
//! the calls named after them; `advance` moves all that are not frozen. K3. Clones share one clock.

#![allow(unreachable_pub)] // re-exported behind a feature

use std::time::Duration;

use super::clock::Clock;
use super::sync::{Arc, Mutex};

/// A clock for tests: wall, boot and stopwatch are set, stepped and frozen one by one.
///
/// Clones are handles to the same clock, so keep one and give the other to the store. It can do all
/// that real clocks were seen to do: stand still, leap, go backwards, start before 1970, overflow.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Arc<Mutex<Hands>>);

#[derive(Debug, Default)]
struct Hands {
    wall_ms: i64,
    wall_rest_us: u64,
    wall_frozen: bool,
    boot_ms: u64,
    boot_rest_us: u64,
    boot_frozen: bool,
    stopwatch_us: u64,
    stopwatch_frozen: bool,
}

impl SimClock {
    /// A clock whose wall shows `wall_ms` since 1970, with boot and stopwatch at zero.
    #[must_use]
    pub fn new(wall_ms: i64) -> Self {
        let clock = Self::default();
        clock.set_wall_ms(wall_ms);
        clock
    }

    /// Time passes: all readings that are not frozen move on, and stop at their largest value.
    pub fn advance(&self, by: Duration) {
        let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let mut hands = self.0.lock();
        if !hands.wall_frozen {
            let ms = carry(&mut hands.wall_rest_us, us);
            hands.wall_ms = hands.wall_ms.saturating_add_unsigned(ms);
        }
        if !hands.boot_frozen {
            let ms = carry(&mut hands.boot_rest_us, us);
            hands.boot_ms = hands.boot_ms.saturating_add(ms);
        }
        if !hands.stopwatch_frozen {
            hands.stopwatch_us = hands.stopwatch_us.saturating_add(us);
        }
    }

    /// Sets the wall clock, forwards or backwards.
    pub fn set_wall_ms(&self, ms: i64) {
        let mut hands = self.0.lock();
        hands.wall_ms = ms;
        hands.wall_rest_us = 0;
    }

    /// Sets the boot clock; a smaller value is what a restarted machine shows.
    pub fn set_boot_ms(&self, ms: u64) {
        let mut hands = self.0.lock();
        hands.boot_ms = ms;
        hands.boot_rest_us = 0;
    }

    /// Sets the stopwatch.
    pub fn set_stopwatch_us(&self, us: u64) {
        self.0.lock().stopwatch_us = us;
    }

    /// Moves the wall clock alone by `ms`, which may be negative.
    pub fn step_wall_ms(&self, ms: i64) {
        let mut hands = self.0.lock();
        hands.wall_ms = hands.wall_ms.saturating_add(ms);
    }

    /// Moves the boot clock alone by `ms`, which may be negative; it stops at zero.
    pub fn step_boot_ms(&self, ms: i64) {
        let mut hands = self.0.lock();
        hands.boot_ms = hands.boot_ms.saturating_add_signed(ms);
    }

    /// Moves the stopwatch alone by `us`, which may be negative; it stops at zero.
    pub fn step_stopwatch_us(&self, us: i64) {
        let mut hands = self.0.lock();
        hands.stopwatch_us = hands.stopwatch_us.saturating_add_signed(us);
    }

    /// While frozen, the wall clock ignores [`advance`](Self::advance).
    pub fn freeze_wall(&self, frozen: bool) {
        self.0.lock().wall_frozen = frozen;
    }

    /// While frozen, the boot clock ignores [`advance`](Self::advance).
    pub fn freeze_boot(&self, frozen: bool) {
        self.0.lock().boot_frozen = frozen;
    }

    /// While frozen, the stopwatch ignores [`advance`](Self::advance).
    pub fn freeze_stopwatch(&self, frozen: bool) {
        self.0.lock().stopwatch_frozen = frozen;
    }
}

/// Adds to a remainder below one millisecond and takes the whole milliseconds out of it.
fn carry(rest_us: &mut u64, us: u64) -> u64 {
    let sum = (us % 1_000).saturating_add(*rest_us);
    *rest_us = sum % 1_000;
    (us / 1_000).saturating_add(sum / 1_000)
}

impl Clock for SimClock {
    fn wall_ms(&self) -> i64 {
        self.0.lock().wall_ms
    }

    fn boot_ms(&self) -> u64 {
        self.0.lock().boot_ms
    }

    fn stopwatch_us(&self) -> u64 {
        self.0.lock().stopwatch_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(clock: &SimClock) -> (i64, u64, u64) {
        (clock.wall_ms(), clock.boot_ms(), clock.stopwatch_us())
    }

    #[test]
    fn advance_moves_all_and_keeps_parts_of_a_millisecond() {
        let clock = SimClock::new(-5);
        for _ in 0..3 {
            clock.advance(Duration::from_micros(700));
        }
        assert_eq!(readings(&clock), (-3, 2, 2_100));
        clock.advance(Duration::from_secs(1));
        assert_eq!(readings(&clock), (997, 1_002, 1_002_100));
    }

    #[test]
    fn each_reading_is_set_stepped_and_frozen_alone() {
        let clock = SimClock::new(1_000);
        let store = clock.clone();
        clock.step_wall_ms(-3_000);
        clock.step_boot_ms(50);
        clock.step_stopwatch_us(7);
        assert_eq!(readings(&store), (-2_000, 50, 7));
        clock.step_boot_ms(-60);
        clock.step_stopwatch_us(-8);
        assert_eq!(readings(&store), (-2_000, 0, 0));
        clock.freeze_wall(true);
        clock.advance(Duration::from_millis(2));
        assert_eq!(readings(&store), (-2_000, 2, 2_000));
        clock.freeze_wall(false);
        clock.freeze_boot(true);
        clock.freeze_stopwatch(true);
        clock.advance(Duration::from_millis(2));
        assert_eq!(readings(&store), (-1_998, 2, 2_000));
        clock.set_boot_ms(9);
        clock.set_stopwatch_us(8);
        assert_eq!(readings(&store), (-1_998, 9, 8));
    }

    #[test]
    fn the_ends_of_the_range_do_not_wrap() {
        let clock = SimClock::new(i64::MAX);
        clock.set_boot_ms(u64::MAX);
        clock.set_stopwatch_us(u64::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(readings(&clock), (i64::MAX, u64::MAX, u64::MAX));
        clock.set_wall_ms(i64::MIN);
        clock.step_wall_ms(-1);
        assert_eq!(clock.wall_ms(), i64::MIN);
    }

    #[test]
    fn threads_share_it() {
        let clock = SimClock::default();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let clock = clock.clone();
                std::thread::spawn(move || {
                    (0..250).for_each(|_| clock.advance(Duration::from_micros(10)));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(readings(&clock), (10, 10, 10_000));
    }
}

//! Store time under every lie that a clock can tell.

use super::*;
use crate::base::random::Random;
use crate::claims::policy::Policy;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const START_WALL: i64 = 1_796_083_200_000;

/// A machine with a true time, on which everything else depends, and a store that is opened on it.
struct Machine {
    true_ms: u64,
    booted_at: u64,
    wall: Wall,
    retention_ms: u64,
    saved: Option<SavedClock>,
    uptime_ms: u64,
    opens: u64,
}

impl Machine {
    fn new(wall: Wall, retention_ms: u64) -> Self {
        Self { true_ms: 0, booted_at: 0, wall, retention_ms, saved: None, uptime_ms: 0, opens: 0 }
    }

    /// Opens the store, keeps it open for so long with a save at every step, and closes it.
    fn open_for(&mut self, steps: u64, step_ms: u64) -> StoreMs {
        let boot = self.true_ms - self.booted_at;
        let wall = WallMs((self.wall)(self.true_ms));
        let mut clock = StoreClock::resume(self.saved, Some(self.retention_ms), wall, boot);
        self.opens += 1;
        let mut last = clock.now(boot);
        for _ in 0..steps {
            self.true_ms += step_ms;
            self.uptime_ms += step_ms;
            let boot = self.true_ms - self.booted_at;
            let saved = clock.save(WallMs((self.wall)(self.true_ms)), boot);
            assert_eq!(saved.now.0, last.0 + step_ms, "M1: neither frees nor stalls");
            last = saved.now;
            self.saved = Some(SavedClock::decode(&saved.encode()).unwrap());
        }
        last
    }

    fn close_for(&mut self, ms: u64) {
        self.true_ms += ms;
        self.booted_at = self.true_ms;
    }
}

type Wall = fn(u64) -> i64;

/// Every way of a wall clock to be wrong that the test plan names.
const WALLS: [(&str, Wall); 10] = [
    ("right", |t| START_WALL + t as i64),
    ("linear", |t| START_WALL + (t + t / 50) as i64),
    ("periodic", |t| START_WALL + t as i64 + ((t / HOUR % 2) * DAY) as i64),
    ("step", |t| START_WALL + (t + if t > DAY { 30 * DAY } else { 0 }) as i64),
    ("frozen", |_| START_WALL),
    ("backwards", |t| START_WALL - t as i64),
    ("ten years ahead after a day", |t| {
        START_WALL + (t + if t > DAY { 3_652 * DAY } else { 0 }) as i64
    }),
    ("before 1970", |t| t as i64 - 40_000 * DAY as i64),
    ("at its end", |t| if t > DAY { i64::MAX } else { START_WALL }),
    ("at its beginning", |t| if t % HOUR < MINUTE { i64::MIN } else { t as i64 }),
];

/// M1 and M3, each lie, a hundred histories of opening and closing.
#[test]
fn no_lie_of_the_wall_clock_frees_or_stalls_and_each_opening_costs_a_thirty_second() {
    for (name, wall) in WALLS {
        for seed in 0..100 {
            let random = Random::seeded(seed);
            let below = |n: u64| random.next_u64().unwrap() % n;
            let mut machine = Machine::new(wall, MINUTE + below(40 * DAY));
            let mut last = StoreMs(0);
            for _ in 0..20 {
                let now = machine.open_for(1 + below(5), below(2 * HOUR));
                assert!(now >= last, "M3: {name}, seed {seed}");
                last = now;
                let most = (machine.opens - 1) * (machine.retention_ms / LEAP_DIVISOR);
                assert!(now.0 >= machine.uptime_ms, "stalls: {name}, seed {seed}");
                assert!(now.0 <= machine.uptime_ms + most, "frees: {name}, seed {seed}");
                machine.close_for(below(3 * DAY));
            }
        }
    }
}

#[test]
fn a_right_clock_counts_time_spent_closed_up_to_a_thirty_second() {
    let mut machine = Machine::new(WALLS[0].1, 32 * DAY);
    machine.open_for(1, HOUR);
    machine.close_for(5 * HOUR);
    assert_eq!(machine.open_for(1, HOUR).0, 7 * HOUR);
    machine.close_for(7 * DAY); // a week of downtime
    assert_eq!(machine.open_for(1, HOUR).0, 8 * HOUR + DAY);
}

/// The stated limit: n openings, each with a further lying leap, cost n R/32.
#[test]
fn every_opening_with_a_further_leap_costs_a_thirty_second() {
    let retention = 32 * HOUR;
    let mut saved = Some(SavedClock::default());
    for n in 1..=100_u32 {
        let wall = WallMs(i64::from(n) * 3_652 * DAY as i64);
        let mut clock = StoreClock::resume(saved, Some(retention), wall, 7);
        assert_eq!(clock.now(7).0, u64::from(n) * HOUR);
        saved = Some(clock.save(wall, 7));
    }
    // The clock is put right: openings cost nothing until it has caught up.
    let mut clock = StoreClock::resume(saved, Some(retention), WallMs(0), 0);
    assert_eq!(clock.now(0).0, 100 * HOUR);
}

/// A crash between opening and the first save must not let the same gap be counted twice.
#[test]
fn openings_that_save_nothing_do_not_add_up() {
    let saved = Some(SavedClock { now: StoreMs(5), wall_at_save: WallMs(0) });
    for _ in 0..3 {
        let mut clock = StoreClock::resume(saved, Some(32 * DAY), WallMs(10), 1);
        assert_eq!(clock.now(1), StoreMs(15));
    }
}

#[test]
fn a_store_opened_a_minute_a_day_still_forgets() {
    for days in [1, 2, 7, 16, 31, 32, 33, 40, 365] {
        let policy = Policy { retention_ms: Some(days * DAY) };
        let mut machine = Machine::new(WALLS[0].1, days * DAY);
        let claimed = machine.open_for(1, MINUTE);
        let opens_until = |machine: &mut Machine, until: StoreMs| {
            let before = machine.opens;
            loop {
                machine.close_for(DAY - MINUTE);
                if machine.open_for(1, MINUTE) >= until {
                    return machine.opens - before;
                }
            }
        };
        let at = StoreMs(claimed.0 + days * DAY);
        let opens = opens_until(&mut machine, at);
        assert!(opens <= days.max(32), "{days} days: {opens} opens");
        let at = policy.expires_at(policy.bucket_end(claimed)).unwrap();
        let more = opens_until(&mut machine, at);
        assert!(opens + more <= (days.max(32) * 9).div_ceil(8) + 1, "{days} days");
    }
}

#[test]
fn a_boot_clock_that_freezes_or_goes_back_never_takes_time_back() {
    let mut clock = StoreClock::resume(None, Some(DAY), WallMs(0), 1_000);
    assert_eq!(clock.now(1_000), StoreMs(0), "a new store begins at 0");
    assert_eq!(clock.now(4_000), StoreMs(3_000));
    assert_eq!(clock.now(4_000), StoreMs(3_000));
    assert_eq!(clock.now(2_000), StoreMs(3_000));
    assert_eq!(clock.now(0), StoreMs(3_000));
    assert_eq!(clock.save(WallMs(0), 0).now, StoreMs(3_000));
    assert_eq!(clock.now(4_001), StoreMs(3_001));
}

/// Case AA2: zones and summer time move a wall clock by hours; while the store is open nothing
/// reads it, and an opening under another zone's clock costs what any leap costs.
#[test]
fn aa2_a_change_of_zone_changes_no_answer() {
    for zone_hours in [-12, -4, -1, 0, 1, 9, 14_i64] {
        let mut machine = Machine::new(WALLS[0].1, 8 * DAY);
        let before = machine.open_for(10, MINUTE);
        let shifted = WallMs(machine.saved.unwrap().wall_at_save.0 + zone_hours * HOUR as i64);
        let mut clock = StoreClock::resume(machine.saved, Some(8 * DAY), shifted, 0);
        let leap = clock.now(0).0 - before.0;
        assert_eq!(leap, (zone_hours.max(0) as u64 * HOUR).min(8 * DAY / 32));
        assert_eq!(clock.now(MINUTE).0 - before.0, leap + MINUTE);
    }
}

/// Case AA3: claim X, clock back an hour, X, Y, sweep, clock forward. Both stay in order and
/// stored; each lives R from its own commit by store time, at most an eighth longer.
#[test]
fn aa3_a_wall_clock_set_back_an_hour_loses_nothing() {
    let policy = Policy::of_window(15 * MINUTE);
    let r = policy.retention_ms.unwrap();
    let mut clock = StoreClock::resume(None, Some(r), WallMs(START_WALL), 0);
    let x = clock.now(MINUTE);
    let saved = clock.save(WallMs(START_WALL - HOUR as i64), MINUTE);
    for mut clock in [
        clock.clone(),
        StoreClock::resume(Some(saved), Some(r), WallMs(START_WALL - 2 * HOUR as i64), MINUTE),
    ] {
        let y = clock.now(2 * MINUTE);
        assert_eq!(y.0 - x.0, MINUTE);
        let (ends_x, ends_y) = (policy.bucket_end(x), policy.bucket_end(y));
        let swept = clock.save(WallMs(START_WALL - HOUR as i64), 3 * MINUTE);
        assert!(!policy.is_expired(ends_x, swept.now));
        // The clock is put right between two openings: a leap of an hour, four windows long.
        let mut clock = StoreClock::resume(Some(swept), Some(r), WallMs(START_WALL), 0);
        let now = clock.now(0);
        assert!(!policy.is_expired(ends_x, now) && !policy.is_expired(ends_y, now));
        // All of X's window passes by the boot clock before it may go, and not R/8 more.
        assert!(!policy.is_expired(ends_x, clock.now(15 * MINUTE - 2 * MINUTE)));
        let longest = x.0 + r + r.div_ceil(8);
        assert!(policy.is_expired(ends_x, StoreMs(longest)));
    }
}

/// Case AA5: now = 0, 2^31, 2^32 seconds, the largest: no panic, no wrap.
#[test]
fn aa5_extreme_readings_saturate() {
    let seconds = |s: u64| s * SECOND;
    let big = [0, 1, seconds(1 << 31), seconds(1 << 32), u64::MAX - 1, u64::MAX];
    let walls = [i64::MIN, -1, 0, 1 << 31, seconds(1 << 32) as i64, i64::MAX];
    for now in big {
        for wall_at_save in walls {
            for wall_now in walls {
                for boot in big {
                    for retention in [None, Some(0), Some(DAY), Some(u64::MAX)] {
                        let saved =
                            SavedClock { now: StoreMs(now), wall_at_save: WallMs(wall_at_save) };
                        let wall_now = WallMs(wall_now);
                        let mut clock = StoreClock::resume(Some(saved), retention, wall_now, boot);
                        let first = clock.now(boot);
                        let most = retention.unwrap_or(0) / LEAP_DIVISOR;
                        assert!(first.0 >= now && first.0 - now <= most);
                        let mut last = first;
                        for later in big.into_iter().chain(big.into_iter().rev()) {
                            let at = clock.now(later);
                            assert!(at >= last);
                            last = at;
                        }
                        assert_eq!(last.0, first.0.saturating_add(u64::MAX - boot));
                    }
                }
            }
        }
    }
}

#[test]
fn saved_clocks_have_golden_bytes_and_refuse_damage() {
    let saved = SavedClock { now: StoreMs(0x0102), wall_at_save: WallMs(-2) };
    let bytes = saved.encode();
    assert_eq!(bytes[..9], [1, 2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[9..17], [0xfe, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(bytes[17..], GOLDEN_CRC);
    assert_eq!(SavedClock::decode(&bytes), Ok(saved));
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(SavedClock::decode(&bad).is_err());
    }
    for len in 0..bytes.len() {
        assert!(SavedClock::decode(&bytes[..len]).is_err());
    }
    for body in [&[2; 17][..], &[1; 16], &[1; 18]] {
        let mut w = Writer::new();
        w.raw(body);
        assert!(SavedClock::decode(&w.seal()).is_err());
    }
}

const GOLDEN_CRC: [u8; 4] = [158, 196, 222, 248];

//! Case AA: zones, jumps and the ends of the range.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use txinbox::testkit::SimClock;
use txinbox::{Event, Inbox, Outcome, Retention, days, hours, minutes};

use crate::child;
use crate::kit::{Lab, WALL_MS, deliver, event, id, secs, within};

/// The role of AA2: opens its store by the machine's clocks, claims what is new, and prints all that
/// an answer says of time.
pub(crate) fn zones(dir: &Path) {
    let inbox = child::open(dir);
    let consumer = inbox.consumer("c").unwrap();
    // Both sides of a change to summer time in New York and in St John's.
    let changes_ms = [1_710_054_000_000_i64, 1_710_054_000_000 + 3_600_000, 1_710_047_460_000];
    for (n, time_ms) in (0..).zip(changes_ms) {
        let outcome = consumer.process(&event(n).at_ms(time_ms), |_| Ok(())).unwrap();
        let claim = outcome.claim().unwrap();
        let stamped = claim.committed_at().duration_since(UNIX_EPOCH).unwrap();
        assert!(outcome.is_applied() || claim.age() < secs(600), "{claim:?}");
        println!("> {} {}", outcome.is_duplicate(), stamped.as_millis());
    }
}

/// AA2: one store, opened in one zone after the other. The first claims, all others see the same
/// claims, with the same stamps.
#[test]
fn aa2_time_zones_change_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let run = |zone: &str| child::start("zones", dir.path(), 0, &[("TZ", zone)]).end().0;
    let first = run("Asia/Tokyo");
    assert!(first.len() == 3 && first.iter().all(|line| line.starts_with("false ")), "{first:?}");
    let expected: Vec<String> = first.iter().map(|l| l.replace("false", "true")).collect();
    for zone in ["America/St_Johns", "America/New_York", "Pacific/Kiritimati", "UTC", "nonsense"] {
        assert_eq!(run(zone), expected, "in {zone}");
    }
}

/// AA3: claim X, the wall clock an hour back, X again, Y new, a sweep, the clock forward again. Store
/// time follows the boot clock, so nothing is lost and nothing lives longer.
#[test]
fn aa3_a_backward_wall_clock_changes_nothing_while_open() {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(deliver(&consumer, [1]), (1, 0));
    lab.clock.step_wall_ms(-3_600_000);
    assert_eq!(deliver(&consumer, [1, 2]), (1, 1));
    inbox.sweep().unwrap();
    lab.clock.step_wall_ms(2 * 3_600_000);
    inbox.sweep().unwrap();
    assert_eq!(deliver(&consumer, [1, 2]), (0, 2));
    lab.clock.advance(minutes(37));
    inbox.sweep().unwrap();
    assert_eq!(deliver(&consumer, [1, 2]), (2, 0), "an hour back lengthened no life");
}

/// AA3: what closed time adds. An hour back at an opening hides the time that the store was closed,
/// and no more: the longest extra life is the downtime itself.
#[test]
fn aa3_extra_life_is_at_most_the_hidden_downtime() {
    let lab = Lab::new(Retention::at_least(days(31)));
    deliver(&lab.open().consumer("c").unwrap(), [1]);
    let age = |wall_step_ms: i64| {
        lab.clock.step_wall_ms(wall_step_ms);
        let inbox = lab.open();
        let age = inbox.consumer("c").unwrap().lookup(&id(1)).unwrap().unwrap().age();
        inbox.close().unwrap();
        age
    };
    assert_eq!(age(3_600_000), hours(1), "closed for an hour");
    assert_eq!(age(-7_200_000), hours(1), "back: not counted");
    assert_eq!(age(3_600_000), hours(2), "from there on");
    assert_eq!(age(0), hours(2));
}

/// AA3: the boot clock stands still, or goes back as in a restored machine: claims stay.
#[test]
fn aa3_a_boot_clock_that_stops_or_goes_back_forgets_nothing() {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    lab.clock.set_boot_ms(10_000_000);
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    deliver(&consumer, 0..10);
    lab.clock.freeze_boot(true);
    lab.clock.advance(days(400));
    inbox.sweep().unwrap();
    assert_eq!(deliver(&consumer, 0..10), (0, 10));
    lab.clock.set_boot_ms(3);
    inbox.sweep().unwrap();
    assert_eq!(deliver(&consumer, 0..11), (1, 10));
}

/// What a store does at one reading of its clocks: claim, repeat, sweep, reopen; then time passes.
fn at_reading(wall_ms: i64, boot_ms: u64) {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    let clock: &SimClock = &lab.clock;
    clock.set_wall_ms(wall_ms);
    clock.set_boot_ms(boot_ms);
    clock.set_stopwatch_us(boot_ms);
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(deliver(&consumer, 0..20), (20, 0));
    let timed = Event::unchecked(id(99)).at_ms(wall_ms);
    assert!(consumer.process(&timed, |_| Ok(())).unwrap().is_applied());
    for time_ms in [i64::MIN, i64::MAX, 0] {
        match consumer.process(&Event::unchecked(id(100)).at_ms(time_ms), |tx| {
            tx.skip();
            Ok(())
        }) {
            Ok(Outcome::Skipped(())) => {}
            Err(error) => assert!(error.is_future(), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    inbox.sweep().unwrap();
    assert_eq!(deliver(&consumer, 0..20), (0, 20));
    inbox.stats().unwrap();
    inbox.close().unwrap();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(deliver(&consumer, 0..20), (0, 20));
    clock.advance(Duration::MAX);
    inbox.sweep().unwrap();
    let claim = consumer.lookup(&id(1)).unwrap();
    assert!(claim.is_none() || boot_ms > u64::MAX / 2, "time passed, it was to be forgotten");
    deliver(&consumer, 0..20);
    inbox.close().unwrap();
    lab.open().verify().unwrap();
}

/// AA5: now is 0, 2^31, 2^32 seconds, the largest, before 1970; so are boot clock and stopwatch.
#[test]
fn aa5_the_ends_of_the_range_neither_panic_nor_wrap() {
    within(secs(60), || {
        let secs_ms = |s: i64| s * 1_000;
        let walls = [0, 1, -1, secs_ms(1 << 31), secs_ms(1 << 32), i64::MAX, i64::MIN, WALL_MS];
        let boots = [0, 1 << 31, (1 << 32) * 1_000, u64::MAX - 1, u64::MAX];
        for wall_ms in walls {
            for boot_ms in boots {
                at_reading(wall_ms, boot_ms);
            }
        }
    });
}

/// AA5: a claim at the very end of store time is kept, as an expiry that cannot be written down
/// never comes.
#[test]
fn aa5_an_expiry_past_the_end_of_time_never_comes() {
    let lab = Lab::new(Retention::at_least(days(365 * 1_000)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    deliver(&consumer, [1]);
    lab.clock.set_boot_ms(u64::MAX - 1_000);
    assert_eq!(deliver(&consumer, [2]), (1, 0));
    lab.clock.advance(Duration::MAX);
    within(secs(20), move || {
        inbox.sweep().unwrap();
        assert_eq!(deliver(&consumer, [2]), (0, 1));
    });
    // A retention of zero, or one in the wrong unit, is refused when the store is opened.
    for retention in [Duration::ZERO, Duration::from_millis(999)] {
        let opened = Inbox::in_memory(Retention::at_least(retention));
        assert!(opened.unwrap_err().is_invalid());
    }
}

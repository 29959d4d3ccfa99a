//! Case N: what has expired goes away altogether, and nothing goes early.

use std::time::{Duration, UNIX_EPOCH};

use txinbox::{Outcome, Retention, days, hours, minutes};

use crate::checker;
use crate::kit::{Lab, WALL_MS, deliver, event, id, sized};

/// N2: ids that are never touched again. Sweeps alone bring claims, results, tombstones and their
/// tables to zero.
fn n2_forget_all(ids: u64) {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let recent = usize::try_from(ids / 20).unwrap().max(1_024);
    let inbox = lab.builder().recent_max_claims(recent).open_on(&lab.disk).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let numbers: Vec<u64> = (0..ids).collect();
    for (i, chunk) in (0_u64..).zip(numbers.chunks(4_000)) {
        let batch = consumer.process_batch(
            chunk,
            |n| event(*n).alias(id(ids + *n)),
            |tx, n| {
                if n % 10 == 0 {
                    tx.set_result(n.to_string())?;
                }
                Ok(())
            },
        );
        assert_eq!(batch.settled_prefix(), chunk.len());
        consumer.forget(&id(i * 4_000)).unwrap();
        lab.clock.advance(Duration::from_millis(hours(8).as_millis() as u64 * 4_000 / ids));
    }
    let stats = inbox.stats().unwrap();
    // What was forgotten by hand is left out when its claims are sealed.
    let by_hand = ids / 4_000;
    let kept = 2 * (ids - by_hand)..=2 * ids;
    assert!(kept.contains(&(stats.recent_claims + stats.sealed_claims)), "{stats:?}");

    let mut forgotten = 0;
    for _ in 0..60 {
        lab.clock.advance(hours(1));
        forgotten += inbox.sweep().unwrap().claims_forgotten;
    }
    assert!((ids - by_hand..=ids).contains(&forgotten), "{forgotten} of {ids}");
    let stats = inbox.stats().unwrap();
    assert_eq!((stats.recent_claims, stats.sealed_claims, stats.runs, stats.buckets), (0, 0, 0, 0));
    assert_eq!(stats.filter_memory_bytes, 0);
    assert_eq!(stats.claims_expired, forgotten);
    let tables = checker::check(&inbox);
    for kind in ["run-", "results-", "recent", "tombstones"] {
        assert_eq!(checker::rows(&tables, kind), 0, "rows left in {kind}");
    }
    assert_eq!(deliver(&consumer, 0..10), (10, 0), "forgotten, so new again");
}

#[test]
fn n2_untouched_ids_are_swept_to_zero() {
    n2_forget_all(sized(40_000, 200_000));
}

#[test]
#[ignore = "a million ids; run by the deep suite: cargo test --release -- --ignored"]
fn n2_a_million_untouched_ids_are_swept_to_zero() {
    n2_forget_all(1_000_000);
}

/// N3: a handler that runs longer than the retention, then a sweep at once. The claim's life counts
/// from its commit: kept for the whole window, gone after bucket and retention.
#[test]
fn n3_life_counts_from_the_commit_not_from_the_start() {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    deliver(&consumer, [0]); // opens a bucket before the slow handler begins
    let clock = lab.clock.clone();
    let slow = consumer.process(&event(1), |_| {
        clock.advance(hours(5));
        Ok(())
    });
    assert!(slow.unwrap().is_applied());
    inbox.sweep().unwrap();
    let claim = consumer.lookup(&id(1)).unwrap().unwrap();
    assert_eq!((claim.age(), claim.kept_for()), (Duration::ZERO, Some(minutes(32))));
    assert_eq!(claim.committed_at(), UNIX_EPOCH + Duration::from_millis(WALL_MS as u64) + hours(5));
    for _ in 0..31 {
        lab.clock.advance(minutes(1));
        inbox.sweep().unwrap();
        assert!(consumer.process(&event(1), |_| Ok(())).unwrap().is_duplicate());
    }
    lab.clock.advance(minutes(6));
    inbox.sweep().unwrap();
    assert_eq!(deliver(&consumer, [1]), (1, 0), "repeats do not renew it");
}

/// N3: to the millisecond: a claim at the very end of its bucket is stored until R has passed.
#[test]
fn n3_nothing_goes_a_millisecond_early() {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    deliver(&consumer, [0]);
    lab.clock.advance(minutes(4) - Duration::from_millis(1));
    deliver(&consumer, [1]); // the last millisecond of a bucket that spans four minutes
    let holds = |after: Duration| {
        lab.clock.advance(after);
        inbox.sweep().unwrap();
        [0, 1].map(|n| consumer.lookup(&id(n)).unwrap().is_some())
    };
    assert_eq!(holds(minutes(32)), [true, true]);
    assert_eq!(holds(Duration::from_millis(1)), [false, false]);
}

/// N5: a month of history within a minute. Buckets follow the arrival, so there are few, and the
/// month's ids are kept for the retention from now; rows and memory are bounded by their number.
#[test]
fn n5_buckets_follow_arrival_not_event_time() {
    let lab = Lab::new(Retention::at_least(days(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let month_ms = days(30).as_millis() as i64;
    let total = 10_000_u64;
    let time_of = |n: u64| WALL_MS - month_ms + month_ms * n as i64 / total as i64;
    let numbers: Vec<u64> = (0..total).collect();
    let replay = || {
        let batch =
            consumer.process_batch(&numbers, |n| event(*n).at_ms(time_of(*n)), |_, _| Ok(()));
        batch.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert!(replay().iter().all(Outcome::is_applied));
    lab.clock.advance(minutes(1));
    assert!(replay().iter().all(Outcome::is_duplicate), "a second replay changes nothing");
    inbox.sweep().unwrap();
    let stats = inbox.stats().unwrap();
    assert_eq!((stats.buckets, stats.consumers["c"].claims), (1, total));
    assert!(stats.recent_claims <= 1_280 + 4_096 && stats.runs <= 16, "{stats:?}");

    // Once forgotten, the month lies at or below the floor: late, never silently new.
    lab.clock.advance(days(37));
    assert_eq!(inbox.sweep().unwrap().claims_forgotten, total);
    for answer in replay() {
        let Outcome::TooLate { floor } = answer else { panic!("{answer:?}") };
        let newest_ms = time_of(total - 1) as u64;
        assert_eq!(floor, UNIX_EPOCH + Duration::from_millis(newest_ms));
    }
    let next = event(total).at_ms(time_of(total));
    assert!(consumer.process(&next, |_| Ok(())).unwrap().is_applied());
}

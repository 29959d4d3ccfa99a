//! Case O: cleaning up beside the writers.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use txinbox::{Consumer, Inbox, Retention, hours, minutes};

use crate::checker;
use crate::kit::{Lab, deliver, event, median};

/// O5: four sweepers, the store's own thread and a writer. No error, no claim counted twice, no
/// work done twice.
#[test]
fn o5_many_sweepers_do_the_work_once() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = Inbox::builder(lab.retention.clone())
        .clock(lab.clock.clone())
        .recent_max_claims(1_024)
        .open_on(&lab.disk)
        .unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let rounds = 8_u64;
    let (barrier, over) = (Barrier::new(5), AtomicBool::new(false));
    let by_hand: u64 = std::thread::scope(|scope| {
        let sweepers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut forgotten = 0;
                    barrier.wait();
                    while !over.load(Ordering::SeqCst) {
                        forgotten += inbox.sweep().unwrap().claims_forgotten;
                        std::thread::yield_now();
                    }
                    forgotten
                })
            })
            .collect();
        barrier.wait();
        for round in 0..rounds {
            assert_eq!(deliver(&consumer, round * 3_000..(round + 1) * 3_000), (3_000, 0));
            lab.clock.advance(hours(9));
        }
        lab.clock.advance(hours(40));
        inbox.sweep().unwrap();
        over.store(true, Ordering::SeqCst);
        sweepers.into_iter().map(|s| s.join().unwrap()).sum()
    });
    while inbox.sweep().unwrap().claims_forgotten > 0 {}
    let stats = inbox.stats().unwrap();
    assert_eq!(stats.claims_expired, rounds * 3_000, "each exactly once");
    assert!(by_hand <= stats.claims_expired, "{by_hand} by hand");
    assert_eq!(stats.consumers["c"].claims, 0);
    assert_eq!(stats.failed_commits, 0);
    assert_eq!(inbox.sweep().unwrap(), txinbox::stats::Sweep::default(), "nothing is left to do");
    checker::check(&inbox);
}

/// What an event costs now: bytes written, and time in the median.
fn cost(inbox: &Inbox, consumer: &Consumer, first: u64) -> (u64, Duration) {
    let before = inbox.stats().unwrap().written_bytes;
    let took: Vec<Duration> = (first..first + 200)
        .map(|n| {
            let start = Instant::now();
            assert!(consumer.process(&event(n), |_| Ok(())).unwrap().is_applied());
            start.elapsed()
        })
        .collect();
    ((inbox.stats().unwrap().written_bytes - before) / 200, median(took))
}

/// O7: thousands of tiny buckets come and go; an event then costs what it cost before.
fn o7_drop_tiny_buckets(buckets: u64) {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let (bytes_before, time_before) = cost(&inbox, &consumer, 1_000_000);
    let mut forgotten = 0;
    for n in 0..buckets {
        deliver(&consumer, [n]);
        lab.clock.advance(minutes(4));
        forgotten += inbox.sweep().unwrap().buckets_forgotten;
        let stats = inbox.stats().unwrap();
        assert!(stats.buckets <= 10 && stats.runs <= 16, "{stats:?}");
    }
    assert!(forgotten + 10 >= buckets, "{forgotten} of {buckets}");
    let (bytes_after, time_after) = cost(&inbox, &consumer, 2_000_000);
    assert!(bytes_after <= 2 * bytes_before, "{bytes_before} bytes an event, then {bytes_after}");
    let limit = 4 * time_before + Duration::from_millis(2);
    assert!(time_after < limit, "{time_before:?} an event, then {time_after:?}");
    checker::check(&inbox);
}

#[test]
fn o7_claims_cost_the_same_after_many_tiny_buckets() {
    o7_drop_tiny_buckets(400);
}

#[test]
#[ignore = "ten thousand buckets; run by the deep suite: cargo test --release -- --ignored"]
fn o7_claims_cost_the_same_after_ten_thousand_tiny_buckets() {
    o7_drop_tiny_buckets(10_000);
}

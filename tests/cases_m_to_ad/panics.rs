//! Case S2: a panic in a handler unwinds through everything and drops the store on its way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use txinbox::{Map, Retention, hours};

use crate::checker;
use crate::kit::{Lab, deliver, event, id};

/// Unwinds out of a call that owns the store, and opens it again at once: the directory is free, counts
/// are those of what was acknowledged, and nothing of the event is there.
#[test]
fn s2_a_panic_that_drops_the_store_leaves_it_whole() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let mut expected = 0;
    for round in 0..30_u64 {
        let inbox = lab.open();
        let counts: Map<u64, u64> = inbox.map("counts").unwrap();
        let consumer = inbox.consumer("c").unwrap();
        assert_eq!(deliver(&consumer, 0..expected), (0, expected));
        let first = expected;
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let numbers: Vec<u64> = (first..first + 9).collect();
            let _ = consumer.process_batch(
                &numbers,
                |n| event(*n),
                |tx, n| {
                    tx.update(&counts, &0, |count| Some(count.unwrap_or(0) + 1))?;
                    assert!(*n < first + 5, "the handler gives up at {n}");
                    Ok(())
                },
            );
            drop(inbox); // the only handles are dropped by the unwinding
        }));
        assert!(panicked.is_err());
        expected += 5; // those before it in the batch are durable, it and those after it are not
        let inbox = lab.open();
        let counts: Map<u64, u64> = inbox.map("counts").unwrap();
        let count: Result<_, txinbox::Error> = inbox.read(|view| view.get(&counts, &0));
        assert_eq!(count.unwrap(), Some(expected), "round {round}");
        assert_eq!(inbox.stats().unwrap().consumers["c"].claims, expected);
    }
    let inbox = lab.open();
    checker::check(&inbox);
    inbox.verify().unwrap();
}

/// S2: the same with a view, a ticket and a clone of the store alive on the stack; and a panic on
/// another thread, which leaves the store to the others.
#[test]
fn s2_unwinding_past_tickets_and_views_leaks_nothing() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    drop(lab.open());
    let started = lab.disk.contents("txinbox.redb").unwrap().len();
    for round in 0..40 {
        let inbox = lab.open();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let inbox = inbox.clone();
            let consumer = inbox.consumer("c").unwrap();
            let ticket = consumer.submit(&event(round * 10), |_| Ok(())).unwrap();
            inbox
                .read(|_view| {
                    let failed = consumer.process(&event(round * 10 + 1), |_| -> Result<(), _> {
                        panic!("with a view open")
                    });
                    failed.map(drop)
                })
                .unwrap();
            drop(ticket);
        }));
        assert!(panicked.is_err());
        let other = std::thread::spawn({
            let consumer = inbox.consumer("c").unwrap();
            move || consumer.process(&event(round * 10 + 2), |_| -> Result<(), _> { panic!("too") })
        });
        assert!(other.join().is_err());
        let consumer = inbox.consumer("c").unwrap();
        assert!(consumer.lookup(&id(round * 10)).unwrap().is_some(), "a dropped ticket commits");
        assert!(consumer.lookup(&id(round * 10 + 1)).unwrap().is_none());
        assert_eq!(inbox.stats().unwrap().consumers["c"].panics, 2);
        assert_eq!(deliver(&consumer, round * 10..round * 10 + 3), (2, 1));
    }
    let now = lab.disk.contents("txinbox.redb").unwrap().len();
    assert!(now <= 4 * started, "the file grew from {started} to {now} bytes");
}

//! K6: two stores open at once are two worlds.

use std::thread;
use std::time::Duration;

use txinbox::{Builder, Event, Inbox};

use crate::support::{Counts, Place, bump, count, event, id, is_mismatch, never, within};

/// Two threads a store deliver the same ids to both, in opposite order, with both sweepers on.
#[test]
fn k6_two_stores_with_the_same_ids_are_separate() {
    within(Duration::from_secs(30), "k6", || {
        let places = [Place::dir(), Place::dir()];
        let stores = [0, 1].map(|i| places[i].open_with(|b| b.recent_max_claims(1 << 10)));
        let payloads = ["of store 0", "of store 1"];
        const IDS: usize = 400;
        let deliver = |inbox: &Inbox, store: usize, backwards: bool| {
            let consumer = inbox.consumer("c").unwrap();
            let counts: Counts = inbox.map("n").unwrap();
            let mut order: Vec<usize> = (0..IDS).collect();
            if backwards {
                order.reverse();
            }
            for chunk in order.chunks(7) {
                let batch = consumer.process_batch(
                    chunk,
                    |n| Event::new(id(&n.to_string()), payloads[store]),
                    |tx, n| bump(tx, &counts, &n.to_string()),
                );
                for answer in batch {
                    let outcome = answer.unwrap();
                    assert!(outcome.is_applied() || outcome.is_duplicate());
                }
            }
        };
        thread::scope(|scope| {
            for (store, backwards) in [(0, false), (1, true), (1, false), (0, true)] {
                let (inbox, deliver) = (&stores[store], &deliver);
                scope.spawn(move || deliver(inbox, store, backwards));
            }
            for inbox in &stores {
                scope.spawn(move || (0..20).for_each(|_| assert!(inbox.sweep().is_ok())));
            }
        });
        for (store, inbox) in stores.iter().enumerate() {
            let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
            let stats = inbox.stats().unwrap().consumers["c"].clone();
            let ids = IDS as u64;
            assert_eq!((stats.applied, stats.duplicates, stats.claims), (ids, ids, ids));
            for n in 0..IDS {
                let name = n.to_string();
                assert_eq!(count(inbox, &counts, &name), 1);
                let of = |payload| Event::new(id(&name), payload);
                assert!(
                    consumer.process(&of(payloads[store]), never::<()>).unwrap().is_duplicate()
                );
                let other = consumer.process(&of(payloads[1 - store]), never::<()>).unwrap();
                assert!(is_mismatch(&other));
            }
        }
        // Forgetting in the one, and closing it, is nothing to the other.
        let [one, other] = stores;
        assert!(one.consumer("c").unwrap().forget(&id("7")).unwrap());
        one.close().unwrap();
        let consumer = other.consumer("c").unwrap();
        assert!(consumer.lookup(&id("7")).unwrap().is_some());
        assert_eq!(other.stats().unwrap().consumers["c"].forgotten, 0);
        assert!(consumer.process(&event("7"), never::<()>).unwrap().is_duplicate());
    });
}

/// The time of the one passes, and its sweep empties it; the other keeps all.
#[cfg(feature = "testkit")]
#[test]
fn k6_sweeping_one_store_leaves_the_other() {
    use crate::support::sim_clock;
    use txinbox::days;

    let clocks = [sim_clock(), sim_clock()];
    let places = [Place::dir(), Place::dir()];
    let open = |i: usize| places[i].open_with(|b: Builder| b.clock(clocks[i].clone()).no_threads());
    let stores = [0, 1].map(open);
    for n in 0..50 {
        for inbox in &stores {
            let consumer = inbox.consumer("c").unwrap();
            assert!(consumer.process(&event(&n.to_string()), |_| Ok(())).unwrap().is_applied());
        }
    }
    clocks[0].advance(days(9));
    let reports = stores.each_ref().map(|inbox| inbox.sweep().unwrap().claims_forgotten);
    assert_eq!(reports, [50, 0]);
    let expired = stores.each_ref().map(|inbox| inbox.stats().unwrap().claims_expired);
    assert_eq!(expired, [50, 0]);
    for n in 0..50 {
        let known = stores.each_ref().map(|inbox| {
            inbox.consumer("c").unwrap().lookup(&id(&n.to_string())).unwrap().is_some()
        });
        assert_eq!(known, [false, true]);
    }
}

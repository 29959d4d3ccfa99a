//! Threads that fight for one lease.

use std::sync::Barrier;
use std::thread;

use txinbox::lease::{Begun, Lease};
use txinbox::{Consumer, Inbox, Map, Outcome, Retention};

use crate::kit::{Lab, event, secs};

fn try_begin(consumer: &Consumer, text: &str) -> Option<Lease> {
    match consumer.begin(&event(text), secs(10)).unwrap() {
        Begun::Lease(lease) => Some(lease),
        Begun::Settled(Outcome::InProgress { .. } | Outcome::Duplicate(_)) => None,
        Begun::Settled(other) => panic!("{other:?}"),
    }
}

/// Two threads begin the same event at the same moment, first new, then run out: each time one gets it.
#[test]
fn of_two_threads_one_gets_the_lease() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut last = 0;
    for round in 0..200 {
        let text = format!("event {}", round / 4);
        let start = Barrier::new(2);
        let race = || {
            start.wait();
            try_begin(&consumer, &text)
        };
        let (a, b) = thread::scope(|scope| {
            let (a, b) = (scope.spawn(race), scope.spawn(race));
            (a.join().unwrap(), b.join().unwrap())
        });
        let won: Vec<_> = a.into_iter().chain(b).collect();
        let [lease] = &won[..] else { panic!("round {round}: {won:?}") };
        assert!(lease.token() > last, "round {round}");
        assert_eq!(lease.attempt(), round % 4 + 1);
        last = lease.token();
        lab.clock.advance(secs(10));
    }
}

/// Workers take leases on, come too late, and complete, on the machine's own clock: each event is applied once.
#[test]
fn every_event_is_applied_once_whoever_comes_late() {
    let inbox = Inbox::in_memory(Retention::at_least(secs(600))).unwrap();
    let consumer = inbox.consumer("c").unwrap().max_attempts(u32::MAX);
    let counts: Map<u64, u64> = inbox.map("counts").unwrap();
    let work = |worker: u64| {
        let mut tokens = Vec::new();
        for round in 0..400_u64 {
            let n = (round * 7 + worker * 3) % 60;
            let begun = consumer.begin(&event(&n.to_string()), std::time::Duration::from_millis(1));
            let Begun::Lease(mut lease) = begun.unwrap() else { continue };
            tokens.push(lease.token());
            if round % 3 == 0 {
                thread::sleep(std::time::Duration::from_millis(2));
            }
            let bump = |tx: &mut txinbox::Tx<'_>| {
                tx.update(&counts, &n, |old| Some(old.unwrap_or(0) + 1))?;
                Ok(())
            };
            let outcome = lease.complete(bump).unwrap();
            let is_settled = matches!(
                outcome,
                Outcome::Applied(..) | Outcome::Duplicate(_) | Outcome::Fenced { .. }
            );
            assert!(is_settled, "{outcome:?}");
        }
        tokens
    };
    let mut tokens: Vec<u64> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..4).map(|worker| scope.spawn(move || work(worker))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let given = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), given, "a token was given out twice");
    let counts = inbox.read(|view| view.scan(&counts, .., 100)).unwrap();
    assert_eq!(counts.len(), 60);
    assert!(counts.iter().all(|(_, count)| *count == 1), "{counts:?}");
}

//! The cases that concern leases; E2 is with the limits, Y4 and Y5 with the refusals.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use txinbox::lease::{self, Begun};
use txinbox::{BoxError, Inbox, Map, Outcome, Retention};

use crate::kit::{Lab, begin, event, id, in_progress, not_begun, process, secs};

/// F2: B sees that X runs, A finishes X, B goes on with taking over: B gets A's result, which stays.
#[test]
fn f2_a_finished_event_is_not_taken_over() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut a = begin(&consumer, "x", secs(10));
    assert_eq!(not_begun(&consumer, "x"), in_progress(10, 1));
    lab.clock.advance(secs(10)); // B believes that A is gone
    assert!(a.complete(|tx| Ok(tx.set_result("of A")?)).unwrap().is_applied());
    for outcome in [not_begun(&consumer, "x"), process(&consumer, "x")] {
        let Outcome::Duplicate(claim) = outcome else { panic!("{outcome:?}") };
        assert_eq!(claim.result(), Some(&b"of A"[..]));
    }
}

/// F2, the other way round: B has taken over and finished; what A brings late changes nothing, and A is told
/// B's result. While B is at work A is fenced.
#[test]
fn f2_a_late_finisher_changes_nothing() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let map: Map<str, str> = inbox.map("m").unwrap();
    let mut a = begin(&consumer, "x", secs(10));
    lab.clock.advance(secs(10));
    let mut b = begin(&consumer, "x", secs(10));
    let fenced = Outcome::Fenced { epoch: b.token() };
    let late = |_: &mut txinbox::Tx<'_>| -> Result<(), BoxError> { panic!("it ran") };
    assert_eq!(a.complete(late).unwrap(), fenced);
    assert_eq!(a.fail("late", secs(1)).unwrap(), fenced);
    assert!(a.note("late").unwrap_err().is_lease_lost());
    assert_eq!(not_begun(&consumer, "x"), in_progress(10, 2));
    let done = b.complete(|tx| {
        tx.insert(&map, "x", "of B")?;
        Ok(tx.set_result("of B")?)
    });
    assert!(done.unwrap().is_applied());
    for outcome in [a.complete(late).unwrap(), a.fail("late", secs(1)).unwrap()] {
        let Outcome::Duplicate(claim) = outcome else { panic!("{outcome:?}") };
        assert_eq!(claim.result(), Some(&b"of B"[..]));
    }
    assert_eq!(inbox.read(|view| view.get(&map, "x")).unwrap().as_deref(), Some("of B"));
    assert_eq!(inbox.stats().unwrap().consumers["c"].late_finishers, 2);
}

/// F4: sweeping in a loop, with a retention far shorter than the work under a lease. The event commits, and its
/// life counts from there.
#[test]
fn f4_sweeping_never_touches_a_live_lease() {
    let lab = Lab::new();
    let tiny = Retention::at_least(secs(31));
    let inbox = lab.builder().open_on(&lab.disk).unwrap();
    let consumer = inbox.consumer_with("c", tiny).unwrap();
    let timed = event("x").at_ms(1_800_000_000_000);
    let Begun::Lease(mut lease) = consumer.begin(&timed, secs(3_600)).unwrap() else { panic!() };
    for n in 0..60_i64 {
        let other = event(&format!("other {n}")).at_ms(1_800_000_000_000 + n * 50_000);
        assert!(consumer.process(&other, |_| Ok(())).unwrap().is_applied());
        lab.clock.advance(secs(50));
        inbox.sweep().unwrap();
        // Its own time lies far below the floor by now: the lease is looked up first.
        let again = consumer.process(&timed, |_| Ok(())).unwrap();
        assert!(matches!(again, Outcome::InProgress { attempt: 1, .. }), "{again:?}");
    }
    assert!(inbox.stats().unwrap().claims_expired > 50);
    lease.renew(secs(3_600)).unwrap();
    assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
    lab.clock.advance(secs(31));
    inbox.sweep().unwrap();
    assert!(consumer.process(&timed, |_| Ok(())).unwrap().is_duplicate());
}

/// C2: ten callers come within a moment while the work takes its time: one run; the others wait, and get its
/// result.
#[test]
fn c2_ten_callers_one_run() {
    let inbox = Inbox::in_memory(Retention::at_least(secs(60))).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let runs = AtomicUsize::new(0);
    let call = || match consumer.begin(&event("x"), secs(30)).unwrap() {
        Begun::Lease(mut lease) => {
            runs.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(200));
            lease.complete(|tx| Ok(tx.set_result("one")?)).unwrap()
        }
        Begun::Settled(Outcome::InProgress { .. }) => {
            lease::wait(&consumer, &event("x"), secs(20)).unwrap().unwrap()
        }
        Begun::Settled(other) => other,
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(call)).collect();
        for thread in threads {
            let outcome = thread.join().unwrap();
            assert_eq!(outcome.claim().unwrap().result(), Some(&b"one"[..]), "{outcome:?}");
        }
    });
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// AB3: many repeats wait for a slow event. Their wait is bounded, and other events go on meanwhile.
#[test]
fn ab3_waiting_repeats_are_bounded_and_hold_nobody_up() {
    let inbox = Inbox::in_memory(Retention::at_least(secs(60))).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let mut slow = begin(&consumer, "slow", secs(30));
    let limit = Duration::from_millis(300);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let started = Instant::now();
                    let outcome = lease::wait(&consumer, &event("slow"), limit).unwrap();
                    assert!(matches!(outcome, Some(Outcome::InProgress { .. })), "{outcome:?}");
                    started.elapsed()
                })
            })
            .collect();
        for n in 0..100 {
            assert!(process(&consumer, &format!("other {n}")).is_applied());
        }
        for thread in waiting {
            let waited = thread.join().unwrap();
            assert!(waited >= limit && waited < secs(10), "{waited:?}");
        }
    });
    assert!(slow.complete(|_| Ok(())).unwrap().is_applied());
}

/// E5: a worker's thread dies with its lease in hand; other events go on, and this one is free in time.
#[test]
fn e5_a_worker_that_panics_leaves_its_event_to_the_next() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let lease = begin(&consumer, "x", secs(10));
    let (told, dead) = mpsc::channel::<()>();
    let worker = thread::spawn(move || {
        let _lease = lease;
        drop(told);
        std::panic::resume_unwind(Box::new("as planned"))
    });
    assert!(dead.recv().is_err());
    let _panic: Result<(), _> = worker.join();
    assert!(process(&consumer, "other").is_applied());
    assert_eq!(not_begun(&consumer, "x"), in_progress(10, 1));
    lab.clock.advance(secs(10));
    assert!(begin(&consumer, "x", secs(10)).complete(|_| Ok(())).unwrap().is_applied());
}

/// K2: three consumers take the same event on, each for itself.
#[test]
fn k2_a_lease_is_its_consumers_alone() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumers = ["a", "b", "c"].map(|name| inbox.consumer(name).unwrap());
    let mut leases = consumers.each_ref().map(|consumer| begin(consumer, "x", secs(10)));
    let keys = leases.each_ref().map(|lease| lease.idempotency_key("k"));
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    for lease in &mut leases {
        assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
    }
    assert!(consumers[0].forget(&id("x")).unwrap());
    assert!(not_begun(&consumers[1], "x").is_duplicate());
}

//! The life of a lease, rule by rule.

use std::time::Duration;

use txinbox::lease::{self, Lease, Standing};
use txinbox::{Advice, Map, Outcome};

use crate::kit::{Lab, begin, event, id, in_progress, not_begun, process, secs};

#[test]
fn a_lease_goes_to_another_thread() {
    fn is_sent<T: Send + 'static>() {}
    is_sent::<Lease>();
}

/// LS2, LS3: claim, state and the end of the lease are one commit; a repeat gets the result.
#[test]
fn completing_settles_the_event_in_one_commit() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let map: Map<str, u64> = inbox.map("m").unwrap();
    let mut lease = begin(&consumer, "a", secs(30));
    assert_eq!(lease.attempt(), 1);
    assert_eq!(not_begun(&consumer, "a"), in_progress(30, 1));
    lab.clock.advance(secs(10));
    assert_eq!(process(&consumer, "a"), in_progress(20, 1));
    assert_eq!(process(&consumer, "a").advice(), Advice::RetryAfter(secs(20)));
    let before = inbox.stats().unwrap().groups;
    let outcome = lease.complete(|tx| {
        tx.insert(&map, "a", &1)?;
        tx.set_result("done")?;
        Ok(7)
    });
    assert!(
        matches!(outcome.unwrap(), Outcome::Applied(7, claim) if claim.result() == Some(b"done"))
    );
    assert_eq!(inbox.stats().unwrap().groups, before + 1);
    assert!(lease::status(&consumer, &id("a")).unwrap().is_none());
    let Outcome::Duplicate(claim) = not_begun(&consumer, "a") else { panic!() };
    assert_eq!(claim.result(), Some(&b"done"[..]));
    // Once more is a repeat as well: the handler does not run.
    let again = lease.complete(|_| -> Result<(), txinbox::BoxError> { panic!("it ran") }).unwrap();
    assert!(again.is_duplicate());
    assert!(lease.note("x").unwrap_err().is_lease_lost());
    let stats = inbox.stats().unwrap();
    assert_eq!((stats.leases, stats.dead_events), (0, 0));
    let of = &stats.consumers["c"];
    assert_eq!((of.leased, of.in_progress, of.applied, of.duplicates), (1, 3, 1, 2));
}

#[test]
fn a_handler_that_fails_or_panics_leaves_the_lease() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let map: Map<str, u64> = inbox.map("m").unwrap();
    let mut lease = begin(&consumer, "a", secs(30));
    let failed = lease.complete(|tx| {
        tx.insert(&map, "a", &1)?;
        Err::<(), _>("not now".into())
    });
    assert!(failed.unwrap_err().is_handler());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lease.complete(|_| -> Result<(), txinbox::BoxError> { panic!("as planned") })
    }));
    assert!(panicked.is_err());
    assert_eq!(inbox.read(|view| view.get(&map, "a")).unwrap(), None);
    assert_eq!(not_begun(&consumer, "a"), in_progress(30, 1));
    assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
}

#[test]
fn skipping_ends_the_lease_and_remembers_nothing_refusing_settles() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut lease = begin(&consumer, "a", secs(30));
    lease.note("gone with the lease").unwrap();
    let skipped = lease.complete(|tx| {
        tx.skip();
        Ok(())
    });
    assert_eq!(skipped.unwrap(), Outcome::Skipped(()));
    let mut next = begin(&consumer, "a", secs(30));
    assert!(next.token() > lease.token());
    assert_eq!((next.attempt(), next.previous_note()), (1, None));
    let late = lease.complete(|_| Ok(())).unwrap();
    assert_eq!(late, Outcome::Fenced { epoch: next.token() });
    assert!(matches!(next.complete(|tx| Ok(tx.refuse("no")?)).unwrap(), Outcome::Refused((), _)));
    let Outcome::Duplicate(claim) = not_begun(&consumer, "a") else { panic!() };
    assert!(claim.is_refused());
}

#[test]
fn dropping_does_not_release_and_time_does() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let first = begin(&consumer, "a", secs(30)).token();
    assert_eq!(not_begun(&consumer, "a"), in_progress(30, 1));
    lab.clock.advance(secs(30) - Duration::from_millis(1));
    assert!(matches!(not_begun(&consumer, "a"), Outcome::InProgress { attempt: 1, .. }));
    lab.clock.advance(Duration::from_millis(1));
    let second = begin(&consumer, "a", secs(30));
    assert!(second.token() > first);
    assert_eq!(second.attempt(), 2);
}

#[test]
fn renewing_sets_the_time_anew_and_works_until_it_is_taken_over() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut lease = begin(&consumer, "a", secs(10));
    lab.clock.advance(secs(9));
    lease.renew(secs(20)).unwrap();
    assert_eq!(not_begun(&consumer, "a"), in_progress(20, 1));
    lease.renew(secs(5)).unwrap();
    assert_eq!(not_begun(&consumer, "a"), in_progress(5, 1));
    lab.clock.advance(secs(100));
    lease.renew(secs(5)).unwrap(); // nobody was there to take it
    lab.clock.advance(secs(5));
    let mut next = begin(&consumer, "a", secs(5));
    assert!(lease.renew(secs(5)).unwrap_err().is_lease_lost());
    next.renew(secs(5)).unwrap();
}

/// The number of attempts survives failures, lost leases and restarts; past the cap the event is dead,
/// until it is redriven.
#[test]
fn an_event_dies_after_its_last_attempt_and_is_redriven() {
    let lab = Lab::new();
    let mut inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap().max_attempts(3);
    let mut lease = begin(&consumer, "a", secs(10));
    let key = lease.idempotency_key("charge");
    assert_eq!(lease.fail("first", secs(7)).unwrap(), in_progress(7, 1));
    assert_eq!(not_begun(&consumer, "a"), in_progress(7, 1));
    let status = lease::status(&consumer, &id("a")).unwrap().unwrap();
    assert_eq!(status.standing, Standing::Waiting { due_in: secs(7) });
    lab.clock.advance(secs(7));
    assert_eq!(begin(&consumer, "a", secs(10)).attempt(), 2); // and is never heard of again
    lab.clock.advance(secs(10));
    inbox.close().unwrap();
    inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap().max_attempts(3);
    let mut lease = begin(&consumer, "a", secs(10));
    assert_eq!(lease.attempt(), 3);
    lease.note("sent").unwrap();
    let dead = lease.fail("last", secs(7)).unwrap();
    assert_eq!(dead, Outcome::Dead { attempts: 3 });
    assert_eq!(dead.advice(), Advice::Quarantine);
    for _ in 0..2 {
        assert_eq!(not_begun(&consumer, "a"), Outcome::Dead { attempts: 3 });
        assert_eq!(process(&consumer, "a"), Outcome::Dead { attempts: 3 });
        lab.clock.advance(secs(3_600));
    }
    let status = lease::status(&consumer, &id("a")).unwrap().unwrap();
    assert_eq!((status.standing, status.error.as_deref()), (Standing::Dead, Some("last")));
    assert_eq!(inbox.stats().unwrap().dead_events, 1);
    assert!(!consumer.redrive(&id("unknown")).unwrap());
    assert!(consumer.redrive(&id("a")).unwrap());
    assert!(!consumer.redrive(&id("a")).unwrap());
    let lease = begin(&consumer, "a", secs(10));
    assert_eq!((lease.attempt(), lease.previous_note()), (1, Some(&b"sent"[..])));
    assert_eq!(lease.idempotency_key("charge"), key);
}

/// Attempts that end with their process count too, or a poison event would kill it for ever.
#[test]
fn an_event_that_kills_its_worker_each_time_dies() {
    let mut lab = Lab::new();
    for attempt in 1..=3 {
        let inbox = lab.open();
        let consumer = inbox.consumer("c").unwrap().max_attempts(3);
        assert_eq!(begin(&consumer, "a", secs(10)).attempt(), attempt);
        lab.clock.advance(secs(10));
        assert!(process(&consumer, &format!("other {attempt}")).is_applied()); // saves the time
        lab = lab.killed();
    }
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap().max_attempts(3);
    assert_eq!(not_begun(&consumer, "a"), Outcome::Dead { attempts: 3 });
    assert!(consumer.redrive(&id("a")).unwrap());
    assert_eq!(begin(&consumer, "a", secs(10)).attempt(), 1);
}

/// After a crash the next worker has the note, the same keys, and a token above all others.
#[test]
fn a_note_is_there_after_a_crash() {
    let mut lab = Lab::new();
    let (mut token, mut keys) = (0, Vec::new());
    for round in 1..=3_u32 {
        let inbox = lab.open();
        let consumer = inbox.consumer("c").unwrap();
        let mut lease = begin(&consumer, "a", secs(10));
        assert!(lease.token() > token);
        token = lease.token();
        keys.push(lease.idempotency_key("charge"));
        let expected = (round > 1).then(|| format!("second note of {}", round - 1));
        assert_eq!(lease.previous_note(), expected.as_deref().map(str::as_bytes));
        lease.note(format!("first note of {round}")).unwrap();
        lease.note(format!("second note of {round}")).unwrap();
        // The dead process's time is not up: nobody may be let in for it.
        lab = lab.killed();
        let inbox = lab.open();
        let consumer = inbox.consumer("c").unwrap();
        assert_eq!(not_begun(&consumer, "a"), in_progress(10, round));
        lab.clock.advance(secs(10));
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    assert!(keys[0].len() == 32 && keys[0].bytes().all(|b| b.is_ascii_hexdigit()));
}

/// LS5: nothing that the wall clock says, nor time spent closed, ends a lease.
#[test]
fn no_wall_clock_ends_a_lease() {
    let lab = Lab::new();
    let mut inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let _token = begin(&consumer, "a", secs(3_600)).token();
    for step_ms in [86_400_000_000, -172_800_000_000, 315_000_000_000_000] {
        lab.clock.step_wall_ms(step_ms);
        assert_eq!(not_begun(&inbox.consumer("c").unwrap(), "a"), in_progress(3_600, 1));
        inbox.close().unwrap();
        lab.clock.step_wall_ms(86_400_000);
        lab.clock.advance(secs(86_400)); // with the machine running
        inbox = lab.open();
        assert_eq!(not_begun(&inbox.consumer("c").unwrap(), "a"), in_progress(3_600, 1));
    }
    lab.clock.freeze_wall(true);
    lab.clock.advance(secs(3_600));
    assert_eq!(begin(&inbox.consumer("c").unwrap(), "a", secs(1)).attempt(), 2);
}

/// While a lease is held, another payload under its id is neither begun nor handled.
#[test]
fn another_payload_waits_for_the_first() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut lease = begin(&consumer, "a", secs(10));
    let other = txinbox::Event::new(id("a"), "another payload");
    let asked = || consumer.process(&other, |_| Ok(())).unwrap();
    assert_eq!(asked(), in_progress(10, 1));
    lab.clock.advance(secs(20));
    // Run out, and not settled: the id is still the first payload's.
    assert_eq!(asked(), in_progress(0, 1));
    assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
    assert!(matches!(asked(), Outcome::Mismatch(_)));
}

/// A lease that has run out may be settled by `process`; the worker that comes late gets its result.
#[test]
fn process_handles_what_a_lease_left() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut lease = begin(&consumer, "a", secs(10));
    lab.clock.advance(secs(10));
    let batch = consumer.process_batch(
        &["a", "a"],
        |text| event(text),
        |tx, _| Ok(tx.set_result("processed")?),
    );
    let kinds: Vec<_> = batch.iter().map(|answer| answer.as_ref().unwrap()).collect();
    assert!(matches!(kinds[..], [Outcome::Applied(..), Outcome::Duplicate(_)]));
    let late = lease.complete(|_| -> Result<(), txinbox::BoxError> { panic!("it ran") }).unwrap();
    let Outcome::Duplicate(claim) = late else { panic!("{late:?}") };
    assert_eq!(claim.result(), Some(&b"processed"[..]));
    assert!(lease::status(&consumer, &id("a")).unwrap().is_none());
}

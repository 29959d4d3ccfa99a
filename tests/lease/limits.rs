//! Limits at n-1, n and n+1, and zero.

use std::time::Duration;

use txinbox::lease;
use txinbox::{Error, Outcome};

use crate::kit::{Lab, begin, event, id, in_progress, secs};

const DAY: Duration = Duration::from_secs(86_400);
const MS: Duration = Duration::from_millis(1);

/// E2: 0, 1 ns and the largest of every time: refused, or what they say; never for ever by accident.
#[test]
fn e2_zero_tiny_and_huge_times_are_refused_or_mean_what_they_say() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let tried = |d| consumer.begin(&event("refused"), d).map(drop).unwrap_err();
    let is_invalid: fn(&Error) -> bool = Error::is_invalid;
    let is_limit: fn(&Error) -> bool = Error::is_limit;
    let cases = [
        (Duration::ZERO, is_invalid),
        (Duration::from_nanos(1), is_invalid),
        (MS - Duration::from_nanos(1), is_invalid),
        (DAY + MS, is_limit),
        (Duration::MAX, is_limit),
    ];
    let mut held = begin(&consumer, "held", secs(10));
    for (duration, is_expected) in cases {
        assert!(is_expected(&tried(duration)), "{duration:?}");
        assert!(is_expected(&held.renew(duration).unwrap_err()), "{duration:?}");
        if !duration.is_zero() {
            let failed = held.fail("x", duration);
            assert!(is_expected(&failed.map(drop).unwrap_err()), "{duration:?}");
        }
    }
    assert!(lease::status(&consumer, &id("refused")).unwrap().is_none());
    for (n, duration) in [MS, MS * 2, DAY - MS, DAY].into_iter().enumerate() {
        let mut lease = begin(&consumer, &format!("taken {n}"), duration);
        lease.renew(duration).unwrap();
        let _outcome = lease.fail("x", duration).unwrap();
    }
    assert_eq!(held.fail("x", Duration::ZERO).unwrap(), in_progress(0, 1));
    let none = consumer.clone().max_attempts(0).begin(&event("none"), secs(1));
    assert!(none.map(drop).unwrap_err().is_invalid());
    let waited = lease::wait(&consumer, &event("held"), Duration::MAX).unwrap();
    assert_eq!(
        waited,
        Some(in_progress(0, 1)),
        "nobody works on it, so there is nothing to wait for"
    );
}

#[test]
fn notes_and_errors_are_bounded() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap().max_attempts(2);
    let mut lease = begin(&consumer, "a", secs(10));
    for len in [0, (64 << 10) - 1, 64 << 10] {
        lease.note(vec![7; len]).unwrap();
        let status = lease::status(&consumer, &id("a")).unwrap().unwrap();
        assert_eq!(status.note, Some(vec![7; len]));
    }
    assert!(lease.note(vec![7; (64 << 10) + 1]).unwrap_err().is_limit());
    let _outcome = lease.fail(&"\u{20ac}".repeat(1_000), Duration::ZERO).unwrap();
    let status = lease::status(&consumer, &id("a")).unwrap().unwrap();
    assert_eq!(status.error.unwrap().len(), 1_023, "cut between two characters");
    assert_eq!(status.note.unwrap().len(), 64 << 10, "a note too long changed nothing");
}

#[test]
fn the_cap_of_attempts_holds_at_one_and_at_its_largest() {
    let lab = Lab::new();
    let inbox = lab.open();
    let one = inbox.consumer("c").unwrap().max_attempts(1);
    let mut lease = begin(&one, "a", secs(10));
    assert_eq!(lease.fail("x", secs(1)).unwrap(), Outcome::Dead { attempts: 1 });
    let all = inbox.consumer("c").unwrap().max_attempts(u32::MAX);
    for attempt in 1..20 {
        let mut lease = begin(&all, "b", secs(10));
        assert_eq!(lease.fail("x", Duration::ZERO).unwrap(), in_progress(0, attempt));
    }
    // Without a cap of one's own it is 16.
    let usual = inbox.consumer("c").unwrap();
    for attempt in 1..=16 {
        let outcome = begin(&usual, "d", secs(10)).fail("x", Duration::ZERO).unwrap();
        assert_eq!(matches!(outcome, Outcome::Dead { .. }), attempt == 16);
    }
}

/// A `begin` from inside a handler would wait for itself.
#[test]
fn a_call_from_inside_a_handler_is_refused() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut lease = begin(&consumer, "b", secs(10));
    let outcome = consumer.process(&event("a"), |_| {
        assert!(consumer.begin(&event("x"), secs(1)).unwrap_err().is_reentrant());
        assert!(lease.note("x").unwrap_err().is_reentrant());
        assert!(consumer.redrive(&id("x")).unwrap_err().is_reentrant());
        assert!(lease.complete(|_| Ok(())).unwrap_err().is_reentrant());
        Ok(())
    });
    assert!(outcome.unwrap().is_applied());
    assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
}

//! An event's other ids are reserved with it.

use txinbox::lease::{self, Begun};
use txinbox::{Event, Outcome};

use crate::kit::{Lab, begin, event, id, in_progress, not_begun, process, secs};

fn both(own: &str, alias: &str) -> Event<'static> {
    event(own).alias(id(alias))
}

#[test]
fn every_id_of_the_event_is_reserved_and_becomes_an_alias() {
    let lab = Lab::new();
    let mut inbox = lab.open();
    let mut consumer = inbox.consumer("c").unwrap();
    let Begun::Lease(mut lease) = consumer.begin(&both("a", "b"), secs(10)).unwrap() else {
        panic!()
    };
    for round in 0..2 {
        for text in ["a", "b"] {
            assert_eq!(not_begun(&consumer, text), in_progress(10, 1), "{text}, round {round}");
            assert_eq!(process(&consumer, text), in_progress(10, 1), "{text}, round {round}");
        }
        let through_both = consumer.process(&both("x", "b"), |_| Ok(())).unwrap();
        assert_eq!(through_both, in_progress(10, 1));
        if round == 0 {
            inbox.close().unwrap();
            assert!(lease.note("x").unwrap_err().is_closed());
            inbox = lab.open();
            consumer = inbox.consumer("c").unwrap();
        }
    }
    lab.clock.advance(secs(10));
    // Taken over under the other id alone: the first is not forgotten.
    let mut lease = begin(&consumer, "b", secs(10));
    assert_eq!((lease.attempt(), not_begun(&consumer, "a")), (2, in_progress(10, 2)));
    assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
    for text in ["a", "b"] {
        assert!(not_begun(&consumer, text).is_duplicate(), "{text}");
    }
    assert!(process(&consumer, "x").is_applied());
}

#[test]
fn process_over_a_lease_that_ran_out_keeps_its_other_ids() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let _begun = consumer.begin(&both("a", "b"), secs(10)).unwrap();
    lab.clock.advance(secs(10));
    assert!(process(&consumer, "b").is_applied());
    assert!(process(&consumer, "a").is_duplicate());
    assert!(lease::status(&consumer, &id("a")).unwrap().is_none());
}

/// An event that meets two leases, both over, takes both on.
#[test]
fn two_leases_that_turn_out_to_be_one_event_are_joined() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut first = begin(&consumer, "a", secs(10));
    first.note("of a").unwrap();
    let mut second = begin(&consumer, "b", secs(10));
    second.note("of b").unwrap();
    lab.clock.advance(secs(5));
    first.renew(secs(10)).unwrap();
    lab.clock.advance(secs(5));
    let begun = || consumer.begin(&both("b", "a"), secs(10)).unwrap();
    let Begun::Settled(outcome) = begun() else { panic!() };
    assert_eq!(outcome, in_progress(5, 1), "one of them is still at work");
    lab.clock.advance(secs(5));
    let Begun::Lease(mut joined) = begun() else { panic!() };
    assert_eq!((joined.attempt(), joined.previous_note()), (2, Some(&b"of b"[..])));
    assert!(matches!(first.complete(|_| Ok(())).unwrap(), Outcome::Fenced { .. }));
    assert!(joined.complete(|_| Ok(())).unwrap().is_applied());
    assert!(process(&consumer, "a").is_duplicate() && process(&consumer, "b").is_duplicate());
}

/// A repeat of a settled event names an id that somebody has reserved: from then on both are known to be one
/// event, so the work under the lease is a repeat and changes nothing.
#[test]
fn a_duplicate_that_names_a_reserved_id_settles_it() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(process(&consumer, "first").is_applied());
    let mut lease = begin(&consumer, "other", secs(10));
    assert!(consumer.process(&both("first", "other"), |_| Ok(())).unwrap().is_duplicate());
    assert!(not_begun(&consumer, "other").is_duplicate());
    let done = lease.complete(|_| -> Result<(), txinbox::BoxError> { panic!("it ran") }).unwrap();
    let Outcome::Duplicate(claim) = done else { panic!("{done:?}") };
    assert_eq!(claim.result(), Some(&b"processed"[..]));
    assert!(lease::status(&consumer, &id("other")).unwrap().is_none());
}

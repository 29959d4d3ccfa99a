//! Attempts that fail, relays that die, messages that are given up.

use std::time::Duration;

use txinbox::outbox::{DeadLetter, Destination, Exhausted, Failed, WaitsFor};
use txinbox::testkit::audit;

use crate::kit::{Desk, Lab, payloads, secs};

/// V4: a relay that died, or dropped what it was handed, needs nobody's help.
#[test]
fn v4_what_is_not_answered_is_handed_out_again() {
    let lab = Lab::new();
    let desk = lab.desk();
    desk.send("m", Some("k"));
    let first = desk.take();
    lab.clock.advance(Duration::from_millis(59_999));
    assert!(desk.take().is_empty());
    lab.clock.advance(Duration::from_millis(1));
    let again = desk.take();
    assert_eq!((payloads(&again), again[0].attempt()), (vec!["m"], 2));
    assert_eq!(again[0].id(), first[0].id());
    lab.clock.advance(secs(59)); // counted from the newest
    assert!(desk.take().is_empty());
    assert_eq!(desk.to.fail(&first[0], "late").unwrap(), Failed::Late, "another is at it");
    assert_eq!(desk.to.acknowledge(&first).unwrap(), 1, "but sent is sent");
    assert_eq!(desk.to.fail(&again[0], "late").unwrap(), Failed::Late);
    assert_eq!(desk.waiting(), 0);
    assert_eq!(desk.inbox.stats().unwrap().destinations["to"].overdue, 1);
    // The death of the process gives back what it had.
    desk.send("n", None);
    assert_eq!(desk.take().len(), 1);
    let killed = lab.killed();
    let desk = killed.desk();
    assert_eq!(payloads(&desk.take()), ["n"]);
}

/// X1: a sender that errs or panics leaves its message where it was.
#[test]
fn x1_a_failed_send_stays_pending() {
    let lab = Lab::new();
    let desk = lab.desk();
    for name in ["errs", "panics", "goes"] {
        desk.send(name, None);
    }
    let delivered = desk
        .to
        .deliver(9, Duration::ZERO, |d| match d.payload() {
            b"errs" => Err("no connection".into()),
            b"panics" => panic!("planned"),
            _ => Ok(()),
        })
        .unwrap();
    assert_eq!((delivered.sent, delivered.failed, delivered.given_up), (1, 2, 0));
    let waiting = desk.to.waiting(None, 9).unwrap();
    assert_eq!(waiting.len(), 2);
    assert_eq!(waiting[0].last_error(), Some("no connection"));
    assert_eq!(waiting[1].last_error(), Some("the sender panicked"));
    lab.clock.advance(secs(1));
    assert_eq!(payloads(&desk.take()), ["errs", "panics"]);
}

#[test]
fn attempts_come_later_and_later_and_survive_a_kill() {
    let lab = Lab::new();
    let mut desk = lab.desk().with(|to| to.backoff(secs(1), secs(60)).attempts(9));
    desk.send("m", None);
    let mut lab = lab;
    for attempt in 1..=8_u32 {
        let taken = desk.take();
        assert_eq!(taken[0].attempt(), attempt);
        let Failed::Again(after) = desk.to.fail(&taken[0], "busy").unwrap() else { panic!() };
        let full = secs(60.min(1 << (attempt - 1)));
        assert!(after >= full / 2 && after <= full, "attempt {attempt}: {after:?}");
        if attempt == 4 {
            let killed = lab.killed();
            lab = killed;
            desk = lab.desk().with(|to| to.backoff(secs(1), secs(60)).attempts(9));
        }
        let waiting = desk.to.waiting(None, 1).unwrap();
        assert_eq!(
            (waiting[0].failed_attempts(), waiting[0].last_error()),
            (attempt, Some("busy"))
        );
        assert!(desk.take().is_empty());
        assert!(matches!(desk.to.waiting(None, 1).unwrap()[0].waits_for(), WaitsFor::Time(_)));
        lab.clock.advance(after);
    }
    let taken = desk.take();
    assert_eq!(desk.to.fail(&taken[0], "busy").unwrap(), Failed::Dead);
    assert_eq!(desk.to.dead_letters(None, 9).unwrap()[0].attempts(), 9);
}

fn impatient(policy: Exhausted) -> impl Fn(Destination) -> Destination {
    move |to| to.attempts(1).when_exhausted(policy)
}

fn kill_first(desk: &Desk, name: &str) -> Failed {
    let taken = desk.to.take(1).unwrap();
    assert_eq!(payloads(&taken), [name]);
    desk.to.fail(&taken[0], &format!("{name} is bad")).unwrap()
}

fn dead(desk: &Desk) -> Vec<DeadLetter> {
    desk.to.dead_letters(None, 9).unwrap()
}

#[test]
fn a_parked_message_leaves_its_key_and_can_be_put_back() {
    let lab = Lab::new();
    let desk = lab.desk().with(impatient(Exhausted::Park));
    for name in ["1", "2", "3"] {
        desk.send(name, Some("k"));
    }
    assert_eq!(kill_first(&desk, "1"), Failed::Dead);
    let letters = dead(&desk);
    assert_eq!((letters.len(), letters[0].last_error()), (1, "1 is bad"));
    assert!(!letters[0].blocks_its_key());
    let second = desk.take();
    assert_eq!(payloads(&second), ["2"], "its key goes on");
    assert!(desk.to.requeue(&letters[0]).unwrap());
    assert!(!desk.to.requeue(&letters[0]).unwrap() && !desk.to.discard(&letters[0]).unwrap());
    assert!(desk.take().is_empty(), "one of its key is out");
    desk.to.acknowledge(&second).unwrap();
    let first = desk.take();
    assert_eq!((payloads(&first), first[0].attempt()), (vec!["1"], 1));
    assert_eq!(first[0].id(), letters[0].id());
    desk.to.acknowledge(&first).unwrap();
    assert_eq!(payloads(&desk.take()), ["3"]);
    audit(&desk.inbox, false).unwrap();
}

#[test]
fn a_message_put_back_comes_before_those_of_its_key_that_are_not_out() {
    let lab = Lab::new();
    let desk = lab.desk().with(|to| to.attempts(2).backoff(secs(5), secs(5)));
    for name in ["1", "2"] {
        desk.send(name, Some("k"));
    }
    for _ in 0..2 {
        let taken = desk.take();
        assert_eq!(payloads(&taken), ["1"]);
        let _failed = desk.to.fail(&taken[0], "bad").unwrap();
        lab.clock.advance(secs(5));
    }
    let second = desk.take();
    let _failed = desk.to.fail(&second[0], "bad").unwrap(); // and waits
    assert!(desk.to.requeue(&dead(&desk)[0]).unwrap());
    let first = desk.take();
    assert_eq!(payloads(&first), ["1"]);
    lab.clock.advance(secs(5));
    assert!(desk.take().is_empty());
    desk.to.acknowledge(&first).unwrap();
    let second = desk.take();
    assert_eq!((payloads(&second), second[0].attempt()), (vec!["2"], 2));
}

#[test]
fn a_skipped_message_is_gone_and_counted() {
    let lab = Lab::new();
    let desk = lab.desk().with(impatient(Exhausted::Skip));
    desk.send("1", Some("k"));
    desk.send("2", Some("k"));
    assert_eq!(kill_first(&desk, "1"), Failed::Dropped);
    assert_eq!(payloads(&desk.take()), ["2"]);
    assert!(dead(&desk).is_empty());
    let stats = desk.inbox.stats().unwrap().destinations["to"].clone();
    assert_eq!((stats.dropped, stats.died, stats.waiting), (1, 0, 1));
    audit(&desk.inbox, false).unwrap();
}

#[test]
fn a_blocking_message_holds_up_its_key_alone_until_somebody_acts() {
    let lab = Lab::new();
    let desk = lab.desk().with(impatient(Exhausted::Block));
    for (name, key) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        desk.send(name, Some(key));
    }
    assert_eq!(kill_first(&desk, "a1"), Failed::Dead);
    let others = desk.take();
    assert_eq!(payloads(&others), ["b1"]);
    assert!(dead(&desk)[0].blocks_its_key());
    let waiting = desk.to.waiting(None, 9).unwrap();
    assert_eq!(waiting[0].waits_for(), WaitsFor::Hand);
    assert!(!desk.to.drop_waiting(&waiting[0]).unwrap(), "it does not wait: discard it");
    let killed = lab.killed();
    let desk = killed.desk().with(impatient(Exhausted::Block));
    assert_eq!(payloads(&desk.take()), ["b1"], "over a crash, too");
    audit(&desk.inbox, false).unwrap();
    assert!(desk.to.requeue(&dead(&desk)[0]).unwrap());
    assert_eq!(kill_first(&desk, "a1"), Failed::Dead);
    assert!(desk.to.discard(&dead(&desk)[0]).unwrap());
    assert_eq!(payloads(&desk.take()), ["a2"]);
    assert!(dead(&desk).is_empty());
    audit(&desk.inbox, false).unwrap();
    let stats = desk.inbox.stats().unwrap().destinations["to"].clone();
    assert_eq!((stats.dead_letters, stats.requeued, stats.discarded), (0, 1, 1));
}

/// A late acknowledgement of what was given up meanwhile: it was sent, so it blocks no longer.
#[test]
fn a_late_acknowledgement_ends_a_block() {
    let lab = Lab::new();
    let desk = lab.desk().with(impatient(Exhausted::Block));
    desk.send("1", Some("k"));
    desk.send("2", Some("k"));
    let first = desk.take();
    lab.clock.advance(secs(60));
    assert!(desk.take().is_empty(), "its only attempt was not answered");
    assert_eq!(dead(&desk).len(), 1);
    assert_eq!(desk.to.acknowledge(&first).unwrap(), 1);
    assert!(dead(&desk).is_empty());
    assert_eq!(payloads(&desk.take()), ["2"]);
    audit(&desk.inbox, false).unwrap();
}

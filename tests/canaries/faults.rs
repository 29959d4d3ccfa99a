//! What must hold when the device fails or lies.

use txinbox::testkit::{Call, Fault};
use txinbox::{Inbox, Map};

use super::store::{Machine, count, counter, deliver, event, id};

/// Case A1: a write fails while e1 is committed; the handler sets n = 1. Redelivered, e1 is fresh, or
/// it is a duplicate with its effect; never a claim without one.
pub(crate) fn a1_after_a_failed_commit_the_event_is_fresh() {
    for call in [Call::Write, Call::Sync] {
        let machine = Machine::new();
        let inbox = machine.open();
        let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
        let run = || {
            consumer.process(&event(1), |tx| {
                tx.update(&map, &0, |n| Some(n.unwrap_or(0) + 1))?;
                Ok(())
            })
        };
        machine.disk.inject(Fault::error(0, &[call]));
        assert!(run().is_err());
        assert!(run().unwrap().claim().is_some());
        assert_eq!(count(&inbox), Some(1), "after a failed {call:?}");
        assert!(run().unwrap().is_duplicate());
    }
}

/// Case R2: one I/O error, then a healthy device. The failed event is told, and the store recovers
/// by itself, without losing what it had acknowledged.
pub(crate) fn r2_one_io_error_then_a_healthy_device() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(deliver(&consumer, 1).is_applied());
    machine.disk.inject(Fault::error(0, &[Call::Sync]));
    let error = consumer.process(&event(2), |_| Ok(())).unwrap_err();
    assert!(error.is_retryable());
    let again = deliver(&consumer, 2);
    assert!(error.is_unknown_outcome() || again.is_applied(), "it said that nothing was kept");
    let next = consumer.process(&event(3), |_| Ok(()));
    assert!(next.is_ok_and(|outcome| outcome.is_applied()), "the store did not recover");
    assert!(deliver(&consumer, 1).is_duplicate());
    let after = machine.cut().open();
    let told = after.consumer("c").unwrap().lookup(&id(3)).unwrap();
    assert!(told.is_some(), "what was answered after the failure was lost");
}

/// Case S4, for one bit: damage is an error that says so, never another value.
pub(crate) fn a_flipped_bit_is_never_an_answer() {
    const VALUE: &[u8] = b"a value that stands in the file once or more";
    let machine = Machine::new();
    let inbox = machine.open();
    let map = |inbox: &Inbox| inbox.map::<u32, [u8]>("values").unwrap();
    let values: Map<u32, [u8]> = map(&inbox);
    let consumer = inbox.consumer("c").unwrap();
    let put = consumer.process(&event(1), |tx| Ok(tx.insert(&values, &1, VALUE)?));
    assert!(put.unwrap().is_applied());
    inbox.close().unwrap();
    let file = machine.disk.contents("txinbox.redb").unwrap();
    let places = file.windows(VALUE.len()).enumerate().filter(|(_, w)| *w == VALUE);
    let places: Vec<u64> = places.map(|(at, _)| at as u64).collect();
    assert!(!places.is_empty());
    for at in places {
        machine.disk.flip_bit("txinbox.redb", at * 8).unwrap();
    }
    let Ok(inbox) = machine.try_open() else { return };
    let got = inbox.read(|view| view.get(&map(&inbox), &1));
    assert!(got.as_ref().is_err_and(|e| e.is_corrupt()), "damage was read as {got:?}");
}

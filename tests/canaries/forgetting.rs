//! What must hold of claims once they are sealed, merged and forgotten.

use std::time::Duration;

use txinbox::testkit::{PowerLoss, SimDisk};
use txinbox::{Consumer, Event, Inbox, Outcome, Retention};

use super::store::{
    Machine, RETENTION, SEALED, SPAN, START_MS, WINDOW, count, counter, deliver, event, id, seal,
};

fn old() -> Event<'static> {
    event(1).at_ms(START_MS - 1_000)
}

fn is_too_late(consumer: &Consumer) -> bool {
    matches!(consumer.process(&old(), |_| Ok(())).unwrap(), Outcome::TooLate { .. })
}

/// A store that has settled `old` and forgotten it.
fn forgotten(machine: &Machine) -> Inbox {
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.process(&old(), |_| Ok(())).unwrap().is_applied());
    machine.pass(RETENTION + SPAN);
    inbox.sweep().unwrap();
    assert!(consumer.lookup(&id(1)).unwrap().is_none());
    inbox
}

/// Guarantee 7: below the floor an event is too late, never silently new.
pub(crate) fn what_was_forgotten_is_too_late() {
    let inbox = forgotten(&Machine::new());
    assert!(is_too_late(&inbox.consumer("c").unwrap()), "a forgotten event was new again");
}

/// Guarantee 7, over a restart.
pub(crate) fn a_floor_is_there_after_reopening() {
    let machine = Machine::new();
    forgotten(&machine).close().unwrap();
    let inbox = machine.open();
    assert!(is_too_late(&inbox.consumer("c").unwrap()), "the floor was forgotten too");
}

/// Guarantee 7: the floor rises in the transaction that forgets.
pub(crate) fn no_power_cut_separates_a_bucket_from_its_floor() {
    let made = Machine::new();
    let inbox = made.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.process(&old(), |_| Ok(())).unwrap().is_applied());
    inbox.close().unwrap();
    let workload = |disk: &SimDisk| {
        let machine = Machine::with(disk.clone());
        if let Ok(inbox) = machine.try_open() {
            machine.pass(RETENTION + SPAN);
            let _ = inbox.sweep(); // until the power fails
        }
    };
    let check = |image: &SimDisk| {
        let inbox = Machine::with(image.clone()).try_open().map_err(|e| e.to_string())?;
        let consumer = inbox.consumer("c").map_err(|e| e.to_string())?;
        match consumer.process(&old(), |_| Ok(())).map_err(|e| e.to_string())? {
            Outcome::Duplicate(_) | Outcome::TooLate { .. } => Ok(()),
            other => Err(format!("forgotten, and then {other:?}")),
        }
    };
    let driver = PowerLoss::new("forgetting").start(&made.disk).budget(3, 0).torn(false);
    driver.run(workload, |image, _| check(image)).unwrap();
}

/// Guarantee 6: a claim that is stored counts, in whichever run it lies.
pub(crate) fn old_runs_are_asked_too() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    seal(&inbox, &consumer, 0);
    seal(&inbox, &consumer, 10_000);
    assert!(inbox.stats().unwrap().runs >= 2);
    assert!(deliver(&consumer, 10_005).is_duplicate());
    assert!(deliver(&consumer, 5).is_duplicate(), "the older run was not asked");
}

/// A tombstone between two runs must go into what they are merged to.
pub(crate) fn a_forgotten_claim_stays_gone_through_a_merge() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    seal(&inbox, &consumer, 0);
    assert!(consumer.forget(&id(5)).unwrap());
    seal(&inbox, &consumer, 10_000);
    assert!(inbox.stats().unwrap().runs >= 2);
    machine.pass(SPAN);
    inbox.sweep().unwrap();
    assert_eq!(inbox.stats().unwrap().runs, 1, "the bucket has ended, so it was merged");
    assert!(consumer.lookup(&id(5)).unwrap().is_none(), "a merge brought a claim back");
    assert!(deliver(&consumer, 4).is_duplicate());
    assert!(deliver(&consumer, 5).is_applied());
}

/// Symptom: after another handle had given the consumer a longer retention, a handle from before
/// handled events again. Cause: each handle kept the classes of its own making. Now each delivery asks.
pub(crate) fn an_old_handle_knows_classes_added_since() {
    let machine = Machine::new();
    let inbox = machine.open();
    let before = inbox.consumer("c").unwrap();
    let longer = Retention::at_least(WINDOW * 2);
    let after = inbox.consumer_with("c", longer).unwrap();
    seal(&inbox, &after, 0);
    assert_eq!(inbox.stats().unwrap().sealed_claims, u64::from(SEALED));
    assert!(deliver(&before, 5).is_duplicate(), "an old handle handled an event again");
    assert!(deliver(&after, 5).is_duplicate());
}

/// Guarantee 8: a wall clock set back between two openings neither frees claims nor keeps them for
/// longer than the store was open.
pub(crate) fn a_clock_set_back_does_not_stall_forgetting() {
    let machine = Machine::new();
    let inbox = machine.open();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    machine.pass(Duration::from_secs(2_000));
    inbox.close().unwrap();
    machine.clock.step_wall_ms(-36_000_000);
    let inbox = machine.open();
    machine.pass(RETENTION + SPAN - Duration::from_secs(2_001));
    inbox.sweep().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.lookup(&id(1)).unwrap().is_some(), "forgotten too early");
    machine.pass(Duration::from_secs(1));
    inbox.sweep().unwrap();
    assert!(consumer.lookup(&id(1)).unwrap().is_none(), "forgetting stalled");
}

/// Symptom: state written and acknowledged was gone after some maintenance. Cause: what an earlier
/// opening had left half built was told by the front of a table's name, and keyspaces were among the
/// names. Now only tables of runs and results are.
pub(crate) fn maintenance_frees_no_application_state() {
    let machine = Machine::new();
    let inbox = machine.open();
    let map = counter(&inbox);
    let put = inbox.consumer("c").unwrap().process(&event(1), |tx| Ok(tx.insert(&map, &0, &1)?));
    assert!(put.unwrap().is_applied());
    inbox.close().unwrap();
    let inbox = machine.open();
    inbox.sweep().unwrap();
    // What maintenance freed shows in the snapshot of the next checkpoint.
    inbox.close().unwrap();
    assert_eq!(count(&machine.open()), Some(1), "maintenance freed application state");
}

/// Guarantee 6, and the promise of `Retention::allow_shorter`.
pub(crate) fn a_shorter_policy_does_not_shorten_by_itself() {
    let machine = Machine::new();
    let inbox = machine.open();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    let promised = inbox.retention();
    inbox.close().unwrap();
    let shorter = Retention::at_least(Duration::from_secs(310));
    let inbox = machine.try_open_for(shorter).unwrap();
    machine.pass(WINDOW - Duration::from_secs(1));
    inbox.sweep().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert!(deliver(&consumer, 1).is_duplicate(), "a promise was shortened");
    assert_eq!(inbox.retention(), promised);
}

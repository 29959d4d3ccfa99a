//! What must hold of answers and views when the power fails right after them.

use std::cell::Cell;

use txinbox::testkit::{Call, Fault, PowerLoss, SimDisk};

use super::store::{Machine, count, counter, deliver, event, id};

/// Guarantee 2: `Applied` is said only once it is durable.
pub(crate) fn an_answer_survives_a_power_cut() {
    let machine = Machine::new();
    let inbox = machine.open();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    let after = machine.cut().open();
    assert!(deliver(&after.consumer("c").unwrap(), 1).is_duplicate(), "an answer was lost");
}

/// Guarantee 1: at every write and sync, in many ways.
pub(crate) fn every_power_cut_leaves_claims_and_state_together() {
    const EVENTS: u32 = 3;
    let made = Machine::new();
    let inbox = made.open();
    counter(&inbox);
    inbox.consumer("c").unwrap();
    inbox.close().unwrap();
    let acknowledged = Cell::new(0);
    let workload = |disk: &SimDisk| {
        acknowledged.set(0);
        let Ok(inbox) = Machine::with(disk.clone()).try_open() else { return };
        let (Ok(consumer), Ok(map)) = (inbox.consumer("c"), inbox.map::<u32, u64>("counter"))
        else {
            return;
        };
        for n in 0..EVENTS {
            let added = consumer.process(&event(n), |tx| {
                tx.update(&map, &0, |old| Some(old.unwrap_or(0) + 1))?;
                Ok(())
            });
            if added.is_err() {
                return;
            }
            acknowledged.set(n + 1);
        }
    };
    let check = |image: &SimDisk| {
        let inbox = Machine::with(image.clone()).try_open().map_err(|e| e.to_string())?;
        let consumer = inbox.consumer("c").map_err(|e| e.to_string())?;
        let known = |n: &u32| consumer.lookup(&id(*n)).is_ok_and(|claim| claim.is_some());
        let claims = (0..EVENTS).take_while(known).count() as u64;
        let (state, least) = (count(&inbox).unwrap_or(0), u64::from(acknowledged.get()));
        if claims != state {
            return Err(format!("{claims} claims beside a state of {state}"));
        }
        if claims < least {
            return Err(format!("{claims} claims of {least} acknowledged"));
        }
        Ok(())
    };
    let driver = PowerLoss::new("three events").start(&made.disk).budget(6, 1).torn(false);
    let report = driver.run(workload, |image, _| check(image)).unwrap();
    assert!(report.images > 50, "{report:?}");
}

/// Guarantee 2: an error that a handler based on another event's writes waits for these.
pub(crate) fn a_handlers_error_rests_on_durable_reads() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
    let ticket = consumer.submit(&event(1), |tx| Ok(tx.insert(&map, &0, &1)?)).unwrap();
    let error = consumer.process(&event(2), |tx| match tx.get(&map, &0)? {
        Some(n) => Err::<(), _>(format!("there are {n} already").into()),
        None => Ok(()),
    });
    assert!(error.unwrap_err().is_handler());
    let after = machine.cut().open();
    assert_eq!(count(&after), Some(1), "an error rested on what a power cut took back");
    drop(ticket);
}

/// Guarantee 2, for the answer that runs no handler.
pub(crate) fn a_duplicate_of_an_open_group_waits_for_it() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let ticket = consumer.submit(&event(1), |_| Ok(())).unwrap();
    assert!(deliver(&consumer, 1).is_duplicate());
    let after = machine.cut().open();
    assert!(
        deliver(&after.consumer("c").unwrap(), 1).is_duplicate(),
        "a duplicate of an event that a power cut took back"
    );
    drop(ticket);
}

/// Guarantee 2: views open on the last durable group.
pub(crate) fn a_view_shows_only_what_a_power_cut_leaves() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
    let ticket = consumer.submit(&event(1), |tx| Ok(tx.insert(&map, &0, &1)?)).unwrap();
    let seen = count(&inbox);
    let left = count(&machine.cut().open());
    assert!(seen.is_none() || seen == left, "a view showed {seen:?}, the power cut left {left:?}");
    drop(ticket);
}

/// A store whose last rename was not synced when its maker was killed: the name that the next
/// process finds is in the page cache only, and goes with the power unless opening makes it durable.
pub(crate) fn a_name_found_after_a_kill_is_made_durable() {
    let probe = Machine::new();
    probe.disk.record(true);
    drop(probe.open_without_journal().unwrap());
    let trace = probe.disk.trace();
    let syncs: Vec<u64> =
        trace.iter().filter(|t| t.call == Call::SyncDir).map(|t| t.ordinal).collect();
    let last = *syncs.get(3).expect("making a store syncs its directory four times");

    let killed = Machine::new();
    killed.disk.inject(Fault::error(last, &[Call::SyncDir]));
    assert!(killed.open_without_journal().unwrap_err().is_io());
    let next = Machine::with(killed.disk.kill());
    let inbox = next.open_without_journal().unwrap();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    let after = next.cut().open();
    assert!(
        deliver(&after.consumer("c").unwrap(), 1).is_duplicate(),
        "the whole store went with a name"
    );
}

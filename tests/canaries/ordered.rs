//! What must hold of ordered sources.

use std::cell::Cell;

use txinbox::ordered::Ordered;
use txinbox::testkit::{PowerLoss, SimDisk};
use txinbox::{Consumer, Inbox, Map, Outcome};

use super::store::{Machine, count, counter, event};

fn source(inbox: &Inbox) -> Ordered {
    inbox.consumer("c").unwrap().ordered("s", 1).unwrap()
}

/// The mark of a failure is durable before the caller hears of it.
pub(crate) fn a_failed_position_blocks_after_a_power_cut() {
    let machine = Machine::new();
    let inbox = machine.open();
    let log = source(&inbox);
    assert!(log.process(1, |_| Err::<(), _>("no".into())).unwrap_err().is_handler());
    assert_eq!(log.process(2, |_| Ok(())).unwrap(), Outcome::Blocked { at: 1 });
    let after = machine.cut().open();
    let next = source(&after).process(2, |_| Ok(())).unwrap();
    assert_eq!(next, Outcome::Blocked { at: 1 }, "a position is lost behind one that failed");
}

/// Guarantee 1: position and state are one commit, at every write and sync.
pub(crate) fn every_power_cut_leaves_position_and_state_together() {
    const POSITIONS: u64 = 3;
    let made = Machine::new();
    let inbox = made.open();
    let _names = (counter(&inbox), source(&inbox));
    inbox.close().unwrap();
    let acknowledged = Cell::new(0);
    let workload = |disk: &SimDisk| {
        acknowledged.set(0);
        let Ok(inbox) = Machine::with(disk.clone()).try_open() else { return };
        let (log, map) = (source(&inbox), counter(&inbox));
        for position in 0..POSITIONS {
            let added = log.process(position, |tx| {
                tx.update(&map, &0, |old| Some(old.unwrap_or(0) + 1))?;
                Ok(())
            });
            if added.is_err() {
                return;
            }
            acknowledged.set(position + 1);
        }
    };
    let check = |image: &SimDisk| {
        let inbox = Machine::with(image.clone()).try_open().map_err(|e| e.to_string())?;
        let next = source(&inbox).position().map_err(|e| e.to_string())?.next();
        let (state, least) = (count(&inbox).unwrap_or(0), acknowledged.get());
        if next != state {
            return Err(format!("the source stands before {next} beside a state of {state}"));
        }
        if next < least {
            return Err(format!("{next} positions of {least} acknowledged"));
        }
        Ok(())
    };
    let driver = PowerLoss::new("three positions").start(&made.disk).budget(6, 1).torn(false);
    let report = driver.run(workload, |image, _| check(image)).unwrap();
    assert!(report.images > 30, "{report:?}");
}

/// Positions behind one that failed wait for it, in the very call.
pub(crate) fn a_failure_blocks_the_rest_of_its_batch() {
    let inbox = Machine::new().open();
    let batch = source(&inbox).process_batch(
        &[1_u64, 2, 3],
        |position| (*position, None),
        |_, position| if *position == 2 { Err("no".into()) } else { Ok(()) },
    );
    assert!(batch[0].as_ref().unwrap().is_applied());
    assert!(batch[1].as_ref().unwrap_err().is_handler());
    let last = batch[2].as_ref().unwrap();
    assert_eq!(last, &Outcome::Blocked { at: 2 }, "a position went past one that failed");
}

/// Promoting is one commit: consumer and map are of one generation, at every write and sync.
pub(crate) fn no_power_cut_separates_a_generation_from_its_maps() {
    let made = Machine::new();
    let inbox = made.open();
    let rebuild = inbox.consumer("c").unwrap().next_generation().unwrap();
    let (old, new) = (counter(&inbox), rebuild.map::<u32, u64>("counter").unwrap());
    let set = |consumer: &Consumer, map: &Map<u32, u64>, n| {
        let set = consumer.process(&event(1), |tx| Ok(tx.insert(map, &0, &n)?));
        assert!(set.unwrap().is_applied());
    };
    set(&inbox.consumer("c").unwrap(), &old, 0);
    set(rebuild.consumer(), &new, 1);
    inbox.close().unwrap();
    let workload = |disk: &SimDisk| {
        let Ok(inbox) = Machine::with(disk.clone()).try_open() else { return };
        let rebuild = inbox.consumer("c").and_then(|consumer| consumer.next_generation());
        drop(rebuild.and_then(|rebuild| rebuild.promote())); // it ends when the disk does
    };
    let check = |image: &SimDisk| {
        let inbox = Machine::with(image.clone()).try_open().map_err(|e| e.to_string())?;
        let generation = inbox.consumer("c").map_err(|e| e.to_string())?.generation();
        let state = count(&inbox);
        if state != Some(u64::from(generation)) {
            return Err(format!("generation {generation} beside a map of {state:?}"));
        }
        Ok(())
    };
    let driver = PowerLoss::new("promoting").start(&made.disk).budget(6, 1).torn(false);
    driver.run(workload, |image, _| check(image)).unwrap();
}

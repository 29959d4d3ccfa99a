//! Generations: a projection rebuilt beside the one that is served, then put in its place, or given up.

use std::cell::Cell;

use txinbox::generation::Rebuild;
use txinbox::testkit::{Call, Fault, Keep, PowerLoss, SimDisk};
use txinbox::{Consumer, Error, Inbox, Map};

use crate::machine::{Machine, event};

const EVENTS: u64 = 3;

fn sums(inbox: &Inbox) -> Map<u8, u64> {
    inbox.map("sums").unwrap()
}

/// Adds `each` to the sum for each event; returns how many were new.
fn feed(consumer: &Consumer, map: &Map<u8, u64>, each: u64) -> Result<u64, Error> {
    let mut applied = 0;
    for n in 0..EVENTS {
        let outcome = consumer.process(&event(n), |tx| {
            tx.update(map, &0, |sum| Some(sum.unwrap_or(0) + each))?;
            Ok(())
        })?;
        applied += u64::from(outcome.is_applied());
    }
    Ok(applied)
}

/// A store with a generation that is served, whose sum is 3.
fn served(machine: &Machine) -> (Inbox, Consumer, Map<u8, u64>) {
    let inbox = machine.open();
    let (consumer, map) = (inbox.consumer("c").unwrap(), sums(&inbox));
    assert_eq!(feed(&consumer, &map, 1).unwrap(), EVENTS);
    (inbox, consumer, map)
}

fn sum(inbox: &Inbox, map: &Map<u8, u64>) -> Option<u64> {
    inbox.read(|view| view.get(map, &0)).unwrap()
}

fn rebuilt(consumer: &Consumer, each: u64) -> Rebuild {
    let rebuild = consumer.next_generation().unwrap();
    let map = rebuild.map("sums").unwrap();
    assert_eq!(feed(rebuild.consumer(), &map, each).unwrap(), EVENTS);
    rebuild
}

#[test]
fn a_rebuild_goes_on_after_a_power_cut() {
    let machine = Machine::new();
    let (_, consumer, _) = served(&machine);
    assert_eq!(rebuilt(&consumer, 10).consumer().generation(), 1);
    let inbox = machine.cut(Keep::Nothing).open();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(consumer.generation(), 0);
    let rebuild = consumer.next_generation().unwrap();
    assert_eq!(rebuild.consumer().generation(), 1);
    let map: Map<u8, u64> = rebuild.map("sums").unwrap();
    assert_eq!((sum(&inbox, &map), sum(&inbox, &sums(&inbox))), (Some(30), Some(3)));
    assert_eq!(feed(rebuild.consumer(), &map, 10).unwrap(), 0);
    assert!(rebuild.map::<u8, u8>("sums").unwrap_err().is_type_mismatch());
}

#[test]
fn promoting_replaces_consumer_and_maps_and_their_handles_say_so() {
    let machine = Machine::new();
    let (inbox, old, old_map) = served(&machine);
    let other: Map<u8, u64> = inbox.map("other").unwrap();
    let log = old.ordered("s", 1).unwrap();
    assert!(log.process(7, |tx| Ok(tx.insert(&other, &0, &1)?)).unwrap().is_applied());
    let rebuild = rebuilt(&old, 10);
    let new_log = rebuild.consumer().ordered("s", 1).unwrap();
    assert!(new_log.process(0, |_| Ok(())).unwrap().is_applied());
    let new_map: Map<u8, u64> = rebuild.map("sums").unwrap();
    let new = inbox
        .read(|view| {
            let new = rebuild.promote()?;
            assert_eq!(view.get(&old_map, &0)?, Some(3)); // the state of its moment, to its end
            Ok::<_, Error>(new)
        })
        .unwrap();
    assert_eq!(new.generation(), 1);
    assert_eq!(inbox.consumer("c").unwrap().generation(), 1);
    assert_eq!((sum(&inbox, &sums(&inbox)), sum(&inbox, &new_map)), (Some(30), Some(30)));
    assert_eq!(sum(&inbox, &other), Some(1)); // not rebuilt

    assert!(old.process(&event(0), |_| Ok(())).unwrap_err().is_superseded());
    assert!(old.process(&event(9), |_| Ok(())).unwrap_err().is_superseded());
    let batch = old.process_batch(&[8_u64, 9], |n| event(*n), |_, _| Ok(()));
    assert!(batch.iter().all(|answer| answer.as_ref().unwrap_err().is_superseded()));
    assert!(log.process(8, |_| Ok(())).unwrap_err().is_superseded());
    assert!(log.skip(8, "").unwrap_err().is_superseded());
    let id = txinbox::EventId::text("x").unwrap();
    assert!(old.forget(&id).unwrap_err().is_superseded());
    let read = inbox.read(|view| view.get(&old_map, &0));
    assert!(read.unwrap_err().is_superseded());
    let written = new.process(&event(20), |tx| Ok(tx.insert(&old_map, &0, &1)?));
    assert!(written.unwrap_err().is_superseded());
    // The new one goes on where it stands, as served.
    assert_eq!(feed(&new, &new_map, 10).unwrap(), 0);
    assert_eq!(new_log.position().unwrap().last, Some(0));
    assert!(new_log.process(1, |_| Ok(())).unwrap().is_applied());
    inbox.verify().unwrap();

    let inbox = machine.cut(Keep::Nothing).open();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!((consumer.generation(), sum(&inbox, &sums(&inbox))), (1, Some(30)));
    assert_eq!(consumer.next_generation().unwrap().consumer().generation(), 2);
}

#[test]
fn what_was_given_up_leaves_nothing_to_the_next() {
    let machine = Machine::new();
    let (inbox, consumer, map) = served(&machine);
    let rebuild = rebuilt(&consumer, 10);
    let (given_up, its_map) = (rebuild.consumer().clone(), rebuild.map::<u8, u64>("sums").unwrap());
    rebuild.abandon().unwrap();
    assert!(given_up.process(&event(9), |_| Ok(())).unwrap_err().is_superseded());
    assert!(inbox.read(|view| view.get(&its_map, &0)).unwrap_err().is_superseded());
    assert_eq!(sum(&inbox, &map), Some(3));
    let rebuild = rebuilt(&consumer, 100); // all of it is new to it
    assert_eq!(rebuild.consumer().generation(), 2);
    let inbox = machine.cut(Keep::Nothing).open();
    let rebuild = inbox.consumer("c").unwrap().next_generation().unwrap();
    assert_eq!(rebuild.consumer().generation(), 2);
    rebuild.promote().unwrap();
    assert_eq!(sum(&inbox, &sums(&inbox)), Some(300));
}

#[test]
fn two_handles_of_one_rebuild_and_one_that_comes_too_late() {
    let machine = Machine::new();
    let (inbox, consumer, _) = served(&machine);
    let (first, second) =
        (consumer.next_generation().unwrap(), consumer.next_generation().unwrap());
    first.promote().unwrap();
    assert!(second.map::<u8, u8>("m").unwrap_err().is_superseded());
    assert!(second.promote().unwrap_err().is_superseded());
    let inner = inbox.consumer("c").unwrap();
    let refused =
        inner.process(&event(30), |_| Ok(inner.next_generation().unwrap_err().is_reentrant()));
    assert!(matches!(refused.unwrap(), txinbox::Outcome::Applied(true, _)));
}

/// A large old map is freed in slices, which go on after a crash in their middle.
#[test]
fn a_replaced_map_is_freed() {
    let machine = Machine::new();
    let (inbox, consumer, _) = served(&machine);
    let big: Map<u64, [u8]> = inbox.map("big").unwrap();
    let filled = consumer.process(&event(50), |tx| {
        for n in 0..5_000 {
            tx.insert(&big, &n, &[7; 200])?;
        }
        Ok(())
    });
    assert!(filled.unwrap().is_applied());
    let rebuild = consumer.next_generation().unwrap();
    rebuild.map::<u64, [u8]>("big").unwrap();
    rebuild.promote().unwrap();
    let killed = machine.kill().open(); // before the first slice, or between two
    for store in [&killed, &inbox] {
        assert_eq!(store.sweep().unwrap().tables_freed, 1);
        assert_eq!(store.sweep().unwrap().tables_freed, 0);
        assert_eq!(store.read(|view| view.len(&store.map::<u64, [u8]>("big")?)).unwrap(), 0);
        store.verify().unwrap();
    }
    inbox.close().unwrap(); // with it what was freed is so for good
    assert_eq!(machine.open().sweep().unwrap().tables_freed, 0);
}

#[test]
fn a_backup_holds_a_rebuild_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let (inbox, consumer, _) = served(&Machine::new());
    let _under_way = rebuilt(&consumer, 10);
    inbox.backup(dir.path().join("b")).unwrap();
    Inbox::restore(dir.path().join("b"), dir.path().join("copy")).unwrap();
    let retention = txinbox::Retention::at_least(std::time::Duration::from_secs(3_100));
    let copy = Inbox::builder(retention).open_existing(dir.path().join("copy")).unwrap();
    copy.consumer("c").unwrap().next_generation().unwrap().promote().unwrap();
    assert_eq!(sum(&copy, &sums(&copy)), Some(30));
}

/// The power fails at every call while a rebuild is begun, fed and promoted: consumer and map are of one
/// generation, and the rebuild can be brought to its end.
#[test]
fn at_every_call_consumer_and_map_are_of_one_generation() {
    let made = Machine::new();
    let (inbox, ..) = served(&made);
    inbox.close().unwrap();
    let promoted = Cell::new(false);
    let workload = |disk: &SimDisk| {
        promoted.set(false);
        let run = || -> Result<(), Error> {
            let inbox = Machine::with(disk.clone()).try_open()?;
            let rebuild = inbox.consumer("c")?.next_generation()?;
            let map = rebuild.map("sums")?;
            feed(rebuild.consumer(), &map, 10)?;
            let new = rebuild.promote()?;
            promoted.set(true);
            let _ = new.process(&event(90), |_| Ok(()))?;
            inbox.sweep().map(drop)
        };
        drop(run()); // it ends when the disk does
    };
    let check = |image: &SimDisk| -> Result<(), String> {
        let inbox = Machine::with(image.clone()).try_open().map_err(|e| e.to_string())?;
        let consumer = inbox.consumer("c").unwrap();
        let (generation, total) = (consumer.generation(), sum(&inbox, &sums(&inbox)));
        let expected = if generation == 0 { Some(3) } else { Some(30) };
        if total != expected {
            return Err(format!("generation {generation} beside a sum of {total:?}"));
        }
        if promoted.get() && generation != 1 {
            return Err("what was answered is gone".to_owned());
        }
        let rebuild = consumer.next_generation().map_err(|e| e.to_string())?;
        let map = rebuild.map("sums").map_err(|e| e.to_string())?;
        feed(rebuild.consumer(), &map, 10).map_err(|e| e.to_string())?;
        rebuild.promote().map_err(|e| e.to_string())?;
        inbox.sweep().map_err(|e| e.to_string())?;
        inbox.verify().map_err(|e| e.to_string())?;
        txinbox::testkit::audit(&inbox, false)?;
        let total = sum(&inbox, &sums(&inbox));
        if total == Some(30) { Ok(()) } else { Err(format!("it ended as {total:?}")) }
    };
    let budget = if cfg!(debug_assertions) { 4 } else { 30 };
    let driver = PowerLoss::new("promoting").start(&made.disk).seed(5).budget(budget, 1);
    let report = driver.run(workload, |image, _| check(image)).unwrap();
    println!("{report:?}");
    assert!(report.images > 100, "{report:?}");
}

/// A device that fails somewhere in promoting: whatever the caller is told, his handles and the store agree.
#[test]
fn after_an_error_in_promoting_handles_and_store_agree() {
    let mut outcomes = [0; 2];
    for call in [Call::Write, Call::Sync, Call::SetLen] {
        for later in 0..6 {
            let machine = Machine::new();
            let (inbox, old, old_map) = served(&machine);
            let rebuild = rebuilt(&old, 10);
            let new_map: Map<u8, u64> = rebuild.map("sums").unwrap();
            machine.disk.inject(Fault::error(machine.disk.calls() + later, &[call]));
            let answer = rebuild.promote();
            machine.disk.clear_faults();
            let generation = inbox.consumer("c").unwrap().generation();
            outcomes[generation as usize] += 1;
            assert!(answer.is_err() || generation == 1);
            let (live, gone) =
                if generation == 0 { (&old_map, None) } else { (&new_map, Some(&old_map)) };
            assert_eq!(sum(&inbox, live), sum(&inbox, &sums(&inbox)));
            if let Some(gone) = gone {
                assert!(inbox.read(|view| view.get(gone, &0)).unwrap_err().is_superseded());
                assert!(old.process(&event(60), |_| Ok(())).unwrap_err().is_superseded());
            } else {
                assert!(old.process(&event(60), |_| Ok(())).unwrap().is_applied());
                old.next_generation().unwrap().promote().unwrap();
            }
            assert_eq!(sum(&inbox, &sums(&inbox)), Some(30), "{call:?} {later}");
        }
    }
    assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
}

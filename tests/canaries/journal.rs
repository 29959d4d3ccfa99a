//! What must hold of groups that only the journal has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use txinbox::testkit::{Call, Fault, Keep, Loss};
use txinbox::{Consumer, Inbox, Map};

use super::store::{Machine, count, counter, deliver, event, id};

fn values(inbox: &Inbox) -> Map<u32, [u8]> {
    inbox.map("values").unwrap()
}

fn put(inbox: &Inbox, consumer: &Consumer, n: u32, value: &[u8]) {
    let map = values(inbox);
    let put = consumer.process(&event(n), |tx| Ok(tx.insert(&map, &n, value)?));
    assert!(put.unwrap().is_applied());
}

/// Guarantee 2: a repeat that another thread is told of survives a power cut at that moment.
pub(crate) fn a_repeat_of_a_group_in_flight_is_not_told_early() {
    for round in 0..2_000 {
        let machine = Machine::new();
        let inbox = machine.open();
        let consumer = inbox.consumer("c").unwrap();
        assert!(deliver(&consumer, 0).is_applied()); // which makes the bucket
        let over = AtomicBool::new(false);
        let image = thread::scope(|scope| {
            let seen = scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    if consumer.lookup(&id(1)).unwrap().is_some() {
                        return Some(machine.disk.power_cut(Keep::Nothing));
                    }
                }
                None
            });
            assert!(deliver(&consumer, 1).is_applied());
            over.store(true, Ordering::SeqCst);
            seen.join().unwrap()
        });
        let Some(image) = image else { continue };
        let after = Machine::with(image).open();
        let known = after.consumer("c").unwrap().lookup(&id(1)).unwrap();
        assert!(known.is_some(), "round {round}: a claim was told of before it was durable");
    }
}

/// What a recovery read, but a failed sync had lost, is durable once the recovery has answered.
pub(crate) fn what_a_recovery_found_survives_a_power_cut() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(deliver(&consumer, 1).is_applied());
    let probe = machine.disk.kill();
    probe.record(true);
    let there = Machine::with(probe.clone()).open();
    probe.reset_calls();
    assert!(deliver(&there.consumer("c").unwrap(), 2).is_applied());
    let sync = probe.trace().iter().find(|t| t.call == Call::Sync).unwrap().ordinal;

    machine.disk.reset_calls();
    machine.disk.inject(Fault::lost_sync(sync, Loss::All));
    assert!(consumer.process(&event(2), |_| Ok(())).unwrap_err().is_unknown_outcome());
    assert!(deliver(&consumer, 2).is_duplicate(), "the record is there to be read");
    let after = machine.cut().open();
    assert!(deliver(&after.consumer("c").unwrap(), 2).is_duplicate(), "an answer was lost");
}

/// Records of an earlier round through a segment are no part of the journal.
pub(crate) fn what_lies_behind_the_end_is_not_replayed() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
    for n in 0..150 {
        let put = consumer.process(&event(n), |tx| Ok(tx.insert(&map, &0, &u64::from(n))?));
        assert!(put.unwrap().is_applied());
        if n % 7 == 0 {
            let after = Machine::with(machine.disk.kill()).open();
            assert_eq!(count(&after), Some(u64::from(n)), "an older record came back");
        }
    }
}

/// A record of which only a part reached the disk counts for nothing.
pub(crate) fn a_torn_record_is_the_end() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    put(&inbox, &consumer, 1, &[1; 3_000]);
    let probe = machine.disk.kill();
    probe.record(true);
    let there = Machine::with(probe.clone()).open();
    let map = values(&there);
    let again = there.consumer("c").unwrap();
    probe.reset_calls();
    let applied = again.process(&event(2), |tx| Ok(tx.insert(&map, &2, &[2; 3_000])?));
    assert!(applied.unwrap().is_applied());
    let sync = probe.trace().iter().find(|t| t.call == Call::Sync).unwrap().ordinal;

    machine.disk.reset_calls();
    machine.disk.inject(Fault::crash(sync));
    let map = values(&inbox);
    assert!(consumer.process(&event(2), |tx| Ok(tx.insert(&map, &2, &[2; 3_000])?)).is_err());
    for at in [512, 1_024, 1_536, 2_048, 2_560, 3_072] {
        let image = machine.disk.power_cut(Keep::Torn { op: 0, at, prefix: true, rest: true });
        let after = Machine::with(image).try_open().expect("a torn tail is no damage");
        let consumer = after.consumer("c").unwrap();
        assert!(consumer.lookup(&id(2)).unwrap().is_none(), "half a record counted");
        let value = after.read(|view| view.get(&values(&after), &1)).unwrap();
        assert_eq!(value.unwrap(), [1; 3_000]);
        put(&after, &consumer, 2, &[3; 3_000]);
    }
}

/// A segment whose records no checkpoint holds is not written over.
pub(crate) fn no_record_is_overwritten_before_a_checkpoint_has_it() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    values(&inbox);
    // Each takes more than half of a segment, so the third would go where the first is.
    for n in 0..6 {
        put(&inbox, &consumer, n, &[n as u8; 9_000]);
        let after = Machine::with(machine.disk.kill()).try_open();
        let after = after.expect("what was answered can be replayed");
        for earlier in 0..=n {
            let value = after.read(|view| view.get(&values(&after), &earlier)).unwrap();
            assert_eq!(value.unwrap(), [earlier as u8; 9_000], "value {earlier} after {n}");
        }
    }
}

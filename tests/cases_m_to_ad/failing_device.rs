//! Case R2: one call on the device fails, then all is well. The store recovers in this process; what was
//! acknowledged stays, and an error tells the truth about the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use txinbox::testkit::{Call, Fault, Keep, Loss, SimDisk};
use txinbox::{Consumer, Error, Inbox, Map, Retention, hours};

use crate::kit::{Lab, event, id, is_typed_disk_error};

const EVENTS: u64 = 8;

fn handle(consumer: &Consumer, counts: &Map<u64, u64>, n: u64) -> Result<bool, Error> {
    let outcome = consumer.process(&event(n), |tx| {
        tx.update(counts, &n, |count| Some(count.unwrap_or(0) + 1))?;
        tx.set_result(vec![n as u8; 20])?;
        Ok(())
    })?;
    Ok(outcome.is_applied())
}

/// Opens, works through the events, sweeps and closes; retries what may be retried as a consumer would.
/// Returns whether any call erred.
fn work(lab: &Lab, disk: &SimDisk) -> Result<bool, Error> {
    let mut erred = false;
    let inbox = match lab.builder().open_on(disk) {
        Ok(inbox) => inbox,
        Err(error) => {
            assert!(is_typed_disk_error(&error), "opening: {error:?}");
            erred = true;
            lab.builder().open_on(disk)?
        }
    };
    let mut try_twice = |what: &str, f: &mut dyn FnMut() -> Result<(), Error>| {
        let Err(error) = f() else { return Ok(()) };
        assert!(is_typed_disk_error(&error), "{what}: {error:?}");
        erred = true;
        lab.clock.advance(error.backoff().max(Duration::from_secs(1)));
        f()
    };
    let (mut consumer, mut counts) = (None, None);
    try_twice("consumer", &mut || {
        let _: () = consumer = Some(inbox.consumer("c")?);
        Ok(())
    })?;
    try_twice("map", &mut || {
        let _: () = counts = Some(inbox.map::<u64, u64>("counts")?);
        Ok(())
    })?;
    let (consumer, counts) = (consumer.unwrap(), counts.unwrap());
    let mut applied = BTreeSet::new();
    for n in 0..EVENTS {
        if n == EVENTS / 2 {
            try_twice("sweep", &mut || inbox.sweep().map(drop))?;
        }
        let mut unknown = false;
        let mut deliver = || match handle(&consumer, &counts, n) {
            Ok(true) => {
                applied.insert(n);
                Ok(())
            }
            // A repeat of an event that was applied in a commit whose outcome was not known.
            Ok(false) => {
                assert!(unknown, "{n} is a duplicate of what was said to be not kept");
                applied.insert(n);
                Ok(())
            }
            Err(error) => {
                unknown = error.is_unknown_outcome();
                // In this very moment, before anything recovers: no read shows more than the truth.
                if !unknown {
                    lab.clock.advance(Duration::from_secs(1));
                    assert_eq!(consumer.lookup(&id(n))?, None, "{n} after {error}");
                }
                Err(error)
            }
        };
        try_twice("event", &mut deliver)?;
    }
    check(&inbox, &consumer, &counts);
    inbox.close().or_else(|error| {
        assert!(is_typed_disk_error(&error), "closing: {error:?}");
        erred = true;
        Ok::<(), Error>(())
    })?;
    Ok(erred)
}

fn check(inbox: &Inbox, consumer: &Consumer, counts: &Map<u64, u64>) {
    for n in 0..EVENTS {
        let claim = consumer.lookup(&id(n)).unwrap().unwrap_or_else(|| panic!("{n} is lost"));
        assert_eq!(claim.result(), Some(&vec![n as u8; 20][..]));
        let count: Result<_, Error> = inbox.read(|view| view.get(counts, &n));
        assert_eq!(count.unwrap(), Some(1), "count of {n}");
    }
}

/// Places the fault at every call of the workload in turn; then the power goes, and all is there.
fn at_every_call(name: &str, fault: impl Fn(u64) -> Fault) {
    let lab = || {
        let lab = Lab::new(Retention::at_least(hours(31)));
        drop(lab.open());
        lab.disk.reset_calls();
        lab
    };
    let whole = lab();
    assert!(!work(&whole, &whole.disk).unwrap());
    let calls = whole.disk.calls();
    let mut erred = 0;
    for ordinal in 1..=calls {
        let lab = lab();
        lab.disk.inject(fault(ordinal));
        let worked = work(&lab, &lab.disk).unwrap_or_else(|e| panic!("{name} at {ordinal}: {e:?}"));
        erred += u64::from(worked);
        let image = lab.disk.power_cut(Keep::Nothing);
        let inbox =
            lab.builder().open_on(&image).unwrap_or_else(|e| panic!("{name} {ordinal}: {e}"));
        check(&inbox, &inbox.consumer("c").unwrap(), &inbox.map("counts").unwrap());
        inbox.verify().unwrap();
    }
    println!("{name}: {erred} of {calls} places were noticed by a caller");
    assert!(erred > 10, "{name} was noticed only {erred} times");
}

#[test]
fn r2_one_failed_write_heals_in_this_process() {
    at_every_call("write", |at| Fault::error(at, &[Call::Write, Call::SetLen]));
}

#[test]
fn r2_one_failed_sync_heals_in_this_process() {
    at_every_call("sync", |at| Fault::error(at, &[Call::Sync]));
}

#[test]
fn r2_one_sync_that_loses_its_writes_heals_in_this_process() {
    at_every_call("lost sync", |at| Fault::lost_sync(at, Loss::All));
    at_every_call("half-lost sync", |at| Fault::lost_sync(at, Loss::Part(at)));
}

#[test]
fn r2_one_short_write_heals_in_this_process() {
    at_every_call("short write", |at| Fault::short_write(at, 700));
}

/// R2: a read that fails once. Every place is tried with a cache too small to hide it.
#[test]
fn r2_one_failed_read_heals_in_this_process() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    drop(lab.open());
    let start = lab.disk.kill();
    let calls = {
        let disk = start.kill();
        work(&lab, &disk).unwrap();
        disk.calls()
    };
    for ordinal in 1..=calls {
        let disk = start.kill();
        disk.inject(Fault::error(ordinal, &[Call::Read, Call::Len, Call::Open]));
        work(&lab, &disk).unwrap_or_else(|e| panic!("read at {ordinal}: {e:?}"));
    }
}

/// R2: the health is visible: failed commits are counted, and a device that stays broken says so at every
/// call, until it works again.
#[test]
fn r2_a_broken_device_is_told_until_it_works_again() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let counts = inbox.map("counts").unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert!(handle(&consumer, &counts, 0).unwrap());
    lab.disk.inject(Fault::error(0, &[Call::Write, Call::Sync]).lasting());
    for n in 1..6 {
        let error = handle(&consumer, &counts, n).unwrap_err();
        assert!(error.is_retryable() && is_typed_disk_error(&error), "{error}");
        lab.clock.advance(error.backoff() * 3);
    }
    assert!(inbox.stats().unwrap().failed_commits >= 1);
    lab.disk.clear_faults();
    lab.clock.advance(Duration::from_secs(1));
    for n in 0..6 {
        let applied = handle(&consumer, &counts, n).unwrap();
        assert!(applied || n <= 1, "only the first failure can have become durable, not {n}");
    }
    let sum: Result<u64, Error> =
        inbox.read(|v| Ok(v.scan(&counts, .., 10)?.iter().map(|(_, count)| count).sum()));
    assert_eq!(sum.unwrap(), 6);
}

/// Whoever closes a store whose device gave up is not told that all is well.
#[test]
fn closing_a_store_that_is_down_says_why() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("counts").unwrap());
    assert!(handle(&consumer, &counts, 0).unwrap());
    let gone = [Call::Write, Call::SetLen, Call::Sync, Call::Open, Call::Read];
    lab.disk.inject(Fault::error(lab.disk.calls() + 1, &gone).lasting());
    assert!(handle(&consumer, &counts, 1).is_err());
    assert!(is_typed_disk_error(&inbox.close().unwrap_err()));
    lab.disk.clear_faults();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.lookup(&id(0)).unwrap().is_some());
}

//! The cases from the field that concern ordered sources, each under its name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use txinbox::testkit::{Call, Fault, Keep};
use txinbox::{Clock, Outcome};

use crate::machine::{Machine, count, deliver, done, event, fail, handled, source};

/// A write fails at the commit of position 1; delivered again it is applied, or a duplicate with its effect.
#[test]
fn a1_position_kept_effect_lost() {
    for call in [Call::Write, Call::Sync] {
        let machine = Machine::new();
        let inbox = machine.open();
        let _names = (source(&inbox), done(&inbox));
        machine.disk.inject(Fault::error(machine.disk.calls(), &[call]));
        assert!(deliver(&inbox, 1).is_err());
        assert!(deliver(&inbox, 1).unwrap().claim().is_some());
        assert_eq!(handled(&inbox), [(1, 1)], "after a failed {call:?}");
        assert!(deliver(&inbox, 1).unwrap().is_duplicate());
    }
}

#[test]
fn a3_two_failures_and_a_success() {
    let inbox = Machine::new().open();
    assert!(fail(&inbox, 1).is_handler());
    assert!(fail(&inbox, 1).is_handler());
    assert!(deliver(&inbox, 1).unwrap().is_applied());
    assert!(deliver(&inbox, 1).unwrap().is_duplicate());
    assert_eq!(handled(&inbox), [(1, 1)]);
}

/// A panic, an error, a kill of the process before any answer: nothing stays, and the position comes again.
#[test]
fn b2_effect_kept_position_lost() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (log, done) = (source(&inbox), done(&inbox));
    let panics = || {
        log.process(1, |tx| {
            count(tx, &done, (0, 1), 1)?;
            assert!(done.name().is_empty(), "boom");
            Ok(())
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(fail(&inbox, 1).is_handler());
    let mut killed = None;
    let applied = log.process(1, |tx| {
        count(tx, &done, (0, 1), 1)?;
        killed = Some(machine.kill()); // as the disk is while the handler runs
        Ok(())
    });
    assert!(applied.unwrap().is_applied());
    let after = killed.unwrap().open();
    assert_eq!(handled(&after), []);
    assert!(deliver(&after, 1).unwrap().is_applied());
    assert_eq!(handled(&after), [(1, 1)]);
}

/// The commit fails after its bytes are on the disk: the outcome is unknown, and the next delivery, or
/// position, tells the truth.
#[test]
fn d3_an_unknown_outcome() {
    for keep in [Keep::Nothing, Keep::Everything] {
        let machine = Machine::new();
        let inbox = machine.open();
        assert!(deliver(&inbox, 1).unwrap().is_applied());
        machine.disk.inject(Fault::error(machine.disk.calls(), &[Call::Sync]));
        let error = deliver(&inbox, 2).unwrap_err();
        assert!(error.is_retryable());
        let inbox = machine.cut(keep).open();
        let next = source(&inbox).position().unwrap().next();
        assert_eq!(handled(&inbox).len() as u64, next - 1);
        assert!(deliver(&inbox, next).unwrap().is_applied());
    }
}

#[test]
fn e5_a_panic_leaves_the_store_open_for_others() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    let call = || log.process(1, |_| -> Result<(), _> { panic!("boom") });
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    let other = inbox.consumer("c").unwrap().ordered("other", 1).unwrap();
    assert!(other.process(1, |_| Ok(())).unwrap().is_applied());
    assert!(inbox.consumer("c").unwrap().process(&event(1), |_| Ok(())).unwrap().is_applied());
    assert!(deliver(&inbox, 1).unwrap().is_applied());
}

/// Three consumers read one source.
#[test]
fn k2_three_consumers_of_one_source() {
    let inbox = Machine::new().open();
    for name in ["a", "b", "c"] {
        let log = inbox.consumer(name).unwrap().ordered("s", 1).unwrap();
        assert!(log.process(1, |_| Ok(())).unwrap().is_applied());
        assert!(log.process(1, |_| Ok(())).unwrap().is_duplicate());
    }
}

#[test]
fn l4_an_old_duplicate_first() {
    let inbox = Machine::new().open();
    assert!(deliver(&inbox, 1).unwrap().is_applied());
    let batch = source(&inbox).process_batch(&[1_u64, 2, 3], |p| (*p, None), |_, _| Ok(()));
    let applied: Vec<bool> = batch.iter().map(|a| a.as_ref().unwrap().is_applied()).collect();
    assert_eq!(applied, [false, true, true]);
}

/// Ten items, the fourth fails: three are kept, seven come again.
#[test]
fn l5_the_fourth_of_ten_fails() {
    let inbox = Machine::new().open();
    let (log, done) = (source(&inbox), done(&inbox));
    let positions: Vec<u64> = (1..=10).collect();
    for is_bad in [true, false] {
        let batch = log.process_batch(
            &positions,
            |p| (*p, None),
            |tx, p| {
                count(tx, &done, (0, 1), *p)?;
                if is_bad && *p == 4 { Err("no".into()) } else { Ok(()) }
            },
        );
        assert_eq!(batch.settled_prefix(), if is_bad { 3 } else { 10 });
    }
    assert_eq!(handled(&inbox), (1..=10).map(|p| (p, 1)).collect::<Vec<_>>());
}

/// By position alone 2 lies below 7 and is taken for a repeat: a source must deliver in order, and what it
/// passed over is told as a gap. By ids as well as without any position, 2 and 14 are new.
#[test]
fn l6_two_batches_that_overlap() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    let deliver = |positions: &[u64]| -> Vec<bool> {
        let batch = log.process_batch(positions, |p| (*p, None), |_, _| Ok(()));
        batch.iter().map(|a| a.as_ref().unwrap().is_applied()).collect()
    };
    assert_eq!(deliver(&[1, 3, 7]), [true, true, true]);
    assert_eq!(deliver(&[2, 7, 14]), [false, false, true]);
    assert_eq!(log.position().unwrap().gaps, 3);
    let consumer = inbox.consumer("by id").unwrap();
    let by_id = |ids: &[u64]| -> Vec<bool> {
        let batch = consumer.process_batch(ids, |n| event(*n), |_, _| Ok(()));
        batch.iter().map(|a| a.as_ref().unwrap().is_applied()).collect()
    };
    assert_eq!(by_id(&[1, 3, 7]), [true, true, true]);
    assert_eq!(by_id(&[2, 7, 14]), [true, false, true]);
}

/// However long ago, and whatever is swept: a position is kept for ever.
#[test]
fn m7_long_after_the_retention() {
    let machine = Machine::new();
    let inbox = machine.open();
    assert!(deliver(&inbox, 1).unwrap().is_applied());
    for _ in 0..4 {
        machine.clock.advance(std::time::Duration::from_secs(10_000));
        inbox.sweep().unwrap();
    }
    assert!(deliver(&inbox, 1).unwrap().is_duplicate());
    assert!(machine.clock.wall_ms() > 0);
}

#[test]
fn ad1_every_counter_is_exact() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    for position in [1, 1, 2] {
        let _ = deliver(&inbox, position).unwrap();
    }
    let batch = log.process_batch(
        &[2_u64, 3, 4, 5],
        |p| (*p, None),
        |_, p| if *p == 4 { Err("no".into()) } else { Ok(()) },
    );
    assert_eq!(batch[3].as_ref().unwrap(), &Outcome::Blocked { at: 4 });
    let skip = log.process(4, |tx| {
        tx.skip();
        Ok(())
    });
    assert_eq!(skip.unwrap(), Outcome::Skipped(()));
    let call = || log.process(5, |_| -> Result<(), _> { panic!("boom") });
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    let stats = inbox.stats().unwrap().consumers["c"].clone();
    assert_eq!((stats.applied, stats.duplicates, stats.skipped), (3, 2, 1));
    assert_eq!((stats.handler_errors, stats.panics, stats.other_errors), (1, 1, 0));
    assert_eq!((stats.blocked, stats.fenced), (1, 0));
}

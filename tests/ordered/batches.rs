//! Many positions in one call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use txinbox::testkit::Keep;
use txinbox::{Error, Inbox, Outcome};

use crate::machine::{Machine, count, deliver, done, event, handled, source};

/// Delivers a batch to source 0; the positions named fail.
fn batch(inbox: &Inbox, positions: &[u64], bad: &[u64]) -> Vec<Result<Outcome<()>, Error>> {
    let done = done(inbox);
    let batch = source(inbox).process_batch(
        positions,
        |position| (*position, None),
        |tx, position| {
            count(tx, &done, (0, 1), *position)?;
            if bad.contains(position) { Err("no".into()) } else { Ok(()) }
        },
    );
    batch.into_iter().collect()
}

#[test]
fn a_failure_blocks_inside_the_batch_and_after_it() {
    let machine = Machine::new();
    let inbox = machine.open();
    let answers = batch(&inbox, &[1, 2, 3, 4, 2], &[3]);
    assert!(answers[0].as_ref().unwrap().is_applied());
    assert!(answers[1].as_ref().unwrap().is_applied());
    assert!(answers[2].as_ref().unwrap_err().is_handler());
    assert_eq!(answers[3].as_ref().unwrap(), &Outcome::Blocked { at: 3 });
    assert!(answers[4].as_ref().unwrap().is_duplicate());
    assert_eq!(handled(&inbox), [(1, 1), (2, 1)]);
    let inbox = machine.cut(Keep::Nothing).open();
    assert_eq!(deliver(&inbox, 4).unwrap(), Outcome::Blocked { at: 3 });
    let answers = batch(&inbox, &[1, 2, 3, 4], &[]);
    let applied: Vec<bool> = answers.iter().map(|a| a.as_ref().unwrap().is_applied()).collect();
    assert_eq!(applied, [false, false, true, true]);
    assert_eq!(handled(&inbox), [(1, 1), (2, 1), (3, 1), (4, 1)]);
}

#[test]
fn a_panic_leaves_what_came_before_it_and_its_own_mark() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (log, done) = (source(&inbox), done(&inbox));
    let call = || {
        log.process_batch(
            &[1_u64, 2, 3],
            |position| (*position, None),
            |tx, position| {
                assert_ne!(*position, 2, "boom");
                count(tx, &done, (0, 1), *position)
            },
        )
    };
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    let inbox = machine.cut(Keep::Nothing).open();
    assert_eq!(handled(&inbox), [(1, 1)]);
    let at = source(&inbox).position().unwrap();
    assert_eq!((at.last, at.failed), (Some(1), vec![2]));
}

/// Several groups, of which each is full, and repeats among them.
#[test]
fn a_batch_may_be_larger_than_a_group() {
    let machine = Machine::new();
    let inbox = machine.open();
    let positions: Vec<u64> = (0..9_000).chain(8_000..9_100).collect();
    let log = source(&inbox);
    let batch = log.process_batch(&positions, |p| (*p, None), |_, _| Ok(()));
    assert_eq!(batch.settled_prefix(), positions.len());
    let applied = batch.iter().filter(|a| a.as_ref().unwrap().is_applied()).count();
    assert_eq!(applied, 9_100);
    let inbox = machine.cut(Keep::Nothing).open();
    assert_eq!(source(&inbox).position().unwrap().last, Some(9_099));
    assert!(inbox.stats().unwrap().groups < 6);
}

#[test]
fn items_with_and_without_ids_share_a_batch() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    let items = [(1, Some(7)), (2, None), (3, Some(7)), (4, Some(8))];
    let batch = log.process_batch(&items, |(p, id)| (*p, id.map(event)), |_, _| Ok(()));
    let applied: Vec<bool> = batch.iter().map(|a| a.as_ref().unwrap().is_applied()).collect();
    assert_eq!(applied, [true, true, false, true]);
    assert_eq!(log.position().unwrap().last, Some(4));
    assert_eq!(inbox.stats().unwrap().consumers["c"].claims, 2);
}

/// A delivery that cannot be one, for it has too many aliases.
#[test]
fn an_item_that_is_no_delivery_blocks_those_behind_it() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    let broken = |n: u64| {
        (100..165).fold(event(n), |event, alias| {
            let id = txinbox::EventId::parts(&[&u64::to_be_bytes(alias)]).unwrap();
            event.alias(id)
        })
    };
    let batch = log.process_batch(
        &[1, 2, 3],
        |p| (*p, Some(if *p == 2 { broken(2) } else { event(*p) })),
        |_, _| Ok(()),
    );
    assert!(batch[0].as_ref().unwrap().is_applied());
    assert!(batch[1].as_ref().unwrap_err().is_limit());
    assert_eq!(batch[2].as_ref().unwrap(), &Outcome::Blocked { at: 2 });
    assert_eq!(log.skip(2, "no delivery").unwrap(), Outcome::Skipped(()));
    assert!(log.process(3, |_| Ok(())).unwrap().is_applied());
}

#[test]
fn an_empty_batch_has_no_answers() {
    let inbox = Machine::new().open();
    assert!(batch(&inbox, &[], &[]).is_empty());
    inbox.clone().close().unwrap();
}

#[test]
fn a_closed_store_gives_every_item_an_answer() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    inbox.close().unwrap();
    let batch = log.process_batch(&[1_u64, 2, 1], |p| (*p, None), |_, _| Ok(()));
    assert_eq!(batch.len(), 3);
    assert!(batch.iter().all(|answer| !answer.as_ref().is_ok_and(Outcome::is_applied)));
    assert!(batch[0].as_ref().unwrap_err().is_closed());
}

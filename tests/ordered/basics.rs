//! What the documentation says of one source, and of several.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use txinbox::ordered::Ownership;
use txinbox::testkit::Keep;
use txinbox::{Advice, Event, EventId, Inbox, Outcome};

use crate::machine::{Machine, count, deliver, done, event, fail, handled, source};

#[test]
fn at_or_below_the_last_is_a_duplicate_and_gaps_are_told() {
    let inbox = Machine::new().open();
    for position in [3, 4, 9] {
        assert!(deliver(&inbox, position).unwrap().is_applied());
    }
    for position in [0, 3, 5, 9] {
        assert!(deliver(&inbox, position).unwrap().is_duplicate(), "{position}");
    }
    let at = source(&inbox).position().unwrap();
    assert_eq!((at.last, at.next()), (Some(9), 10));
    assert_eq!((at.gaps, at.missing, at.newest_gap), (1, 4, Some((5, 8))));
    assert_eq!(handled(&inbox), [(3, 1), (4, 1), (9, 1)]);
}

/// Positions at both ends of the numbers.
#[test]
fn positions_reach_from_zero_to_the_largest_number() {
    let inbox = Machine::new().open();
    assert_eq!(source(&inbox).position().unwrap().next(), 0);
    assert!(deliver(&inbox, 0).unwrap().is_applied());
    assert!(deliver(&inbox, 0).unwrap().is_duplicate());
    assert!(deliver(&inbox, u64::MAX).unwrap().is_applied());
    assert!(deliver(&inbox, u64::MAX).unwrap().is_duplicate());
    let at = source(&inbox).position().unwrap();
    assert_eq!((at.next(), at.gaps, at.missing), (u64::MAX, 1, u64::MAX - 1));
}

#[test]
fn a_failed_position_blocks_over_a_power_cut_until_it_is_applied() {
    let machine = Machine::new();
    let inbox = machine.open();
    assert!(deliver(&inbox, 1).unwrap().is_applied());
    assert!(fail(&inbox, 2).is_handler());
    let after = machine.cut(Keep::Nothing);
    let inbox = after.open();
    assert_eq!(source(&inbox).position().unwrap().failed, [2]);
    let blocked = deliver(&inbox, 3).unwrap();
    assert_eq!(blocked, Outcome::Blocked { at: 2 });
    assert!(matches!(blocked.advice(), Advice::RetryAfter(_)));
    assert!(deliver(&inbox, 1).unwrap().is_duplicate());
    assert!(fail(&inbox, 2).is_handler()); // again
    assert_eq!(deliver(&inbox, 3).unwrap(), Outcome::Blocked { at: 2 });
    assert!(deliver(&inbox, 2).unwrap().is_applied());
    assert!(deliver(&inbox, 3).unwrap().is_applied());
    assert_eq!(handled(&inbox), [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(source(&inbox).position().unwrap().failed, [0; 0]);
}

#[test]
fn a_panic_marks_its_position_before_it_goes_on() {
    let machine = Machine::new();
    let inbox = machine.open();
    let source = source(&inbox);
    let call = || source.process(5, |_| -> Result<(), _> { panic!("boom") });
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    let inbox = machine.cut(Keep::Nothing).open();
    assert_eq!(deliver(&inbox, 6).unwrap(), Outcome::Blocked { at: 5 });
    assert!(deliver(&inbox, 5).unwrap().is_applied());
}

#[test]
fn a_position_given_up_stays_so() {
    let machine = Machine::new();
    let inbox = machine.open();
    assert!(fail(&inbox, 2).is_handler());
    let log = source(&inbox);
    assert_eq!(log.skip(3, "no").unwrap(), Outcome::Blocked { at: 2 });
    assert_eq!(log.skip(2, "poison").unwrap(), Outcome::Skipped(()));
    let inbox = machine.cut(Keep::Nothing).open();
    let log = source(&inbox);
    assert!(log.skip(2, "poison").unwrap().is_duplicate());
    assert!(deliver(&inbox, 2).unwrap().is_duplicate());
    // One that was never tried, such as one that takes the process down.
    assert_eq!(log.skip(3, "it aborts").unwrap(), Outcome::Skipped(()));
    assert!(deliver(&inbox, 4).unwrap().is_applied());
    let at = log.position().unwrap();
    assert_eq!((at.skipped, at.gaps), (2, 0));
    assert_eq!(handled(&inbox), [(4, 1)]);
}

#[test]
fn sources_consumers_and_stores_are_apart() {
    let (one, other) = (Machine::new().open(), Machine::new().open());
    let first = one.consumer("c").unwrap();
    let sources = [
        first.ordered("a", 1).unwrap(),
        first.ordered("ab", 1).unwrap(),
        first.ordered(&[0_u8, 0xff], 1).unwrap(),
        one.consumer("d").unwrap().ordered("a", 1).unwrap(),
        other.consumer("c").unwrap().ordered("a", 1).unwrap(),
    ];
    for log in &sources {
        assert!(log.process(7, |_| Ok(())).unwrap().is_applied(), "{log:?}");
        assert!(log.process(8, |_| Err::<(), _>("no".into())).is_err());
        for log in &sources {
            let at = log.position().unwrap();
            assert_eq!(at.last.is_some(), !at.failed.is_empty());
        }
    }
    assert_eq!(sources[0].skip(8, "").unwrap(), Outcome::Skipped(()));
    assert!(sources[0].process(9, |_| Ok(())).unwrap().is_applied());
    for log in &sources[1..] {
        assert_eq!(log.process(9, |_| Ok(())).unwrap(), Outcome::Blocked { at: 8 });
    }
}

#[test]
fn a_sources_name_holds_1_to_1_024_bytes() {
    let inbox = Machine::new().open();
    let consumer = inbox.consumer("c").unwrap();
    for len in [1, 1_023, 1_024] {
        let log = consumer.ordered(&vec![b'n'; len], 1).unwrap();
        assert_eq!(log.source().len(), len);
        assert!(log.process(1, |_| Ok(())).unwrap().is_applied());
    }
    assert!(consumer.ordered(&[b'n'; 1_025], 1).unwrap_err().is_limit());
    assert!(consumer.ordered("", 1).unwrap_err().is_invalid());
}

/// Each one below the last, since none above it would be tried.
#[test]
fn sixteen_failed_positions_are_kept_and_no_more() {
    let inbox = Machine::new().open();
    for position in (2..18).rev() {
        assert!(fail(&inbox, position).is_handler());
    }
    assert_eq!(source(&inbox).position().unwrap().failed.len(), 16);
    assert!(deliver(&inbox, 1).unwrap_err().is_limit());
    assert_eq!(deliver(&inbox, 20).unwrap(), Outcome::Blocked { at: 1 }); // told, and owed
    assert_eq!(source(&inbox).skip(1, "").unwrap(), Outcome::Skipped(()));
    for position in 2..18 {
        assert_eq!(deliver(&inbox, 18).unwrap(), Outcome::Blocked { at: position });
        assert!(deliver(&inbox, position).unwrap().is_applied());
    }
    assert!(deliver(&inbox, 18).unwrap().is_applied());
}

#[test]
fn a_new_incarnation_begins_anew_and_the_old_one_is_refused() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let old = consumer.ordered("s", 4).unwrap();
    assert!(old.process(100, |_| Ok(())).unwrap().is_applied());
    assert!(old.process(101, |_| Err::<(), _>("no".into())).is_err());
    let new = consumer.ordered("s", 5).unwrap();
    assert_eq!(new.position().unwrap().last, None);
    let inbox = machine.cut(Keep::Nothing).open(); // it is durable before anything is delivered
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.ordered("s", 4).unwrap_err().is_stale_source());
    let new = consumer.ordered("s", 5).unwrap();
    assert!(new.process(0, |_| Ok(())).unwrap().is_applied());
    let newest = consumer.ordered("s", 6).unwrap();
    let error = new.process(1, |_| Ok(())).unwrap_err();
    assert!(error.is_stale_source() && !error.is_retryable(), "{error}");
    assert!(new.skip(1, "").unwrap_err().is_stale_source());
    assert!(new.position().unwrap_err().is_stale_source());
    assert!(new.clone().claim_ownership(9).unwrap_err().is_stale_source());
    let batch = new.process_batch(&[1_u64, 2], |p| (*p, None), |_, _| Ok(()));
    assert!(batch.iter().all(|answer| answer.as_ref().unwrap_err().is_stale_source()));
    assert!(newest.process(0, |_| Ok(())).unwrap().is_applied());
}

#[test]
fn a_newer_owner_fences_the_former() {
    let machine = Machine::new();
    let inbox = machine.open();
    let mut former = source(&inbox);
    let stranger = former.clone();
    assert_eq!(former.claim_ownership(3).unwrap(), Ownership::Held);
    assert_eq!(former.claim_ownership(3).unwrap(), Ownership::Held); // after a restart, say
    assert!(former.process(1, |_| Ok(())).unwrap().is_applied());
    assert_eq!(stranger.process(2, |_| Ok(())).unwrap(), Outcome::Fenced { epoch: 3 });
    let mut owner = stranger.clone();
    assert_eq!(owner.claim_ownership(4).unwrap(), Ownership::Held);
    let fenced = || Outcome::Fenced { epoch: 4 };
    assert_eq!(former.process(1, |_| Ok(())).unwrap(), fenced());
    assert_eq!(former.process_event(2, &event(2), |_| Ok(())).unwrap(), fenced());
    assert_eq!(former.skip(2, "").unwrap(), fenced());
    let batch = former.process_batch(&[2_u64, 3], |p| (*p, None), |_, _| Ok(()));
    assert!(batch.iter().all(|answer| *answer.as_ref().unwrap() == fenced()));
    assert_eq!(former.claim_ownership(3).unwrap(), Ownership::Fenced { epoch: 4 });

    // Over a power cut, and over a new life of the source.
    let inbox = machine.cut(Keep::Nothing).open();
    assert_eq!(source(&inbox).process(2, |_| Ok(())).unwrap(), fenced());
    let next = inbox.consumer("c").unwrap().ordered("s0", 2).unwrap();
    assert_eq!(next.process(0, |_| Ok(())).unwrap(), fenced());
    assert_eq!(next.position().unwrap().epoch, 4);
    assert_eq!(inbox.stats().unwrap().consumers["c"].fenced, 2);
}

#[test]
fn ids_and_positions_are_committed_together() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (log, done) = (source(&inbox), done(&inbox));
    let first = Event::new(EventId::text("order-1").unwrap(), "10 EUR");
    let applied = log.process_event(1, &first, |tx| {
        tx.set_result("invoice 1")?;
        count(tx, &done, (0, 1), 1)
    });
    assert!(applied.unwrap().is_applied());
    let inbox = machine.cut(Keep::Nothing).open();
    let log = source(&inbox);
    let never = |_: &mut txinbox::Tx<'_>| -> Result<(), txinbox::BoxError> { panic!("ran") };
    for position in [1, 2] {
        let Outcome::Duplicate(claim) = log.process_event(position, &first, never).unwrap() else {
            panic!()
        };
        assert_eq!(claim.result(), Some(&b"invoice 1"[..]));
    }
    assert_eq!(log.position().unwrap().last, Some(2)); // a duplicate by id moves the source, too
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.process(&first, never).unwrap().is_duplicate()); // one claim for both ways

    // Another payload at a new position is a mismatch, which a person must settle.
    let other = Event::new(EventId::text("order-1").unwrap(), "99 EUR");
    assert!(matches!(log.process_event(3, &other, never).unwrap(), Outcome::Mismatch(_)));
    assert_eq!(log.process_event(4, &event(4), |_| Ok(())).unwrap(), Outcome::Blocked { at: 3 });
    assert_eq!(log.skip(3, "two orders, one number").unwrap(), Outcome::Skipped(()));
    assert!(log.process_event(4, &event(4), |_| Ok(())).unwrap().is_applied());
    // At a position that is settled it is told, and blocks nothing.
    assert!(matches!(log.process_event(2, &other, never).unwrap(), Outcome::Mismatch(_)));
    assert!(log.process_event(5, &event(5), |_| Ok(())).unwrap().is_applied());
}

/// With an id that a failed attempt left unclaimed.
#[test]
fn a_failed_event_is_neither_claimed_nor_passed() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    assert!(log.process_event(1, &event(1), |_| Err::<(), _>("no".into())).is_err());
    assert_eq!(log.process_event(2, &event(2), |_| Ok(())).unwrap(), Outcome::Blocked { at: 1 });
    assert!(log.process_event(1, &event(1), |_| Ok(())).unwrap().is_applied());
    assert!(log.process_event(2, &event(2), |_| Ok(())).unwrap().is_applied());
}

#[test]
fn skipping_by_the_handler_settles_the_position_and_not_the_id() {
    let inbox = Machine::new().open();
    let (log, done) = (source(&inbox), done(&inbox));
    let skip = |tx: &mut txinbox::Tx<'_>| {
        count(tx, &done, (0, 1), 1)?;
        tx.skip();
        Ok(())
    };
    assert_eq!(log.process_event(1, &event(1), skip).unwrap(), Outcome::Skipped(()));
    assert_eq!(handled(&inbox), []);
    assert!(log.process_event(1, &event(1), |_| Ok(())).unwrap().is_duplicate());
    assert!(log.process_event(2, &event(1), |_| Ok(())).unwrap().is_applied());
    assert_eq!(log.process(3, skip).unwrap(), Outcome::Skipped(()));
    assert_eq!(log.position().unwrap().last, Some(3));
}

#[test]
fn a_result_needs_an_id() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    let result = |tx: &mut txinbox::Tx<'_>| Ok(tx.set_result("r")?);
    assert!(log.process(1, result).unwrap_err().is_invalid());
    assert!(log.process_event(1, &event(1), result).unwrap().is_applied());
}

#[test]
fn the_claim_in_an_answer_is_the_sources() {
    let machine = Machine::new();
    let inbox = machine.open();
    let applied = deliver(&inbox, 1).unwrap();
    let first = applied.claim().unwrap().clone();
    machine.clock.advance(Duration::from_secs(9));
    let repeat = deliver(&inbox, 1).unwrap();
    let claim = repeat.claim().unwrap();
    assert_eq!(claim.committed_at(), first.committed_at());
    assert_eq!((first.age(), claim.age()), (Duration::ZERO, Duration::from_secs(9)));
    assert_eq!((claim.kept_for(), claim.fingerprint(), claim.result()), (None, None, None));
    assert_eq!(inbox.stats().unwrap().consumers["c"].claims, 0); // no claim rows
}

#[test]
fn positions_are_in_a_backup_and_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let inbox = Machine::new().open();
    assert!(deliver(&inbox, 5).unwrap().is_applied());
    assert!(fail(&inbox, 6).is_handler());
    inbox.verify().unwrap();
    inbox.backup(dir.path().join("b")).unwrap();
    Inbox::restore(dir.path().join("b"), dir.path().join("copy")).unwrap();
    let retention = txinbox::Retention::at_least(Duration::from_secs(3_100));
    let copy = Inbox::builder(retention).open_existing(dir.path().join("copy")).unwrap();
    assert!(deliver(&copy, 5).unwrap().is_duplicate());
    assert_eq!(deliver(&copy, 7).unwrap(), Outcome::Blocked { at: 6 });
}

#[test]
fn a_call_from_inside_a_handler_is_refused_and_owed() {
    let inbox = Machine::new().open();
    let log = source(&inbox);
    let inner = log.clone();
    let outer = log.process(1, |_| Ok(inner.process(2, |_| Ok(())).unwrap_err().is_reentrant()));
    assert!(matches!(outer.unwrap(), Outcome::Applied(true, _)));
    assert_eq!(log.process(3, |_| Ok(())).unwrap(), Outcome::Blocked { at: 2 });
    assert!(log.process(2, |_| Ok(())).unwrap().is_applied());
    assert!(log.process(3, |_| Ok(())).unwrap().is_applied());
}

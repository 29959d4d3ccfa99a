//! L: one item of a batch spoils the others.
//!
//! `Consumer::process_batch` says: "Not atomic as a whole: an item that fails leaves the others as
//! they are."

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use txinbox::{Batch, BoxError, Consumer, Event, Inbox, Outcome, Retention, days};

use crate::support::{Counts, bump, claim_of, count, event, everywhere, id, is_mismatch, never};

fn kinds(batch: Batch<()>) -> Vec<&'static str> {
    let kind = |outcome: Outcome<()>| match outcome {
        Outcome::Applied(..) => "applied",
        Outcome::Duplicate(_) => "duplicate",
        Outcome::Mismatch(_) => "mismatch",
        other => panic!("{other:?}"),
    };
    batch.into_iter().map(|answer| answer.map_or("error", kind)).collect()
}

/// One id three times in a batch: new, repeated, and with another payload.
#[test]
fn l3_repeats_inside_a_batch_are_told_apart() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let items = [("x", "pa"), ("x", "pa"), ("x", "pb"), ("y", "pb"), ("x", "pa"), ("y", "pa")];
        let deliver = || {
            let batch = consumer.process_batch(
                &items,
                |(name, payload)| Event::new(id(name), *payload),
                |tx, (name, payload)| {
                    bump(tx, &counts, name)?;
                    Ok(tx.set_result(*payload)?)
                },
            );
            for ((name, _), answer) in items.iter().zip(batch.iter()) {
                let first = if *name == "x" { "pa" } else { "pb" };
                let claim = claim_of(answer.as_ref().unwrap());
                assert_eq!(claim.result(), Some(first.as_bytes()));
            }
            let settled = batch.settled_prefix();
            assert_eq!(settled, 2, "a mismatch is for a person to look at");
            kinds(batch)
        };
        let first = ["applied", "duplicate", "mismatch", "applied", "duplicate", "mismatch"];
        assert_eq!(deliver(), first);
        let second = ["duplicate", "duplicate", "mismatch", "duplicate", "duplicate", "mismatch"];
        assert_eq!(deliver(), second);
        assert_eq!(["x", "y"].map(|name| count(&inbox, &counts, name)), [1, 1]);
    });
}

/// The same in single calls that share one commit.
#[test]
fn l3_repeats_inside_one_commit_are_told_apart() {
    let builder = Inbox::builder(Retention::at_least(days(1))).no_threads();
    let inbox = builder.open_in_memory().unwrap();
    let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
    let groups = inbox.stats().unwrap().groups;
    let tickets = ["pa", "pa", "pb"].map(|payload| {
        consumer.submit(&Event::new(id("x"), payload), |tx| bump(tx, &counts, "x")).unwrap()
    });
    let [first, second, third] = tickets.map(|ticket| ticket.wait().unwrap());
    assert!(first.is_applied() && second.is_duplicate() && is_mismatch(&third));
    assert_eq!(inbox.stats().unwrap().groups, groups + 1);
    assert_eq!(count(&inbox, &counts, "x"), 1);
}

/// Old duplicates and mismatches in front, between and behind keep no new event from being applied.
#[test]
fn l4_old_duplicates_do_not_hold_back_new_events() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let consumer = inbox.consumer("c").unwrap();
        for name in ["old-1", "old-2"] {
            assert!(consumer.process(&Event::new(id(name), "p"), |_| Ok(())).unwrap().is_applied());
        }
        drop((consumer, inbox));
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let items = ["old-1", "new-1", "old-2", "old-1", "new-2", "new-1", "new-3", "old-2"];
        let payload = |i: usize| if i == 2 { "other" } else { "p" };
        let numbered: Vec<(usize, &str)> = items.into_iter().enumerate().collect();
        let batch = consumer.process_batch(
            &numbered,
            |(i, name)| Event::new(id(name), payload(*i)),
            |tx, (_, name)| bump(tx, &counts, name),
        );
        let expected = [
            "duplicate",
            "applied",
            "mismatch",
            "duplicate",
            "applied",
            "duplicate",
            "applied",
            "duplicate",
        ];
        assert_eq!(kinds(batch), expected);
        let names = ["old-1", "old-2", "new-1", "new-2", "new-3"];
        assert_eq!(names.map(|name| count(&inbox, &counts, name)), [0, 0, 1, 1, 1]);
    });
}

/// A way for item 4 of ten to fail, in its handler or before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    Error,
    TooLargeValue,
    TooManyAliases,
    Panic,
}

fn deliver_ten(consumer: &Consumer, counts: &Counts, failure: Option<Failure>) -> Batch<()> {
    let names: Vec<String> = (1..=10).map(|n| format!("{n}")).collect();
    consumer.process_batch(
        &names,
        |name| {
            let aliases =
                if name == "4" && failure == Some(Failure::TooManyAliases) { 65 } else { 0 };
            (0..aliases).fold(event(name), |event, n| event.alias(id(&format!("alias-{n}"))))
        },
        |tx, name| -> Result<(), BoxError> {
            bump(tx, counts, name)?;
            match failure.filter(|_| name == "4") {
                None | Some(Failure::TooManyAliases) => Ok(()),
                Some(Failure::Error) => Err("planned".into()),
                Some(Failure::TooLargeValue) => Ok(tx.set_result([0; 101])?),
                Some(Failure::Panic) => resume_unwind(Box::new("planned")),
            }
        },
    )
}

/// Item 4 of ten fails: the nine others are kept, or after a panic the three before it; when all ten
/// come again each has taken effect exactly once.
#[test]
fn l5_a_failing_item_leaves_the_others_and_all_end_up_exactly_once() {
    for failure in [Failure::Error, Failure::TooLargeValue, Failure::TooManyAliases, Failure::Panic]
    {
        everywhere(|place, set| {
            let inbox = place.open_with(|builder| set(builder).result_max_bytes(100));
            let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
            let effects = || {
                [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|n: u64| count(&inbox, &counts, &n.to_string()))
            };
            let failed =
                catch_unwind(AssertUnwindSafe(|| deliver_ten(&consumer, &counts, Some(failure))));
            match failed {
                Err(_) => {
                    assert_eq!(failure, Failure::Panic);
                    assert_eq!(effects(), [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
                }
                Ok(batch) => {
                    let error = batch[3].as_ref().unwrap_err();
                    assert_eq!(error.is_handler(), failure == Failure::Error);
                    assert_eq!(error.is_limit(), failure != Failure::Error);
                    assert_eq!(batch.settled_prefix(), 3);
                    assert_eq!(batch.iter().filter(|answer| answer.is_ok()).count(), 9);
                    assert_eq!(effects(), [1, 1, 1, 0, 1, 1, 1, 1, 1, 1], "{failure:?}");
                }
            }
            let again = deliver_ten(&consumer, &counts, None);
            assert_eq!(again.settled_prefix(), 10);
            assert!(again[3].as_ref().unwrap().is_applied());
            assert_eq!(effects(), [1; 10], "{failure:?}");
            let third = deliver_ten(&consumer, &counts, None);
            assert!(third.iter().all(|answer| answer.as_ref().unwrap().is_duplicate()));
            assert!(consumer.process(&event("4"), never::<()>).unwrap().is_duplicate());
        });
    }
}

/// The commit of the batch fails as a whole: no item is kept, each has the error, and each ends up
/// exactly once.
#[cfg(feature = "testkit")]
#[test]
fn l5_a_failed_commit_fails_every_item_of_it() {
    use crate::d_faults::Base;
    use txinbox::testkit::{Call, Fault};

    let base = Base::new();
    let run = base.start();
    run.disk.inject(Fault::error(1, &[Call::Write]));
    let failed = deliver_ten(&run.consumer, &run.counts, None);
    assert_eq!(failed.len(), 10);
    for answer in &failed[..] {
        let error = answer.as_ref().unwrap_err();
        assert!(error.is_io() && error.is_retryable() && !error.is_unknown_outcome());
    }
    assert_eq!(run.inbox.stats().unwrap().consumers["c"].other_errors, 10);
    run.recover();
    for applied in [true, false] {
        let batch = deliver_ten(&run.consumer, &run.counts, None);
        assert!(batch.iter().all(|answer| answer.as_ref().unwrap().is_applied() == applied));
    }
    for n in 1..=10 {
        assert_eq!(run.effects(&n.to_string()), Some(1));
    }
}

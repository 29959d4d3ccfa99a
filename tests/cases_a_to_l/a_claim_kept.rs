//! A: the claim was kept, the effect lost.

use txinbox::{Event, Outcome};

use crate::support::{Way, bump, claim_of, count, event, everywhere, id, is_mismatch, never};

/// A failed commit leaves nothing, whichever of its writes failed: the event is new again.
#[cfg(feature = "testkit")]
#[test]
fn a1_failed_commit_keeps_nothing() {
    use crate::d_faults::{Base, traced};
    use txinbox::testkit::{Call, Fault};

    let base = Base::new();
    let writes = traced(&base, Way::Process).into_iter().filter(|t| t.call == Call::Write);
    let mut definite = 0;
    for write in writes {
        for way in Way::ALL {
            let run = base.start();
            run.disk.inject(Fault::error(write.ordinal, &[Call::Write]));
            let error = run.deliver(way, "e1").unwrap_err();
            assert!(error.is_io() && error.is_retryable(), "{write}: {error}");
            if !error.is_unknown_outcome() {
                definite += 1;
                assert_eq!(run.effects("e1"), Some(0), "{write}");
                assert!(run.deliver(way, "e1").unwrap().is_applied(), "{write}");
            }
            assert!(run.deliver(way, "e1").unwrap().is_duplicate(), "{write}");
            assert_eq!(run.effects("e1"), Some(1), "{write}");
        }
    }
    assert!(definite >= 6, "most failed writes come before the commit is durable: {definite}");
}

/// Errors of the handler leave nothing behind: the third delivery is as new as the first.
#[test]
fn a3_handler_fails_twice_then_succeeds_once() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        for way in Way::ALL {
            let name = format!("{way:?}");
            let mut runs = 0;
            for delivery in 1..=4 {
                let answer = way.deliver(&consumer, &event(&name), |tx| {
                    runs += 1;
                    bump(tx, &counts, &name)?;
                    if delivery < 3 { Err("not yet".into()) } else { Ok(()) }
                });
                match delivery {
                    1 | 2 => assert!(answer.unwrap_err().is_handler()),
                    3 => assert!(answer.unwrap().is_applied()),
                    _ => assert!(answer.unwrap().is_duplicate()),
                }
            }
            assert_eq!((runs, count(&inbox, &counts, &name)), (3, 1));
        }
        let stats = inbox.stats().unwrap().consumers["c"].clone();
        assert_eq!((stats.applied, stats.handler_errors, stats.duplicates), (3, 6, 3));
        inbox.close().unwrap();
        let (inbox, again) = (place.open_with(set), event("Process"));
        let consumer = inbox.consumer("c").unwrap();
        assert!(consumer.process(&again, never::<()>).unwrap().is_duplicate());
    });
}

/// An empty first delivery: released by `skip` it is forgotten, remembered it is a loud mismatch.
/// Content that comes later is never answered with a quiet duplicate.
#[test]
fn a6_empty_then_content_is_never_a_quiet_duplicate() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        for way in Way::ALL {
            let released = format!("released-{way:?}");
            let (empty, full) = (Event::new(id(&released), ""), Event::new(id(&released), "order"));
            for _ in 0..2 {
                let skipped = way.deliver(&consumer, &empty, |tx| {
                    bump(tx, &counts, &released)?;
                    tx.skip();
                    Ok("nothing to do")
                });
                assert_eq!(skipped.unwrap(), Outcome::Skipped("nothing to do"));
                assert!(consumer.lookup(&id(&released)).unwrap().is_none());
            }
            let applied = way.deliver(&consumer, &full, |tx| bump(tx, &counts, &released));
            assert!(applied.unwrap().is_applied());
            assert_eq!(count(&inbox, &counts, &released), 1);

            let kept = format!("kept-{way:?}");
            let (empty, full) = (Event::new(id(&kept), ""), Event::new(id(&kept), "order"));
            let applied = way.deliver(&consumer, &empty, |_| Ok(())).unwrap();
            let answer = way.deliver(&consumer, &full, never::<()>).unwrap();
            assert!(is_mismatch(&answer));
            assert_eq!(claim_of(&answer).fingerprint(), claim_of(&applied).fingerprint());
        }
        // Both inside one batch, so inside one group.
        let bodies = ["", "order", "order"];
        let batch = consumer.process_batch(
            &bodies,
            |body| Event::new(id("batch"), *body),
            |tx, body| {
                bump(tx, &counts, "batch")?;
                if body.is_empty() {
                    tx.skip();
                }
                Ok(())
            },
        );
        let [skipped, applied, duplicate] = &batch[..] else { panic!("{batch:?}") };
        assert_eq!(skipped.as_ref().unwrap(), &Outcome::Skipped(()));
        assert!(applied.as_ref().unwrap().is_applied());
        assert!(duplicate.as_ref().unwrap().is_duplicate());
        assert_eq!(count(&inbox, &counts, "batch"), 1);
    });
}

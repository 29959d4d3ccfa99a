//! E: nothing stays claimed, locked or in progress after a failure; and ids can be seen and removed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use txinbox::{Builder, Consumer, Event, Inbox, Retention, days};

use crate::support::{Counts, Place, Way, bump, count, event, everywhere, id, never, within};

/// `lookup` shows an id's state, `forget` removes it; the redelivery is new, other ids and other
/// consumers are untouched.
#[test]
fn e4_one_id_is_seen_removed_and_handled_again() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let [one, other] = ["one", "other"].map(|name| inbox.consumer(name).unwrap());
        let counts: Counts = inbox.map("n").unwrap();
        let names = ["x", "xx", "y"];
        let deliver = |consumer: &Consumer, name: &str| {
            let key = format!("{}/{name}", consumer.name());
            let event = Event::new(id(name), "payload").alias(id(&format!("{name}-alias")));
            let outcome = consumer.process(&event, |tx| {
                bump(tx, &counts, &key)?;
                Ok(tx.set_result("result")?)
            });
            (outcome.unwrap().is_applied(), count(&inbox, &counts, &key))
        };
        for (consumer, name) in [&one, &other].into_iter().flat_map(|c| names.map(|n| (c, n))) {
            assert_eq!(deliver(consumer, name), (true, 1));
        }
        let seen = one.lookup(&id("x")).unwrap().unwrap();
        assert_eq!(seen.result(), Some(&b"result"[..]));
        assert!(seen.fingerprint().is_some() && seen.kept_for().unwrap() > days(6));
        assert_eq!(one.lookup(&id("x-alias")).unwrap().unwrap().fingerprint(), seen.fingerprint());

        // By the id itself, then by its alias.
        for (run, by) in [(2, "x"), (3, "x-alias")] {
            assert!(one.forget(&id(by)).unwrap());
            assert!(!one.forget(&id("x")).unwrap() && !one.forget(&id("x-alias")).unwrap());
            assert!(one.lookup(&id("x")).unwrap().is_none());
            assert_eq!(deliver(&one, "x"), (true, run));
            assert_eq!(deliver(&one, "x"), (false, run));
        }
        assert!(!one.forget(&id("never seen")).unwrap());
        for (consumer, name) in [(&one, "xx"), (&one, "y"), (&other, "x"), (&other, "xx")] {
            assert_eq!(deliver(consumer, name), (false, 1));
        }
        assert!(one.forget(&id("y")).unwrap());
        let stats = inbox.stats().unwrap().consumers;
        assert_eq!((stats["one"].forgotten, stats["other"].forgotten), (3, 0));
        drop((one, other));
        drop(inbox);

        let inbox = place.open_with(set);
        let [one, other] = ["one", "other"].map(|name| inbox.consumer(name).unwrap());
        assert!(one.lookup(&id("y")).unwrap().is_none(), "a removal is durable");
        assert!(one.process(&event("y"), |_| Ok(())).unwrap().is_applied());
        for (consumer, name) in [(&one, "x"), (&one, "xx"), (&other, "x"), (&other, "y")] {
            assert!(consumer.process(&event(name), never::<()>).unwrap().is_duplicate());
        }
    });
}

/// Removal is decided between deliveries also where all share one commit.
#[test]
fn e4_removed_between_two_deliveries_that_share_a_commit() {
    let builder = Inbox::builder(Retention::at_least(days(1)));
    let inbox = builder.no_threads().open_in_memory().unwrap();
    let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
    let submit = || consumer.submit(&event("x"), |tx| bump(tx, &counts, "x")).unwrap();
    let (first, second) = (submit(), submit());
    assert!(consumer.forget(&id("x")).unwrap());
    let third = submit();
    assert!(first.wait().unwrap().is_applied());
    assert!(second.wait().unwrap().is_duplicate());
    assert!(third.wait().unwrap().is_applied());
    assert_eq!(count(&inbox, &counts, "x"), 2);
}

/// Handlers panic in a worker thread and where the caller catches it, while another thread goes on
/// with other ids: each panicked id is new at once, nobody waits, the directory comes free.
#[test]
fn e5_panicking_handlers_leave_a_working_store() {
    within(Duration::from_secs(20), "e5", || {
        for set in [(|b| b) as fn(Builder) -> Builder, Builder::no_threads] {
            let place = Place::dir();
            let inbox = place.open_with(set);
            let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
            let stop = Arc::new(AtomicBool::new(false));
            let others = {
                let (consumer, stop, counts) = (consumer.clone(), stop.clone(), counts.clone());
                thread::spawn(move || {
                    let mut handled = 0;
                    while !stop.load(Ordering::SeqCst) {
                        let other = event(&format!("other-{handled}"));
                        let outcome = consumer.process(&other, |tx| bump(tx, &counts, "others"));
                        assert!(outcome.unwrap().is_applied());
                        handled += 1;
                    }
                    handled
                })
            };
            let mut expected = 0;
            for way in Way::ALL.into_iter().cycle().take(12) {
                let name = format!("x-{expected}");
                let panicking = |consumer: &Consumer, counts: &Counts| {
                    let _ = way.deliver(consumer, &event(&name), |tx| {
                        bump(tx, counts, "x")?;
                        resume_unwind(Box::new("planned")) as Result<(), _>
                    });
                };
                let caught = catch_unwind(AssertUnwindSafe(|| panicking(&consumer, &counts)));
                assert!(caught.is_err());
                let in_worker = thread::scope(|scope| {
                    scope.spawn(|| panicking(&consumer, &counts)).join().is_err()
                });
                assert!(in_worker);
                expected += 1;
                let again = way.deliver(&consumer, &event(&name), |tx| bump(tx, &counts, "x"));
                assert!(again.unwrap().is_applied());
                assert_eq!(count(&inbox, &counts, "x"), expected);
            }
            stop.store(true, Ordering::SeqCst);
            let handled: u64 = others.join().unwrap();
            assert!(handled > 0);
            assert_eq!(count(&inbox, &counts, "others"), handled);
            let stats = inbox.stats().unwrap().consumers["c"].clone();
            assert_eq!((stats.panics, stats.applied), (24, 12 + handled));
            drop(consumer);
            inbox.close().unwrap();
            place.open().consumer("c").unwrap();
        }
    });
}

/// A panic in the middle of a batch: those before it are durable when the panic arrives, the one and
/// those after it are new. Said by `Consumer::process_batch`.
#[test]
fn e5_a_panic_inside_a_batch_keeps_those_before_it() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let names = ["a", "b", "panics", "d"];
        let mut planned = true;
        let mut deliver = || {
            let panics = std::mem::take(&mut planned);
            catch_unwind(AssertUnwindSafe(|| {
                consumer.process_batch(
                    &names,
                    |name| event(name),
                    |tx, name| {
                        bump(tx, &counts, name)?;
                        if panics && *name == "panics" {
                            resume_unwind(Box::new("planned"));
                        }
                        Ok(())
                    },
                )
            }))
        };
        assert!(deliver().is_err());
        assert_eq!(names.map(|name| count(&inbox, &counts, name)), [1, 1, 0, 0]);
        let again = deliver().unwrap();
        let applied: Vec<bool> = again.iter().map(|a| a.as_ref().unwrap().is_applied()).collect();
        assert_eq!(applied, [false, false, true, true]);
        assert_eq!(names.map(|name| count(&inbox, &counts, name)), [1; 4]);
    });
}

/// Not the handler panics but the closure that names an item's event. The store goes on.
#[test]
fn e5_a_panic_while_naming_an_event_leaves_a_working_store() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let consumer = inbox.consumer("c").unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _ = consumer.process_batch(
                &["a", "panics", "b"],
                |name| match *name {
                    "panics" => resume_unwind(Box::new("planned")),
                    name => event(name),
                },
                |_, _| Ok(()),
            );
        }));
        assert!(caught.is_err());
        // Nobody was told of `a`, so either answer is the truth; `b` was never met.
        let a = consumer.process(&event("a"), |_| Ok(())).unwrap();
        assert!(a.is_applied() || a.is_duplicate());
        assert!(consumer.process(&event("b"), |_| Ok(())).unwrap().is_applied());
        drop(consumer);
        inbox.close().unwrap();
        let consumer = place.open_with(set).consumer("c").unwrap();
        assert!(consumer.process(&event("a"), never::<()>).unwrap().is_duplicate());
    });
}

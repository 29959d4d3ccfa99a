//! B: the effect was kept, the claim lost.
//!
//! What has effects outside the store may run again: `Consumer::process` says so ("effects outside
//! `tx` may be repeated"). What is written through `tx` may not, and that is tested here.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};

use txinbox::codec::{Value, malformed};
use txinbox::{Builder, Error, Event, Inbox, Map};

use crate::support::{Counts, Place, Way, bump, count, event, everywhere, id, never};

/// A handler that changes state and panics, then one that errs: nothing stays of either.
#[test]
fn b2_state_written_before_a_panic_or_an_error_is_gone() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        for way in Way::ALL {
            let name = format!("{way:?}");
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _ = way.deliver(&consumer, &event(&name), |tx| {
                    bump(tx, &counts, &name)?;
                    tx.set_result("half")?;
                    std::panic::resume_unwind(Box::new("planned")) as Result<(), _>
                });
            }));
            assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"planned"));
            assert_eq!(count(&inbox, &counts, &name), 0);
            assert!(consumer.lookup(&id(&name)).unwrap().is_none());

            let failed = way.deliver(&consumer, &event(&name), |tx| {
                bump(tx, &counts, &name)?;
                Err::<(), _>("planned".into())
            });
            assert!(failed.unwrap_err().is_handler());
            assert_eq!(count(&inbox, &counts, &name), 0);

            let third = way.deliver(&consumer, &event(&name), |tx| bump(tx, &counts, &name));
            let third = third.unwrap();
            assert!(third.is_applied() && third.claim().unwrap().result().is_none());
        }
        drop(consumer);
        inbox.close().unwrap();
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        for way in Way::ALL {
            assert_eq!(count(&inbox, &counts, &format!("{way:?}")), 1);
            let again = way.deliver(&consumer, &event(&format!("{way:?}")), never::<()>);
            assert!(again.unwrap().is_duplicate());
        }
    });
}

const DIR: &str = "TXINBOX_CASE_B2_DIR";

/// The process that is killed: it handles `before`, then stands still inside the handler of `during`.
#[test]
#[ignore = "started by b2_a_process_killed_inside_its_handler_leaves_nothing_of_it"]
fn b2_child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let inbox = Inbox::builder(txinbox::Retention::at_least(txinbox::days(7))).open(dir).unwrap();
    let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map::<str, u64>("n").unwrap());
    let before = consumer.process(&event("before"), |tx| bump(tx, &counts, "before"));
    assert!(before.unwrap().is_applied());
    let during = consumer.process(&event("during"), |tx| {
        bump(tx, &counts, "during")?;
        println!("\ninside the handler");
        std::thread::sleep(std::time::Duration::from_secs(60));
        Ok(())
    });
    panic!("not killed: {during:?}");
}

fn start_child(place: &Place) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["b_effect_kept::b2_child", "--exact", "--ignored", "--nocapture"])
        .env(DIR, place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "inside the handler"), "the child ended early");
    child
}

/// SIGKILL inside a handler: what was answered stays, what was being handled is new.
#[test]
fn b2_a_process_killed_inside_its_handler_leaves_nothing_of_it() {
    for set in [(|b| b) as fn(Builder) -> Builder, Builder::no_threads] {
        let place = Place::dir();
        let mut child = start_child(&place);
        child.kill().unwrap();
        child.wait().unwrap();

        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let before = consumer.process(&event("before"), never::<()>).unwrap();
        assert!(before.is_duplicate());
        assert_eq!([count(&inbox, &counts, "before"), count(&inbox, &counts, "during")], [1, 0]);
        assert!(consumer.lookup(&id("during")).unwrap().is_none());
        let during = consumer.process(&event("during"), |tx| bump(tx, &counts, "during"));
        assert!(during.unwrap().is_applied());
        assert_eq!(count(&inbox, &counts, "during"), 1);
    }
}

/// A value whose encoding fails, as a serialiser's can.
struct Stubborn;

impl Value for Stubborn {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        "stubborn/1".into()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(1);
        Err(malformed("stubborn/1", "this one has no bytes"))
    }

    fn decode(_: &[u8]) -> Result<Self, Error> {
        Ok(Self)
    }
}

/// What a careless handler does with an error.
fn swallow(_: Result<(), Error>) -> Result<(), txinbox::BoxError> {
    Ok(())
}

/// The effect is written, then the result cannot be: all is rolled back, whether the handler passes
/// the error on or swallows it, and the redelivery takes effect once.
#[test]
fn b3_failing_to_make_the_result_rolls_the_effect_back() {
    everywhere(|place, set| {
        let inbox = place.open_with(|builder: Builder| set(builder).result_max_bytes(10));
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map::<_, u64>("n").unwrap());
        let stubborn: Map<str, Stubborn> = inbox.map("stubborn").unwrap();
        type Expected = fn(&Error) -> bool;
        type Fail = fn(&mut txinbox::Tx<'_>, &Map<str, Stubborn>) -> Result<(), txinbox::BoxError>;
        let failures: [(Fail, Expected); 5] = [
            (|_, _| Ok(String::from_utf8(vec![0xff]).map(drop)?), Error::is_handler),
            (|tx, _| Ok(tx.set_result([0; 11])?), Error::is_limit),
            (|tx, _| swallow(tx.set_result([0; 11])), Error::is_limit),
            (|tx, map| Ok(tx.insert(map, "k", &Stubborn)?), Error::is_decode),
            (|tx, map| swallow(tx.insert(map, "k", &Stubborn)), Error::is_decode),
        ];
        for (i, (fail, expected)) in failures.into_iter().enumerate() {
            for way in Way::ALL {
                let name = format!("{i}-{way:?}");
                let event = Event::new(id(&name), "payload");
                let failed = way.deliver(&consumer, &event, |tx| {
                    bump(tx, &counts, &name)?;
                    fail(tx, &stubborn)
                });
                let error = failed.unwrap_err();
                assert!(expected(&error) && !error.is_retryable(), "{name}: {error}");
                assert_eq!(count(&inbox, &counts, &name), 0, "{name}");
                let applied = way.deliver(&consumer, &event, |tx| {
                    bump(tx, &counts, &name)?;
                    Ok(tx.set_result([0; 10])?)
                });
                assert!(applied.unwrap().is_applied(), "{name}");
                let again = way.deliver(&consumer, &event, never::<()>).unwrap();
                assert_eq!(again.claim().unwrap().result(), Some(&[0; 10][..]));
                assert_eq!(count(&inbox, &counts, &name), 1, "{name}");
            }
        }
        let kept: Counts = counts;
        assert_eq!(inbox.read(|view| view.len(&kept)).unwrap(), 15);
        assert_eq!(inbox.read(|view| view.len(&stubborn)).unwrap(), 0);
    });
}

//! Sending, handing out, acknowledging; and what is never sent.

use std::time::{Duration, UNIX_EPOCH};

use txinbox::outbox::{Message, MessageId, WaitsFor};
use txinbox::testkit::audit;
use txinbox::{Inbox, Outcome, Retention};

use crate::kit::{Desk, Lab, event, payloads, secs};

#[test]
fn a_message_shows_what_was_sent() {
    let lab = Lab::new();
    let desk = lab.desk();
    let send = |tx: &mut txinbox::Tx<'_>| {
        let message = Message::new(b"\0payload".to_vec())
            .key("k")
            .header("a", "1")
            .header("b", b"\xff".to_vec())
            .header("a", "2");
        Ok(tx.enqueue(&desk.to, message)?)
    };
    let Outcome::Applied(id, _) = desk.consumer.process(&event("e"), send).unwrap() else {
        panic!()
    };
    let taken = desk.take();
    let [delivery] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((delivery.id(), delivery.attempt()), (id, 1));
    assert_eq!((delivery.payload(), delivery.key()), (&b"\0payload"[..], Some(&b"k"[..])));
    let headers: Vec<_> = delivery.headers().collect();
    assert_eq!(headers, [("a", &b"1"[..]), ("b", b"\xff"), ("a", b"2")]);
    assert_eq!((delivery.header("a"), delivery.header("c")), (Some(&b"1"[..]), None));
    assert_eq!(delivery.enqueued_at(), UNIX_EPOCH + Duration::from_millis(1_800_000_000_000));
    assert!(desk.take().is_empty(), "it is out");
    assert_eq!(desk.to.acknowledge(&taken).unwrap(), 1);
    assert_eq!(desk.to.acknowledge(&taken).unwrap(), 0, "gone already");
    assert_eq!(desk.waiting(), 0);
    audit(&desk.inbox, false).unwrap();
}

/// M9: the claim outlives its message.
#[test]
fn m9_a_repeat_sends_nothing() {
    let lab = Lab::new();
    let desk = lab.desk();
    desk.send("m1", None);
    let taken = desk.take();
    assert_eq!(payloads(&taken), ["m1"]);
    assert!(desk.deliver("m1", None).is_duplicate());
    desk.to.acknowledge(&taken).unwrap();
    drop(desk);
    let desk = lab.desk();
    assert!(desk.deliver("m1", None).is_duplicate());
    assert!(desk.take().is_empty());
}

/// X4: nothing leaves but with its event.
#[test]
fn x4_an_event_that_is_not_kept_sends_nothing() {
    let lab = Lab::new();
    let desk = lab.desk();
    let enqueue = |tx: &mut txinbox::Tx<'_>| tx.enqueue(&desk.to, Message::new("never")).map(drop);
    let failed = desk.consumer.process(&event("fails"), |tx| {
        enqueue(tx)?;
        Err::<(), _>("no".into())
    });
    assert!(failed.unwrap_err().is_handler());
    let panics = std::panic::AssertUnwindSafe(|| {
        desk.consumer.process(&event("panics"), |tx| {
            enqueue(tx).unwrap();
            if true { panic!("planned") } else { Ok(()) }
        })
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    let refused = desk.consumer.process(&event("refused"), |tx| {
        enqueue(tx)?;
        Ok(tx.refuse("no")?)
    });
    assert!(matches!(refused.unwrap(), Outcome::Refused(..)));
    let skipped = desk.consumer.process(&event("skipped"), |tx| {
        enqueue(tx)?;
        tx.skip();
        Ok(())
    });
    assert!(matches!(skipped.unwrap(), Outcome::Skipped(())));
    assert_eq!(desk.waiting(), 0);
    assert_eq!(desk.inbox.stats().unwrap().destinations["to"].enqueued, 0);
    audit(&desk.inbox, false).unwrap();
}

/// W5: two messages of one name are refused with their event; two events never share an id.
#[test]
fn w5_one_name_twice_is_an_error_that_keeps_nothing() {
    let lab = Lab::new();
    let desk = lab.desk();
    let other = desk.inbox.destination("other").unwrap();
    let error = desk.consumer.process(&event("e"), |tx| {
        tx.enqueue(&desk.to, Message::new("1").named("n"))?;
        let _swallowed = tx.enqueue(&desk.to, Message::new("2").named("n"));
        Ok(())
    });
    let error = error.unwrap_err();
    assert!(error.is_message_clash() && !error.is_retryable(), "{error}");
    assert_eq!(desk.waiting(), 0);
    let ids = |text: &str| {
        let sent = desk.consumer.process(&event(text), |tx| {
            Ok([
                tx.enqueue(&desk.to, Message::new("1").named("n"))?,
                tx.enqueue(&other, Message::new("1").named("n"))?,
                tx.enqueue(&desk.to, Message::new("1").named("0"))?,
                tx.enqueue(&desk.to, Message::new("1"))?,
                tx.enqueue(&desk.to, Message::new("1"))?,
            ])
        });
        let Outcome::Applied(ids, _) = sent.unwrap() else { panic!() };
        ids
    };
    let mut all: Vec<MessageId> = [ids("e"), ids("f")].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10);
}

/// Ids come from namespace, consumer, event, destination and label; not from the store, the order of names
/// or what else is sent.
#[test]
fn an_id_is_the_same_in_a_store_made_anew() {
    let ids = |namespace: Option<&str>, names: [&str; 2]| {
        let builder = Lab::new().builder();
        let builder = match namespace {
            Some(namespace) => builder.namespace(namespace),
            None => builder,
        };
        let desk = Desk::at(builder.seed(rand_seed()).open_in_memory().unwrap());
        let sent = desk.consumer.process(&event("e"), |tx| {
            let mut sent =
                names.map(|name| (name.to_owned(), Message::new("").named(name))).to_vec();
            sent.push(("-".to_owned(), Message::new("")));
            let sent = sent.into_iter().map(|(name, m)| Ok((name, tx.enqueue(&desk.to, m)?)));
            Ok(sent.collect::<Result<std::collections::BTreeMap<_, _>, txinbox::Error>>()?)
        });
        let Outcome::Applied(ids, _) = sent.unwrap() else { panic!() };
        ids
    };
    assert_eq!(ids(Some("n"), ["a", "b"]), ids(Some("n"), ["b", "a"]));
    assert_ne!(ids(Some("n"), ["a", "b"]), ids(Some("m"), ["a", "b"]));
    assert_ne!(ids(None, ["a", "b"]), ids(None, ["a", "b"]), "two stores, two namespaces");
}

fn rand_seed() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn a_namespace_is_for_ever() {
    let lab = Lab::new();
    let open = |namespace: &str| lab.builder().namespace(namespace).open_on(&lab.disk);
    assert!(open("").unwrap_err().is_invalid());
    assert!(open(&"n".repeat(256)).unwrap_err().is_limit());
    drop(open(&"n".repeat(255)).unwrap());
    assert!(open("m").unwrap_err().is_invalid());
    drop(open(&"n".repeat(255)).unwrap());
    let desk = lab.desk(); // not asked for: its own
    desk.send("m", None);
    let used = Lab::new();
    drop(used.desk());
    let error = used.builder().namespace("n").open_on(&used.disk).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("without"), "{error}");
}

#[test]
fn destinations_and_stores_are_not_mixed_up() {
    let (lab, other) = (Lab::new(), Lab::new());
    let desk = lab.desk();
    let foreign = Desk::at(other.builder().seed(99).open_on(&other.disk).unwrap());
    let error = desk
        .consumer
        .process(&event("e"), |tx| Ok(tx.enqueue(&foreign.to, Message::new(""))?))
        .unwrap_err();
    assert!(error.is_invalid(), "{error}");
    desk.send("m", None);
    let taken = desk.take();
    assert!(foreign.to.acknowledge(&taken).unwrap_err().is_invalid());
    let second = desk.inbox.destination("second").unwrap();
    assert!(second.acknowledge(&taken).unwrap_err().is_invalid());
    assert!(second.fail(&taken[0], "").unwrap_err().is_invalid());
    assert!(second.take(9).unwrap().is_empty());
    assert!(desk.inbox.destination("").unwrap_err().is_invalid());
}

#[test]
fn a_migration_sends_nothing() {
    let lab = Lab::new();
    let other = Lab::new().desk();
    let migrated = lab
        .builder()
        .state_version(1, move |_, tx| Ok(tx.enqueue(&other.to, Message::new("")).map(drop)?));
    let error = migrated.open_on(&lab.disk).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("migration"), "{error}");
}

#[test]
fn a_relay_waits_for_what_is_durable() {
    let inbox = Inbox::in_memory(Retention::at_least(secs(60))).unwrap();
    let desk = Desk::at(inbox);
    assert!(desk.to.take_within(1, Duration::from_millis(5)).unwrap().is_empty());
    std::thread::scope(|scope| {
        let relay = scope.spawn(|| desk.to.take_within(9, secs(20)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        desk.send("m", None);
        assert_eq!(payloads(&relay.join().unwrap()), ["m"]);
    });
}

/// A relay takes and settles while a handler runs, but not from inside one.
#[test]
fn handing_out_takes_no_write_slot() {
    let lab = Lab::new();
    let desk = lab.desk();
    desk.send("m", None);
    let outcome = desk.consumer.process(&event("e"), |_| {
        let taken = desk.take();
        assert_eq!(payloads(&taken), ["m"]);
        assert!(desk.to.acknowledge(&taken).unwrap_err().is_reentrant());
        Ok(())
    });
    assert!(outcome.unwrap().is_applied());
    let again = desk.take();
    assert_eq!(payloads(&again), ["m"], "its answer was never taken");
    assert_eq!(desk.to.acknowledge(&again).unwrap(), 1);
}

#[test]
fn lists_and_numbers_tell_what_is_there() {
    let lab = Lab::new();
    let desk = lab.desk();
    for n in 0..5 {
        desk.send(&format!("{n}"), Some("k"));
        lab.clock.advance(secs(1));
    }
    let first = desk.to.waiting(None, 2).unwrap();
    let rest = desk.to.waiting(first.last(), 9).unwrap();
    assert_eq!((first.len(), rest.len()), (2, 3));
    assert_eq!(rest[0].payload(), b"2");
    let taken = desk.take();
    let seen = desk.to.waiting(None, 2).unwrap();
    assert_eq!((seen[0].waits_for(), seen[1].waits_for()), (WaitsFor::Answer, WaitsFor::Relay));
    let stats = desk.inbox.stats().unwrap().destinations["to"].clone();
    assert_eq!((stats.waiting, stats.handed_out, stats.enqueued), (5, 1, 5));
    assert_eq!(stats.oldest, Some(secs(5)));
    desk.to.acknowledge(&taken).unwrap();
    assert!(desk.to.drop_waiting(&rest[0]).unwrap());
    assert!(!desk.to.drop_waiting(&rest[0]).unwrap());
    let stats = desk.inbox.stats().unwrap().destinations["to"].clone();
    assert_eq!((stats.waiting, stats.handed_out, stats.acknowledged), (3, 0, 1));
    assert_eq!((stats.discarded, stats.oldest), (1, Some(secs(4))));
    audit(&desk.inbox, false).unwrap();
    drop(desk);
    let stats = lab.desk().inbox.stats().unwrap().destinations["to"].clone();
    assert_eq!((stats.waiting, stats.enqueued, stats.oldest), (3, 0, Some(secs(4))));
}

/// A message in the journal, in redb, and in a backup is one message.
#[test]
fn a_backup_keeps_messages_and_their_ids() {
    let dir = tempfile::tempdir().unwrap();
    let retention = || Retention::at_least(secs(3_600));
    let desk = Desk::at(Inbox::builder(retention()).open(dir.path().join("store")).unwrap());
    desk.send("m1", Some("k"));
    desk.send("m2", Some("k"));
    let taken = desk.take();
    assert!(matches!(desk.to.fail(&taken[0], "busy").unwrap(), txinbox::outbox::Failed::Again(_)));
    desk.inbox.backup(dir.path().join("backup")).unwrap();
    Inbox::restore(dir.path().join("backup"), dir.path().join("copy")).unwrap();
    let copy = Inbox::builder(retention()).open_existing(dir.path().join("copy")).unwrap();
    let waiting = copy.destination("to").unwrap().waiting(None, 9).unwrap();
    assert_eq!((waiting.len(), waiting[0].id()), (2, taken[0].id()));
    assert_eq!((waiting[0].failed_attempts(), waiting[0].last_error()), (1, Some("busy")));
    audit(&copy, false).unwrap();
}

//! Refusals: a "no" that is remembered (cases Y4 and Y5, and case A6 beside them).
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // tests, helpers included

use std::time::Duration;

use txinbox::testkit::{SimClock, SimDisk};
use txinbox::{
    BoxError, Claim, Consumer, Event, EventId, Inbox, Map, Outcome, Retention, Tx, hours,
};

struct Shop {
    disk: SimDisk,
    clock: SimClock,
}

impl Shop {
    fn new() -> Self {
        Self { disk: SimDisk::new(), clock: SimClock::new(1_800_000_000_000) }
    }

    fn open(&self) -> Inbox {
        Inbox::builder(Retention::at_least(hours(31)))
            .clock(self.clock.clone())
            .seed(1)
            .no_threads()
            .recent_max_claims(1_024)
            .result_max_bytes(100)
            .open_on(&self.disk)
            .unwrap()
    }
}

fn event(id: &str) -> Event<'static> {
    Event::new(EventId::text(id).unwrap(), "7 pays 10")
}

fn pay(tx: &mut Tx<'_>, balances: &Map<u64, i64>) -> Result<(), BoxError> {
    let left = tx.get(balances, &7)?.unwrap_or(0) - 10;
    tx.insert(balances, &7, &left)?;
    if left < 0 {
        tx.set_result("a receipt that nobody gets")?;
        tx.refuse("no cover")?;
    }
    Ok(())
}

fn repeat(consumer: &Consumer, event: &Event<'_>) -> Claim {
    match consumer.process(event, |_| -> Result<(), BoxError> { panic!("it ran again") }) {
        Ok(Outcome::Duplicate(claim)) => claim,
        other => panic!("{other:?}"),
    }
}

/// Y5: refused for lack of cover, which then comes; the same event gets the same refusal, in memory,
/// reopened, sealed and sealed and reopened. A new id works.
#[test]
fn y5_a_refusal_stays_when_what_it_lacked_has_come() {
    let shop = Shop::new();
    let mut inbox = shop.open();
    let balances: Map<u64, i64> = inbox.map("balances").unwrap();
    let billing = inbox.consumer("billing").unwrap();
    let refused = billing.process(&event("payment-1"), |tx| pay(tx, &balances)).unwrap();
    let Outcome::Refused((), first) = &refused else { panic!("{refused:?}") };
    assert!(first.is_refused() && first.result() == Some(b"no cover"));
    assert_eq!(refused.advice(), txinbox::Advice::Ack);
    assert_eq!(inbox.read(|view| view.get(&balances, &7)).unwrap(), None, "nothing was written");

    let cover = |tx: &mut Tx<'_>| Ok(tx.insert(&balances, &7, &10)?);
    assert!(billing.process(&event("deposit-1"), cover).unwrap().is_applied());
    for stage in ["at once", "reopened", "sealed", "sealed and reopened"] {
        if stage == "sealed" {
            shop.clock.advance(hours(8));
            inbox.sweep().unwrap();
            assert_eq!(inbox.stats().unwrap().recent_claims, 0);
        }
        if stage.ends_with("reopened") {
            inbox.close().unwrap();
            inbox = shop.open();
        }
        let billing = inbox.consumer("billing").unwrap();
        let claim = repeat(&billing, &event("payment-1"));
        assert!(claim.is_refused(), "{stage}");
        assert_eq!(claim.result(), Some(&b"no cover"[..]), "{stage}");
        let found = billing.lookup(&EventId::text("payment-1").unwrap()).unwrap().unwrap();
        assert!(found.is_refused() && !repeat(&billing, &event("deposit-1")).is_refused());
    }
    let billing = inbox.consumer("billing").unwrap();
    let again = billing.process(&event("payment-2"), |tx| pay(tx, &balances)).unwrap();
    assert!(again.is_applied());
    assert_eq!(inbox.read(|view| view.get(&balances, &7)).unwrap(), Some(0));
}

/// Y4: a failure for good has a retention of its own; then it reads as expired, and still as refused.
#[test]
fn y4_a_remembered_failure_is_repeated_without_a_run_and_expires_apart() {
    let shop = Shop::new();
    let inbox = shop.open();
    let consumer = inbox.consumer("c").unwrap().result_retention(Duration::from_secs(60));
    let refused = consumer.process(&event("x"), |tx| Ok(tx.refuse("malformed for ever")?)).unwrap();
    assert!(matches!(refused, Outcome::Refused((), _)));
    assert_eq!(repeat(&consumer, &event("x")).result(), Some(&b"malformed for ever"[..]));
    shop.clock.advance(Duration::from_secs(120));
    inbox.sweep().unwrap();
    let claim = repeat(&consumer, &event("x"));
    assert!(claim.is_refused() && claim.is_result_expired() && claim.result().is_none());
}

#[test]
fn the_bytes_of_a_refusal_have_the_limit_of_a_result() {
    let shop = Shop::new();
    let inbox = shop.open();
    let consumer = inbox.consumer("c").unwrap();
    for (n, len) in [0, 99, 100].into_iter().enumerate() {
        let event = event(&format!("fits {n}"));
        let refused = consumer.process(&event, |tx| Ok(tx.refuse(vec![7; len])?)).unwrap();
        assert!(matches!(refused, Outcome::Refused((), _)));
        assert_eq!(repeat(&consumer, &event).result(), Some(&vec![7; len][..]));
    }
    let error = consumer.process(&event("long"), |tx| Ok(tx.refuse(vec![7; 101])?)).unwrap_err();
    assert!(error.is_limit(), "{error}");
    // The error sticks, even where the handler swallows it; nothing was claimed.
    let swallowed = consumer.process(&event("long"), |tx| {
        let _ = tx.refuse(vec![7; 101]);
        Ok(())
    });
    assert!(swallowed.unwrap_err().is_limit());
    assert!(consumer.process(&event("long"), |_| Ok(())).unwrap().is_applied());
}

/// A6: "nothing to do, do not remember" and "never, remember that" are two calls; the last counts.
#[test]
fn a6_the_last_of_skip_and_refuse_counts() {
    let shop = Shop::new();
    let inbox = shop.open();
    let consumer = inbox.consumer("c").unwrap();
    let skipped = consumer.process(&event("a"), |tx| {
        tx.refuse("no")?;
        tx.skip();
        Ok(())
    });
    assert_eq!(skipped.unwrap(), Outcome::Skipped(()));
    let refused = consumer.process(&event("a"), |tx| {
        tx.skip();
        tx.refuse("first")?;
        tx.refuse("no")?;
        tx.set_result("a result beside it changes nothing")?;
        Ok(5)
    });
    let refused = refused.unwrap();
    assert!(matches!(&refused, Outcome::Refused(5, claim) if claim.result() == Some(b"no")));
    let other = Event::new(EventId::text("a").unwrap(), "another payload");
    assert!(matches!(consumer.process(&other, |_| Ok(())).unwrap(), Outcome::Mismatch(_)));
    // An error of the handler wins over a refusal: nothing is kept.
    let failed = consumer.process(&event("b"), |tx| {
        tx.refuse("no")?;
        Err::<(), _>("not today".into())
    });
    assert!(failed.unwrap_err().is_handler());
    assert!(consumer.lookup(&EventId::text("b").unwrap()).unwrap().is_none());
}

/// In one batch: a refused event leaves its neighbours' writes, and its repeat is a duplicate.
#[test]
fn a_refusal_in_a_batch_leaves_the_others() {
    let shop = Shop::new();
    let inbox = shop.open();
    let consumer = inbox.consumer("c").unwrap();
    let seen: Map<str, u64> = inbox.map("seen").unwrap();
    let batch = consumer.process_batch(
        &["a", "no", "no", "b"],
        |id| event(id),
        |tx, id| {
            tx.insert(&seen, *id, &1)?;
            if *id == "no" {
                tx.refuse("no")?;
            }
            Ok(())
        },
    );
    let kinds: Vec<_> = batch.iter().map(|answer| answer.as_ref().unwrap()).collect();
    assert!(matches!(
        kinds[..],
        [Outcome::Applied(..), Outcome::Refused(..), Outcome::Duplicate(c), Outcome::Applied(..)]
            if c.is_refused() && c.result() == Some(b"no")
    ));
    let rows = inbox.read(|view| view.scan(&seen, .., 9)).unwrap();
    assert_eq!(rows, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    let stats = &inbox.stats().unwrap().consumers["c"];
    assert_eq!((stats.applied, stats.refused, stats.duplicates), (2, 1, 1));
}

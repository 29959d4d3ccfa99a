//! Who waits for whom.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use txinbox::outbox::{Message, WaitsFor};
use txinbox::{Inbox, Retention};

use crate::kit::{Desk, Lab, event, payload, payloads, secs};

/// U1: a thousand events of one key, and as many of others, and ten relays.
#[test]
fn u1_ten_relays_keep_the_order_of_a_key() {
    let desk = Desk::at(Inbox::in_memory(Retention::at_least(secs(60))).unwrap());
    let all: Vec<(String, String)> = (0..1_000)
        .flat_map(|n| {
            [
                (format!("one-{n:04}"), "one".to_owned()),
                (format!("many-{n:04}"), format!("{}", n % 50)),
            ]
        })
        .collect();
    let sent = desk.consumer.process_batch(
        &all,
        |(name, _)| event(name),
        |tx, (name, key)| {
            tx.enqueue(&desk.to, Message::new(name.clone()).key(key.clone()))?;
            Ok(())
        },
    );
    assert!(sent.iter().all(|answer| answer.as_ref().unwrap().is_applied()));
    let got: Mutex<BTreeMap<Vec<u8>, Vec<String>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                loop {
                    let taken = desk.to.take_within(20, Duration::from_millis(200)).unwrap();
                    if taken.is_empty() {
                        return;
                    }
                    for delivery in &taken {
                        let mut got = got.lock().unwrap();
                        let of_key = got.entry(delivery.key().unwrap().to_vec()).or_default();
                        of_key.push(payload(delivery).to_owned());
                    }
                    desk.to.acknowledge(&taken).unwrap();
                }
            });
        }
    });
    let got = got.into_inner().unwrap();
    assert_eq!((got.len(), got.values().map(Vec::len).sum::<usize>()), (51, 2_000));
    for (key, order) in got {
        assert!(order.is_sorted(), "key {}: {order:?}", key.escape_ascii());
    }
    assert_eq!(desk.waiting(), 0);
}

/// U3: many in one millisecond, and a clock that steps back.
#[test]
fn u3_the_order_is_that_of_commits_whatever_the_clock_says() {
    let lab = Lab::new();
    let desk = lab.desk();
    let names: Vec<String> = (0..1_000).map(|n| format!("{n:04}")).collect();
    for (n, name) in names.iter().enumerate() {
        if n == 500 {
            lab.clock.step_wall_ms(-3_600_000);
        }
        desk.send(name, None);
    }
    assert_eq!(payloads(&desk.take()), names);
}

/// V3: who hangs on one key holds up nobody else.
#[test]
fn v3_a_key_that_hangs_blocks_no_other() {
    let lab = Lab::new();
    let desk = lab.desk();
    for (name, key) in [("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("n1", None)] {
        desk.send(name, key);
    }
    let hung = desk.to.take(1).unwrap();
    assert_eq!(payloads(&hung), ["a1"]);
    let others = desk.take();
    assert_eq!(payloads(&others), ["b1", "n1"], "a second call returns");
    desk.to.acknowledge(&others).unwrap();
    desk.send("b2", Some("b")); // claims go on
    assert_eq!(payloads(&desk.take()), ["b2"]);
    desk.to.acknowledge(&hung).unwrap();
    assert_eq!(payloads(&desk.take()), ["a2"]);
}

#[test]
fn messages_of_a_key_wait_for_one_whose_time_has_not_come() {
    let lab = Lab::new();
    let desk = lab.desk();
    let due = UNIX_EPOCH + Duration::from_millis(1_800_000_000_000) + secs(10);
    let sent = desk.consumer.process(&event("e"), |tx| {
        tx.enqueue(&desk.to, Message::new("later").key("k").not_before(due))?;
        tx.enqueue(&desk.to, Message::new("behind").key("k"))?;
        tx.enqueue(&desk.to, Message::new("free"))?;
        tx.enqueue(&desk.to, Message::new("past").not_before(UNIX_EPOCH))?;
        Ok(())
    });
    assert!(sent.unwrap().is_applied());
    assert_eq!(payloads(&desk.take()), ["free", "past"]);
    assert_eq!(desk.to.waiting(None, 1).unwrap()[0].waits_for(), WaitsFor::Time(secs(10)));
    lab.clock.advance(Duration::from_millis(9_999));
    assert!(desk.take().is_empty());
    lab.clock.advance(Duration::from_millis(1));
    let later = desk.take();
    assert_eq!(payloads(&later), ["later"]);
    desk.to.acknowledge(&later).unwrap();
    assert_eq!(payloads(&desk.take()), ["behind"]);
    drop(desk);
    lab.clock.step_wall_ms(-20_000);
    assert_eq!(payloads(&lab.desk().take()), ["behind", "free", "past"]);
}

/// Behind a key that is stuck, thousands of its own wait; others are found past them, and all of them in
/// order once it moves.
#[test]
fn a_long_queue_of_one_key_is_passed_over_once() {
    let lab = Lab::new();
    let desk = lab.desk();
    let names: Vec<String> = (0..3_000).map(|n| format!("{n:04}")).collect();
    let sent = desk.consumer.process_batch(
        &names,
        |name| event(name),
        |tx, name| {
            let is_other = name.ends_with("99");
            let message = Message::new(name.clone()).key(if is_other { "other" } else { "stuck" });
            tx.enqueue(&desk.to, message)?;
            Ok(())
        },
    );
    assert_eq!(sent.settled_prefix(), names.len());
    let mut seen = HashSet::new();
    for _ in 0..30 {
        let other: Vec<_> = desk.to.take(9).unwrap();
        let others = other.iter().filter(|d| d.key() == Some(b"other"));
        assert_eq!(desk.to.acknowledge(others).unwrap(), 1);
        seen.extend(other.iter().map(|d| payload(d).to_owned()));
    }
    assert_eq!(seen.len(), 31, "all others, and the first that is stuck");
    lab.clock.advance(secs(61)); // its relay is given up
    let mut order = Vec::new();
    loop {
        let next = desk.take();
        if next.is_empty() {
            break;
        }
        assert_eq!(desk.to.acknowledge(&next).unwrap(), 1);
        order.extend(next.iter().map(|d| payload(d).to_owned()));
    }
    assert_eq!(order.len(), 2_970);
    assert!(order.is_sorted());
}

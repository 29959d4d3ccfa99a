//! What becomes of events that nobody came back for; backups; openings.

use txinbox::lease;
use txinbox::testkit::audit;
use txinbox::{Inbox, Outcome, Retention, hours};

use crate::kit::{Lab, begin, event, id, not_begun, process, secs};

/// SW1: dead and abandoned events stay for the retention, then go, in slices.
#[test]
fn dead_and_abandoned_events_go_with_the_retention() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap().max_attempts(1);
    for n in 0..600 {
        let mut lease = begin(&consumer, &format!("event {n}"), secs(60));
        if n % 2 == 0 {
            assert_eq!(lease.fail("x", secs(1)).unwrap(), Outcome::Dead { attempts: 1 });
        }
    }
    let counts = || {
        let stats = inbox.stats().unwrap();
        (stats.leases, stats.dead_events)
    };
    assert_eq!(counts(), (300, 300));
    lab.clock.advance(hours(30));
    inbox.sweep().unwrap();
    assert_eq!(counts(), (300, 300));
    assert_eq!(not_begun(&consumer, "event 0"), Outcome::Dead { attempts: 1 });
    let _kept = begin(&consumer, "late", hours(24));
    lab.clock.advance(hours(3));
    inbox.sweep().unwrap();
    assert_eq!(counts(), (1, 0));
    audit(&inbox, false).unwrap();
    assert_eq!(begin(&consumer, "event 0", secs(1)).attempt(), 1, "as if it never came");
    assert!(matches!(not_begun(&consumer, "late"), Outcome::InProgress { .. }));
}

/// Without a retention that ends, nothing of it goes.
#[test]
fn for_ever_is_for_ever() {
    let lab = Lab::new();
    let inbox = lab.open();
    let consumer = inbox.consumer_with("c", Retention::forever()).unwrap().max_attempts(1);
    let _dead = begin(&consumer, "a", secs(60)).fail("x", secs(1)).unwrap();
    lab.clock.advance(hours(100_000));
    inbox.sweep().unwrap();
    assert_eq!(not_begun(&consumer, "a"), Outcome::Dead { attempts: 1 });
}

/// A backup has the leases; the copy's tokens lie above all of its source's.
#[test]
fn a_copy_has_the_leases_and_higher_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::new();
    let store = || lab.builder();
    let inbox = store().open(dir.path().join("store")).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let mut first = begin(&consumer, "a", secs(60));
    first.note("a note").unwrap();
    let key = first.idempotency_key("k");
    inbox.backup(dir.path().join("backup")).unwrap();
    for n in 0..50 {
        let _later = begin(&consumer, &format!("later {n}"), secs(60));
    }
    let newest = begin(&consumer, "newest", secs(60)).token();
    drop((consumer, first));
    inbox.close().unwrap();

    Inbox::restore(dir.path().join("backup"), dir.path().join("copy")).unwrap();
    let copy = store().open_existing(dir.path().join("copy")).unwrap();
    copy.verify().unwrap();
    let consumer = copy.consumer("c").unwrap();
    assert!(matches!(not_begun(&consumer, "a"), Outcome::InProgress { attempt: 1, .. }));
    lab.clock.advance(secs(60));
    let second = begin(&consumer, "a", secs(60));
    assert!(second.token() > newest);
    assert_eq!(second.previous_note(), Some(&b"a note"[..]));
    assert_eq!(second.idempotency_key("k"), key);
}

/// Every commit its own, without a journal: the same answers.
#[test]
fn leases_work_without_a_journal() {
    let lab = Lab::new();
    let open = || lab.builder().durability(txinbox::Durability::EveryCommit).open_on(&lab.disk);
    let inbox = open().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let mut lease = begin(&consumer, "a", secs(60));
    lease.note("n").unwrap();
    drop(consumer);
    inbox.close().unwrap();
    let inbox = open().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert!(matches!(not_begun(&consumer, "a"), Outcome::InProgress { attempt: 1, .. }));
    lab.clock.advance(secs(60));
    let mut lease = begin(&consumer, "a", secs(60));
    assert_eq!(lease.previous_note(), Some(&b"n"[..]));
    assert!(lease.complete(|_| Ok(())).unwrap().is_applied());
    audit(&inbox, false).unwrap();
}

/// Leases among many ordinary events, over checkpoints of the journal and groups of many.
#[test]
fn leases_survive_checkpoints_and_share_groups() {
    let lab = Lab::new();
    let mut inbox = lab.open();
    for round in 0..20 {
        let consumer = inbox.consumer("c").unwrap();
        let mut lease = begin(&consumer, &format!("leased {round}"), secs(3_600));
        lease.note(vec![round; 4_000]).unwrap();
        let numbers: Vec<u64> = (0..300).collect();
        let batch = consumer.process_batch(
            &numbers,
            |n| txinbox::Event::unchecked(id(&format!("plain {round} {n}"))),
            |_, _| Ok(()),
        );
        assert!(batch.iter().all(|answer| answer.as_ref().unwrap().is_applied()));
        if round % 5 == 4 {
            audit(&inbox, false).unwrap();
            inbox.close().unwrap();
            inbox = lab.open();
        }
    }
    let consumer = inbox.consumer("c").unwrap();
    for round in 0..20 {
        let status = lease::status(&consumer, &id(&format!("leased {round}"))).unwrap().unwrap();
        assert_eq!(status.note, Some(vec![round; 4_000]));
    }
    inbox.verify().unwrap();
    assert!(process(&consumer, "plain again").is_applied());
    assert!(consumer.lookup(&id("leased 0")).unwrap().is_none());
    assert!(consumer.process(&event("leased 0"), |_| Ok(())).unwrap().claim().is_none());
}

//! What a careful reader found, each shown by what a user would see.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use txinbox::testkit::{Capacity, Probe};
use txinbox::{Consumer, Event, Inbox, Retention, days};

use super::store::{Machine, START_MS, WINDOW, deliver, event, id, seal};

const FINGERPRINT: u64 = 0xF00D_FACE_0000_0000;

fn marked(n: u32) -> Event<'static> {
    Event::unchecked(id(n)).fingerprint(FINGERPRINT + u64::from(n))
}

/// Damages the stored fingerprint, and with it the block, of every hundredth event.
fn damage(machine: &Machine, events: u32) {
    let bytes = machine.disk.contents("txinbox.redb").unwrap();
    let mut hit = 0;
    for n in (0..events).step_by(100) {
        let wanted = (FINGERPRINT + u64::from(n)).to_le_bytes();
        let places = bytes.windows(8).enumerate().filter(|(_, w)| *w == wanted);
        for (at, _) in places {
            machine.disk.flip_bit("txinbox.redb", at as u64 * 8).unwrap();
            hit += 1;
        }
    }
    assert!(hit > 0, "the fingerprints are in the file");
}

fn deliver_marked(consumer: &Consumer, ids: std::ops::Range<u32>) -> (usize, usize) {
    let ids: Vec<u32> = ids.collect();
    let batch = consumer.process_batch(&ids, |n| marked(*n), |_, _| Ok(()));
    let applied = batch.iter().filter(|a| a.as_ref().is_ok_and(|o| o.is_applied())).count();
    (applied, batch.iter().filter(|a| a.is_err()).count())
}

/// Symptom: a merge that met damage was published at the next step without the rows it had not read, and
/// events were applied again. Cause: the build was kept although a step of it had failed.
pub(crate) fn a_merge_that_failed_is_not_published() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut events = 0;
    while inbox.stats().unwrap().runs < 6 {
        assert_eq!(deliver_marked(&consumer, events..events + 500), (500, 0));
        events += 500;
        inbox.sweep().unwrap();
    }
    inbox.close().unwrap();
    damage(&machine, events - 1_100);
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let mut failed = 0;
    for round in 0..6 {
        deliver_marked(&consumer, events + round * 500..events + round * 500 + 500);
        failed += usize::from(inbox.sweep().is_err());
    }
    assert!(failed > 0, "the merge met the damage");
    let (applied, errors) = deliver_marked(&consumer, 0..events);
    assert_eq!(applied, 0, "events were applied twice");
    assert!(errors > 0, "what cannot be read is an error");
}

/// Symptom: one repeat with another id and a time far ahead made every later event too late.
pub(crate) fn an_alias_does_not_bring_a_time_to_come() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.process(&event(1).at_ms(START_MS), |_| Ok(())).unwrap().is_applied());
    let far = event(1).alias(id(77)).at_ms(START_MS + 1_000 * 365 * 86_400_000);
    assert!(consumer.process(&far, |_| Ok(())).is_err_and(|e| e.is_future()));
    for _ in 0..4 {
        machine.pass(WINDOW);
        inbox.sweep().unwrap();
    }
    let later = event(2).at_ms(START_MS + 4 * 3_100_000);
    assert!(consumer.process(&later, |_| Ok(())).unwrap().is_applied(), "the floor was poisoned");
}

/// Symptom: the second of two callers that forget one id was told "there is none" while the first one's
/// tombstone could still be lost.
pub(crate) fn nothing_to_forget_is_said_once_that_is_durable() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(deliver(&consumer, 1).is_applied());
    let (tell, told) = mpsc::channel();
    // A submitted event leaves its group open, and the tombstone joins it.
    let ticket = consumer.submit(&event(2), |_| Ok(())).unwrap();
    thread::scope(|scope| {
        let slow = consumer.clone();
        let (enter, entered) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        scope.spawn(move || {
            let held = slow.process(&event(3), |_| {
                enter.send(()).unwrap();
                left.recv().unwrap();
                Ok(())
            });
            assert!(held.unwrap().is_applied());
        });
        entered.recv().unwrap();
        let (first, second) = (consumer.clone(), consumer.clone());
        scope.spawn(move || first.forget(&id(1)).unwrap());
        thread::sleep(Duration::from_millis(30));
        scope.spawn(move || {
            let any = second.forget(&id(1)).unwrap();
            // Whatever the power takes now, this answer was given.
            tell.send(any).unwrap();
        });
        thread::sleep(Duration::from_millis(30));
        let last = consumer.clone();
        let (hold, held) = mpsc::channel::<()>();
        scope.spawn(move || {
            let process = last.process(&event(4), |_| {
                let _ = held.recv();
                Ok(())
            });
            assert!(process.unwrap().is_applied());
        });
        thread::sleep(Duration::from_millis(30));
        leave.send(()).unwrap();
        let answer = told.recv_timeout(Duration::from_millis(300));
        let after = machine.cut().open();
        let is_back = after.consumer("c").unwrap().lookup(&id(1)).unwrap().is_some();
        drop(hold);
        assert!(!(answer == Ok(false) && is_back), "told that there is none, and it is back");
    });
    assert!(ticket.wait().unwrap().is_applied());
}

/// Symptom: a store whose database file was lost opened as a new one, and every event was new again.
pub(crate) fn a_lost_database_file_is_no_new_store() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Inbox::builder(Retention::at_least(WINDOW)).open(dir.path());
    let inbox = open().unwrap();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    inbox.close().unwrap();
    std::fs::remove_file(dir.path().join("txinbox.redb")).unwrap();
    for name in ["txinbox.journal-0", "txinbox.journal-1"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let error = open().expect_err("an empty store");
    assert!(error.is_corrupt() && error.to_string().contains("txinbox.redb"), "{error}");
}

/// Symptom: a store opened with a shorter retention after "for ever" still kept everything for ever.
pub(crate) fn a_shorter_policy_holds_from_now_on() {
    let machine = Machine::new();
    let inbox = machine.try_open_for(Retention::forever()).unwrap();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    inbox.close().unwrap();
    let day = Retention::at_least(days(1)).allow_shorter();
    let inbox = machine.try_open_for(day).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert!(deliver(&consumer, 2).is_applied());
    for _ in 0..10 {
        machine.pass(days(1));
        inbox.sweep().unwrap();
    }
    let claims = inbox.stats().unwrap().consumers["c"].claims;
    assert_eq!(claims, 0, "claims outlived the retention that was asked for");
}

/// No bug is planted for these: each is one line that a reader missed, and stays tested here.
#[test]
fn what_else_was_found() {
    // A repeat is answered although memory is over its limit and the disk is full.
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    seal(&inbox, &consumer, 0);
    let ids: Vec<u32> = (2_000..5_000).collect();
    let batch = consumer.process_batch(&ids, |n| event(*n), |_, _| Ok(()));
    assert_eq!(batch.settled_prefix(), ids.len());
    machine.disk.set_capacity(Capacity::Written(0));
    let repeats = consumer.process_batch(&ids[..3], |n| event(*n), |_, _| Ok(()));
    assert!(repeats.iter().all(|a| a.as_ref().is_ok_and(|o| o.is_duplicate())));

    // A submitted event's panic comes once the group is durable that it may have read.
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let ticket = consumer.submit(&event(1), |_| Ok(())).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        consumer.submit(&event(2), |_| -> Result<(), txinbox::BoxError> {
            std::panic::resume_unwind(Box::new("planned"))
        })
    }));
    assert!(panicked.is_err() && ticket.is_durable());

    // A lost segment of the journal is damage, and there is a way out.
    let dir = tempfile::tempdir().unwrap();
    let open = || Inbox::builder(Retention::at_least(WINDOW)).open(dir.path());
    let inbox = open().unwrap();
    assert!(deliver(&inbox.consumer("c").unwrap(), 1).is_applied());
    inbox.close().unwrap();
    std::fs::remove_file(dir.path().join("txinbox.journal-1")).unwrap();
    let error = open().unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("txinbox.journal-1"), "{error}");
    Inbox::salvage(dir.path()).unwrap();
    assert!(deliver(&open().unwrap().consumer("c").unwrap(), 1).is_duplicate());

    // So is one that was cut short, by a byte or altogether; one that grew is none.
    for name in ["txinbox.journal-0", "txinbox.journal-1"] {
        let file = std::fs::OpenOptions::new().write(true).open(dir.path().join(name)).unwrap();
        let bytes = file.metadata().unwrap().len();
        for left in [bytes - 1, 0] {
            file.set_len(left).unwrap();
            let error = open().unwrap_err();
            assert!(error.is_corrupt() && error.to_string().contains(name), "{error}");
            Inbox::salvage(dir.path()).unwrap();
            assert!(deliver(&open().unwrap().consumer("c").unwrap(), 1).is_duplicate());
        }
        file.set_len(bytes + 512).unwrap();
        assert!(deliver(&open().unwrap().consumer("c").unwrap(), 1).is_duplicate());
    }

    // A program of an older state version changes nothing before it is refused.
    let dir = tempfile::tempdir().unwrap();
    let open = |version, retention: Retention| {
        Inbox::builder(retention).state_version(version, |_, _| Ok(())).open(dir.path())
    };
    let inbox = open(2, Retention::at_least(days(30))).unwrap();
    let promised = inbox.retention();
    inbox.close().unwrap();
    let shorter = Retention::at_least(days(1)).allow_shorter();
    assert!(open(1, shorter).unwrap_err().is_newer_format());
    assert_eq!(open(2, Retention::at_least(days(1))).unwrap().retention(), promised);

    // A store opened under a shorter retention leaps by a thirty-second of that at most.
    let machine = Machine::new();
    let inbox = machine.try_open_for(Retention::at_least(days(310))).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert!(deliver(&consumer, 0).is_applied());
    machine.pass(days(40) - Duration::from_secs(60));
    assert!(deliver(&consumer, 1).is_applied());
    let before = Probe::of(&inbox).unwrap().seq;
    inbox.close().unwrap();
    machine.clock.step_wall_ms(10 * 86_400_000);
    let inbox = machine.try_open_for(Retention::at_least(days(1)).allow_shorter()).unwrap();
    inbox.sweep().unwrap();
    let kept = inbox.consumer("c").unwrap().lookup(&id(1)).unwrap();
    assert!(kept.is_some(), "forgotten after minutes, at group {before}");
}

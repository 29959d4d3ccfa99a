//! What must hold among the events of a group and the callers of a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use txinbox::testkit::SimClock;
use txinbox::{Clock, Consumer, Durability, Event, EventId, Inbox, Map, Retention};

use super::store::{Machine, START_MS, WINDOW, counter, event, id};

/// Case L3, guarantee 4: two deliveries in one batch.
pub(crate) fn a_repeat_inside_a_batch_is_a_duplicate() {
    let inbox = Machine::new().open();
    let consumer = inbox.consumer("c").unwrap();
    let batch = consumer.process_batch(&[1, 2, 1], |n| event(*n), |_, _| Ok(()));
    let applied: Vec<bool> = batch.iter().map(|a| a.as_ref().unwrap().is_applied()).collect();
    assert_eq!(applied, [true, true, false]);
    assert!(batch[2].as_ref().unwrap().is_duplicate());
}

/// Guarantee 3: the failed one leaves nothing, the others keep theirs.
pub(crate) fn a_failed_event_leaves_nothing_in_its_group() {
    let inbox = Machine::new().open();
    let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
    let batch = consumer.process_batch(
        &[1_u32, 2, 3],
        |n| event(*n),
        |tx, n| {
            tx.insert(&map, n, &7)?;
            if *n == 2 { Err("no".into()) } else { Ok(()) }
        },
    );
    assert!(batch[1].as_ref().unwrap_err().is_handler());
    let rows = inbox.read(|view| view.scan(&map, .., 9)).unwrap();
    assert_eq!(rows, [(1, 7), (3, 7)]);
}

/// Case J5, by what becomes of the events.
pub(crate) fn j5_parts_are_not_joined() {
    let inbox = Machine::new().open();
    let consumer = inbox.consumer("c").unwrap();
    for parts in [[&b"ab"[..], &b"c"[..]], [b"a", b"bc"]] {
        let event = Event::unchecked(EventId::parts(&parts).unwrap());
        assert!(consumer.process(&event, |_| Ok(())).unwrap().is_applied(), "{parts:?} merged");
    }
}

/// Guarantee of the queue: whoever waits is woken.
pub(crate) fn every_caller_gets_its_turn() {
    const THREADS: u32 = 4;
    const EVENTS: u32 = 25;
    let inbox = Inbox::builder(Retention::at_least(WINDOW)).no_threads().open_in_memory().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let (done, progress) = mpsc::channel();
    for thread in 0..THREADS {
        let (consumer, done) = (consumer.clone(), done.clone());
        std::thread::spawn(move || {
            for n in 0..EVENTS {
                let handled = consumer.process(&event(thread * EVENTS + n), |_| {
                    // Long enough for the others to queue up.
                    std::thread::sleep(Duration::from_micros(200));
                    Ok(())
                });
                assert!(handled.unwrap().is_applied());
                let _ = done.send(()); // nobody listens once it has failed
            }
        });
    }
    for n in 0..THREADS * EVENTS {
        let went_on = progress.recv_timeout(Duration::from_secs(5));
        assert!(went_on.is_ok(), "after {n} events everybody waits");
    }
}

/// Symptom: one view held over many commits was never ended, whatever it pinned. Cause: views were
/// only looked at when a snapshot was superseded that somebody held. Now each commit looks.
pub(crate) fn a_view_that_pins_too_much_ends() {
    let builder = Inbox::builder(Retention::at_least(WINDOW)).no_threads().view_max_pinned_bytes(0);
    let inbox = builder.durability(Durability::EveryCommit).open_in_memory().unwrap();
    let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
    let read = inbox.read(|view| {
        for n in 1..4 {
            assert!(consumer.process(&event(n), |_| Ok(())).unwrap().is_applied());
        }
        view.get(&map, &0)
    });
    assert!(read.is_err_and(|e| e.is_view_ended()), "the view goes on");
}

/// A clock that looks into the store whenever it is read, from the very thread that commits.
#[derive(Debug, Clone)]
struct Looking {
    inner: SimClock,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    through: OnceLock<(Inbox, Consumer, Map<u32, u64>)>,
    looking: AtomicBool,
    torn: AtomicBool,
}

impl Looking {
    fn look(&self) {
        let Some((inbox, consumer, map)) = self.seen.through.get() else { return };
        if self.seen.looking.swap(true, Ordering::SeqCst) {
            return;
        }
        let state = inbox.read(|view| view.get(map, &0)).unwrap();
        let claim = consumer.lookup(&id(1)).unwrap();
        if state.is_some() != claim.is_some() {
            self.seen.torn.store(true, Ordering::SeqCst);
        }
        self.seen.looking.store(false, Ordering::SeqCst);
    }
}

impl Clock for Looking {
    fn wall_ms(&self) -> i64 {
        self.look();
        self.inner.wall_ms()
    }

    fn boot_ms(&self) -> u64 {
        self.inner.boot_ms()
    }

    fn stopwatch_us(&self) -> u64 {
        self.inner.stopwatch_us()
    }
}

/// Symptom: a thread saw an event's effect and, asking for its claim, found none. Cause: a commit
/// gave readers the snapshot first and the recent claims after, in two steps. Now both are one.
pub(crate) fn claim_and_state_become_visible_in_one_step() {
    let clock = Looking { inner: SimClock::new(START_MS), seen: Arc::default() };
    let builder = Inbox::builder(Retention::at_least(WINDOW)).clock(clock.clone()).no_threads();
    let inbox = builder.open_in_memory().unwrap();
    let (consumer, map) = (inbox.consumer("c").unwrap(), counter(&inbox));
    clock.seen.through.set((inbox.clone(), consumer.clone(), map.clone())).unwrap();
    let put = consumer.process(&event(1), |tx| Ok(tx.insert(&map, &0, &1)?));
    assert!(put.unwrap().is_applied());
    assert!(!clock.seen.torn.load(Ordering::SeqCst), "an effect was visible without its claim");
}

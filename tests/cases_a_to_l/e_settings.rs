//! E2: 0, 1 ns and the largest of each time setting. None of them means "for ever" by accident.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use txinbox::{Builder, Consumer, Error, Event, Inbox, Retention, days};

use crate::support::{event, id, never, within};

const TINY: [Duration; 2] = [Duration::ZERO, Duration::from_nanos(1)];

/// Retentions: too short and too long ones are refused wherever they can be given.
#[test]
fn e2_retentions_of_nothing_and_of_ages_are_refused() {
    type Set = fn(Duration) -> Retention;
    let settings: [Set; 5] = [
        Retention::at_least,
        |d| Retention::covering().broker(d),
        |d| Retention::covering().retries(d),
        |d| Retention::covering().recovery(d),
        |d| Retention::covering().replay(d),
    ];
    let inbox = Inbox::in_memory(Retention::at_least(days(1))).unwrap();
    for set in settings {
        let refusals = |d: Duration| -> [Error; 2] {
            [Inbox::in_memory(set(d)).unwrap_err(), inbox.consumer_with("c", set(d)).unwrap_err()]
        };
        for error in TINY.into_iter().flat_map(refusals) {
            assert!(error.is_invalid() && !error.is_retryable(), "{error}");
        }
        for error in refusals(Duration::MAX) {
            assert!(error.is_limit() && error.to_string().contains("forever()"), "{error}");
        }
    }
    assert!(Inbox::in_memory(Retention::covering()).unwrap_err().is_invalid());
    let ever = Inbox::in_memory(Retention::forever()).unwrap();
    assert_eq!((ever.retention(), inbox.retention().is_some()), (None, true));
    assert_eq!(inbox.stats().unwrap().consumers.len(), 0, "a refused consumer is not registered");
}

#[test]
fn e2_a_sweep_without_time_is_refused() {
    let open = |us| {
        let builder = Inbox::builder(Retention::at_least(days(1)));
        builder.sweep_budget_us(us).open_in_memory().map(drop)
    };
    for us in [0, 1, 99] {
        assert!(open(us).unwrap_err().is_invalid());
    }
    for us in [100, u64::MAX] {
        open(us).unwrap();
    }
}

/// Keeps the writer busy until the returned sender is dropped.
fn occupy(consumer: &Consumer) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (inside, entered) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let consumer = consumer.clone();
    let thread = thread::spawn(move || {
        let outcome = consumer.process(&event("slow"), |_| {
            inside.send(())?;
            let _ = stopped.recv();
            Ok(())
        });
        assert!(outcome.unwrap().is_applied());
    });
    entered.recv().unwrap();
    (stop, thread)
}

/// `Consumer::max_wait`: "Zero means not to wait at all"; the largest waits as long as needed.
#[test]
fn e2_waiting_for_the_writer_zero_tiny_and_long() {
    within(Duration::from_secs(20), "e2", || {
        let inbox = Inbox::in_memory(Retention::at_least(days(1))).unwrap();
        let consumer = inbox.consumer("c").unwrap();
        for limit in TINY {
            let impatient = consumer.clone().max_wait(limit);
            assert!(impatient.process(&event("free"), |_| Ok(())).is_ok(), "a free writer");
            let (stop, slow) = occupy(&consumer);
            let started = Instant::now();
            let refused = [
                impatient.process(&event("x"), never::<()>).unwrap_err(),
                impatient.submit(&event("x"), never::<()>).unwrap_err(),
                impatient.forget(&id("free")).unwrap_err(),
            ];
            assert!(refused.iter().all(|e| e.is_timeout() && e.is_retryable()), "{refused:?}");
            let batch = impatient.process_batch(&["x", "y"], |n| event(n), |tx, _| never::<()>(tx));
            assert!(batch.iter().all(|answer| answer.as_ref().is_err_and(Error::is_timeout)));
            assert!(started.elapsed() < Duration::from_secs(2));
            // What needs no writer is answered all the same.
            assert!(impatient.process(&event("free"), never::<()>).unwrap().is_duplicate());
            drop(stop);
            slow.join().unwrap();
            assert!(consumer.forget(&id("slow")).unwrap());
        }
        let (stop, slow) = occupy(&consumer);
        let patient = consumer.clone().max_wait(Duration::MAX);
        let waiting = thread::spawn(move || patient.process(&event("patient"), |_| Ok(())));
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        drop(stop);
        assert!(waiting.join().unwrap().unwrap().is_applied());
        slow.join().unwrap();
        // Each item that could not be written counts once.
        assert_eq!(inbox.stats().unwrap().consumers["c"].other_errors, 2 * (2 + 2));
    });
}

/// `Ticket::wait_timeout` comes back, with or without threads, whatever the limit; waiting for the
/// largest does not wait for ever where nobody else would commit.
#[test]
fn e2_waiting_for_a_ticket_zero_tiny_and_long() {
    within(Duration::from_secs(20), "e2 tickets", || {
        for set in [(|b| b) as fn(Builder) -> Builder, Builder::no_threads] {
            let builder = set(Inbox::builder(Retention::at_least(days(1))));
            let inbox = builder.open_in_memory().unwrap();
            let consumer = inbox.consumer("c").unwrap();
            for limit in TINY.into_iter().chain([Duration::MAX]) {
                let name = format!("{limit:?}");
                let mut ticket = consumer.submit(&event(&name), |_| Ok(())).unwrap();
                let answer = loop {
                    match ticket.wait_timeout(limit) {
                        Ok(answer) => break answer,
                        Err(again) => ticket = again,
                    }
                    assert!(limit < Duration::from_secs(1), "gave up before the largest limit");
                };
                assert!(answer.unwrap().is_applied());
            }
            // While the writer is busy, a limit is kept.
            let ticket = consumer.submit(&event("open"), |_| Ok(()));
            let ticket = ticket.unwrap();
            let (stop, slow) = occupy(&consumer);
            let ticket = match ticket.wait_timeout(Duration::from_nanos(1)) {
                Ok(answer) => {
                    assert!(answer.unwrap().is_applied(), "the store's thread was faster");
                    None
                }
                Err(ticket) => Some(ticket),
            };
            drop(stop);
            slow.join().unwrap();
            assert!(ticket.is_none_or(|ticket| ticket.wait().unwrap().is_applied()));
        }
    });
}

/// The event's own time at the ends of its range: refused as too far ahead, or defined.
#[test]
fn e2_event_times_at_the_ends_of_their_range() {
    let inbox = Inbox::in_memory(Retention::at_least(days(1))).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let deliver = |name: &str, ms| consumer.process(&event(name).at_ms(ms), |_| Ok(()));
    let error = deliver("late", i64::MAX).unwrap_err();
    assert!(error.is_future() && !error.is_retryable(), "{error}");
    for (name, ms) in [("first", i64::MIN), ("zero", 0), ("one", 1)] {
        assert!(deliver(name, ms).unwrap().is_applied());
        assert!(deliver(name, ms).unwrap().is_duplicate());
    }
}

#[cfg(feature = "testkit")]
mod results {
    use super::*;
    use crate::support::{Place, claim_of, sim_clock};
    use txinbox::testkit::SimDisk;

    fn expired(consumer: &Consumer, name: &str) -> bool {
        let outcome = consumer.process(&Event::new(id(name), ""), never::<()>).unwrap();
        assert!(outcome.is_duplicate());
        let claim = claim_of(&outcome);
        assert!(claim.is_result_expired() || claim.result() == Some(b"r"));
        claim.is_result_expired()
    }

    /// `Consumer::result_retention`: nothing is kept for no time, and none outlives its claim, so the
    /// largest does not keep results for ever.
    #[test]
    fn e2_results_kept_for_nothing_and_for_ages() {
        let (place, clock) = (Place::Sim(SimDisk::new()), sim_clock());
        let open = || place.open_with(|b| b.clock(clock.clone()).no_threads());
        let inbox = open();
        let consumer = inbox.consumer("c").unwrap();
        for (name, keep) in [("0", TINY[0]), ("1ns", TINY[1]), ("max", Duration::MAX)] {
            let consumer = consumer.clone().result_retention(keep);
            let applied = consumer.process(&Event::new(id(name), ""), |tx| Ok(tx.set_result("r")?));
            assert_eq!(claim_of(&applied.unwrap()).result(), Some(&b"r"[..]));
        }
        clock.advance(Duration::from_millis(2));
        inbox.sweep().unwrap();
        assert_eq!(["0", "1ns", "max"].map(|n| expired(&consumer, n)), [true, true, false]);
        drop(consumer);
        inbox.close().unwrap();

        let inbox = open();
        let consumer = inbox.consumer("c").unwrap();
        assert_eq!(["0", "1ns", "max"].map(|n| expired(&consumer, n)), [true, true, false]);
        let before = inbox.sweep().unwrap();
        clock.advance(days(9));
        let report = inbox.sweep().unwrap();
        assert_eq!(report.claims_forgotten, 3);
        // The run that held the claims, and the table of the result that was to stay for ages.
        assert!(report.tables_freed >= 2, "{before:?}, then {report:?}");
        assert!(consumer.lookup(&id("max")).unwrap().is_none());
    }

    /// A result without a retention of its own is kept as long as its claim, also if the store's
    /// retention was made longer after it was stored.
    #[test]
    fn e2_results_follow_a_retention_that_was_made_longer() {
        let (place, clock) = (Place::Sim(SimDisk::new()), sim_clock());
        let Place::Sim(disk) = &place else { panic!("simulated") };
        let open = |keep| {
            let builder = Inbox::builder(Retention::at_least(keep));
            builder.clock(clock.clone()).no_threads().open_on(disk).unwrap()
        };
        let inbox = open(days(1));
        let event = Event::new(id("x"), "");
        let applied = inbox.consumer("c").unwrap().process(&event, |tx| Ok(tx.set_result("r")?));
        assert!(applied.unwrap().is_applied());
        inbox.close().unwrap();
        let inbox = open(days(7));
        let consumer = inbox.consumer("c").unwrap();
        for _ in 0..7 {
            assert!(!expired(&consumer, "x"));
            clock.advance(days(1));
            inbox.sweep().unwrap();
        }
        assert!(!expired(&consumer, "x"));
        clock.advance(days(2));
        assert_eq!(inbox.sweep().unwrap().claims_forgotten, 1);
    }
}

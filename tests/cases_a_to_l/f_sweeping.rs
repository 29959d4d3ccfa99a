//! F4: maintenance sweeps in a loop under a tiny retention while a handler runs.
//!
//! Claims are not taken over in this release: there is no lease, and the caller that runs a handler
//! holds the writer. What remains is that its claim must not be swept away under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use txinbox::{Inbox, Retention};

use crate::support::{Way, bump, count, event, never, within};

/// The shortest window that is accepted.
const WINDOW: Duration = Duration::from_secs(1);

/// Real time: the handler takes longer than the window, two threads sweep without end.
#[test]
fn f4_a_claim_made_under_a_sweep_lives_its_window_from_its_commit() {
    within(Duration::from_secs(30), "f4", || {
        let inbox = Inbox::in_memory(Retention::at_least(WINDOW)).unwrap();
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let sweepers: Vec<_> = (0..2)
            .map(|_| {
                let (inbox, stop) = (inbox.clone(), stop.clone());
                thread::spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        inbox.sweep().unwrap();
                        thread::sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        for old in 0..100 {
            assert!(consumer.process(&event(&old.to_string()), |_| Ok(())).unwrap().is_applied());
        }
        // Measured from before the commit, so the window ends here at the latest.
        let mut finished = Instant::now();
        let slow = consumer.process(&event("x"), |tx| {
            thread::sleep(WINDOW + WINDOW / 2);
            finished = Instant::now();
            bump(tx, &counts, "x")
        });
        assert!(slow.unwrap().is_applied());
        let mut repeats = 0;
        while finished.elapsed() < WINDOW - Duration::from_millis(20) {
            let again = consumer.process(&event("x"), never::<()>).unwrap();
            assert!(again.is_duplicate());
            repeats += 1;
            thread::sleep(Duration::from_millis(5));
        }
        assert!(repeats > 10, "{repeats}");
        // The old ones go meanwhile, and in the end this one does.
        while consumer.lookup(&crate::support::id("x")).unwrap().is_some() {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::SeqCst);
        sweepers.into_iter().for_each(|sweeper| sweeper.join().unwrap());
        assert_eq!(inbox.stats().unwrap().claims_expired, 101);
        assert!(consumer.process(&event("x"), |tx| bump(tx, &counts, "x")).unwrap().is_applied());
        assert_eq!(count(&inbox, &counts, "x"), 2);
    });
}

/// Simulated time, to the millisecond: however long the handler runs, the window begins at the commit.
#[cfg(feature = "testkit")]
#[test]
fn f4_the_window_begins_at_the_commit_however_long_the_handler_ran() {
    use crate::support::sim_clock;

    for way in Way::ALL {
        for handler in [0, 1, 900, 1_000, 1_100, 60_000].map(Duration::from_millis) {
            let clock = sim_clock();
            let builder = Inbox::builder(Retention::at_least(WINDOW)).clock(clock.clone());
            let inbox = builder.no_threads().open_in_memory().unwrap();
            let consumer = inbox.consumer("c").unwrap();
            assert!(consumer.process(&event("older"), |_| Ok(())).unwrap().is_applied());
            let applied = way.deliver(&consumer, &event("x"), |_| {
                clock.advance(handler);
                Ok(())
            });
            assert!(applied.unwrap().is_applied());
            inbox.sweep().unwrap();
            let fresh = consumer.lookup(&crate::support::id("x")).unwrap().unwrap();
            assert_eq!(fresh.age(), Duration::ZERO, "{handler:?}");
            assert!(fresh.kept_for().unwrap() >= WINDOW);
            for _ in 0..10 {
                clock.advance(WINDOW / 10);
                inbox.sweep().unwrap();
                let again = way.deliver(&consumer, &event("x"), never::<()>).unwrap();
                assert!(again.is_duplicate(), "{handler:?}");
            }
            clock.advance(WINDOW);
            inbox.sweep().unwrap();
            assert!(way.deliver(&consumer, &event("x"), |_| Ok(())).unwrap().is_applied());
        }
    }
}

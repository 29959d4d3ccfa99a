//! Case AB3: a thousand callers wait for one slow event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use txinbox::{Inbox, Map, Outcome, Retention, hours};

use crate::kit::{event, id, secs, within};

/// While a handler runs, a thousand repeats of its event wait. Those with a limit give up by it; reads,
/// look-ups and repeats of settled events go on; then the rest get one answer, the handler's.
#[test]
fn ab3_a_thousand_waiting_repeats_block_nothing_else() {
    within(secs(100), || {
        let inbox = Inbox::in_memory(Retention::at_least(hours(24))).unwrap();
        let counts: Map<u64, u64> = inbox.map("counts").unwrap();
        let consumer = inbox.consumer("c").unwrap();
        assert!(consumer.process(&event(0), |_| Ok(())).unwrap().is_applied());
        let (started, slow_started) = mpsc::channel();
        let (finish, may_finish) = mpsc::channel::<()>();
        let (runs, timeouts, duplicates) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let limit = Duration::from_millis(300);
        std::thread::scope(|scope| {
            let (own, counted) = (consumer.clone(), counts.clone());
            let slow = scope.spawn(move || {
                own.process(&event(1), |tx| {
                    started.send(()).unwrap();
                    may_finish.recv().unwrap();
                    tx.update(&counted, &1, |count| Some(count.unwrap_or(0) + 1))?;
                    Ok(tx.set_result("the answer")?)
                })
            });
            slow_started.recv().unwrap();
            let waiters: Vec<_> = (0..1_000)
                .map(|n| {
                    let (own, runs) = (consumer.clone(), &runs);
                    let (timeouts, duplicates) = (&timeouts, &duplicates);
                    let wait = move || {
                        let limited = n % 2 == 0;
                        let own = if limited { own.max_wait(limit) } else { own };
                        let begun = Instant::now();
                        match own.process(&event(1), |_| {
                            runs.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        }) {
                            Err(error) => {
                                assert!(limited && error.is_timeout(), "{error}");
                                assert!(error.is_retryable() && begun.elapsed() < limit + secs(5));
                                timeouts.fetch_add(1, Ordering::SeqCst);
                            }
                            Ok(Outcome::Duplicate(claim)) => {
                                assert_eq!(claim.result(), Some(&b"the answer"[..]));
                                duplicates.fetch_add(1, Ordering::SeqCst);
                            }
                            Ok(other) => panic!("{other:?}"),
                        }
                    };
                    std::thread::Builder::new()
                        .stack_size(256 << 10)
                        .spawn_scoped(scope, wait)
                        .unwrap()
                })
                .collect();
            while timeouts.load(Ordering::SeqCst) < 500 {
                // With the slot taken, whatever needs no slot is answered at once.
                let begun = Instant::now();
                assert!(consumer.process(&event(0), |_| Ok(())).unwrap().is_duplicate());
                assert!(consumer.lookup(&id(1)).unwrap().is_none());
                let count: Result<_, txinbox::Error> = inbox.read(|view| view.get(&counts, &1));
                assert_eq!(count.unwrap(), None);
                inbox.stats().unwrap();
                assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
                std::thread::sleep(Duration::from_millis(5));
            }
            finish.send(()).unwrap();
            assert!(slow.join().unwrap().unwrap().is_applied());
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert!(consumer.process(&event(2), |_| Ok(())).unwrap().is_applied(), "others go on");
        });
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        assert_eq!(timeouts.load(Ordering::SeqCst), 500);
        assert_eq!(duplicates.load(Ordering::SeqCst), 500);
        let stats = inbox.stats().unwrap();
        let own = &stats.consumers["c"];
        assert_eq!((own.applied, own.other_errors), (3, 500));
    });
}

/// AB3: from inside a handler the store's write calls answer at once that they cannot be made there,
/// whatever a thousand others wait for.
#[test]
fn ab3_a_write_call_from_inside_a_handler_does_not_wait_for_itself() {
    within(secs(20), || {
        let inbox = Inbox::in_memory(Retention::at_least(hours(24))).unwrap();
        let consumer = inbox.consumer("c").unwrap();
        let outcome = consumer.process(&event(1), |_| {
            assert!(consumer.process(&event(2), |_| Ok(())).unwrap_err().is_reentrant());
            assert!(consumer.forget(&id(2)).unwrap_err().is_reentrant());
            assert!(inbox.consumer("another").unwrap_err().is_reentrant());
            assert!(inbox.sweep().unwrap_err().is_reentrant());
            assert!(inbox.verify().unwrap_err().is_reentrant());
            assert!(inbox.clone().close().unwrap_err().is_reentrant());
            assert!(consumer.lookup(&id(2))?.is_none(), "reading is no write");
            Ok(())
        });
        assert!(outcome.unwrap().is_applied());
        assert!(consumer.process(&event(2), |_| Ok(())).unwrap().is_applied());
    });
}

//! C: concurrent deliveries of one event.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use txinbox::{Claim, Inbox, Retention, days};

use crate::support::{Place, Way, bump, claim_of, count, event, id, never, within};

const WATCHDOG: Duration = Duration::from_secs(5);

/// Ten callers deliver one event at once: one handler runs, and all get its result.
fn race(inbox: &Inbox, name: &'static str, way: impl Fn(usize) -> Way) {
    let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map::<str, u64>("n").unwrap());
    let runs = Arc::new(AtomicU32::new(0));
    let start = Arc::new(Barrier::new(10));
    let callers: Vec<_> = (0..10)
        .map(|i| {
            let (consumer, counts) = (consumer.clone(), counts.clone());
            let (runs, start, way) = (runs.clone(), start.clone(), way(i));
            thread::spawn(move || {
                start.wait();
                // Half of them know the event by its alias.
                let (first, other) = if i % 2 == 0 { (name, "alias") } else { ("alias", name) };
                let other = id(&format!("{name}/{other}"));
                let delivery = event(&format!("{name}/{first}")).alias(other);
                let outcome = way.deliver(&consumer, &delivery, |tx| {
                    let run = runs.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(200));
                    bump(tx, &counts, name)?;
                    Ok(tx.set_result(format!("result of run {run}"))?)
                });
                let outcome = outcome.unwrap();
                (outcome.is_applied(), outcome.is_duplicate(), claim_of(&outcome).clone())
            })
        })
        .collect();
    let answers: Vec<(bool, bool, Claim)> =
        callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(answers.iter().filter(|(applied, ..)| *applied).count(), 1);
    assert_eq!(answers.iter().filter(|(_, duplicate, _)| *duplicate).count(), 9);
    for (.., claim) in &answers {
        assert_eq!(claim.result(), Some(&b"result of run 0"[..]));
        assert_eq!(claim.committed_at(), answers[0].2.committed_at());
    }
    assert_eq!(count(inbox, &counts, name), 1);
}

#[test]
fn c2_ten_callers_one_run_one_result() {
    within(4 * WATCHDOG, "c2", || {
        for place in [Place::dir(), Place::dir()] {
            let inbox = place.open();
            race(&inbox, "process", |_| Way::Process);
            race(&inbox, "mixed", |i| Way::ALL[i % 3]);
            inbox.close().unwrap();
            let inbox = place.open_with(txinbox::Builder::no_threads);
            race(&inbox, "no threads", |i| Way::ALL[i % 3]);
            let again = inbox.consumer("c").unwrap();
            assert!(again.process(&event("mixed/mixed"), never::<()>).unwrap().is_duplicate());
        }
    });
}

/// The first of two callers fails: the second, which waited, finds the event new and handles it.
#[test]
fn c2_the_waiting_caller_takes_over_when_the_first_fails() {
    within(WATCHDOG, "c2 takeover", || {
        let inbox = Inbox::in_memory(Retention::at_least(days(7))).unwrap();
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let (inside, entered) = mpsc::channel();
        let first = {
            let (consumer, counts) = (consumer.clone(), counts.clone());
            thread::spawn(move || {
                consumer.process(&event("x"), |tx| {
                    bump(tx, &counts, "x")?;
                    inside.send(())?;
                    thread::sleep(Duration::from_millis(100));
                    Err::<(), _>("planned".into())
                })
            })
        };
        entered.recv().unwrap();
        assert!(consumer.process(&event("x"), |tx| bump(tx, &counts, "x")).unwrap().is_applied());
        assert!(first.join().unwrap().unwrap_err().is_handler());
        assert_eq!(count(&inbox, &counts, "x"), 1);
    });
}

/// A reader opened before the winner's commit, and a loser that started before it: the loser gets
/// the winner's claim in bounded time, and the reader's state stays as it was.
#[test]
fn c5_a_loser_behind_an_old_snapshot_gets_the_winners_claim() {
    for way in Way::ALL {
        within(WATCHDOG, "c5", move || {
            let place = Place::dir();
            let inbox = place.open();
            let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
            let (inside, entered) = mpsc::channel();
            let (go, gone) = mpsc::channel::<()>();
            let winner = {
                let (consumer, counts) = (consumer.clone(), counts.clone());
                thread::spawn(move || {
                    consumer.process(&event("x"), |tx| {
                        inside.send(())?;
                        gone.recv()?;
                        bump(tx, &counts, "x")?;
                        Ok(tx.set_result("winner")?)
                    })
                })
            };
            entered.recv().unwrap();
            inbox
                .read(|view| {
                    let losers: Vec<_> = (0..3)
                        .map(|_| {
                            let consumer = consumer.clone();
                            thread::spawn(move || {
                                way.deliver(&consumer, &event("x"), never::<()>).unwrap()
                            })
                        })
                        .collect();
                    thread::sleep(Duration::from_millis(50));
                    go.send(()).unwrap();
                    for loser in losers {
                        let outcome = loser.join().unwrap();
                        assert!(outcome.is_duplicate());
                        assert_eq!(claim_of(&outcome).result(), Some(&b"winner"[..]));
                    }
                    // One more from within the reader's own thread.
                    assert!(consumer.process(&event("x"), never::<()>)?.is_duplicate());
                    assert_eq!(view.get(&counts, "x")?, None);
                    Ok::<(), txinbox::Error>(())
                })
                .unwrap();
            assert!(winner.join().unwrap().unwrap().is_applied());
            assert_eq!(count(&inbox, &counts, "x"), 1);
        });
    }
}

/// Twenty threads claim and fail without end; a caller with a limit of 200 ms returns by about then,
/// with an answer or with the error that it has waited enough. In `Consumer::max_wait`.
fn limited_caller(handler: Duration, call: impl Fn(&txinbox::Consumer) -> bool) -> bool {
    let inbox = Inbox::in_memory(Retention::at_least(days(7))).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let crowd: Vec<_> = (0..20)
        .map(|_| {
            let (consumer, stop) = (consumer.clone(), stop.clone());
            thread::spawn(move || {
                let mut failed = 0;
                while !stop.load(Ordering::SeqCst) {
                    let answer = consumer.process(&event("x"), |_| {
                        thread::sleep(handler);
                        Err::<(), _>("planned".into())
                    });
                    // Once the limited caller has settled the event, it is a duplicate.
                    failed += u32::from(answer.is_err_and(|e| e.is_handler()));
                }
                failed
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(50));
    let limited = consumer.clone().max_wait(Duration::from_millis(200));
    let started = Instant::now();
    let answered = call(&limited);
    let took = started.elapsed();
    stop.store(true, Ordering::SeqCst);
    let failed: u32 = crowd.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(failed > 0);
    assert!(took < Duration::from_millis(1_000), "{took:?} with a limit of 200 ms");
    assert!(answered || took >= Duration::from_millis(200), "gave up after {took:?}");
    answered
}

#[test]
fn c6_a_caller_with_a_limit_returns_by_about_then() {
    let settled = |answer: Result<txinbox::Outcome<()>, txinbox::Error>| match answer {
        Ok(outcome) => outcome.is_applied(),
        Err(error) => {
            assert!(error.is_timeout() && error.is_retryable(), "{error}");
            assert!(error.to_string().contains("200 ms"), "{error}");
            false
        }
    };
    within(6 * WATCHDOG, "c6", move || {
        for way in Way::ALL {
            // 20 handlers of 40 ms are ahead: it gives up. Of 1 ms: it gets its turn.
            let deliver = |c: &txinbox::Consumer| settled(way.deliver(c, &event("x"), |_| Ok(())));
            assert!(!limited_caller(Duration::from_millis(40), deliver), "{way:?}");
            assert!(limited_caller(Duration::from_millis(1), deliver), "{way:?}");
        }
        let forget = |c: &txinbox::Consumer| match c.forget(&id("x")) {
            Ok(known) => !known,
            Err(error) => !error.is_timeout(),
        };
        assert!(!limited_caller(Duration::from_millis(40), forget));
    });
}

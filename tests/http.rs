//! Requests with an idempotency key: every row of the table in `txinbox::http`, over restarts and races.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // tests, helpers included
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // these are tests, not the crate

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use txinbox::http::{Decision, Exchange, Idempotency, Problem, Response};
use txinbox::testkit::{SimClock, SimDisk};
use txinbox::{Inbox, Map, Retention, hours};

struct Site {
    disk: SimDisk,
    clock: SimClock,
}

impl Site {
    fn new() -> Self {
        Self { disk: SimDisk::new(), clock: SimClock::new(1_800_000_000_000) }
    }

    fn open(&self) -> Inbox {
        Inbox::builder(Retention::at_least(hours(31)))
            .clock(self.clock.clone())
            .seed(1)
            .no_threads()
            .result_max_bytes(1_000)
            .open_on(&self.disk)
            .unwrap()
    }
}

fn keys(inbox: &Inbox) -> Idempotency {
    Idempotency::new(inbox.consumer("http").unwrap()).lease_time(Duration::from_secs(30))
}

fn ask(keys: &Idempotency, body: &str) -> Decision {
    keys.begin("client", Some("\"k\""), &[b"POST", b"/pay", body.as_bytes()]).unwrap()
}

fn run(decision: Decision) -> Exchange {
    match decision {
        Decision::Run(exchange) => exchange,
        other => panic!("{other:?}"),
    }
}

fn answer(decision: Decision) -> Response {
    match decision {
        Decision::Answer(response) => response,
        other => panic!("{other:?}"),
    }
}

fn reject(decision: Decision) -> Problem {
    match decision {
        Decision::Reject(problem) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_or_malformed_key_is_400_each_time() {
    let inbox = Site::new().open();
    let keys = keys(&inbox);
    for key in [None, Some(""), Some("\"\""), Some("a, b"), Some("\"open")] {
        for _ in 0..2 {
            let problem = reject(keys.begin("client", key, &[b"POST"]).unwrap());
            assert_eq!((problem.status(), problem.retry_after()), (400, None), "{key:?}");
        }
    }
    assert!(keys.begin("", Some("k"), &[b"POST"]).unwrap_err().is_invalid());
    assert_eq!(inbox.stats().unwrap().consumers["http"].leased, 0);
}

#[test]
fn a_repeat_gets_409_then_the_stored_response_byte_for_byte_over_restarts() {
    let site = Site::new();
    let mut inbox = site.open();
    let paid: Map<str, u64> = inbox.map("paid").unwrap();
    let mut exchange = run(ask(&keys(&inbox), "10"));
    let problem = reject(ask(&keys(&inbox), "10"));
    assert_eq!((problem.status(), problem.retry_after()), (409, Some(Duration::from_secs(1))));
    assert_eq!(reject(ask(&keys(&inbox), "99")).status(), 422, "another payload, while it runs");
    let sent = exchange.finish(|tx| {
        tx.insert(&paid, "client", &10)?;
        Ok(Response::new(201, vec![0, 0xff, b'\n']).header("location", "/1").header("x", "\u{e9}"))
    });
    let sent = sent.unwrap();
    for stage in ["at once", "reopened", "sealed", "sealed and reopened"] {
        if stage == "sealed" {
            site.clock.advance(hours(8));
            inbox.sweep().unwrap();
        }
        if stage.ends_with("reopened") {
            inbox.close().unwrap();
            inbox = site.open();
        }
        assert_eq!(answer(ask(&keys(&inbox), "10")), sent, "{stage}");
        assert_eq!(reject(ask(&keys(&inbox), "99")).status(), 422, "{stage}");
    }
    assert_eq!(inbox.read(|view| view.get(&paid, "client")).unwrap(), Some(10));
}

/// The parts of a request are told apart, and so are clients.
#[test]
fn no_two_requests_are_taken_for_one() {
    let inbox = Site::new().open();
    let keys = keys(&inbox);
    let begin = |client: &str, key, parts: &[&[u8]]| keys.begin(client, Some(key), parts).unwrap();
    run(begin("a", "k", &[b"POST", b"/pay"])).finish(|_| Ok(Response::new(200, "a"))).unwrap();
    for parts in [&[&b"POST/pay"[..]][..], &[b"POST/", b"pay"], &[b"POST"], &[]] {
        assert_eq!(reject(begin("a", "k", parts)).status(), 422);
    }
    for (client, key) in [("b", "k"), ("ak", "k"), ("a", "ak"), ("a", "K")] {
        run(begin(client, key, &[b"POST", b"/pay"])).refuse(Response::new(404, "no")).unwrap();
    }
    assert_eq!(answer(begin("a", "\"k\"", &[b"POST", b"/pay"])).body(), b"a");
    assert_eq!(answer(begin("b", "k", &[b"POST", b"/pay"])).status(), 404);
}

#[test]
fn a_refusal_is_stored_and_an_abandoned_request_is_run_again() {
    let site = Site::new();
    let inbox = site.open();
    let keys = keys(&inbox);
    let mut exchange = run(ask(&keys, "10"));
    exchange.lease_mut().note("asked the bank").unwrap();
    exchange.abandon("no answer", Duration::from_secs(5)).unwrap();
    assert_eq!(reject(ask(&keys, "10")).status(), 409);
    site.clock.advance(Duration::from_secs(5));
    let mut again = run(ask(&keys, "10"));
    assert_eq!(again.lease().previous_note(), Some(&b"asked the bank"[..]));
    let sent = again.refuse(Response::new(402, "no cover")).unwrap();
    assert_eq!(answer(ask(&keys, "10")), sent);
}

/// F2 over HTTP: the handler took longer than its lease, another has answered: both clients get one response.
#[test]
fn f2_a_late_handler_sends_the_response_of_the_one_who_took_over() {
    let site = Site::new();
    let inbox = site.open();
    let keys = keys(&inbox);
    let (mut late, mut later) = (run(ask(&keys, "10")), {
        site.clock.advance(Duration::from_secs(30));
        run(ask(&keys, "10"))
    });
    site.clock.advance(Duration::from_secs(30));
    let mut last = run(ask(&keys, "10"));
    let fenced = late.finish(|_| panic!("it ran")).unwrap();
    assert_eq!(fenced.status(), 409);
    let sent = last.finish(|_| Ok(Response::new(200, "the one"))).unwrap();
    assert_eq!(later.finish(|_| panic!("it ran")).unwrap(), sent);
    assert_eq!(answer(ask(&keys, "10")), sent);
}

#[test]
fn a_response_that_is_gone_too_large_or_none_is_told_apart() {
    let site = Site::new();
    let inbox = site.open();
    let consumer = inbox.consumer("http").unwrap().result_retention(Duration::from_secs(60));
    let keys = Idempotency::new(consumer.max_attempts(1));
    let large = run(ask(&keys, "10")).finish(|_| Ok(Response::new(200, vec![0; 1_000])));
    assert!(large.unwrap_err().is_limit());
    assert_eq!(reject(ask(&keys, "10")).status(), 409, "in progress for the rest of its lease");
    site.clock.advance(Duration::from_secs(60));
    let dead = reject(ask(&keys, "10"));
    assert_eq!((dead.status(), dead.retry_after()), (409, None));

    let begin = || keys.begin("client", Some("other"), &[b"GET"]).unwrap();
    run(begin()).finish(|_| Ok(Response::new(200, "kept for a minute"))).unwrap();
    site.clock.advance(Duration::from_secs(120));
    inbox.sweep().unwrap();
    let gone = reject(begin());
    assert_eq!((gone.status(), gone.retry_after()), (409, None));
}

/// Many clients send one request at the same moment: one run, and nobody gets another answer than its.
#[test]
fn concurrent_requests_run_once() {
    let inbox = Inbox::in_memory(Retention::at_least(hours(1))).unwrap();
    let keys = keys(&inbox);
    let count: Map<str, u64> = inbox.map("count").unwrap();
    for round in 0..50 {
        let key = format!("key-{round}");
        let start = Barrier::new(8);
        let send = || {
            start.wait();
            loop {
                match keys.begin("client", Some(&key), &[b"POST"]).unwrap() {
                    Decision::Answer(response) => return response,
                    Decision::Reject(problem) => assert_eq!(problem.status(), 409),
                    Decision::Run(mut exchange) => {
                        let finish = |tx: &mut txinbox::Tx<'_>| {
                            tx.update(&count, "n", |n| Some(n.unwrap_or(0) + 1))?;
                            Ok(Response::new(200, format!("response {round}")))
                        };
                        return exchange.finish(finish).unwrap();
                    }
                }
            }
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
            for response in all {
                let response = response.join().unwrap();
                assert_eq!(response, Response::new(200, format!("response {round}")));
            }
        });
    }
    assert_eq!(inbox.read(|view| view.get(&count, "n")).unwrap(), Some(50));
}

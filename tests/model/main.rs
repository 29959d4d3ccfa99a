//! Random steps against the store and the reference model at once.
//!
//! A failing run prints its steps, shrunk. Runs are drawn from one seed, so each is the same run again:
//! `TXINBOX_CASES` says how many, `TXINBOX_SEED` which; `TXINBOX_SEED=random` draws one and prints it.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test fails as the test does

mod steps;

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use txinbox::testkit::{Coverage, Runner};

/// What must happen at least once over the whole run, or the test tests less than it says.
const WANTED: [&str; 29] = [
    "applied",
    "duplicate",
    "duplicate with a result",
    "result expired",
    "mismatch",
    "refused",
    "duplicate of a refusal",
    "skipped",
    "too late",
    "future",
    "failed",
    "panicked",
    "forgot",
    "nothing to forget",
    "claims sealed",
    "claims merged",
    "buckets forgotten",
    "claims forgotten",
    "tables freed",
    "reopened",
    "restarted",
    "crashed",
    "crashed while opening",
    "kept, not answered",
    "lost, not answered",
    "failed by trouble",
    "healed",
    "retained",
    "audited",
];

/// Ends the process, saying which run it was, when a run takes this long: nothing may hang.
const HANGS_AFTER: Duration = Duration::from_secs(120);

fn watchdog() -> Sender<String> {
    let (sender, runs) = channel::<String>();
    std::thread::spawn(move || {
        let mut current = String::new();
        loop {
            match runs.recv_timeout(HANGS_AFTER) {
                Ok(next) => current = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("it hangs: {current}");
                    std::process::abort();
                }
            }
        }
    });
    sender
}

fn cases() -> u32 {
    let asked = std::env::var("TXINBOX_CASES").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if cfg!(debug_assertions) { 128 } else { 1_024 })
}

fn seed() -> u64 {
    match std::env::var("TXINBOX_SEED") {
        Ok(text) if text == "random" => {
            std::hash::RandomState::new().build_hasher().finish() // keyed by the system
        }
        Ok(text) => text.parse().unwrap(),
        Err(_) => 1,
    }
}

#[test]
fn the_store_answers_as_the_model_does() {
    let coverage = RefCell::new(Coverage::default());
    let mut config = Config::with_cases(cases());
    config.failure_persistence = None;
    config.max_shrink_time = 60_000;
    let seed = seed();
    eprintln!("TXINBOX_SEED={seed}");
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 4].concat());
    let mut runner = TestRunner::new_with_rng(config, rng);
    let watchdog = watchdog();
    let result = runner.run(&steps::runs(), |(seed, ops)| {
        let _ = watchdog.send(format!("seed {seed}, {ops:?}"));
        let mut runner = Runner::new(seed).map_err(proptest::test_runner::TestCaseError::fail)?;
        let done = runner.steps(&ops);
        coverage.borrow_mut().merge(runner.coverage());
        done.map_err(proptest::test_runner::TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("TXINBOX_SEED={seed}: {error}");
    }
    let coverage = coverage.into_inner();
    eprintln!("{coverage:?}");
    assert_eq!(coverage.missing(&WANTED), [""; 0], "{coverage:?}");
}

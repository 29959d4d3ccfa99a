//! The README's first command, killed at random moments and run again.
//!
//! The example is compiled into this test and run in processes of its own, so that what is killed
//! is what the README promises, built from these very sources.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

#[path = "../examples/quakes/main.rs"]
#[allow(dead_code)]
mod quakes;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Names the directory of the store to the process that plays the feed.
const DIR: &str = "TXINBOX_TEST_QUAKES_DIR";
/// Stores, and kills of the process that works on each.
const STORES: u32 = 2;
const KILLS_PER_STORE: u32 = 10;

/// What a child runs; without a directory, as in an ordinary run of the tests, nothing.
#[test]
fn plays_the_feed_when_asked() {
    if let Some(dir) = std::env::var_os(DIR) {
        let options = quakes::Options { dir: dir.into(), json: true };
        assert!(quakes::run(&options).unwrap(), "the state differs");
    }
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_the_feed_when_asked", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for the end and returns the closing line.
fn finish(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {stdout}", output.status);
    // The harness may have written its own words on the same line before.
    let line = stdout.lines().find_map(|l| l.find("{\"deliveries\"").map(|at| &l[at..]));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no closing line in: {stdout}"))).unwrap()
}

fn counter(line: &Value, name: &str) -> i64 {
    line[name].as_i64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// 1,707 quakes; as many last revisions; 1,335 first estimates, which are revisions too.
const APPLIED: i64 = 1_707 + 1_707 + 1_335;
const DELIVERIES: i64 = 2 * 142_884;

#[test]
fn a_whole_run_applies_each_event_once_and_further_runs_apply_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = finish(start(dir.path()));
    assert_eq!(first["check"], "ok");
    assert_eq!(counter(&first, "deliveries"), DELIVERIES);
    assert_eq!(counter(&first, "applied"), APPLIED);
    assert_eq!(counter(&first, "duplicates"), DELIVERIES - APPLIED);
    assert_eq!(counter(&first, "mismatches"), 0);
    assert_eq!(counter(&first, "alerts"), 39);

    // Three weeks of feed are more than the retention covers, were they to age the claims.
    for _ in 0..2 {
        let again = finish(start(dir.path()));
        assert_eq!(again["check"], "ok");
        assert_eq!(counter(&again, "applied"), 0);
        assert_eq!(counter(&again, "duplicates"), DELIVERIES);
        assert_eq!(counter(&again, "alerts"), 0);
    }
}

#[test]
fn killed_at_random_moments_it_ends_with_the_same_state() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut random = seed;
    let mut killed = 0;
    for store in 0..STORES {
        let timed = tempfile::tempdir().unwrap();
        let started = Instant::now();
        finish(start(timed.path()));
        let whole = started.elapsed();
        println!("store {store}, seed {seed}: a whole run takes {whole:?}");

        let dir = tempfile::tempdir().unwrap();
        for kill in 1..=KILLS_PER_STORE {
            let mut child = start(dir.path());
            // Later ones get further, since what was handled before is handled fast.
            let share = f64::from(kill) / f64::from(KILLS_PER_STORE) * fraction(&mut random);
            std::thread::sleep(whole.mul_f64(0.8 * share));
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap(); // SIGKILL
                killed += 1;
            }
            child.wait().unwrap();
        }
        let last = finish(start(dir.path()));
        println!("{last}");
        assert_eq!(last["check"], "ok", "seed {seed}");
        assert_eq!(counter(&last, "mismatches"), 0, "seed {seed}");
        assert_eq!(counter(&finish(start(dir.path())), "applied"), 0, "seed {seed}");
    }
    println!("{killed} kills");
    assert!(killed >= STORES * KILLS_PER_STORE / 2, "only {killed} kills: too fast to be killed");
}

/// The next of a sequence of numbers from 0 up to 1 (SplitMix64).
fn fraction(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Otherwise each run would age the claims by a week.
#[test]
fn the_clock_of_the_example_never_goes_back() {
    use txinbox::Clock;
    let clock = quakes::clock::FeedClock::starting_at(1_000);
    clock.resume_at(5_000);
    assert_eq!((clock.wall_ms(), clock.boot_ms()), (5_000, 0));
    assert_eq!(clock.follow(2_000), 5_000);
    assert_eq!((clock.wall_ms(), clock.boot_ms()), (5_000, 0));
    assert_eq!(clock.follow(6_500), 6_500);
    assert_eq!((clock.wall_ms(), clock.boot_ms()), (6_500, 1_500));
}

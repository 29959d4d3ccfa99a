//! Cases S1 and S6: how long opening takes after a kill, and what it depends on.

use std::path::Path;
use std::time::{Duration, Instant};

use txinbox::{Inbox, Map, Retention, hours};

use crate::child;
use crate::kit::{event, median, sized};

/// Opens the store and applies a first new event; how long that took.
fn open_to_first_event(dir: &Path, n: u64) -> Duration {
    let start = Instant::now();
    let inbox = Inbox::builder(Retention::at_least(hours(24))).open_existing(dir).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let first = consumer.process(&event(u64::MAX - n), |_| Ok(())).unwrap();
    let took = start.elapsed();
    assert!(first.is_applied());
    inbox.close().unwrap();
    took
}

/// Fills a store in another process, kills it, and measures opening: after the kill, then after clean
/// closes. The first claims after each are right.
fn kill_and_open(claims: u64) -> (Duration, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let mut filler = child::start("fill", dir.path(), claims, &[]);
    assert_eq!(filler.expect("filled"), claims);
    filler.kill();
    let killed = open_to_first_event(dir.path(), 0);
    let clean = median((1..6).map(|n| open_to_first_event(dir.path(), n)).collect());

    let inbox = Inbox::builder(Retention::at_least(hours(24))).open_existing(dir.path()).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    for n in (0..claims).step_by((claims / 1_000) as usize) {
        assert!(consumer.process(&event(n), |_| Ok(())).unwrap().is_duplicate(), "{n} is lost");
    }
    assert_eq!(inbox.stats().unwrap().consumers["c"].claims, claims + 6);
    println!("{claims} claims: {killed:?} after a kill, {clean:?} after a clean close");
    (killed, clean)
}

/// S1: the bound is the claims that are not sealed yet, a million at most, not the store.
#[test]
fn s1_opening_after_a_kill_does_not_depend_on_the_store() {
    let (small, large) = (sized(20_000, 100_000), sized(100_000, 500_000));
    let (_, _) = kill_and_open(small);
    let (killed, clean) = kill_and_open(large);
    let limit = Duration::from_millis(sized(2_000, 500));
    assert!(killed < limit && clean < limit, "{killed:?} and {clean:?}");
}

#[test]
#[ignore = "5 and 20 million claims; run by the deep suite: cargo test --release -- --ignored"]
fn s1_opening_five_and_twenty_million_claims_after_a_kill() {
    let (five, _) = kill_and_open(5_000_000);
    let (twenty, _) = kill_and_open(20_000_000);
    let bound = Duration::from_secs(1);
    assert!(five < bound && twenty < bound, "{five:?} and {twenty:?}");
}

/// S6: a hundred kills in a row while the store grows. Nothing acknowledged is lost, nothing applied
/// twice, and opening costs at the end what it costs in a store of that size after one kill.
#[test]
fn s6_opening_follows_the_size_and_not_the_number_of_kills() {
    let dir = tempfile::tempdir().unwrap();
    let kills = sized(40, 100);
    let (mut next, mut opened) = (0, Vec::new());
    for kill in 0..kills {
        let mut feeder = child::start("feed", dir.path(), next, &[]);
        opened.push(Duration::from_micros(feeder.expect("opened")));
        let mut acked = None;
        for _ in 0..10 + kill % 7 {
            acked = Some(feeder.expect("acked"));
        }
        let rest = feeder.kill();
        let last = rest.iter().filter_map(|line| line.strip_prefix("acked ")).next_back();
        next = last.map_or(acked.unwrap(), |n| n.parse().unwrap()) + 1;
    }
    let inbox = child::open(dir.path());
    let (consumer, counts) = (inbox.consumer("c").unwrap(), child::counts(&inbox));
    inbox.verify().unwrap();
    check_counts(&inbox, &counts, next);
    for n in 0..next {
        assert!(consumer.process(&event(n), |_| Ok(())).unwrap().is_duplicate(), "{n} is lost");
    }
    let third = opened.len() / 3;
    let (early, late) =
        (median(opened[1..third].to_vec()), median(opened[opened.len() - third..].to_vec()));
    println!("{kills} kills, {next} events: opening took {early:?}, then {late:?}");
    assert!(late < 4 * early + Duration::from_millis(100), "{early:?}, then {late:?}");
}

/// Each acknowledged event counted once; the one in flight at each kill may have been too, but then it
/// was delivered again and found.
fn check_counts(inbox: &Inbox, counts: &Map<u64, u64>, next: u64) {
    let rows: Result<Vec<(u64, u64)>, txinbox::Error> = inbox.read(|v| v.scan(counts, .., 10));
    let total: u64 = rows.unwrap().iter().map(|(_, count)| count).sum();
    assert!((next..=next + 1).contains(&total), "{total} counted of {next}");
}

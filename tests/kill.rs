//! A real process is killed in the middle of its work, again and again, on one store.
//!
//! It prints an id only once its event is durable. After each kill every printed id is a duplicate,
//! and the counter in the state equals the number of distinct ids. The victim is this very binary, told
//! by its environment. Set `TXINBOX_KILLS` for more kills.
#![cfg(all(feature = "testkit", unix))]
#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test fails as the test does

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use txinbox::testkit::audit;
use txinbox::{Advice, BoxError, Builder, Event, EventId, Inbox, Map, Retention, Tx};

fn kills() -> u64 {
    let asked = std::env::var("TXINBOX_KILLS").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if cfg!(debug_assertions) { 20 } else { 100 })
}

/// The victim's work: ids from the one given on, in batches and singly, printed once durable.
fn work(dir: &Path, mut next: u64) -> Result<(), BoxError> {
    let inbox = builder().open(dir)?;
    let consumer = inbox.consumer("victim")?;
    let counts: Map<u64, u64> = inbox.map("counts")?;
    let apply = |tx: &mut Tx<'_>, id: &u64| -> Result<(), BoxError> {
        tx.update(&counts, &0, |n| Some(n.unwrap_or(0) + 1))?;
        Ok(tx.insert(&counts, &(1 + id), &1)?)
    };
    let mut out = std::io::stdout().lock();
    loop {
        let ids: Vec<u64> = (next..next + 16).collect();
        for (id, answer) in ids.iter().zip(consumer.process_batch(&ids, |id| event(*id), apply)) {
            assert!(answer?.is_applied(), "{id} is new");
            writeln!(out, "{id}")?;
        }
        out.flush()?;
        next += 16;
        assert!(consumer.process(&event(next), |tx| apply(tx, &next))?.advice() == Advice::Ack);
        writeln!(out, "{next}")?;
        out.flush()?;
        next += 1;
    }
}

#[test]
#[ignore = "it works until it is killed; the other test runs it"]
fn victim() {
    let dir = std::env::var("TXINBOX_VICTIM_DIR").unwrap();
    let first = std::env::var("TXINBOX_VICTIM_FIRST").unwrap().parse().unwrap();
    work(Path::new(&dir), first).unwrap();
}

/// Lets the victim work until it has printed so many ids, kills it, and returns all it printed.
fn run_and_kill(dir: &Path, first: u64, lines: u64) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "victim", "--nocapture"])
        .env("TXINBOX_VICTIM_DIR", dir)
        .env("TXINBOX_VICTIM_FIRST", first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut printed = Vec::new();
    let mut line = String::new();
    while (printed.len() as u64) < lines && out.read_line(&mut line).unwrap() > 0 {
        // The harness of the victim prints lines of its own.
        printed.extend(line.trim().parse::<u64>());
        line.clear();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had printed by then is promised too, whole lines only.
    while out.read_line(&mut line).unwrap() > 0 {
        if line.ends_with('\n') {
            printed.extend(line.trim().parse::<u64>());
        }
        line.clear();
    }
    printed
}

fn builder() -> Builder {
    Inbox::builder(Retention::at_least(Duration::from_secs(3_600)))
        .recent_max_claims(1_024)
        .cache_bytes(4 << 20)
}

fn event(id: u64) -> Event<'static> {
    Event::unchecked(EventId::bytes(&id.to_be_bytes()).unwrap())
}

/// Everything printed is claimed, and the state counts every claim once. Returns the next free id.
fn judge(dir: &Path, printed: &[u64]) -> u64 {
    let inbox = builder().open_existing(dir).unwrap();
    audit(&inbox, false).unwrap();
    let consumer = inbox.consumer("victim").unwrap();
    let counts: Map<u64, u64> = inbox.map("counts").unwrap();
    for id in printed {
        let outcome = consumer.process(&event(*id), |_| Ok(())).unwrap();
        assert!(outcome.is_duplicate(), "{id} was printed, and lost: {outcome:?}");
    }
    let rows = inbox.read(|view| view.scan(&counts, 1.., usize::MAX)).unwrap();
    let counter = inbox.read(|view| view.get(&counts, &0)).unwrap().unwrap_or(0);
    assert_eq!(counter, rows.len() as u64);
    assert_eq!(inbox.stats().unwrap().consumers["victim"].claims, counter);
    for (key, _) in rows.iter().rev().take(64) {
        let id = EventId::bytes(&(key - 1).to_be_bytes()).unwrap();
        assert!(consumer.lookup(&id).unwrap().is_some(), "state without claim: {id}");
    }
    inbox.close().unwrap();
    rows.last().map_or(0, |(key, _)| *key)
}

#[test]
fn what_was_printed_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let mut next = 0;
    let mut printed = Vec::new();
    let mut opened = false;
    for kill in 0..kills() {
        // From "at once", while the store is still being made, to some way into its work.
        let lines = kill * kill * 37 % 611;
        let fresh = run_and_kill(&store, next, lines);
        opened |= !fresh.is_empty();
        if !store.join("txinbox.redb").exists() {
            assert!(!opened && fresh.is_empty());
            continue;
        }
        printed.extend(fresh);
        // Of the old ones a sample, else the test would grow with the square of its kills.
        let sample = printed.iter().rev().enumerate().filter(|(n, _)| *n < 200 || n % 17 == 0);
        let sample: Vec<u64> = sample.map(|(_, id)| *id).collect();
        next = judge(&store, &sample);
    }
    println!("{} kills, {} events printed", kills(), printed.len());
    judge(&store, &printed);
    assert!(printed.len() > 200);
}

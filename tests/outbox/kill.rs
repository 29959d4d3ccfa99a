//! W2: a real relay is killed between sending and acknowledging, again and again.
//!
//! The victim handles events and relays their messages; "sending" is a line of its output. After all kills
//! every message of every claimed event was sent once or more, always under one id. The victim is this very
//! binary, told by its environment. Set `TXINBOX_KILLS` for more kills.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use txinbox::outbox::Message;
use txinbox::testkit::audit;
use txinbox::{BoxError, Builder, Inbox, Retention};

use crate::kit::{Desk, event, payload, secs};

fn kills() -> usize {
    let asked = std::env::var("TXINBOX_KILLS").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if cfg!(debug_assertions) { 20 } else { 200 })
}

fn builder() -> Builder {
    Inbox::builder(Retention::at_least(secs(3_600))).recent_max_claims(1_024).cache_bytes(4 << 20)
}

/// The victim's work: some events, then their messages, and so on.
fn work(dir: &Path) -> Result<(), BoxError> {
    let desk = Desk::at(builder().open(dir)?);
    let mut out = std::io::stdout().lock();
    let next = desk.inbox.map::<u8, u64>("next")?;
    loop {
        let first = desk.inbox.read(|view| view.get(&next, &0))?.unwrap_or(0);
        let ids: Vec<u64> = (first..first + 8).collect();
        let batch = desk.consumer.process_batch(
            &ids,
            |id| event(&id.to_string()),
            |tx, id| {
                let key = (id % 3).to_string();
                tx.enqueue(&desk.to, Message::new(id.to_string()).key(key))?;
                Ok(tx.insert(&next, &0, &(id + 1))?)
            },
        );
        assert_eq!(batch.settled_prefix(), ids.len());
        loop {
            let taken = desk.to.take(5)?;
            if taken.is_empty() {
                break;
            }
            for delivery in &taken {
                writeln!(out, "sent {} {}", payload(delivery), delivery.id())?;
            }
            out.flush()?;
            desk.to.acknowledge(&taken)?;
        }
    }
}

#[test]
#[ignore = "it works until it is killed; the other test runs it"]
fn victim() {
    let dir = std::env::var("TXINBOX_VICTIM_DIR").unwrap();
    work(Path::new(&dir)).unwrap();
}

/// Lets the victim work until it has sent so many, kills it, and returns all that it sent.
fn run_and_kill(dir: &Path, lines: usize) -> Vec<(u64, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "kill::victim", "--nocapture"])
        .env("TXINBOX_VICTIM_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut sent, mut line) = (Vec::new(), String::new());
    let read = |line: &str| -> Option<(u64, String)> {
        let (_, sent) = line.strip_suffix('\n')?.split_once("sent ")?;
        let (number, id) = sent.split_once(' ')?;
        Some((number.parse().ok()?, id.to_owned()))
    };
    while sent.len() < lines && out.read_line(&mut line).unwrap() > 0 {
        sent.extend(read(&line));
        line.clear();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had sent by then is sent, too.
    while out.read_line(&mut line).unwrap() > 0 {
        sent.extend(read(&line));
        line.clear();
    }
    sent
}

#[test]
fn w2_every_message_is_sent_under_one_id_whatever_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut sent: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut lines = 0;
    let note = |sent: &mut BTreeMap<u64, BTreeSet<String>>, all: Vec<(u64, String)>| {
        for (number, id) in all {
            sent.entry(number).or_default().insert(id);
        }
    };
    for round in 0..kills() {
        let all = run_and_kill(dir.path(), 1 + round % 23);
        lines += all.len();
        note(&mut sent, all);
    }
    // The last relay is not killed.
    let desk = Desk::at(builder().open_existing(dir.path()).unwrap());
    loop {
        let taken = desk.take();
        if taken.is_empty() {
            break;
        }
        let all = taken.iter().map(|d| (payload(d).parse().unwrap(), d.id().to_string()));
        note(&mut sent, all.collect());
        desk.to.acknowledge(&taken).unwrap();
    }
    let next = desk.inbox.map::<u8, u64>("next").unwrap();
    let handled = desk.inbox.read(|view| view.get(&next, &0)).unwrap().unwrap();
    assert!(sent.keys().copied().eq(0..handled), "{handled} events, {} messages", sent.len());
    assert!(sent.values().all(|ids| ids.len() == 1), "one id each");
    println!("{} kills, {handled} messages, {lines} sendings", kills());
    audit(&desk.inbox, false).unwrap();
}

//! Real processes: this test binary runs itself again, in a role, so that it can be killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use txinbox::{Event, Inbox, Map, Retention, hours};

use crate::kit::{event, id};

const ROLE: &str = "TXINBOX_CASE_ROLE";
const DIR: &str = "TXINBOX_CASE_DIR";
const FROM: &str = "TXINBOX_CASE_FROM";

/// A process in a role. Its lines begin with "> ", apart from what the test harness prints.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

/// Starts a process. Killed when dropped.
pub(crate) fn start(role: &str, dir: &Path, from: u64, env: &[(&str, &str)]) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .env(FROM, from.to_string())
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Process { child, lines }
}

impl Process {
    /// The next line that the role printed, or `None` at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The harness may have begun the line, and a kill may have cut it.
            if let (Some((_, own)), true) = (line.split_once("> "), line.ends_with('\n')) {
                return Some(own.trim_end().to_owned());
            }
        }
    }

    /// The number behind a word on the next line.
    pub(crate) fn expect(&mut self, word: &str) -> u64 {
        let line = self.line().unwrap_or_else(|| panic!("no {word}: {}", self.errors()));
        line.strip_prefix(word).and_then(|n| n.trim().parse().ok()).expect(&line)
    }

    /// SIGKILL; then what the process had printed but nobody had read.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.line()).collect()
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) -> (Vec<String>, String) {
        drop(self.child.stdin.take());
        let lines = std::iter::from_fn(|| self.line()).collect();
        let errors = self.errors();
        assert!(self.child.wait().unwrap().success(), "{errors}");
        (lines, errors)
    }

    fn errors(&mut self) -> String {
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut errors).unwrap();
        }
        errors
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How every role opens its store.
pub(crate) fn open(dir: &Path) -> Inbox {
    Inbox::builder(Retention::at_least(hours(24)))
        .recent_max_claims(4_096)
        .cache_bytes(16 << 20)
        .open(dir)
        .unwrap()
}

/// The map in which every role counts its events.
pub(crate) fn counts(inbox: &Inbox) -> Map<u64, u64> {
    inbox.map("counts").unwrap()
}

/// Does nothing, unless this process was started in a role.
#[test]
fn process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dir = std::env::var_os(DIR).unwrap();
    let from: u64 = std::env::var(FROM).unwrap().parse().unwrap();
    match role.as_str() {
        "hold" => hold(Path::new(&dir)),
        "feed" => feed(Path::new(&dir), from),
        "fill" => fill(Path::new(&dir), from),
        "repeats" => repeats(Path::new(&dir)),
        "zones" => crate::clocks::zones(Path::new(&dir)),
        other => panic!("{other} is no role"),
    }
}

/// Holds the store until told to end.
fn hold(dir: &Path) {
    let _inbox = open(dir);
    println!("> opened");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Feeds one event after the other, from a number on, and prints each number once it is durable.
fn feed(dir: &Path, from: u64) {
    let start = std::time::Instant::now();
    let inbox = open(dir);
    println!("> opened {}", start.elapsed().as_micros());
    let (counts, consumer) = (counts(&inbox), inbox.consumer("c").unwrap());
    for n in from.. {
        let applied = consumer.process(&event(n), |tx| {
            tx.update(&counts, &(n % 7), |count| Some(count.unwrap_or(0) + 1))?;
            Ok(())
        });
        assert!(applied.unwrap().claim().is_some());
        println!("> acked {n}");
        if n % 64 == 63 {
            // Sixty tickets that nobody waits for: they may be lost, but only from the last on.
            let tickets: Vec<_> = (0..60)
                .map(|t| consumer.submit(&Event::unchecked(id(1 << 40 | n << 8 | t)), |_| Ok(())))
                .collect();
            drop(tickets);
        }
    }
}

/// Fills the store with claims and waits to be killed.
fn fill(dir: &Path, claims: u64) {
    let inbox = Inbox::builder(Retention::at_least(hours(24))).open(dir).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let numbers: Vec<u64> = (0..claims).collect();
    for chunk in numbers.chunks(1_000) {
        let batch = consumer.process_batch(chunk, |n| event(*n), |_, _| Ok(()));
        assert_eq!(batch.settled_prefix(), chunk.len());
    }
    println!("> filled {claims}");
    std::thread::sleep(Duration::from_secs(600));
}

/// Repeats one event ten thousand times.
fn repeats(dir: &Path) {
    let inbox = open(dir);
    let consumer = inbox.consumer("c").unwrap();
    let mut duplicates = 0;
    for _ in 0..10_001 {
        let outcome = consumer.process(&event(1), |_| Ok(())).expect("a repeat is no error");
        duplicates += u64::from(outcome.is_duplicate());
    }
    println!("> duplicates {duplicates}");
}

//! How much memory, space and time a number of retained claims costs on this machine:
//! `cargo run --release --example capacity -- load 20000000 ./capacity-store`, then, in a process of
//! its own, `... -- open 20000000 ./capacity-store`.
//!
//! `load` retains that many claims, runs an eighth more in groups of 1000, prints what it cost, and ends
//! as a kill would. `open` prints how long it takes until the first new event is applied. Linux only
//! tells the memory; elsewhere it reads as zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use txinbox::{BoxError, Clock, Consumer, Event, EventId, Inbox, Map, Retention, days};

const COUNTERS: u64 = 10_000;
const RETENTION: Duration = days(8);

/// Store time that the events drive, a stopwatch that is real.
#[derive(Debug, Clone)]
struct EventClock(Arc<(AtomicU64, Instant)>);

impl Clock for EventClock {
    fn wall_ms(&self) -> i64 {
        1_800_000_000_000
    }

    fn boot_ms(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    fn stopwatch_us(&self) -> u64 {
        u64::try_from(self.0.1.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// SplitMix64's finaliser: spreads a counter over all 64 bits.
fn spread(n: u64) -> u64 {
    let x = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn event(n: u64) -> Result<Event<'static>, txinbox::Error> {
    let id = [spread(n).to_be_bytes(), spread(!n).to_be_bytes()].concat();
    Ok(Event::unchecked(EventId::bytes(&id)?).fingerprint(n))
}

/// Memory that this process has now, and the most that it had since this was last asked.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mib = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
        let kib = line.split_whitespace().next().and_then(|kib| kib.parse().ok());
        kib.unwrap_or(0.0_f64) / 1024.0
    };
    // Begins the peak anew; where that is forbidden it stays that of the whole run.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    format!("{:.1} MiB resident, {:.1} at the peak", mib("VmRSS:"), mib("VmHWM:"))
}

struct Store {
    inbox: Inbox,
    consumer: Consumer,
    counters: Map<u64, u64>,
    clock: EventClock,
    claims: u64,
}

impl Store {
    #[allow(clippy::disallowed_methods)] // a program may look at the clock; the crate may not
    fn open(claims: u64, dir: &str) -> Result<Self, BoxError> {
        let clock = EventClock(Arc::new((AtomicU64::new(0), Instant::now())));
        let inbox = Inbox::builder(Retention::at_least(RETENTION))
            .clock(clock.clone())
            .cache_bytes(16 << 20)
            .open(dir)?;
        let (consumer, counters) = (inbox.consumer("capacity")?, inbox.map("counters")?);
        Ok(Self { inbox, consumer, counters, clock, claims })
    }

    /// Applies new events; each group moves the clock on, so that one retention passes in as many
    /// events as are to be retained, and a sixteenth more.
    fn apply(&self, events: std::ops::Range<u64>, group: u64) -> Result<(), BoxError> {
        let mut next = events.start;
        while next < events.end {
            let end = events.end.min(next + group);
            let items = (next..end).map(|n| Ok((n, event(n)?)));
            let items = items.collect::<Result<Vec<_>, txinbox::Error>>()?;
            let batch = self.consumer.process_batch(
                &items,
                |(_, event)| event.clone(),
                |tx, (n, _)| {
                    let counter = spread(*n) % COUNTERS;
                    tx.update(&self.counters, &counter, |c| Some(c.unwrap_or(0) + 1))?;
                    Ok(())
                },
            );
            for answer in batch {
                if !answer?.is_applied() {
                    return Err("a new event was not applied".into());
                }
            }
            let passed = (end - next) * 8 * 86_400_000 / (self.claims + self.claims / 16).max(1);
            self.clock.0.0.fetch_add(passed, Ordering::Relaxed);
            next = end;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods)]
fn load(claims: u64, dir: &str) -> Result<(), BoxError> {
    let store = Store::open(claims, dir)?;
    let started = Instant::now();
    store.apply(0..claims, 4_000)?;
    println!("loaded {claims} claims in {:.1?}, {}", started.elapsed(), resident());
    let started = Instant::now();
    store.inbox.sweep()?;
    println!("swept in {:.1?}, {}", started.elapsed(), resident());
    let before = store.inbox.stats()?;
    println!(
        "{} sealed claims in {} runs, {:.1} bytes a claim, filters {:.1} MiB, file {} MiB",
        before.sealed_claims,
        before.runs,
        before.sealed_bytes as f64 / before.sealed_claims.max(1) as f64,
        before.filter_memory_bytes as f64 / f64::from(1 << 20),
        before.file_bytes >> 20,
    );
    let more = claims / 8;
    let started = Instant::now();
    store.apply(claims..claims + more, 1_000)?;
    let us = started.elapsed().as_micros() as f64 / more.max(1) as f64;
    let after = store.inbox.stats()?;
    println!("{more} more in groups of 1000: {us:.2} us an event, {}", resident());
    println!(
        "{} slices of maintenance, the longest {:.1?}; those below each bound in us: {:?}",
        after.slices, after.slice_max, after.slice_histogram_us
    );
    std::process::abort() // as a kill would end it: nothing is closed
}

#[allow(clippy::disallowed_methods)]
fn open(claims: u64, dir: &str) -> Result<(), BoxError> {
    let started = Instant::now();
    let store = Store::open(claims, dir)?;
    println!("open after {:.1?}", started.elapsed());
    let new = event(u64::MAX - std::process::id() as u64)?;
    let applied = store.consumer.process(&new, |_| Ok(()))?.is_applied();
    println!("first new event applied ({applied}) after {:.1?}", started.elapsed());
    let repeat = store.consumer.process(&event(claims.saturating_sub(1))?, |_| Ok(()))?;
    println!("repeat recognised: {}; {}", repeat.is_duplicate(), resident());
    Ok(())
}

fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", claims, dir] => load(claims.parse()?, dir),
        ["open", claims, dir] => open(claims.parse()?, dir),
        _ => {
            println!("usage: capacity load|open CLAIMS DIR");
            Ok(())
        }
    }
}

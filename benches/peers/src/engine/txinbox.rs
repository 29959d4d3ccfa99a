//! txinbox, through its public interface only.
//!
//! - `process` for a single event, `process_batch` for a group, a typed `Map<u64, u64>` for the counters; the handler
//!   reads a counter and writes it back. Events carry their own fingerprint, as the peers' rows do.
//! - Cache as given; maintenance on the crate's own thread; everything else as the builder chooses.
//! - Retention is eight days of a clock that events drive: each new event moves it on by eight days / claims, so that
//!   the store always retains the claims it was loaded with, seals and forgets while it is measured, and nobody waits
//!   for eight days. A window in groups lasts for at least a bucket's worth of events, an eighth of all claims.
//! - Threads: each calls `process`; the store groups them.
//! - Loading: groups of 10,000.

use anyhow::{Result, bail};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use txinbox::testkit::SimClock;
use txinbox::{BoxError, Consumer, EventId, Inbox, Map, Outcome, Retention, Tx};

use super::{Engine, Settings, locked_version};
use crate::events::Event;

const RETENTION: Duration = Duration::from_secs(8 * 24 * 3600);
/// Buckets that a retention period is divided into, at least.
const BUCKETS: u64 = 8;
/// Where the clock's wall time starts; any fixed time will do.
const EPOCH_MS: i64 = 1_767_225_600_000;
/// Counters read at once.
const PAGE: usize = 10_000;
const LOADED_AT_ONCE: usize = 10_000;

pub struct Txinbox {
    inbox: Inbox,
    consumer: Consumer,
    counters: Map<u64, u64>,
    clock: SimClock,
    /// Claims retained at any time, and new events so far in this process.
    claims: u64,
    fresh: AtomicU64,
}

impl Txinbox {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let clock = SimClock::new(EPOCH_MS);
        let inbox = Inbox::builder(Retention::at_least(RETENTION))
            .cache_bytes(settings.cache_bytes)
            .clock(clock.clone())
            .open(dir)?;
        let consumer = inbox.consumer("peers")?;
        let counters = inbox.map("counters")?;
        let fresh = AtomicU64::new(0);
        Ok(Self { inbox, consumer, counters, clock, claims: settings.claims, fresh })
    }

    fn count(&self, tx: &mut Tx<'_>, event: &Event) -> Result<(), BoxError> {
        let Some(counter) = event.counter else {
            return Ok(());
        };
        let before = tx.get(&self.counters, &counter)?.unwrap_or(0);
        tx.insert(&self.counters, &counter, &(before + 1))?;
        Ok(())
    }

    /// Claims that pass in one retention: a sixteenth more than are retained, since a batch is loaded in the order
    /// of ids, and so some of the retained ones are older than their number says.
    fn kept(&self) -> u64 {
        self.claims + self.claims.div_ceil(16)
    }

    /// Moves the clock to where `fresh` more new events put it.
    fn advance(&self, fresh: u64) {
        let before = self.fresh.fetch_add(fresh, Ordering::Relaxed);
        let at = |events: u64| {
            let ms = u128::from(events) * RETENTION.as_millis() / u128::from(self.kept());
            u64::try_from(ms).unwrap_or(u64::MAX)
        };
        self.clock.advance(Duration::from_millis(at(before + fresh) - at(before)));
    }
}

#[allow(clippy::expect_used)] // sixteen bytes are always an id
fn delivery(event: &Event) -> txinbox::Event<'static> {
    let id = EventId::bytes(&event.id).expect("an id of sixteen bytes");
    txinbox::Event::unchecked(id).fingerprint(event.fingerprint)
}

fn is_new<T>(outcome: &Outcome<T>) -> Result<bool> {
    match outcome {
        Outcome::Applied(..) => Ok(true),
        Outcome::Duplicate(_) => Ok(false),
        _ => bail!("neither applied nor a duplicate"),
    }
}

impl Engine for Txinbox {
    fn version(&self) -> Result<String> {
        Ok(locked_version("txinbox"))
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let mut fresh = Vec::new();
        claims.chunks(LOADED_AT_ONCE).try_for_each(|chunk| self.apply(chunk, &mut fresh))
    }

    /// Counters belong to events, so a few events bring them.
    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        for chunk in counters.chunks(LOADED_AT_ONCE) {
            let first = chunk.first().copied().unwrap_or(0);
            let event =
                txinbox::Event::unchecked(EventId::parts(&[b"load", &first.to_be_bytes()])?);
            let outcome = self.consumer.process(&event, |tx| {
                for counter in chunk {
                    tx.insert(&self.counters, counter, &0)?;
                }
                Ok(())
            })?;
            is_new(&outcome)?;
        }
        Ok(())
    }

    fn finish_load(&self) -> Result<()> {
        self.settle()
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        fresh.clear();
        if let [event] = events {
            let outcome = self.consumer.process(&delivery(event), |tx| self.count(tx, event))?;
            fresh.push(is_new(&outcome)?);
        } else {
            let batch = self.consumer.process_batch(
                events,
                |event| delivery(event),
                |tx, event| self.count(tx, event),
            );
            for outcome in batch {
                fresh.push(is_new(&outcome?)?);
            }
        }
        self.advance(u64::try_from(fresh.iter().filter(|new| **new).count())?);
        Ok(())
    }

    fn commits_concurrently(&self) -> bool {
        true
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        let total = self.inbox.read(|view| -> Result<u64, txinbox::Error> {
            let mut total = 0;
            let mut after = Bound::Unbounded;
            loop {
                let page = view.scan(&self.counters, (after, Bound::Unbounded), PAGE)?;
                total += page.iter().map(|(_, count)| count).sum::<u64>();
                match page.last() {
                    Some((last, _)) => after = Bound::Excluded(*last),
                    None => return Ok(total),
                }
            }
        })?;
        Ok(Some(total))
    }

    /// Until nothing is left to seal, merge or free.
    fn settle(&self) -> Result<()> {
        self.inbox.sweep()?;
        Ok(())
    }

    fn retained_claims(&self) -> u64 {
        self.claims
    }

    fn min_window_events(&self, group: usize) -> u64 {
        if group >= 100 { self.kept().div_ceil(BUCKETS) * 21 / 20 } else { 0 }
    }
}

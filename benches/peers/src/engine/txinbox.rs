//! txinbox, through its public interface only.
//!
//! - `process` for a single event, `process_batch` for a group; in workloads with tickets `submit_batch`, with the group
//!   before still under way: two tickets at most. A typed `Map<u64, u64>` for the counters; the handler reads a
//!   counter and writes it back. Events carry their own fingerprint, as the peers' rows do.
//! - Cache as given; maintenance on the crate's own thread; everything else as the builder chooses.
//! - Retention goes by a clock that events drive, so that the store seals and forgets while it is measured and nobody
//!   waits for days. As many events pass in R as claims were loaded: so many are retained, neither more nor fewer. A
//!   bucket of R/8 goes as a whole, R after its end, so that up to 9/8 as many are stored.
//! - A window in groups of 100 and more lasts for at least a bucket and a quarter, unless events are offered at a pace.
//! - What upkeep does to calls (`calm`, `busy`) is measured with a second consumer, whose retention is so short beside
//!   the first one's that all its buckets pass while a thousandth of one of the first does. `busy`: each bucket takes
//!   20,000 events, so that sealing and forgetting follow each other without a rest.
//!   `calm`: the clock stands, and before half a million claims have piled up, when sealing would begin, the window
//!   stands still and all of them are sealed.
//! - Threads: each calls `process`; the store groups them.
//! - Loading: groups of up to 10,000, in the order of their making.

use anyhow::{Result, bail, ensure};
use std::ops::Bound;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use txinbox::testkit::SimClock;
use txinbox::{Batch, BoxError, Consumer, EventId, Inbox, Map, Outcome, Retention, Tx};

use super::{Engine, Pending, PeriodicWork, Settings, locked_version};
use crate::events::Event;
use crate::workload::{self, Age, Kind, Upkeep, Workload};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The window of the claims that are loaded, and that of the second consumer.
const LONG: Duration = Duration::from_secs(8000 * 24 * 3600);
const SHORT: Duration = DAY;
/// Buckets that a retention R is divided into; one more is stored at times.
const BUCKETS: u64 = 8;
/// Where the clock's wall time starts; any fixed time will do.
const EPOCH_MS: i64 = 1_796_083_200_000;
/// Counters read at once.
const PAGE: usize = 10_000;
/// So many events at least, as maintenance lags behind a bucket's end by some tenths of a second.
const MIN_WINDOW_EVENTS: u64 = 100_000;
/// New events of a bucket in `busy`.
const BUSY_BUCKET: u64 = 20_000;
/// New events between two rests in `calm`: fewer than the half million at which sealing begins.
const CALM_EVENTS: u64 = 400_000;

/// What the clock does with a new event, and which consumer gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The first consumer; R passes with so many new events.
    Retain(u64),
    /// The second consumer; the clock stands.
    Calm,
    /// The second consumer; a bucket passes with so many new events.
    Busy(u64),
}

pub struct Txinbox {
    inbox: Inbox,
    /// For the claims that are loaded and retained; for `calm` and `busy`.
    consumer: Consumer,
    churn: Consumer,
    counters: Map<u64, u64>,
    clock: SimClock,
    pace: Mutex<Pace>,
    /// New events that pass in R, and those settled at the present pace.
    claims: u64,
    fresh: AtomicU64,
    loaded_at_once: usize,
}

/// R, for a window as the crate derives it: the window and a part of 31 more.
fn retention_ms(window: Duration) -> u128 {
    window.as_millis() * 32 / 31
}

impl Txinbox {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let clock = SimClock::new(EPOCH_MS);
        let inbox = Inbox::builder(Retention::at_least(LONG))
            .cache_bytes(settings.cache_bytes)
            .clock(clock.clone())
            .open(dir)?;
        let consumer = inbox.consumer("peers")?;
        let churn = inbox.consumer_with("churn", Retention::at_least(SHORT))?;
        let counters = inbox.map("counters")?;
        Ok(Self {
            inbox,
            consumer,
            churn,
            counters,
            clock,
            pace: Mutex::new(Pace::Retain(settings.claims)),
            claims: settings.claims,
            fresh: AtomicU64::new(0),
            loaded_at_once: usize::try_from(settings.claims / 100)?.clamp(1000, 10_000),
        })
    }

    fn count(&self, tx: &mut Tx<'_>, event: &Event) -> Result<(), BoxError> {
        let Some(counter) = event.counter else {
            return Ok(());
        };
        let before = tx.get(&self.counters, &counter)?.unwrap_or(0);
        tx.insert(&self.counters, &counter, &(before + 1))?;
        Ok(())
    }

    fn pace(&self) -> Result<Pace> {
        Ok(*super::lock(&self.pace)?)
    }

    fn consumer(&self, pace: Pace) -> &Consumer {
        match pace {
            Pace::Retain(_) => &self.consumer,
            Pace::Calm | Pace::Busy(_) => &self.churn,
        }
    }

    /// Moves the clock to where the new events among these answers put it.
    fn advance(&self, fresh: &[bool], pace: Pace) -> Result<()> {
        let new = u64::try_from(fresh.iter().filter(|new| **new).count())?;
        let before = self.fresh.fetch_add(new, Ordering::Relaxed);
        let (ms, events) = match pace {
            Pace::Retain(events) => (retention_ms(LONG), events),
            Pace::Calm => return Ok(()),
            Pace::Busy(events) => (retention_ms(SHORT) / u128::from(BUCKETS), events),
        };
        let at = |count: u64| u128::from(count) * ms / u128::from(events);
        let passed = u64::try_from(at(before + new) - at(before))?;
        self.clock.advance(Duration::from_millis(passed));
        Ok(())
    }

    /// The answers of a durable batch; they move the clock on.
    fn settled(&self, batch: Batch<()>, pace: Pace) -> Result<Vec<bool>> {
        let answers: Vec<_> =
            batch.into_iter().map(|outcome| is_new(&outcome?)).collect::<Result<_>>()?;
        self.advance(&answers, pace)?;
        Ok(answers)
    }

    /// Lets so many of the second consumer's buckets pass, and waits until what that calls for is done: after one all that
    /// is recent is sealed, after two more than a retention holds all is forgotten.
    fn pass_buckets(&self, buckets: u64) -> Result<()> {
        let bucket = retention_ms(SHORT) / u128::from(BUCKETS) + 2;
        self.clock.advance(Duration::from_millis(u64::try_from(bucket)? * buckets));
        self.settle()
    }
}

#[allow(clippy::expect_used)] // sixteen bytes are always an id
fn delivery<'e>(event: &'e Event) -> txinbox::Event<'e> {
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

    fn loads_in_order(&self) -> bool {
        true
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let mut fresh = Vec::new();
        claims.chunks(self.loaded_at_once).try_for_each(|chunk| self.apply(chunk, &mut fresh))
    }

    /// Counters belong to events, so a few events bring them.
    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        for chunk in counters.chunks(PAGE) {
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
        let pace = self.pace()?;
        let consumer = self.consumer(pace);
        let [event] = events else {
            let batch = consumer.process_batch(events, delivery, |tx, event| self.count(tx, event));
            fresh.extend(self.settled(batch, pace)?);
            return Ok(());
        };
        let outcome = consumer.process(&delivery(event), |tx| self.count(tx, event))?;
        fresh.push(is_new(&outcome)?);
        self.advance(fresh, pace)
    }

    fn submit(&self, events: &[Event]) -> Result<Pending<'_>> {
        let pace = self.pace()?;
        let ticket =
            self.consumer(pace).submit_batch(events, delivery, |tx, event| self.count(tx, event));
        Ok(Pending::UnderWay(Box::new(move || self.settled(ticket.wait(), pace))))
    }

    fn tickets(&self) -> usize {
        2
    }

    fn prepare(&self, workload: &Workload) -> Result<()> {
        let pace = match workload.kind {
            Kind::New(Upkeep::Rests) => Pace::Calm,
            Kind::New(Upkeep::NeverEnds) => Pace::Busy(BUSY_BUCKET),
            _ => Pace::Retain(self.claims),
        };
        let before = std::mem::replace(&mut *super::lock(&self.pace)?, pace);
        if before != pace || pace == Pace::Calm {
            self.fresh.store(0, Ordering::Relaxed);
        }
        match pace {
            Pace::Calm => self.pass_buckets(1)?,
            // What `calm` left behind is not forgotten in a window of `busy`.
            Pace::Busy(_) if before != pace => self.pass_buckets(BUCKETS + 2)?,
            _ => {}
        }
        if workload.kind == Kind::Duplicates(Age::Sealed) {
            let recent = self.inbox.stats()?.recent_claims;
            let most = workload::maybe_unsealed(self.claims);
            ensure!(
                recent <= most,
                "{recent} claims are not sealed, of which {most} are not drawn"
            );
        }
        Ok(())
    }

    fn catch_up(&self) -> Result<()> {
        if self.fresh.load(Ordering::Relaxed) >= CALM_EVENTS {
            self.fresh.store(0, Ordering::Relaxed);
            self.pass_buckets(1)?;
        }
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

    fn min_window_events(&self, workload: &Workload) -> u64 {
        let retains = matches!(workload.kind, Kind::Mixed { .. } | Kind::ClaimsOnly);
        let lasts = retains && workload.group >= 100 && workload.groups_per_s.is_none();
        if lasts { (self.claims.div_ceil(BUCKETS) * 5 / 4).max(MIN_WINDOW_EVENTS) } else { 0 }
    }

    /// What was forgotten had been sealed before.
    fn periodic_work(&self) -> Result<Option<PeriodicWork>> {
        let stats = self.inbox.stats()?;
        Ok(Some(PeriodicWork {
            sealed: stats.sealed_claims + stats.claims_expired,
            forgotten: stats.claims_expired,
            slices: stats.slices,
        }))
    }
}

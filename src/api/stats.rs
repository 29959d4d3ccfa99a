//! Numbers about an open store.

mod destinations;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::error::Error;
pub use destinations::DestinationStats;

use crate::engine::{ConsumerCounters, ConsumerEntry, Engine, SweepReport};

/// What one [`Inbox::sweep`](crate::Inbox::sweep) did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sweep {
    /// Buckets whose time had come.
    pub buckets_forgotten: u64,
    /// Claims in them.
    pub claims_forgotten: u64,
    /// Recent claims turned into sorted runs.
    pub claims_sealed: u64,
    /// Claims rewritten to keep the number of runs small.
    pub claims_merged: u64,
    /// Tables whose space was freed.
    pub tables_freed: u64,
}

impl Sweep {
    pub(crate) fn add(&mut self, step: &SweepReport) {
        self.buckets_forgotten += step.buckets_forgotten;
        self.claims_forgotten += step.claims_forgotten;
        self.claims_sealed += step.claims_sealed;
        self.claims_merged += step.claims_merged;
        self.tables_freed += step.tables_freed;
    }
}

/// How a store is doing: what is stored now, and what happened since it was opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Claims and aliases in memory, not sealed yet.
    pub recent_claims: u64,
    /// Claims and aliases in sorted runs.
    pub sealed_claims: u64,
    /// Sorted runs that look-ups may ask.
    pub runs: u64,
    /// Buckets of claims.
    pub buckets: u64,
    /// Bytes of pages that sealed claims take, by their number and blocks.
    pub sealed_bytes: u64,
    /// Bytes of memory that recent claims take.
    pub recent_memory_bytes: u64,
    /// Bytes of memory that the filters of sealed claims take.
    pub filter_memory_bytes: u64,
    /// Length of the database file.
    pub file_bytes: u64,
    /// Bytes written to it since it was opened.
    pub written_bytes: u64,
    /// How many claims the store will hold once it has run for its retention at the rate since it
    /// was opened; `None` where claims are kept for ever or nothing has happened yet.
    pub projected_claims: Option<u64>,
    /// How long the oldest expired bucket has been waiting to be forgotten.
    pub oldest_expired: Duration,
    /// How long the oldest view has been open on a state that is no longer the newest.
    pub oldest_view: Duration,
    /// Commits of events, and events in them.
    pub groups: u64,
    /// Events that shared those commits.
    pub grouped_events: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Claims forgotten because their time had come.
    pub claims_expired: u64,
    /// Slices of maintenance, for how long they held up the writer in all and at most, and how
    /// many stayed below each bound in microseconds.
    pub slices: u64,
    /// Time for which slices held up the writer.
    pub slices_total: Duration,
    /// The longest of them.
    pub slice_max: Duration,
    /// Pairs of an exclusive bound in microseconds and the slices below it and no lower bound.
    pub slice_histogram_us: Vec<(u64, u64)>,
    /// Times that a new event waited because maintenance was behind.
    pub throttled: u64,
    /// Events that are worked on under a lease, or wait for their next attempt.
    pub leases: u64,
    /// Events that were given up after their last attempt.
    pub dead_events: u64,
    /// Numbers by consumer.
    pub consumers: BTreeMap<String, ConsumerStats>,
    /// Numbers by destination of messages.
    pub destinations: BTreeMap<String, DestinationStats>,
}

/// What happened to the events of one consumer since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerStats {
    /// Claims stored now, those of events forgotten by hand included until their bucket goes.
    pub claims: u64,
    /// Aliases stored now.
    pub aliases: u64,
    /// About how many bytes of the file its claims take.
    pub bytes: u64,
    /// Events applied.
    pub applied: u64,
    /// Repeats.
    pub duplicates: u64,
    /// Ids that came with another payload.
    pub mismatches: u64,
    /// Events at or below the floor.
    pub too_late: u64,
    /// Events that the handler turned down for good.
    pub refused: u64,
    /// Leases given out.
    pub leased: u64,
    /// Answers that somebody else works on the event, or that its next attempt is not due.
    pub in_progress: u64,
    /// Attempts that came to an end after another had taken their lease over.
    pub late_finishers: u64,
    /// Answers that an event was given up.
    pub dead: u64,
    /// Events that the handler chose not to remember.
    pub skipped: u64,
    /// Events whose handler returned an error.
    pub handler_errors: u64,
    /// Events whose handler panicked.
    pub panics: u64,
    /// Events that failed for another reason.
    pub other_errors: u64,
    /// Calls of [`Consumer::lookup`](crate::Consumer::lookup).
    pub lookups: u64,
    /// Events forgotten by hand.
    pub forgotten: u64,
    /// Deliveries of ordered sources that came behind a position not settled yet.
    pub blocked: u64,
    /// Deliveries by owners of ordered sources that a newer one has replaced.
    pub fenced: u64,
    /// Ages of repeats: pairs of an exclusive bound in milliseconds and the repeats below it and no
    /// lower bound. Tells whether the retention is long enough.
    pub duplicate_ages_ms: Vec<(u64, u64)>,
}

impl ConsumerStats {
    fn of(counters: &ConsumerCounters) -> Self {
        Self {
            claims: 0,
            aliases: 0,
            bytes: 0,
            applied: counters.applied.get(),
            duplicates: counters.duplicates.get(),
            mismatches: counters.mismatches.get(),
            too_late: counters.too_late.get(),
            refused: counters.refused.get(),
            leased: counters.leased.get(),
            in_progress: counters.in_progress.get(),
            late_finishers: counters.late_finishers.get(),
            dead: counters.dead.get(),
            skipped: counters.skipped.get(),
            handler_errors: counters.handler_errors.get(),
            panics: counters.panics.get(),
            other_errors: counters.other_errors.get(),
            lookups: counters.lookups.get(),
            forgotten: counters.forgotten.get(),
            blocked: counters.blocked.get(),
            fenced: counters.fenced.get(),
            duplicate_ages_ms: counters.duplicate_ages_ms.counts(),
        }
    }
}

/// Bytes of a page, in which blocks of claims lie one each.
const PAGE_BYTES: u64 = 4096;

impl Stats {
    pub(crate) fn of(engine: &Engine) -> Result<Self, Error> {
        engine.check_open()?;
        let counters = &engine.counters;
        let registry: BTreeMap<String, ConsumerEntry> = engine.registry.read().consumers.clone();
        let totals = engine.claim_totals();
        let per_claim_bytes = match totals.sealed_claims {
            0 => 0,
            claims => totals.sealed_blocks.saturating_mul(PAGE_BYTES) / claims,
        };
        let consumers = registry.iter().map(|(name, entry)| {
            let mut stats = ConsumerStats::of(&counters.consumer(entry.id));
            if let Some(sum) = totals.owners.get(&entry.scope()) {
                (stats.claims, stats.aliases) = (sum.claims, sum.aliases);
                stats.bytes = (sum.claims + sum.aliases).saturating_mul(per_claim_bytes);
            }
            (name.clone(), stats)
        });
        let consumers: BTreeMap<_, _> = consumers.collect();
        let applied: u64 = consumers.values().map(|c| c.applied + c.refused).sum();
        let (leases, dead_events) = engine.leases.counts();
        Ok(Self {
            recent_claims: totals.recent_claims,
            sealed_claims: totals.sealed_claims,
            runs: totals.runs,
            buckets: totals.buckets,
            sealed_bytes: totals.sealed_blocks.saturating_mul(PAGE_BYTES),
            recent_memory_bytes: totals.recent_memory_bytes,
            filter_memory_bytes: totals.filter_memory_bytes,
            file_bytes: engine.file_bytes()?,
            written_bytes: engine.written_bytes(),
            projected_claims: engine.projected_claims(applied),
            oldest_expired: Duration::from_millis(totals.oldest_expired_ms),
            oldest_view: engine.oldest_view(),
            groups: counters.groups.get(),
            grouped_events: counters.grouped_events.get(),
            failed_commits: counters.failed_commits.get(),
            claims_expired: counters.claims_expired.get(),
            slices: counters.slices.get(),
            slices_total: Duration::from_micros(counters.slices_us.get()),
            slice_max: Duration::from_micros(counters.slice_max_us.get()),
            slice_histogram_us: counters.slice_us.counts(),
            throttled: counters.throttled.get(),
            leases,
            dead_events,
            consumers,
            destinations: destinations::all(engine)?,
        })
    }
}

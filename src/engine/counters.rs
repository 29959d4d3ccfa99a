//! What happened since the store was opened, counted exactly.
//!
//! Owns the counters of the store, of each consumer and of each destination; `stats` reads them.

use std::collections::BTreeMap;

use crate::base::ids::{ConsumerId, DestinationId};
use crate::base::metrics::{Counter, Histogram};
use crate::base::sync::{Arc, RwLock};

/// Counters of one consumer.
#[derive(Debug, Default)]
pub(crate) struct ConsumerCounters {
    pub(crate) applied: Counter,
    pub(crate) duplicates: Counter,
    pub(crate) mismatches: Counter,
    pub(crate) too_late: Counter,
    pub(crate) skipped: Counter,
    pub(crate) refused: Counter,
    /// Leases given out.
    pub(crate) leased: Counter,
    pub(crate) in_progress: Counter,
    pub(crate) late_finishers: Counter,
    pub(crate) dead: Counter,
    pub(crate) handler_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) other_errors: Counter,
    pub(crate) lookups: Counter,
    pub(crate) forgotten: Counter,
    pub(crate) blocked: Counter,
    pub(crate) fenced: Counter,
    /// Ages of duplicates at their repeat, in milliseconds of store time.
    pub(crate) duplicate_ages_ms: Histogram,
}

/// Counters of one destination of messages.
#[derive(Debug, Default)]
pub(crate) struct DestinationCounters {
    pub(crate) enqueued: Counter,
    /// Sent by generations that are not served, and so not kept.
    pub(crate) muted: Counter,
    pub(crate) handed_out: Counter,
    pub(crate) acknowledged: Counter,
    /// Attempts, those without an answer included.
    pub(crate) failed: Counter,
    /// Hand-outs that were not answered in time.
    pub(crate) overdue: Counter,
    /// Given up as dead letters.
    pub(crate) dead: Counter,
    /// Given up without one.
    pub(crate) dropped: Counter,
    pub(crate) requeued: Counter,
    /// Thrown away by hand.
    pub(crate) discarded: Counter,
}

/// Counters of the whole store.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) groups: Counter,
    pub(crate) grouped_events: Counter,
    pub(crate) failed_commits: Counter,
    /// Bytes of records written to the journal, padding counted.
    pub(crate) journal_bytes: Counter,
    /// Times that a group waited for a checkpoint, since no segment had room.
    pub(crate) journal_full: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) checkpoint_max_us: Counter,
    pub(crate) claims_expired: Counter,
    pub(crate) buckets_forgotten: Counter,
    pub(crate) claims_sealed: Counter,
    pub(crate) claims_merged: Counter,
    pub(crate) slices: Counter,
    /// Microseconds for which maintenance held the write slot: all, and the longest slice.
    pub(crate) slices_us: Counter,
    pub(crate) slice_max_us: Counter,
    pub(crate) slice_us: Histogram,
    /// Times that intake waited for maintenance.
    pub(crate) throttled: Counter,
    consumers: RwLock<BTreeMap<ConsumerId, Arc<ConsumerCounters>>>,
    destinations: RwLock<BTreeMap<DestinationId, Arc<DestinationCounters>>>,
}

impl Counters {
    pub(crate) fn consumer(&self, id: ConsumerId) -> Arc<ConsumerCounters> {
        if let Some(known) = self.consumers.read().get(&id) {
            return known.clone();
        }
        self.consumers.write().entry(id).or_default().clone()
    }

    pub(crate) fn destination(&self, id: DestinationId) -> Arc<DestinationCounters> {
        if let Some(known) = self.destinations.read().get(&id) {
            return known.clone();
        }
        self.destinations.write().entry(id).or_default().clone()
    }
}

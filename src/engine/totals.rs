//! Sums for `stats`: what is stored, how much of it, and what waits.
//!
//! Owns no state. Reads the image and counters only, never the disk's data.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{DEFAULT_CLASS, Engine};
use crate::base::error::Error;
use crate::base::ids::{ClassId, Scope};
use crate::claims::catalogue::Bucket;
use crate::claims::recent::Aggregate;

/// Sums over all claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimTotals {
    pub(crate) recent_claims: u64,
    pub(crate) sealed_claims: u64,
    pub(crate) sealed_blocks: u64,
    pub(crate) runs: u64,
    pub(crate) buckets: u64,
    pub(crate) recent_memory_bytes: u64,
    pub(crate) filter_memory_bytes: u64,
    pub(crate) oldest_expired_ms: u64,
    pub(crate) owners: BTreeMap<Scope, Aggregate>,
}

impl Engine {
    pub(crate) fn claim_totals(&self) -> ClaimTotals {
        let state = self.state.read();
        let mut totals = ClaimTotals {
            recent_claims: state.recent.len() as u64,
            recent_memory_bytes: state.recent.bytes() as u64,
            buckets: state.catalogue.buckets.len() as u64,
            ..ClaimTotals::default()
        };
        for run in state.runs.values().flatten() {
            totals.runs += 1;
            totals.sealed_claims += run.meta().claims;
            totals.filter_memory_bytes += run.filter_memory_bytes() as u64;
            let blocks = run.meta().partitions.iter().map(|p| u64::from(p.blocks));
            totals.sealed_blocks += blocks.sum::<u64>();
        }
        let sealed = state.catalogue.buckets.values().flat_map(|b| b.owners.iter());
        for (scope, sum) in sealed {
            totals.owners.entry(*scope).or_default().merge(sum);
        }
        for (scope, sum) in state.recent.aggregates().values().flatten() {
            totals.owners.entry(*scope).or_default().merge(sum);
        }
        for bucket in state.catalogue.buckets.values() {
            if let Some(at) = state.catalogue.expires_at(bucket) {
                let overdue_ms = self.now(bucket.class).0.saturating_sub(at.0);
                totals.oldest_expired_ms = totals.oldest_expired_ms.max(overdue_ms);
            }
        }
        totals
    }

    /// Retention of a class in milliseconds of store time; `None` for ever.
    pub(crate) fn retention_ms(&self, class: ClassId) -> Option<u64> {
        self.state.read().catalogue.policy(class).retention_ms
    }

    /// What the default class promises, in milliseconds; `None` for ever.
    pub(crate) fn default_window_ms(&self) -> Option<u64> {
        self.state.read().catalogue.policy(DEFAULT_CLASS).window_ms()
    }

    /// Claims in the store after one retention at the rate since it was opened.
    pub(crate) fn projected_claims(&self, applied: u64) -> Option<u64> {
        let open_us = self.clock.stopwatch_us().saturating_sub(self.opened_us);
        let retention_ms = self.retention_ms(DEFAULT_CLASS)?;
        if applied == 0 || open_us == 0 {
            return None;
        }
        let kept = u128::from(applied) * u128::from(retention_ms) * 1_000 / u128::from(open_us);
        // Buckets expire whole, an eighth of the retention after their first claims could.
        Some(u64::try_from(kept + kept / 8).unwrap_or(u64::MAX))
    }

    pub(crate) fn oldest_view(&self) -> Duration {
        Duration::from_micros(self.views.oldest_us(self.clock.stopwatch_us()))
    }

    pub(crate) fn file_bytes(&self) -> Result<u64, Error> {
        self.directory.file_bytes()
    }

    /// Bytes written to the database file since it was last opened, and to the journal.
    pub(crate) fn written_bytes(&self) -> u64 {
        let database = self.state.read().snapshot.written_bytes();
        database.saturating_add(self.counters.journal_bytes.get())
    }

    /// Whether recent claims are about to be sealed.
    pub(super) fn is_sealing_near(&self) -> bool {
        let state = self.state.read();
        let ended = |b: &Bucket| b.end <= self.now(b.class) && state.recent.holds(b.id);
        state.recent.len() * 2 >= self.config.recent_max_claims
            || state.catalogue.buckets.values().any(ended)
    }
}

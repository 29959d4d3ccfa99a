//! What maintenance should do next.
//!
//! Owns the order of the work, not the work. What must hold:
//! PL1. A bucket is forgotten only when its store time has come, and only after all its claims were
//!     sealed. PL2. Never more than `RUNS_MAX` runs of a class: when sealing would pass that, merging comes
//!     first. PL3. With nothing due, the answer is nothing.

use super::catalogue::Bucket;
use super::run::Run;
use super::state::State;
use crate::base::ids::{BucketId, ClassId, IdHash, Position, Seq, StoreMs};
use crate::base::limits::{BUCKETS_MAX, RUNS_MAX};
use crate::base::sync::Arc;

/// Runs of an open bucket that are left as they are.
const OPEN_BUCKET_RUNS: usize = 6;
/// How many of an open bucket's smallest runs are merged at once.
const MERGE_WIDTH: usize = 4;

/// A piece of maintenance.
#[derive(Debug)]
pub(crate) enum Task {
    /// Take expired buckets of claims and results out of the catalogue.
    Forget { buckets: Vec<BucketId>, results: Vec<u32> },
    /// Freeze the young table, since a bucket it holds claims of has ended.
    Freeze,
    /// Turn the frozen tables up to here into runs.
    Seal { through: Seq },
    /// Turn these runs of one bucket into one.
    Merge { bucket: BucketId, inputs: Vec<Arc<Run>> },
    /// Let these two buckets of one class expire together.
    Coalesce { older: BucketId, newer: BucketId },
    /// Remove tombstones that no longer hide anything.
    Retire(Vec<(IdHash, Position)>),
    /// Bring one filter of this run into memory.
    LoadFilter(Arc<Run>),
}

/// Decides on the next task.
pub(crate) struct Planner<'a> {
    pub(crate) state: &'a State,
    /// Store time of each class.
    pub(crate) now: &'a dyn Fn(ClassId) -> StoreMs,
    pub(crate) recent_max_claims: usize,
}

impl Planner<'_> {
    pub(crate) fn next(&self) -> Option<Task> {
        self.load_filter()
            .or_else(|| self.forget())
            .or_else(|| self.relieve())
            .or_else(|| self.seal())
            .or_else(|| self.merge())
            .or_else(|| self.coalesce())
            .or_else(|| self.retire())
    }

    /// What a merge under way gives way to: sealing, unless it has to wait for merging.
    pub(crate) fn urgent(&self) -> Option<Task> {
        if self.relieve().is_some() { None } else { self.seal() }
    }

    fn is_over(&self, bucket: &Bucket) -> bool {
        bucket.end <= (self.now)(bucket.class)
    }

    fn is_expired(&self, bucket: &Bucket) -> bool {
        let policy = self.state.catalogue.policy(bucket.class);
        policy.is_expired(bucket.end, (self.now)(bucket.class))
    }

    fn forget(&self) -> Option<Task> {
        let unsealed = |id: &BucketId| self.state.recent.holds(*id);
        let catalogue = &self.state.catalogue;
        let expired = catalogue.buckets.values().filter(|b| self.is_expired(b));
        let buckets: Vec<_> = expired.map(|b| b.id).filter(|id| !unsealed(id)).collect();
        let results = catalogue
            .results
            .values()
            .filter(|b| catalogue.results_expire_at(b).is_some_and(|at| at <= (self.now)(b.class)));
        let results: Vec<_> = results.map(|b| b.id).collect();
        let any = !(buckets.is_empty() && results.is_empty());
        any.then_some(Task::Forget { buckets, results })
    }

    /// Merging that sealing must wait for.
    fn relieve(&self) -> Option<Task> {
        let full = |class: &ClassId| {
            self.state.runs.get(class).is_some_and(|runs| runs.len() + 1 >= RUNS_MAX)
        };
        let buckets = self.state.catalogue.buckets.values().filter(|b| full(&b.class));
        let crowded = buckets.max_by_key(|b| b.runs.len())?;
        (crowded.runs.len() > 1).then(|| self.merge_of(crowded, crowded.runs.len()))
    }

    fn seal(&self) -> Option<Task> {
        let over = |id: BucketId| {
            self.state.catalogue.buckets.get(&id).is_none_or(|bucket| self.is_over(bucket))
        };
        let recent = &self.state.recent;
        if recent.young_buckets().any(over) {
            return Some(Task::Freeze);
        }
        let frozen = recent.frozen_tables();
        let due = recent.len() * 2 >= self.recent_max_claims
            || frozen.iter().any(|t| t.aggregates().keys().any(|id| over(*id)));
        let through = frozen.last()?.last_seq();
        due.then_some(Task::Seal { through })
    }

    fn merge(&self) -> Option<Task> {
        self.state.catalogue.buckets.values().find_map(|bucket| {
            if self.is_over(bucket) {
                // It will grow no more unless some of its claims are still to be sealed.
                let done = bucket.runs.len() > 1 && !self.state.recent.holds(bucket.id);
                done.then(|| self.merge_of(bucket, bucket.runs.len()))
            } else {
                let crowded = bucket.runs.len() > OPEN_BUCKET_RUNS;
                crowded.then(|| self.merge_of(bucket, MERGE_WIDTH))
            }
        })
    }

    /// Merging the `width` smallest runs of a bucket.
    fn merge_of(&self, bucket: &Bucket, width: usize) -> Task {
        let names: Vec<_> = bucket.runs.iter().map(|meta| meta.name()).collect();
        let of_class = self.state.runs.get(&bucket.class).map(Vec::as_slice).unwrap_or_default();
        let mut inputs: Vec<_> =
            of_class.iter().filter(|r| names.contains(&r.meta().name())).cloned().collect();
        inputs.sort_by_key(|run| run.meta().claims);
        inputs.truncate(width);
        Task::Merge { bucket: bucket.id, inputs }
    }

    /// After a change of retention, buckets of the old span and of the new are alive together.
    fn coalesce(&self) -> Option<Task> {
        for class in self.state.catalogue.classes.keys() {
            let of_class: Vec<_> =
                self.state.catalogue.buckets.values().filter(|b| b.class == *class).collect();
            if let ([older, newer, ..], true) = (&of_class[..], of_class.len() > BUCKETS_MAX)
                && !self.state.recent.holds(older.id)
            {
                return Some(Task::Coalesce { older: older.id, newer: newer.id });
            }
        }
        None
    }

    fn retire(&self) -> Option<Task> {
        let state = self.state;
        let oldest = state.runs.values().flatten().map(|run| run.meta().last).min();
        let unsealed = state.recent.first_seq();
        let gone = state.tombstones.iter().filter(|(_, position)| {
            // Every run ends at or above it, so each was built knowing it; and no row still to be
            // sealed stands before it.
            oldest.is_none_or(|last| last >= position.0)
                && unsealed.is_none_or(|first| first > position.0)
        });
        let gone: Vec<_> = gone.map(|(hash, position)| (*hash, *position)).collect();
        (!gone.is_empty()).then_some(Task::Retire(gone))
    }

    fn load_filter(&self) -> Option<Task> {
        let waiting = self.state.runs.values().flatten().find(|run| run.wants_filter());
        waiting.map(|run| Task::LoadFilter(run.clone()))
    }
}

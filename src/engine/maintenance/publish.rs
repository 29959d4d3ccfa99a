//! The commits that change what look-ups see: a new run, a forgotten bucket, a raised floor.
//!
//! What must hold: PB1. A floor rises in the very transaction that forgets its bucket, before any space
//! is freed. PB2. Each is one durable commit with a sequence of its own; a crash before it leaves the
//! old state, after it the new.

use std::collections::BTreeMap;

use super::{Garbage, Maintenance, SweepReport};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{BucketId, EventMs, IdHash, Position, Scope};
use crate::base::sync::Arc;
use crate::claims::catalogue::Change;
use crate::claims::state::remove_tombstone;
use crate::engine::Engine;
use crate::storage::batch::Batch;
use crate::storage::tables::TableId;

impl Engine {
    /// Publishes the runs that were built, in place of what they were built from.
    pub(super) fn publish_build(&self, work: &mut Maintenance) -> Result<SweepReport, Error> {
        self.checkpoint_soon()?;
        let Some(build) = work.build.take() else { return Ok(SweepReport::default()) };
        if !build.is_whole() && !planted("half-built-run-published") {
            return Err(Error::view_ended()); // never while a failure drops the build
        }
        let mut turn = self.turn(None)?;
        let started_us = self.clock.stopwatch_us();
        if work.epoch != Some(turn.core().epoch) {
            return Err(Error::view_ended());
        }
        let built = build.finish(&self.state.read().catalogue);
        self.commit_change(turn.core(), Batch::default(), &built.change)?;
        let dropped = {
            let mut state = self.state.write();
            state.adopt_built(&built.runs);
            match built.sealed_through {
                Some(through) => state.recent.drop_through(through),
                None => Vec::new(),
            }
        };
        drop(turn);
        self.count_slice(self.clock.stopwatch_us().saturating_sub(started_us));
        drop(dropped); // unmapping takes a while
        work.garbage.extend(built.garbage.into_iter().map(Garbage::Table));
        let mut report = SweepReport::default();
        if built.sealed_through.is_some() {
            work.garbage.push_back(Garbage::Recent { gone: None });
            report.claims_sealed = built.rows;
            self.counters.claims_sealed.add(built.rows);
        } else {
            report.claims_merged = built.rows;
            self.counters.claims_merged.add(built.rows);
        }
        Ok(report)
    }

    /// Takes expired buckets out of the catalogue and raises the floors of their owners.
    pub(super) fn publish_forgetting(
        &self,
        work: &mut Maintenance,
        buckets: &[BucketId],
        results: &[u32],
    ) -> Result<SweepReport, Error> {
        self.checkpoint_soon()?;
        let mut turn = self.turn(None)?;
        let started_us = self.clock.stopwatch_us();
        let mut report = SweepReport::default();
        let mut change = Change { results_gone: results.to_vec(), ..Change::default() };
        let mut garbage = Vec::new();
        {
            let state = self.state.read();
            let mut floors: BTreeMap<Scope, EventMs> = BTreeMap::new();
            for bucket in buckets.iter().filter_map(|id| state.catalogue.buckets.get(id)) {
                change.buckets_gone.push(bucket.id);
                report.buckets_forgotten += 1;
                for (scope, owner) in &bucket.owners {
                    report.claims_forgotten += owner.claims;
                    if let Some(time) = owner.max_event_time {
                        let floor = floors.entry(*scope).or_insert(time);
                        *floor = (*floor).max(time);
                    }
                }
                let names = bucket.runs.iter().map(|meta| meta.name());
                let runs = state.runs.get(&bucket.class).map(Vec::as_slice).unwrap_or_default();
                for name in names {
                    let run = runs.iter().find(|run| run.meta().name() == name);
                    let tables = run.into_iter().flat_map(|run| run.table_names());
                    garbage.extend(tables.map(|t| Garbage::Table(t.to_owned())));
                }
            }
            let raised = floors.into_iter().map(|(scope, floor)| {
                let stored = state.catalogue.floors.get(&scope).copied();
                (scope, stored.map_or(floor, |stored| stored.max(floor)))
            });
            change.floors = raised.collect();
        }
        if planted("floor-not-raised-with-its-bucket") {
            change.floors.clear();
        }
        if planted("bucket-dropped-before-the-floor-is-durable") {
            let early = Change { floors: Vec::new(), ..change.clone() };
            self.commit_change(turn.core(), Batch::default(), &early)?;
        }
        self.commit_change(turn.core(), Batch::default(), &change)?;
        drop(turn);
        self.count_slice(self.clock.stopwatch_us().saturating_sub(started_us));
        work.garbage.extend(garbage);
        let tables = results.iter().map(|id| TableId::Results(*id).name());
        work.garbage.extend(tables.map(Garbage::for_table));
        self.counters.claims_expired.add(report.claims_forgotten);
        self.counters.buckets_forgotten.add(report.buckets_forgotten);
        Ok(report)
    }

    /// Lets the claims of `older` expire with those of `newer`.
    pub(super) fn publish_coalescing(&self, older: BucketId, newer: BucketId) -> Result<(), Error> {
        let mut turn = self.turn(None)?;
        let change = {
            let state = self.state.read();
            let buckets = &state.catalogue.buckets;
            let (Some(old), Some(new)) = (buckets.get(&older), buckets.get(&newer)) else {
                return Ok(());
            };
            if state.recent.holds(older) {
                return Ok(()); // its recent rows still name it; they are sealed first
            }
            let mut joined = new.clone();
            joined.start = old.start.min(new.start);
            joined.runs.extend(old.runs.iter().cloned());
            for (scope, owner) in &old.owners {
                joined.owners.entry(*scope).or_default().merge(owner);
            }
            Change { buckets: vec![joined], buckets_gone: vec![older], ..Change::default() }
        };
        self.commit_change(turn.core(), Batch::default(), &change)
    }

    /// Removes tombstones that hide nothing any more, unless they were renewed since.
    pub(super) fn publish_retirement(&self, gone: &[(IdHash, Position)]) -> Result<(), Error> {
        let mut turn = self.turn(None)?;
        turn.finish_group(); // it may hold a newer tombstone for the same id
        let known = self.state.read().tombstones.clone();
        let gone = gone.iter().filter(|(hash, position)| known.get(hash) == Some(position));
        let gone: Vec<IdHash> = gone.map(|(hash, _)| *hash).collect();
        let mut batch = Batch::default();
        for hash in &gone {
            remove_tombstone(&mut batch, *hash);
        }
        self.commit_change(turn.core(), batch, &Change::default())?;
        let mut state = self.state.write();
        let tombstones = Arc::make_mut(&mut state.tombstones);
        for hash in &gone {
            tombstones.remove(hash);
        }
        Ok(())
    }
}

//! Maintenance: sealing, merging, forgetting and freeing, in slices between groups.
//!
//! Owns what is under way and what is to be freed. Run by the store's own thread, by `sweep`, and, where
//! threads are forbidden, by the callers that close groups; whoever has the lock works.
//!
//! What must hold:
//! MT1. No slice holds the write slot longer than its budget, but for one indivisible step. MT2. Slices
//!     that build or free are invisible and not durable by themselves; a change that look-ups can see is
//!     one durable commit. MT3. After a recovery everything under way is dropped and begun again. MT4. A merge
//!     gives way between two partitions when recent claims are to be sealed, since memory would fill up
//!     meanwhile; nothing else comes between its beginning and its end.

mod publish;
mod slice;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use super::Engine;
use super::registry::Registry;
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{ClassId, Epoch};
use crate::claims::build::Build;
use crate::claims::plan::{Planner, Task};
use crate::claims::run::{RunName, Workbench};
use crate::claims::state::State;
use crate::storage::tables::{TableId, is_reclaimable};

/// Something to be freed.
#[derive(Debug)]
pub(crate) enum Garbage {
    /// A table small enough to be freed in one slice.
    Table(String),
    /// A table freed row by row; rows up to the key are gone already.
    Rows { table: String, gone: Option<Vec<u8>> },
    /// Recent rows that are sealed; those up to the key are gone already.
    Recent { gone: Option<Vec<u8>> },
}

/// The work under way.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// The opening that it belongs to; `None` before the first step.
    epoch: Option<Epoch>,
    build: Option<Build>,
    /// A merge that gave way to the seal under way.
    paused: Option<Build>,
    /// Memory that partitions are prepared in.
    bench: Workbench,
    garbage: VecDeque<Garbage>,
}

/// What maintenance did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SweepReport {
    pub(crate) buckets_forgotten: u64,
    pub(crate) claims_forgotten: u64,
    pub(crate) claims_sealed: u64,
    pub(crate) claims_merged: u64,
    pub(crate) tables_freed: u64,
}

impl Maintenance {
    pub(crate) fn new(state: &State, registry: &Registry) -> Result<Self, Error> {
        let (garbage, bench) = (VecDeque::new(), Workbench::default());
        let mut fresh = Self { epoch: None, build: None, paused: None, bench, garbage };
        fresh.collect_garbage(state, registry)?;
        Ok(fresh)
    }

    /// Finds what earlier openings left half built or half freed.
    fn collect_garbage(&mut self, state: &State, registry: &Registry) -> Result<(), Error> {
        let catalogue = &state.catalogue;
        let live_runs = state.runs.values().flatten().flat_map(|run| run.table_names());
        let live: std::collections::HashSet<String> = live_runs
            .map(str::to_owned)
            .chain(catalogue.results.keys().map(|id| TableId::Results(*id).name()))
            .collect();
        self.garbage.clear();
        self.garbage.push_back(Garbage::Recent { gone: None });
        for table in state.snapshot.table_names()? {
            if is_reclaimable(&table) && !live.contains(&table) {
                self.garbage.push_back(Garbage::for_table(table));
            } else if registry.generations.is_retired(&table) {
                self.retire(table);
            }
        }
        Ok(())
    }

    /// Frees a keyspace of application state that a newer generation has replaced.
    pub(crate) fn retire(&mut self, table: String) {
        self.garbage.push_back(Garbage::Rows { table, gone: None });
    }
}

impl Garbage {
    fn for_table(table: String) -> Self {
        if crate::claims::run::parse_table_name(&table).is_some() {
            Self::Table(table)
        } else {
            Self::Rows { table, gone: None }
        }
    }
}

impl Engine {
    /// One small piece of work; `None` if nothing is due.
    pub(crate) fn maintain_step(&self) -> Result<Option<SweepReport>, Error> {
        self.check_open()?;
        if self.slot.is_mine() {
            return Err(Error::reentrant());
        }
        let mut work = self.maintenance.lock();
        self.step_or_begin_anew(&mut work)
    }

    /// As `maintain_step`, unless somebody else is at it already.
    pub(crate) fn try_maintain_step(&self) {
        if let Some(mut work) = self.maintenance.try_lock() {
            // What failed here fails again, and is reported, at the next commit or sweep.
            let _ = self.step_or_begin_anew(&mut work);
        }
    }

    /// Works until nothing is due or something fails.
    pub(crate) fn maintain_until_idle(&self) -> Result<(), Error> {
        while self.maintain_step()?.is_some() {}
        Ok(())
    }

    /// A build that failed half-way must not be published: its rows would be missing.
    fn step_or_begin_anew(&self, work: &mut Maintenance) -> Result<Option<SweepReport>, Error> {
        let step = self.step(work);
        if step.is_err() && !planted("half-built-run-published") {
            work.epoch = None; // what is under way is dropped, and its tables are found as garbage
        }
        step
    }

    fn step(&self, work: &mut Maintenance) -> Result<Option<SweepReport>, Error> {
        let epoch = self.core_epoch()?;
        if work.epoch != Some(epoch) {
            (work.build, work.paused) = (None, None);
            work.collect_garbage(&self.state.read(), &self.registry.read())?;
            work.epoch = Some(epoch);
        }
        if work.build.is_none() {
            work.build = work.paused.take();
        }
        if let Some(build) = &mut work.build {
            if build.is_writing() {
                return self.write_slice(work).map(Some);
            }
            if build.is_merge()
                && let Some(task) = self.plan(|planner| planner.urgent())
            {
                work.paused = work.build.take();
                return self.begin(work, task).map(Some);
            }
            let (snapshot, tombstones) = {
                let state = self.state.read();
                (state.snapshot.clone(), state.tombstones.clone())
            };
            if build.prepare(&snapshot, &tombstones, &mut work.bench)? {
                return Ok(Some(SweepReport::default()));
            }
            return self.publish_build(work).map(Some);
        }
        match self.plan(|planner| planner.next()) {
            Some(task) => self.begin(work, task).map(Some),
            None if self.sweep_leases()? => Ok(Some(SweepReport::default())),
            None => self.free_slice(work),
        }
    }

    fn plan(&self, next: impl FnOnce(&Planner<'_>) -> Option<Task>) -> Option<Task> {
        let at = |class: ClassId| self.now(class);
        let state = self.state.read();
        let recent_max_claims = self.config.recent_max_claims;
        next(&Planner { state: &state, now: &at, recent_max_claims })
    }

    fn begin(&self, work: &mut Maintenance, task: Task) -> Result<SweepReport, Error> {
        match task {
            Task::Forget { buckets, results } => {
                return self.publish_forgetting(work, &buckets, &results);
            }
            Task::Freeze => self.state.write().recent.rotate(),
            Task::Seal { through } => {
                let tables = self.state.read().recent.frozen_through(through);
                let epoch = work.epoch.unwrap_or_default();
                let next_run = || self.next_run();
                work.build = Some(Build::seal(tables, through, epoch, next_run));
            }
            Task::Merge { bucket, inputs } => {
                let name = RunName { epoch: work.epoch.unwrap_or_default(), id: self.next_run() };
                work.build = Some(Build::merge(bucket, inputs, name));
            }
            Task::Coalesce { older, newer } => self.publish_coalescing(older, newer)?,
            Task::Retire(hashes) => self.publish_retirement(&hashes)?,
            Task::LoadFilter(run) => {
                let snapshot = self.state.read().snapshot.clone();
                run.load_next_filter(&snapshot)?;
            }
        }
        Ok(SweepReport::default())
    }

    /// How long until something becomes due by itself; `None` if nothing will.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let leases = self.next_lease_due();
        let state = self.state.read();
        let catalogue = &state.catalogue;
        let buckets = catalogue.buckets.values().flat_map(|b| {
            let end = state.recent.holds(b.id).then_some(b.end);
            let expires = catalogue.expires_at(b);
            end.into_iter().chain(expires).map(|at| (b.class, at)).collect::<Vec<_>>()
        });
        let results = catalogue
            .results
            .values()
            .filter_map(|b| Some((b.class, catalogue.results_expire_at(b)?)));
        let left = buckets.chain(results).filter(|(_, at)| at.0 < u64::MAX);
        left.map(|(class, at)| Duration::from_millis(at.0.saturating_sub(self.now(class).0)))
            .chain(leases)
            .min()
            // Never a busy loop, whatever a clock says.
            .map(|due| due.max(Duration::from_millis(20)))
    }
}

//! The slices that write: appending to what is being built, freeing what is no longer needed.
//!
//! What must hold: SL1. Pages that a slice will free were read before the slot was taken. SL2. The
//! clock is looked at between steps. SL3. A slice that fails heals the store like any failed write.
//!     SL4. A slice holds the writer's lock and never the write slot: groups go on meanwhile.

use std::ops::Bound;

use super::{Garbage, Maintenance, SweepReport};
use crate::base::error::Error;
use crate::base::ids::{Epoch, RunId, Seq};
use crate::claims::packed;
use crate::claims::run::prefetch;
use crate::engine::Engine;
use crate::storage::db::WriteTxn;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// Rows read, then freed, in one slice.
const FREE_ROWS: usize = 256;
/// Bytes read, then freed, in one slice.
const FREE_BYTES: usize = 1 << 20;

/// What a stretch of rows to free looks like.
struct Stretch {
    last: Vec<u8>,
}

impl Engine {
    pub(super) fn core_epoch(&self) -> Result<Epoch, Error> {
        if !self.has_failed() {
            let writer = self.writer.lock();
            if writer.db.is_some() {
                return Ok(writer.epoch);
            }
        }
        let mut turn = self.turn(None)?; // which heals, or says why it cannot
        Ok(turn.core().epoch)
    }

    pub(super) fn next_run(&self) -> RunId {
        let mut core = self.core.lock();
        let id = core.next_run;
        core.next_run = RunId(id.0.saturating_add(1));
        id
    }

    /// Runs `f` in a transaction that is not durable by itself. Only redb's other writers wait for it.
    fn slice<T>(
        &self,
        epoch: Option<Epoch>,
        f: impl FnOnce(&WriteTxn, &dyn Fn() -> bool) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let writer = self.writer.lock();
        let started_us = self.clock.stopwatch_us();
        let budget_us = self.config.sweep_budget_us;
        let go_on = || self.clock.stopwatch_us().saturating_sub(started_us) * 2 < budget_us;
        let result = writer.unsynced(epoch, |txn| f(txn, &go_on));
        drop(writer);
        self.count_slice(self.clock.stopwatch_us().saturating_sub(started_us));
        if let Err(error) = &result {
            let mut turn = self.turn(None)?; // which heals
            if error.is_full() {
                turn.core().note_full(&*self.clock);
            }
        }
        result
    }

    pub(super) fn count_slice(&self, us: u64) {
        self.counters.slices.add(1);
        self.counters.slices_us.add(us);
        self.counters.slice_max_us.raise_to(us);
        self.counters.slice_us.add(us);
    }

    /// Writes a slice of the partition that is prepared.
    pub(super) fn write_slice(&self, work: &mut Maintenance) -> Result<SweepReport, Error> {
        if let Some(build) = &work.build {
            let finished = self.slice(work.epoch, |txn, go_on| build.write(txn, go_on))?;
            if finished && let Some(build) = &mut work.build {
                build.written(&mut work.bench);
            }
        }
        Ok(SweepReport::default())
    }

    /// Frees a slice of what is no longer needed; `None` if there is nothing.
    pub(super) fn free_slice(&self, work: &mut Maintenance) -> Result<Option<SweepReport>, Error> {
        let Some(next) = work.garbage.pop_front() else { return Ok(None) };
        let (snapshot, watermark) = {
            let state = self.state.read();
            (state.snapshot.clone(), state.catalogue.watermark)
        };
        let mut report = SweepReport::default();
        match next {
            Garbage::Table(table) => {
                prefetch(&snapshot, &table)?;
                self.slice(work.epoch, |txn, _| txn.delete_table(&table))?;
                report.tables_freed = 1;
            }
            Garbage::Rows { table, gone } => {
                match self.free_rows(work.epoch, &snapshot, &table, gone, None)? {
                    Some(gone) => {
                        work.garbage.push_front(Garbage::Rows { table, gone: Some(gone) });
                    }
                    None => {
                        self.slice(work.epoch, |txn, _| txn.delete_table(&table))?;
                        report.tables_freed = 1;
                    }
                }
            }
            Garbage::Recent { gone } => {
                let end = packed::chunk_key(Seq(watermark.0.saturating_add(1)), 0);
                let table = TableId::Recent.name();
                let gone = self.free_rows(work.epoch, &snapshot, &table, gone, Some(&end))?;
                if gone.is_some() {
                    work.garbage.push_front(Garbage::Recent { gone });
                }
            }
        }
        Ok(Some(report))
    }

    /// Frees the next rows behind `gone` and before `end`; returns the last key freed.
    fn free_rows(
        &self,
        epoch: Option<Epoch>,
        snapshot: &Snapshot,
        table: &str,
        gone: Option<Vec<u8>>,
        end: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(stretch) = read_stretch(snapshot, table, gone.as_deref(), end)? else {
            return Ok(None);
        };
        self.slice(epoch, |txn, _| {
            let bounds = (Bound::Unbounded, Bound::Included(&stretch.last[..]));
            txn.table(table)?.remove_range(bounds)
        })?;
        Ok(Some(stretch.last))
    }
}

/// Reads the next rows to free, which brings their pages into the cache.
fn read_stretch(
    snapshot: &Snapshot,
    table: &str,
    gone: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Result<Option<Stretch>, Error> {
    let Some(open) = snapshot.table(table)? else { return Ok(None) };
    let start = gone.map_or(Bound::Unbounded, Bound::Excluded);
    let end = end.map_or(Bound::Unbounded, Bound::Excluded);
    if let (Bound::Excluded(start), Bound::Excluded(end)) = (start, end)
        && start >= end
    {
        return Ok(None);
    }
    let mut last = None;
    let mut bytes = 0;
    for row in open.range((start, end))?.take(FREE_ROWS) {
        let (key, value) = row?;
        bytes += value.bytes().len();
        last = Some(key.bytes().to_vec());
        if bytes >= FREE_BYTES {
            break;
        }
    }
    Ok(last.map(|last| Stretch { last }))
}

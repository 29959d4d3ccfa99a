//! Building runs, from recent claims or from older runs, a slice at a time.
//!
//! Owns one building under way. What must hold:
//! BD1. Nothing built is seen before the commit that publishes it; a crash leaves tables whose names
//!     say that no catalogue knows them. BD2. A row that a tombstone hides, given where its source
//!     stands, is left out; a tombstone that comes later hides the output too, since its last group lies before.
//! BD3. Memory holds one partition: its encoded rows, and of a seal where its rows lie.
//! BD4. What was counted when a seal began is what is sealed; anything else is an error.

use std::collections::{BTreeMap, VecDeque};

use super::catalogue::{Bucket, Catalogue, Change};
use super::recent::{Aggregates, Gathered, Table, aggregates_of, count_rows};
use super::row::ClaimRow;
use super::run::{
    Filter, PartitionBuilder, PartitionMeta, PreparedPartition, Progress, Run, RunMeta, RunName,
    Workbench, merge_rows, partition_of, partitions_for, range_of,
};
use super::state::{Standing, Tombstones, hidden_by};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{BucketId, Epoch, RunId, Seq};
use crate::base::sync::Arc;
use crate::storage::db::WriteTxn;
use crate::storage::snapshot::Snapshot;

/// Bytes appended to a partition before the clock is looked at again.
const STEP_BYTES: usize = 128 << 10;

/// Where the rows of a building come from.
#[derive(Debug)]
enum Source {
    Recent { through: Seq, aggregates: Aggregates, tables: Vec<Arc<Table>> },
    Runs { inputs: Vec<Arc<Run>> },
}

/// A partition to be prepared.
#[derive(Debug)]
struct Part {
    output: usize,
    index: u32,
    /// Of a seal, as many as there are; of a merge, about so many.
    rows: usize,
}

/// A run being built.
#[derive(Debug)]
struct Output {
    bucket: BucketId,
    name: RunName,
    first: Seq,
    last: Seq,
    partitions: u32,
    done: Vec<(PartitionMeta, Option<Filter>)>,
}

/// A building under way.
#[derive(Debug)]
pub(crate) struct Build {
    source: Source,
    outputs: Vec<Output>,
    parts: VecDeque<Part>,
    writing: Option<(usize, PreparedPartition)>,
}

/// What a finished building changes.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) change: Change,
    pub(crate) runs: Vec<Arc<Run>>,
    /// Recent rows up to here no longer count.
    pub(crate) sealed_through: Option<Seq>,
    pub(crate) rows: u64,
    /// Tables of runs that were merged away.
    pub(crate) garbage: Vec<String>,
}

impl Build {
    /// Begins to seal the frozen tables, which end at `through`.
    pub(crate) fn seal(
        tables: Vec<Arc<Table>>,
        through: Seq,
        epoch: Epoch,
        mut next_run: impl FnMut() -> RunId,
    ) -> Self {
        let first = tables.first().map(|t| t.first_seq()).unwrap_or(through);
        let aggregates = aggregates_of(&tables);
        let mut outputs = Vec::new();
        let mut parts = VecDeque::new();
        for (bucket, counts) in count_parts(&tables, &aggregates) {
            let name = RunName { epoch, id: next_run() };
            let output = outputs.len();
            let partitions = u32::try_from(counts.len()).unwrap_or(u32::MAX);
            parts.extend((0..).zip(counts).map(|(index, rows)| Part { output, index, rows }));
            let (last, done) = (through, Vec::new());
            outputs.push(Output { bucket, name, first, last, partitions, done });
        }
        let source = Source::Recent { through, aggregates, tables };
        Self { source, outputs, parts, writing: None }
    }

    /// Begins to merge runs of one bucket.
    pub(crate) fn merge(bucket: BucketId, inputs: Vec<Arc<Run>>, name: RunName) -> Self {
        let metas = || inputs.iter().map(|run| run.meta());
        let claims = metas().map(|m| m.claims).sum();
        let partitions = partitions_for(claims);
        // A little more than an even share, as hashes come out.
        let share = usize::try_from(claims / u64::from(partitions)).unwrap_or(usize::MAX);
        let rows = share.saturating_add(share / 32).saturating_add(64);
        let output = Output {
            bucket,
            name,
            first: metas().map(|m| m.first).min().unwrap_or_default(),
            last: metas().map(|m| m.last).max().unwrap_or_default(),
            partitions,
            done: Vec::new(),
        };
        let parts = (0..partitions).map(|index| Part { output: 0, index, rows }).collect();
        let (source, outputs) = (Source::Runs { inputs }, vec![output]);
        Self { source, outputs, parts, writing: None }
    }

    /// Whether it builds from runs.
    pub(crate) fn is_merge(&self) -> bool {
        matches!(self.source, Source::Runs { .. })
    }

    /// Whether a partition waits to be written.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Prepares the next partition, outside the write slot, in the memory of `bench`; false if none
    /// is left.
    pub(crate) fn prepare(
        &mut self,
        snapshot: &Snapshot,
        tombstones: &Tombstones,
        bench: &mut Workbench,
    ) -> Result<bool, Error> {
        let Some(part) = self.parts.pop_front() else { return Ok(false) };
        let Some(output) = self.outputs.get(part.output) else { return Ok(false) };
        let place = (part.index, output.partitions);
        let bench = std::mem::take(bench);
        let mut builder = PartitionBuilder::new(output.name, place, part.rows, bench);
        match &self.source {
            Source::Recent { tables, .. } => {
                let rows = Gathered::new(tables, output.bucket, range_of(place), part.rows)?;
                seal_rows(&rows, tombstones, &mut builder)?;
            }
            Source::Runs { inputs } => {
                let hidden = |row: &ClaimRow, last: Seq| {
                    hidden_by(tombstones, row, Standing::InRunThrough(last))
                        && !planted("merge-brings-a-forgotten-claim-back")
                };
                merge_rows(snapshot, inputs, place, &hidden, &mut builder)?;
            }
        }
        let prepared = builder.finish();
        self.writing = Some((part.output, prepared));
        Ok(true)
    }

    /// Writes the prepared partition while `go_on`. Once it is all written, `written` is to be
    /// called, after the transaction has committed. True if it is.
    pub(crate) fn write(
        &self,
        txn: &WriteTxn,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<bool, Error> {
        let Some((_, prepared)) = &self.writing else { return Ok(true) };
        loop {
            if prepared.write_slice(txn, STEP_BYTES)? == Progress::Finished {
                return Ok(true);
            }
            if !go_on() {
                return Ok(false);
            }
        }
    }

    /// Notes that the prepared partition is in the database; `bench` gets its memory back.
    pub(crate) fn written(&mut self, bench: &mut Workbench) {
        if let Some((output, prepared)) = self.writing.take()
            && let Some(output) = self.outputs.get_mut(output)
        {
            let (meta, filter, used) = prepared.finish();
            output.done.push((meta, filter));
            *bench = used;
        }
    }

    /// Whether every partition was built: a run without one would not know its claims.
    pub(crate) fn is_whole(&self) -> bool {
        self.writing.is_none()
            && self.parts.is_empty()
            && self.outputs.iter().all(|output| output.done.len() == output.partitions as usize)
    }

    /// The change that publishes what was built.
    pub(crate) fn finish(self, catalogue: &Catalogue) -> Built {
        let mut runs = Vec::new();
        let mut changed: BTreeMap<BucketId, Bucket> = BTreeMap::new();
        let mut rows = 0;
        for output in self.outputs {
            let Some(stored) = catalogue.buckets.get(&output.bucket) else { continue };
            let (metas, filters): (Vec<_>, Vec<_>) = output.done.into_iter().unzip();
            let meta = RunMeta::new(output.name, output.first, output.last, metas);
            rows += meta.claims;
            let bucket = changed.entry(output.bucket).or_insert_with(|| stored.clone());
            if meta.claims > 0 {
                bucket.runs.push(meta.clone());
                runs.push(Arc::new(Run::built(meta, filters)));
            }
        }
        let mut change = Change::default();
        let mut sealed_through = None;
        let mut garbage = Vec::new();
        match self.source {
            Source::Recent { through, aggregates, tables: _ } => {
                for (id, scopes) in aggregates {
                    let Some(stored) = catalogue.buckets.get(&id) else { continue };
                    let bucket = changed.entry(id).or_insert_with(|| stored.clone());
                    for (scope, sum) in scopes {
                        bucket.owners.entry(scope).or_default().merge(&sum);
                    }
                }
                change.watermark = Some(through);
                sealed_through = Some(through);
            }
            Source::Runs { inputs } => {
                let gone: Vec<_> = inputs.iter().map(|run| run.meta().name()).collect();
                for bucket in changed.values_mut() {
                    bucket.runs.retain(|meta| !gone.contains(&meta.name()));
                }
                garbage =
                    inputs.iter().flat_map(|run| run.table_names().map(str::to_owned)).collect();
            }
        }
        change.buckets = changed.into_values().collect();
        Built { change, runs, sealed_through, rows, garbage }
    }
}

/// How many rows each partition of each bucket gets.
fn count_parts(tables: &[Arc<Table>], sums: &Aggregates) -> BTreeMap<BucketId, Vec<usize>> {
    let mut counts: BTreeMap<BucketId, Vec<usize>> = BTreeMap::new();
    for (bucket, scopes) in sums {
        let rows = scopes.values().map(|sum| sum.claims.saturating_add(sum.aliases)).sum();
        counts.insert(*bucket, vec![0; partitions_for(rows) as usize]);
    }
    count_rows(tables, |bucket, hash| {
        let of_bucket = counts.entry(bucket).or_insert_with(|| vec![0]);
        let partitions = u32::try_from(of_bucket.len()).unwrap_or(u32::MAX);
        if let Some(count) = of_bucket.get_mut(partition_of(hash, partitions) as usize) {
            *count = count.saturating_add(1);
        }
    });
    counts
}

/// Gives `builder` the rows that no tombstone hides.
fn seal_rows(
    rows: &Gathered<'_>,
    tombstones: &Tombstones,
    builder: &mut PartitionBuilder,
) -> Result<(), Error> {
    let mut same: Vec<ClaimRow> = Vec::new();
    for hit in rows.hits() {
        if same.last().is_some_and(|row| row.hash != hit.row.hash) {
            builder.push_same(&mut same)?;
        }
        if !hidden_by(tombstones, &hit.row, Standing::At(hit.position)) {
            same.push(hit.row);
        }
    }
    builder.push_same(&mut same)
}

#[cfg(test)]
mod tests;

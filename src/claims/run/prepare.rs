//! Building one partition: everything encoded outside the write slot, then written in slices.
//!
//! What must hold: P1. Slices only append, and each begins where the table ends, so one whose
//! transaction did not commit is simply written again. P2. A crash leaves a table that no catalogue
//! names, under its builder's epoch; maintenance frees it. P3. What is written was checked: rows in
//! order and in range, no more than the hard bound. P4. Rows are encoded as they come and not kept;
//! the buffers are taken once and go from partition to partition.

use super::block::{self, Cutter};
use super::filter::{self, Filter};
use super::merge::order;
use super::meta::PartitionMeta;
use super::name::{RunName, owner_tag};
use super::page::{block_key, filter_key};
use super::records::Records;
use super::space::{PARTITION_BOUND_CLAIMS, range_of};
use crate::base::error::Error;
use crate::base::ids::IdHash;
use crate::claims::row::ClaimRow;
use crate::storage::db::WriteTxn;

/// Bytes that a row takes in a block, head and key of the block shared out, in all but odd cases.
const ROW_BYTES: usize = 32;

/// Whether a partition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    More,
    Finished,
}

/// The memory in which partitions are prepared, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Workbench {
    records: Records,
    filter_keys: Vec<u64>,
    cutter: Cutter,
}

/// A partition whose rows are coming.
#[derive(Debug)]
pub(crate) struct PartitionBuilder {
    bench: Workbench,
    table: String,
    owner: u32,
    lowest: IdHash,
    highest: IdHash,
    first: Option<IdHash>,
    last: Option<ClaimRow>,
    rows: usize,
}

/// A partition ready to be written.
#[derive(Debug)]
pub(crate) struct PreparedPartition {
    table: String,
    meta: PartitionMeta,
    filter: Option<Filter>,
    bench: Workbench,
}

impl PartitionBuilder {
    /// Begins the partition `place.0` of `place.1`, which will have about `expected` rows.
    pub(crate) fn new(
        name: RunName,
        place: (u32, u32),
        expected: usize,
        mut bench: Workbench,
    ) -> Self {
        bench.records.clear();
        bench.filter_keys.clear();
        bench.cutter.finish(|_| ());
        let expected = expected.min(PARTITION_BOUND_CLAIMS);
        bench.records.reserve(expected.saturating_mul(ROW_BYTES));
        bench.filter_keys.reserve(expected);
        let (lowest, highest) = range_of(place);
        let table = name.table(place.0);
        let owner = owner_tag(&table);
        Self { bench, table, owner, lowest, highest, first: None, last: None, rows: 0 }
    }

    /// Adds a row behind the others.
    pub(crate) fn push(&mut self, row: &ClaimRow) -> Result<(), Error> {
        self.check(row)?;
        let Workbench { records, filter_keys, cutter } = &mut self.bench;
        let owner = self.owner;
        cutter.push(row, |rows, covers_to| put_block(records, rows, covers_to, owner));
        filter_keys.push(filter::key(row.hash));
        self.first.get_or_insert(row.hash);
        self.last = Some(*row);
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Adds the rows of one hash, which come in any order and perhaps twice, and empties `same`.
    pub(crate) fn push_same(&mut self, same: &mut Vec<ClaimRow>) -> Result<(), Error> {
        if same.len() > 1 {
            same.sort_unstable_by(order);
            same.dedup();
        }
        same.drain(..).try_for_each(|row| self.push(&row))
    }

    /// P3.
    fn check(&self, row: &ClaimRow) -> Result<(), Error> {
        if self.rows >= PARTITION_BOUND_CLAIMS {
            return Err(Error::limit(
                "the number of claims in one partition of a run",
                self.rows.saturating_add(1) as u64,
                PARTITION_BOUND_CLAIMS as u64,
            ));
        }
        let ascends = self.last.as_ref().is_none_or(|last| order(last, row).is_lt());
        if ascends && self.lowest <= row.hash && row.hash <= self.highest {
            Ok(())
        } else {
            Err(Error::invalid(
                "rows for a partition of a run are out of order or range: this is a bug in txinbox",
            ))
        }
    }

    /// Closes the last block and builds the filter.
    pub(crate) fn finish(self) -> PreparedPartition {
        let Self { mut bench, table, owner, highest, first, rows, .. } = self;
        let Workbench { records, filter_keys, cutter } = &mut bench;
        cutter.finish(|rows| put_block(records, rows, highest, owner));
        let blocks = records.len();
        let filter = if rows == 0 { None } else { Filter::build(filter_keys) };
        let stored = filter.as_ref().map_or(Vec::new(), |f| f.encode(owner));
        for (number, chunk) in (0..).zip(filter::chunks(stored.len())) {
            records.push(&filter_key(number), stored.get(chunk).unwrap_or_default());
        }
        // No count exceeds the bound on rows that was checked.
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let meta = PartitionMeta {
            rows: count(rows),
            blocks: count(blocks),
            filter_bytes: count(stored.len()),
            first: first.unwrap_or(IdHash(0)),
        };
        PreparedPartition { table, meta, filter, bench }
    }
}

fn put_block(records: &mut Records, rows: &[ClaimRow], covers_to: IdHash, owner: u32) {
    if let Some(first) = rows.first() {
        records.push(&block_key(first.hash), &block::encode(rows, covers_to, owner));
    }
}

impl PreparedPartition {
    /// Of sorted rows, no two alike.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn new(
        name: RunName,
        partition: u32,
        partitions: u32,
        rows: &[ClaimRow],
    ) -> Result<Self, Error> {
        let bench = Workbench::default();
        let mut builder = PartitionBuilder::new(name, (partition, partitions), rows.len(), bench);
        rows.iter().try_for_each(|row| builder.push(row))?;
        Ok(builder.finish())
    }

    /// Appends records of about `slice_bytes`, at least one. To be called, in one transaction or
    /// several, until it says that all are written; a partition without rows has no table.
    ///
    /// If a transaction does not commit, go on in the next: the slice is written again. If the
    /// database had to be opened anew, prepare anew under the new epoch instead.
    pub(crate) fn write_slice(
        &self,
        txn: &WriteTxn,
        slice_bytes: usize,
    ) -> Result<Progress, Error> {
        let records = &self.bench.records;
        if records.len() == 0 {
            return Ok(Progress::Finished);
        }
        let mut table = txn.table(&self.table)?;
        let done = usize::try_from(table.len()?).unwrap_or(usize::MAX);
        let Some(rest) = records.after(done) else {
            let detail = "it has more rows than were written";
            return Err(Error::corrupt(format!("table {}", self.table), detail));
        };
        let mut bytes = 0_usize;
        table.append(rest.take_while(|(key, value)| {
            let room = bytes < slice_bytes || bytes == 0;
            bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
            room
        }))?;
        if table.len()? == records.len() as u64 {
            Ok(Progress::Finished)
        } else {
            Ok(Progress::More)
        }
    }

    /// The entry for the run, the filter that need not be loaded then, and what the next partition
    /// can be prepared in.
    pub(crate) fn finish(self) -> (PartitionMeta, Option<Filter>, Workbench) {
        (self.meta, self.filter, self.bench)
    }
}

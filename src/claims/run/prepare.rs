//! Building one partition: everything encoded outside the write slot, then written in slices.
//!
//! What must hold: P1. Slices only append, and each begins where the table ends, so one whose
//! transaction did not commit is simply written again. P2. A crash leaves a table that no catalogue
//! names, under its builder's epoch; maintenance frees it. P3. What is written was checked: rows in
//! order and in range, no more than the hard bound.

use super::block;
use super::filter::{self, Filter};
use super::merge::order;
use super::meta::PartitionMeta;
use super::name::{RunName, owner_tag};
use super::page::{block_key, filter_key};
use super::space::{PARTITION_BOUND_CLAIMS, range_of};
use crate::base::error::Error;
use crate::base::ids::IdHash;
use crate::claims::row::ClaimRow;
use crate::storage::db::WriteTxn;

/// Whether a partition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    More,
    Finished,
}

/// Key and value.
type Record = (Vec<u8>, Vec<u8>);

/// A partition ready to be written.
#[derive(Debug)]
pub(crate) struct PreparedPartition {
    table: String,
    meta: PartitionMeta,
    filter: Option<Filter>,
    /// Keys and values in the order of keys.
    records: Vec<Record>,
}

impl PreparedPartition {
    /// Encodes sorted rows, no two alike, as partition `partition` of `partitions`.
    pub(crate) fn new(
        name: RunName,
        partition: u32,
        partitions: u32,
        rows: &[ClaimRow],
    ) -> Result<Self, Error> {
        let (lowest, highest) = range_of(partition, partitions);
        check(rows, lowest, highest)?;
        let table = name.table(partition);
        let owner = owner_tag(&table);
        let mut records = block_records(rows, highest, owner);
        let blocks = records.len();
        let filter = match rows {
            [] => None,
            rows => Filter::build(rows.iter().map(|row| row.hash)),
        };
        let stored = filter.as_ref().map_or(Vec::new(), |f| f.encode(owner));
        for (number, chunk) in (0..).zip(filter::chunks(stored.len())) {
            let bytes = stored.get(chunk).unwrap_or_default();
            records.push((filter_key(number).to_vec(), bytes.to_vec()));
        }
        // No count exceeds the bound on rows that was just checked.
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let meta = PartitionMeta {
            rows: count(rows.len()),
            blocks: count(blocks),
            filter_bytes: count(stored.len()),
            first: rows.first().map_or(IdHash(0), |row| row.hash),
        };
        Ok(Self { table, meta, filter, records })
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
        if self.records.is_empty() {
            return Ok(Progress::Finished);
        }
        let mut table = txn.table(&self.table)?;
        let done = usize::try_from(table.len()?).unwrap_or(usize::MAX);
        let Some(rest) = self.records.get(done..) else {
            let detail = "it has more rows than were written";
            return Err(Error::corrupt(format!("table {}", self.table), detail));
        };
        let mut bytes = 0_usize;
        let slice = rest.iter().take_while(|(key, value)| {
            let room = bytes < slice_bytes || bytes == 0;
            bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
            room
        });
        table.append(slice.map(|(key, value)| (&key[..], &value[..])))?;
        if table.len()? == self.records.len() as u64 {
            Ok(Progress::Finished)
        } else {
            Ok(Progress::More)
        }
    }

    /// The entry for the run, and the filter that need not be loaded then.
    pub(crate) fn finish(self) -> (PartitionMeta, Option<Filter>) {
        (self.meta, self.filter)
    }
}

/// P3.
fn check(rows: &[ClaimRow], lowest: IdHash, highest: IdHash) -> Result<(), Error> {
    if rows.len() > PARTITION_BOUND_CLAIMS {
        return Err(Error::limit(
            "the number of claims in one partition of a run",
            rows.len() as u64,
            PARTITION_BOUND_CLAIMS as u64,
        ));
    }
    let inside = |row: Option<&ClaimRow>| row.is_none_or(|r| lowest <= r.hash && r.hash <= highest);
    let sorted = rows.is_sorted_by(|a, b| order(a, b).is_lt());
    if sorted && inside(rows.first()) && inside(rows.last()) {
        Ok(())
    } else {
        Err(Error::invalid(
            "rows for a partition of a run are out of order or range: this is a bug in txinbox",
        ))
    }
}

/// The blocks under their keys; each covers what lies up to the next, the last up to `highest`.
fn block_records(rows: &[ClaimRow], highest: IdHash, owner: u32) -> Vec<Record> {
    let ranges = block::cut(rows);
    let mut records = Vec::with_capacity(ranges.len().saturating_add(64));
    for range in ranges {
        let next = rows.get(range.end).map(|row| row.hash.0.saturating_sub(1));
        let covers_to = next.map_or(highest, IdHash);
        let rows = rows.get(range).unwrap_or_default();
        if let Some(first) = rows.first() {
            let value = block::encode(rows, covers_to, owner);
            records.push((block_key(first.hash).to_vec(), value));
        }
    }
    records
}

//! The rows that sealing and merging give to one partition of a new run.
//!
//! What must hold: G1. A merge loses no row but those that the caller drops: a missing block in any
//! input is an error. G2. Rows alike in every column appear once; rows that differ all stay, and
//! the caller judges them.

use std::cmp::Ordering;

use super::open::Run;
use super::scan::BlockScan;
use super::space::{partition_of, range_of};
use crate::base::error::Error;
use crate::base::ids::Seq;
use crate::base::sync::Arc;
use crate::claims::row::ClaimRow;
use crate::storage::snapshot::Snapshot;

/// The order of rows in a run: by hash, then kind; the rest only makes it total.
pub(super) fn order(a: &ClaimRow, b: &ClaimRow) -> Ordering {
    let by_hash = a.hash.cmp(&b.hash);
    by_hash.then_with(|| (a.kind, a.at, a.wall).cmp(&(b.kind, b.at, b.wall)))
}

/// Rows in any order, as each of so many partitions takes them.
pub(crate) fn split_rows(rows: &[ClaimRow], partitions: u32) -> Vec<Vec<ClaimRow>> {
    let partitions = partitions.max(1);
    let mean = rows.len() / partitions as usize;
    let spare = mean / 32 + 16; // five standard deviations of 20,000 uniform hashes
    let mut split: Vec<_> =
        (0..partitions).map(|_| Vec::with_capacity(mean.saturating_add(spare))).collect();
    for row in rows {
        if let Some(part) = split.get_mut(partition_of(row.hash, partitions) as usize) {
            part.push(*row);
        }
    }
    for part in &mut split {
        part.sort_unstable_by(order);
        part.dedup();
    }
    split
}

/// The rows of `inputs` that fall into partition `partition` of `partitions`, without those that
/// `drop` names; it is asked with the last sequence of the row's run.
pub(crate) fn merge_rows(
    snap: &Snapshot,
    inputs: &[Arc<Run>],
    partition: u32,
    partitions: u32,
    drop: &dyn Fn(&ClaimRow, Seq) -> bool,
) -> Result<Vec<ClaimRow>, Error> {
    let (lo, hi) = range_of(partition, partitions);
    let mut merged = Vec::new();
    for run in inputs {
        let last = run.meta().last;
        let mut blocks = BlockScan::new(snap, run, lo, hi);
        while let Some(rows) = blocks.next_block()? {
            let wanted = |row: &&ClaimRow| lo <= row.hash && row.hash <= hi && !drop(row, last);
            merged.extend(rows.iter().filter(wanted));
        }
    }
    // A stable sort finds the inputs sorted already and merges them.
    merged.sort_by(order);
    merged.dedup();
    Ok(merged)
}

//! The rows that merging gives to one partition of a new run.
//!
//! What must hold: G1. A merge loses no row but those that the caller drops: a missing block in any
//! input is an error. G2. Rows alike in every column appear once; rows that differ all stay, and
//! the caller judges them. G3. Of each input, one block is held at a time.

use std::cmp::Ordering;

use super::open::Run;
use super::prepare::PartitionBuilder;
use super::scan::BlockScan;
use super::space::range_of;
use crate::base::error::Error;
use crate::base::ids::{IdHash, Seq};
use crate::base::sync::Arc;
use crate::claims::row::ClaimRow;
use crate::storage::snapshot::Snapshot;

/// The order of rows in a run: by hash, then kind; the rest only makes it total.
pub(super) fn order(a: &ClaimRow, b: &ClaimRow) -> Ordering {
    let by_hash = a.hash.cmp(&b.hash);
    by_hash.then_with(|| (a.kind, a.at, a.wall).cmp(&(b.kind, b.at, b.wall)))
}

/// Rows in any order, as each of so many partitions takes them.
#[cfg(any(test, feature = "testkit"))]
pub(crate) fn split_rows(rows: &[ClaimRow], partitions: u32) -> Vec<Vec<ClaimRow>> {
    let partitions = partitions.max(1);
    let mut split: Vec<_> = (0..partitions).map(|_| Vec::new()).collect();
    for row in rows {
        if let Some(part) = split.get_mut(super::space::partition_of(row.hash, partitions) as usize)
        {
            part.push(*row);
        }
    }
    for part in &mut split {
        part.sort_unstable_by(order);
        part.dedup();
    }
    split
}

/// What of one input is still to come.
struct Input<'a> {
    blocks: BlockScan<'a>,
    block: std::vec::IntoIter<ClaimRow>,
    /// The last sequence of its run.
    last: Seq,
    lo: IdHash,
    hi: IdHash,
}

impl<'a> Input<'a> {
    fn new(snap: &'a Snapshot, run: &'a Run, lo: IdHash, hi: IdHash) -> Self {
        let (blocks, last) = (BlockScan::new(snap, run, lo, hi), run.meta().last);
        Self { blocks, block: Vec::new().into_iter(), last, lo, hi }
    }

    /// The next row in the range; after the last one the scan has shown that none was missing.
    fn next(&mut self) -> Result<Option<ClaimRow>, Error> {
        loop {
            let (lo, hi) = (self.lo, self.hi);
            if let Some(row) = self.block.find(|row| lo <= row.hash && row.hash <= hi) {
                return Ok(Some(row));
            }
            match self.blocks.next_block()? {
                Some(rows) => self.block = rows.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

/// Gives `builder` the rows of `inputs` that fall into the partition `place.0` of `place.1`,
/// without those that `drop` names; it is asked with the last sequence of the row's run.
pub(crate) fn merge_rows(
    snap: &Snapshot,
    inputs: &[Arc<Run>],
    place: (u32, u32),
    drop: &dyn Fn(&ClaimRow, Seq) -> bool,
    builder: &mut PartitionBuilder,
) -> Result<(), Error> {
    let (lo, hi) = range_of(place);
    let mut heads = Vec::with_capacity(inputs.len());
    for run in inputs {
        let mut input = Input::new(snap, run, lo, hi);
        if let Some(row) = input.next()? {
            heads.push((row, input));
        }
    }
    let mut before = None;
    // Inputs are few, at most a class's runs, so the least is soon found by looking at each.
    while let Some(least) = least_of(&heads) {
        let Some((row, input)) = heads.get_mut(least) else { break };
        if before != Some(*row) && !drop(row, input.last) {
            builder.push(row)?;
            before = Some(*row);
        }
        match input.next()? {
            Some(next) => *row = next,
            None => _ = heads.swap_remove(least),
        }
    }
    Ok(())
}

fn least_of(heads: &[(ClaimRow, Input<'_>)]) -> Option<usize> {
    let least = heads.iter().enumerate().min_by(|(_, (a, _)), (_, (b, _))| order(a, b));
    least.map(|(index, _)| index)
}

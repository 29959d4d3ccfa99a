//! Reading a run in order: for merges, for checks, and ahead of freeing.
//!
//! What must hold: a scan gives every row of its range or an error; that the next block begins where
//! the last one's cover ended is checked at every step.

use std::ops::Bound;

use super::block::Block;
use super::name::owner_tag;
use super::open::{Run, damaged, table_of};
use super::page::{BLOCKS_END, block_first, block_key};
use super::space::{partition_of, range_of};
use crate::base::error::Error;
use crate::base::ids::IdHash;
use crate::claims::row::ClaimRow;
use crate::storage::db::Rows;
use crate::storage::snapshot::Snapshot;

/// Reads a table through a snapshot, so that its pages are in the cache when a write transaction
/// frees it.
pub(crate) fn prefetch(snap: &Snapshot, table: &str) -> Result<(), Error> {
    if let Some(table) = snap.table(table)? {
        for row in table.range((Bound::Unbounded, Bound::Unbounded))? {
            row?;
        }
    }
    Ok(())
}

/// The blocks of a run that touch a range of hashes, in order.
#[derive(Debug)]
pub(super) struct BlockScan<'a> {
    snap: &'a Snapshot,
    run: &'a Run,
    lo: IdHash,
    hi: IdHash,
    /// The next partition to open; past the last when there is none.
    next: u32,
    open: Option<PartitionScan<'a>>,
}

impl<'a> BlockScan<'a> {
    pub(super) fn new(snap: &'a Snapshot, run: &'a Run, lo: IdHash, hi: IdHash) -> Self {
        Self { snap, run, lo, hi, next: partition_of(lo, run.meta().partition_count()), open: None }
    }

    /// All rows of the next block, also those outside the range.
    pub(super) fn next_block(&mut self) -> Result<Option<Vec<ClaimRow>>, Error> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(rows) = open.next_block()? {
                    return Ok(Some(rows));
                }
                self.open = None;
            }
            let partitions = self.run.meta().partition_count();
            if self.next >= partitions || range_of((self.next, partitions)).0 > self.hi {
                return Ok(None);
            }
            self.open = PartitionScan::open(self.snap, self.run, self.next, self.lo, self.hi)?;
            self.next = self.next.saturating_add(1);
        }
    }
}

/// The part of a scan that lies in one partition.
struct PartitionScan<'a> {
    table: &'a str,
    owner: u32,
    rows: Rows,
    /// The next block must begin at `begins`, or anywhere at or before it if it is the first.
    begins: IdHash,
    first: bool,
    /// The scan is over once the blocks cover this hash.
    end: IdHash,
    over: bool,
    /// Rows that must come in all, if the whole partition is scanned.
    missing: Option<u64>,
}

impl std::fmt::Debug for PartitionScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartitionScan({} at {:?})", self.table, self.begins)
    }
}

impl<'a> PartitionScan<'a> {
    /// `None` if the partition has nothing in the range.
    fn open(
        snap: &Snapshot,
        run: &'a Run,
        partition: u32,
        lo: IdHash,
        hi: IdHash,
    ) -> Result<Option<Self>, Error> {
        let Some((name, meta)) = run.partition(partition) else {
            return Ok(None);
        };
        let last = range_of((partition, run.meta().partition_count())).1;
        let (begins, end) = (lo.max(meta.first), hi.min(last));
        if meta.rows == 0 || begins > end {
            return Ok(None);
        }
        let table = table_of(snap, name)?;
        let from = table
            .floor(&block_key(begins))?
            .and_then(|(key, _)| block_first(key.bytes()))
            .ok_or_else(|| damaged(name, begins, "no block leads to it"))?;
        let bounds = (Bound::Included(&block_key(from)[..]), Bound::Excluded(BLOCKS_END));
        Ok(Some(Self {
            table: name,
            owner: owner_tag(name),
            rows: table.range(bounds)?,
            begins,
            first: true,
            end,
            over: false,
            missing: (begins == meta.first && end == last).then_some(u64::from(meta.rows)),
        }))
    }

    fn next_block(&mut self) -> Result<Option<Vec<ClaimRow>>, Error> {
        if self.over {
            return self.close();
        }
        let Some(row) = self.rows.next() else {
            return Err(damaged(self.table, self.begins, "the block is missing"));
        };
        let (key, value) = row?;
        let at = block_first(key.bytes()).unwrap_or(self.begins);
        let block =
            Block::open(value.bytes(), self.owner).map_err(|e| damaged(self.table, at, e.0))?;
        let first = block.first().map_err(|e| damaged(self.table, at, e.0))?;
        let joins = first == self.begins || self.first && first < self.begins;
        if at != first || !joins || block.covers_to() < self.begins {
            return Err(damaged(self.table, self.begins, "the block is missing"));
        }
        let rows = block.rows().map_err(|e| damaged(self.table, at, e.0))?;
        self.first = false;
        self.over = block.covers_to() >= self.end;
        self.begins = IdHash(block.covers_to().0.saturating_add(1));
        self.missing = self.missing.map(|m| m.wrapping_sub(rows.len() as u64));
        Ok(Some(rows))
    }

    fn close(&self) -> Result<Option<Vec<ClaimRow>>, Error> {
        match self.missing {
            None | Some(0) => Ok(None),
            Some(_) => Err(damaged(self.table, self.end, "the partition's rows do not add up")),
        }
    }
}

/// All rows of a run, in order.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    blocks: BlockScan<'a>,
    rows: std::vec::IntoIter<ClaimRow>,
    failed: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(snap: &'a Snapshot, run: &'a Run) -> Self {
        Self {
            blocks: BlockScan::new(snap, run, IdHash(0), IdHash(u128::MAX)),
            rows: Vec::new().into_iter(),
            failed: false,
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<ClaimRow, Error>;

    /// Ends after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            if self.failed {
                return None;
            }
            match self.blocks.next_block() {
                Ok(Some(rows)) => self.rows = rows.into_iter(),
                Ok(None) => return None,
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e));
                }
            }
        }
    }
}

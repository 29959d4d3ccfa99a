//! Recent claims: the table in memory of all claims that are not yet sealed into runs.
//!
//! Owns a list of tables, oldest first; the last is *young* and takes new rows, the others are
//! frozen and wait to be sealed. Nothing here is durable: the packed rows are, and opening reads
//! them back. Called by the engine, under its lock, after a group's commit and never before it.
//!
//! What must hold:
//! N1. The tables cover the sequence in order, each whole groups. N2. `find` meets every row that
//! was inserted and not dropped. N3. No insertion re-hashes or copies what is there: tables are
//! allocated at their capacity and start small, each eight times the one before, up to half of
//! the configured maximum. N4. Dropping takes whole frozen tables, and only those at or below the
//! sequence given.

use std::collections::VecDeque;

use crate::base::ids::{BucketId, EventMs, IdHash, Scope, Seq};
use crate::base::sync::Arc;
use crate::claims::packed::PackedRow;

mod aggregate;
mod blocks;
mod gather;
mod index;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use aggregate::{Aggregate, Aggregates};
pub(crate) use gather::{Gathered, count_rows};
pub(crate) use table::{Hit, Table};

/// Claims for which the first table of a new store has room.
const FIRST_TABLE_CLAIMS: usize = 1 << 13;
/// How much larger each table is than the one before. A look-up asks every table, so there should
/// be few of them; an index of 8 bytes a claim is all that is allocated ahead.
const GROWTH: usize = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Recent {
    frozen: VecDeque<Arc<Table>>,
    young: Option<Table>,
    next_capacity: usize,
    max_capacity: usize,
    len: usize,
}

impl Recent {
    /// For a store without recent claims; `max_claims` is what the owner lets in before sealing.
    pub(crate) fn new(max_claims: usize) -> Self {
        Self::with_expected(max_claims, 0)
    }

    /// For a store that is about to read back `expected` claims.
    pub(crate) fn with_expected(max_claims: usize, expected: usize) -> Self {
        let max_capacity = (max_claims / 2).clamp(1, index::CAPACITY_MAX);
        Self {
            frozen: VecDeque::new(),
            young: None,
            next_capacity: expected.max(FIRST_TABLE_CLAIMS).min(max_capacity),
            max_capacity,
            len: 0,
        }
    }

    /// Rows in all tables, aliases counted.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows in the young table.
    #[cfg(test)]
    pub(crate) fn young_len(&self) -> usize {
        self.young.as_ref().map_or(0, Table::len)
    }

    /// Bytes of memory held by all tables.
    pub(crate) fn bytes(&self) -> usize {
        self.newest_first().map(Table::bytes).sum()
    }

    fn newest_first(&self) -> impl Iterator<Item = &Table> {
        let frozen = self.frozen.iter().rev().map(|table| &**table);
        self.young.iter().chain(frozen)
    }

    /// Adds a committed row. Groups come in order; all rows of a group before the next group's.
    pub(crate) fn insert_row(&mut self, seq: Seq, row: &PackedRow) {
        let claims = row.claims.len();
        let full = |young: &Table| young.last_seq() != seq && !young.has_room_for(claims);
        if self.young.as_ref().is_some_and(full) {
            self.rotate();
        }
        let next = &mut self.next_capacity;
        let young = self.young.get_or_insert_with(|| {
            let capacity = claims.max(*next);
            *next = next.saturating_mul(GROWTH).min(self.max_capacity);
            Table::new(capacity)
        });
        young.insert_row(seq, row);
        self.len += claims;
    }

    /// Freezes the young table if it holds anything. To be called between groups only: N1.
    pub(crate) fn rotate(&mut self) {
        if let Some(table) = self.young.take_if(|young| !young.is_empty()) {
            self.frozen.push_back(Arc::new(table));
        }
    }

    /// Brings what a look-up of `hash` reads first into the processor's caches. Worth calling for
    /// the events of a large batch before the first of them is looked up: these reads run side by
    /// side, while those of a search wait for one another.
    pub(crate) fn touch(&self, hash: IdHash) {
        let words = self.newest_first().map(|table| table.touch(hash));
        std::hint::black_box(words.fold(0, |all, word| all ^ word));
    }

    /// Calls `found` for every row of `hash`, the newest table's first.
    pub(crate) fn find(&self, hash: IdHash, found: &mut impl FnMut(Hit)) {
        for table in self.newest_first() {
            table.find(hash, found);
        }
    }

    /// The frozen tables, oldest first. Sealing reads them without the engine's lock.
    pub(crate) fn frozen_tables(&self) -> Vec<Arc<Table>> {
        self.frozen.iter().cloned().collect()
    }

    /// The frozen tables at or below `seq`, oldest first: what a run sealed up to there holds.
    pub(crate) fn frozen_through(&self, seq: Seq) -> Vec<Arc<Table>> {
        let through = |table: &&Arc<Table>| table.last_seq() <= seq;
        self.frozen.iter().take_while(through).cloned().collect()
    }

    /// Lets go of the frozen tables at or below `seq`, whose rows a published run now holds. They
    /// are returned so that their memory is freed after the caller has left its lock.
    #[must_use = "dropping the tables takes a while; do it outside the lock"]
    pub(crate) fn drop_through(&mut self, seq: Seq) -> Vec<Arc<Table>> {
        let dropped = self.frozen_through(seq);
        self.frozen.drain(..dropped.len());
        self.len -= dropped.iter().map(|table| table.len()).sum::<usize>();
        dropped
    }

    /// The first group with a row here.
    pub(crate) fn first_seq(&self) -> Option<Seq> {
        let oldest = self.frozen.front().map(|table| &**table).or(self.young.as_ref());
        oldest.filter(|table| !table.is_empty()).map(Table::first_seq)
    }

    /// Whether a row of this bucket is here.
    pub(crate) fn holds(&self, bucket: BucketId) -> bool {
        self.newest_first().any(|table| table.aggregates().contains_key(&bucket))
    }

    /// The buckets that the young table has rows of.
    pub(crate) fn young_buckets(&self) -> impl Iterator<Item = BucketId> + '_ {
        self.young.iter().flat_map(|table| table.aggregates().keys().copied())
    }

    /// The sums of all tables.
    pub(crate) fn aggregates(&self) -> Aggregates {
        let mut sums = Aggregates::new();
        for table in self.newest_first() {
            aggregate::merge_into(&mut sums, table.aggregates());
        }
        sums
    }

    /// The newest event time that a recent row of this scope carries.
    pub(crate) fn newest_event_time(&self, scope: Scope) -> Option<EventMs> {
        let buckets = self.newest_first().flat_map(|t| t.aggregates().values());
        let sums = buckets.filter_map(|scopes| scopes.get(&scope));
        sums.filter_map(|sum| sum.max_event_time).max()
    }
}

/// All rows of these tables, in the order of their positions.
#[cfg(any(test, feature = "testkit"))]
pub(crate) fn rows_of(tables: &[Arc<Table>]) -> impl Iterator<Item = Hit> + '_ {
    tables.iter().flat_map(|table| table.rows())
}

/// What the catalogue must add for these tables when they are sealed.
pub(crate) fn aggregates_of(tables: &[Arc<Table>]) -> Aggregates {
    let mut sums = Aggregates::new();
    for table in tables {
        aggregate::merge_into(&mut sums, table.aggregates());
    }
    sums
}

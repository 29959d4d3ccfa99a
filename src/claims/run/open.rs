//! A run in memory: its entry and its filters; and look-ups through them.
//!
//! What must hold: O1. A look-up reads one block, and answers "absent" only from a block that says
//! it covers the hash. O2. Asking a filter takes no lock. O3. Filters may be loaded at any time after
//! opening, in any thread; until then the answer is "maybe".

use std::ops::Bound;
use std::sync::OnceLock;

use super::block::Block;
use super::filter::Filter;
use super::meta::{PartitionMeta, RunMeta};
use super::name::owner_tag;
use super::page::{BLOCKS_END, block_first, block_key, filter_key};
use super::scan::Scan;
use super::space::partition_of;
use crate::base::error::Error;
use crate::base::ids::IdHash;
use crate::base::sync::Arc;
use crate::claims::row::ClaimRow;
use crate::storage::db::ReadTable;
use crate::storage::snapshot::Snapshot;

/// One partition in memory.
#[derive(Debug)]
struct Partition {
    table: Box<str>,
    meta: PartitionMeta,
    owner: u32,
    /// Empty: not loaded yet. `None`: there is none, or it is damaged.
    filter: OnceLock<Option<Filter>>,
}

/// A run that look-ups can ask.
#[derive(Debug)]
pub(crate) struct Run {
    meta: RunMeta,
    partitions: Box<[Partition]>,
}

impl Run {
    /// The run that the catalogue describes; its filters are loaded later.
    pub(crate) fn open(meta: RunMeta) -> Self {
        let partition = |(index, entry): (u32, &PartitionMeta)| {
            let table = meta.name().table(index);
            Partition {
                owner: owner_tag(&table),
                table: table.into(),
                meta: *entry,
                filter: match entry.filter_bytes {
                    0 => OnceLock::from(None),
                    _ => OnceLock::new(),
                },
            }
        };
        let partitions = (0..).zip(&meta.partitions).map(partition).collect();
        Self { meta, partitions }
    }

    /// A run just built, with its partitions' filters.
    pub(crate) fn built(meta: RunMeta, filters: Vec<Option<Filter>>) -> Self {
        let run = Self::open(meta);
        for (partition, filter) in run.partitions.iter().zip(filters) {
            let _already_none = partition.filter.set(filter);
        }
        run
    }

    pub(crate) fn meta(&self) -> &RunMeta {
        &self.meta
    }

    /// Its tables; a partition without rows has none.
    pub(crate) fn table_names(&self) -> impl Iterator<Item = &str> {
        let filled = self.partitions.iter().filter(|p| p.meta.rows > 0);
        filled.map(|p| &*p.table)
    }

    pub(super) fn partition(&self, index: u32) -> Option<(&str, &PartitionMeta)> {
        let partition = self.partitions.get(index as usize)?;
        Some((&partition.table, &partition.meta))
    }

    fn partition_for(&self, hash: IdHash) -> Option<&Partition> {
        let index = partition_of(hash, self.meta.partition_count());
        self.partitions.get(index as usize)
    }

    /// False only if the run has no row of this hash.
    pub(crate) fn maybe(&self, hash: IdHash) -> bool {
        let Some(partition) = self.partition_for(hash) else {
            return false;
        };
        match partition.filter.get() {
            Some(Some(filter)) => filter.maybe(hash),
            Some(None) | None => partition.meta.rows > 0,
        }
    }

    /// Appends all rows of this hash: at most one claim, then aliases.
    pub(crate) fn find(
        &self,
        snap: &Snapshot,
        hash: IdHash,
        out: &mut Vec<ClaimRow>,
    ) -> Result<(), Error> {
        let Some(partition) = self.partition_for(hash) else {
            return Ok(());
        };
        if partition.meta.rows == 0 || hash < partition.meta.first {
            return Ok(());
        }
        let name = &*partition.table;
        let table = table_of(snap, name)?;
        let (key, value) = table
            .floor(&block_key(hash))?
            .ok_or_else(|| damaged(name, hash, "no block leads to it"))?;
        let at = block_first(key.bytes()).unwrap_or(hash);
        let block =
            Block::open(value.bytes(), partition.owner).map_err(|e| damaged(name, at, e.0))?;
        let first = block.first().map_err(|e| damaged(name, at, e.0))?;
        if first != at || hash < first || block.covers_to() < hash {
            return Err(damaged(name, hash, "the look-up was led to the wrong block"));
        }
        block.find(hash, out).map_err(|e| damaged(name, at, e.0))
    }

    /// All rows in order, checked against the entry; for checks.
    pub(crate) fn scan<'a>(&'a self, snap: &'a Snapshot) -> Scan<'a> {
        Scan::new(snap, self)
    }

    /// Loads one filter that is not in memory yet; false if none was left to load.
    ///
    /// A damaged filter is an error once; afterwards its partition does without, and the next call
    /// goes on with the others.
    pub(crate) fn load_next_filter(&self, snap: &Snapshot) -> Result<bool, Error> {
        let mut waiting = self.partitions.iter().filter(|p| p.filter.get().is_none());
        let Some(partition) = waiting.next() else {
            return Ok(false);
        };
        let (filter, answer) = match partition.load_filter(snap) {
            Ok(filter) => (Some(filter), Ok(true)),
            Err(e) if e.is_corrupt() => (None, Err(e)),
            Err(e) => return Err(e), // perhaps readable the next time
        };
        let _another_thread_was_first = partition.filter.set(filter);
        answer
    }

    /// Whether a filter of it is not in memory yet.
    pub(crate) fn wants_filter(&self) -> bool {
        self.partitions.iter().any(|p| p.filter.get().is_none())
    }

    /// Bytes of memory that its loaded filters take.
    pub(crate) fn filter_memory_bytes(&self) -> usize {
        let loaded = self.partitions.iter().filter_map(|p| p.filter.get()?.as_ref());
        loaded.map(Filter::memory_bytes).sum()
    }
}

impl Partition {
    fn load_filter(&self, snap: &Snapshot) -> Result<Filter, Error> {
        let damaged =
            |detail: &str| Error::corrupt(format!("the filter of {}", self.table), detail);
        let table = table_of(snap, &self.table)?;
        let mut bytes = Vec::new();
        for (number, row) in
            (0..).zip(table.range((Bound::Included(BLOCKS_END), Bound::Unbounded))?)
        {
            let (key, value) = row?;
            bytes.extend_from_slice(value.bytes());
            if key.bytes() != filter_key(number) || bytes.len() > self.meta.filter_bytes as usize {
                return Err(damaged("its chunks are not as they were written"));
            }
        }
        if bytes.len() != self.meta.filter_bytes as usize {
            return Err(damaged("it is cut short"));
        }
        Filter::decode(&bytes, self.owner).map_err(|e| damaged(e.0))
    }
}

/// A table of the run, which the catalogue says exists.
pub(super) fn table_of(snap: &Snapshot, name: &str) -> Result<Arc<ReadTable>, Error> {
    let table = snap.table(name)?;
    table.ok_or_else(|| Error::corrupt(format!("table {name}"), "the table is missing"))
}

pub(super) fn damaged(table: &str, block: IdHash, detail: &str) -> Error {
    Error::corrupt(format!("table {table}, block {:032x}", block.0), detail)
}

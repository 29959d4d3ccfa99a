//! The state of the store at one group: redb's tables with the memtable's rows over them.
//!
//! Owns the handles of one read transaction, each table opened at most once. Many threads read through one
//! snapshot; it pins the pages of its commit until the last of them lets go. What must hold:
//! SN1. Of each key the newest version that the reader may see is met, removals included. SN2. A scan shows
//! each key once, in order, from either end, and keeps no lock while it reads redb.

use super::db::{Bounds, ReadTable, ReadTxn};
use super::memtable::Generation;
use super::merge::Merged;
use super::tables::TableId;
use crate::base::error::Error;
use crate::base::hash::NameMap;
use crate::base::ids::Seq;
use crate::base::sync::{Arc, AtomicBool, Ordering, RwLock};

/// Redb's tables as of one commit.
#[derive(Debug)]
pub(crate) struct Stored {
    /// `None` once ended.
    txn: RwLock<Option<ReadTxn>>,
    tables: RwLock<NameMap<Option<Arc<ReadTable>>>>,
    /// Whether it may pin as much as it likes.
    is_kept: AtomicBool,
}

impl Stored {
    pub(crate) fn new(txn: ReadTxn) -> Self {
        Self {
            txn: RwLock::new(Some(txn)),
            tables: RwLock::default(),
            is_kept: AtomicBool::default(),
        }
    }

    /// From now on `end` leaves it as it is.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::SeqCst);
    }

    pub(crate) fn table(&self, name: &str) -> Result<Option<Arc<ReadTable>>, Error> {
        if let Some(known) = self.tables.read().get(name) {
            return Ok(known.clone());
        }
        // The lock is kept, so that a table opened here cannot outlive an `end` in between.
        let txn = self.txn.read();
        let table = txn.as_ref().ok_or_else(Error::view_ended)?.table(name)?.map(Arc::new);
        self.tables.write().insert(name.into(), table.clone());
        Ok(table)
    }

    pub(crate) fn table_names(&self) -> Result<Vec<String>, Error> {
        self.txn.read().as_ref().ok_or_else(Error::view_ended)?.table_names()
    }

    /// Lets its pages go, unless it is kept; later reads say so.
    pub(crate) fn end(&self) {
        if self.is_kept.load(Ordering::SeqCst) {
            return;
        }
        *self.txn.write() = None;
        self.tables.write().clear();
    }
}

/// A stored row: key and value.
pub(crate) type StoredRow = (Vec<u8>, Vec<u8>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Snapshot {
    stored: Arc<Stored>,
    newest_first: [Option<Arc<Generation>>; 2],
    at: Seq,
    store_id: u128,
}

impl Snapshot {
    pub(super) fn new(
        stored: Arc<Stored>,
        newest_first: [Option<Arc<Generation>>; 2],
        at: Seq,
        store_id: u128,
    ) -> Self {
        Self { stored, newest_first, at, store_id }
    }

    /// Which store it shows.
    pub(crate) fn store_id(&self) -> u128 {
        self.store_id
    }

    /// Redb alone, for a database that nothing was staged over.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn of(txn: ReadTxn) -> Self {
        Self::new(Arc::new(Stored::new(txn)), [None, None], Seq::MAX, 0)
    }

    /// The last group that it shows.
    pub(crate) fn at(&self) -> Seq {
        self.at
    }

    pub(crate) fn stored(&self) -> Arc<Stored> {
        self.stored.clone()
    }

    /// One row of one table.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_in(table, &table.name(), key)
    }

    /// As `get`, by a caller who has the table's name at hand.
    pub(crate) fn get_in(
        &self,
        table: TableId,
        name: &str,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        for generation in self.newest_first.iter().flatten() {
            if let Some(found) = generation.get(table, key, self.at, <[u8]>::to_vec) {
                return Ok(found);
            }
        }
        match self.stored.table(name)? {
            Some(table) => Ok(table.get(key)?.map(|value| value.bytes().to_vec())),
            None => Ok(None),
        }
    }

    /// The rows between the bounds, in order or from the end, with `own` rows over all others: those
    /// must lie between the bounds and come in the scan's order.
    pub(crate) fn scan(
        &self,
        table: TableId,
        bounds: Bounds<'_>,
        reverse: bool,
        own: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<Merged, Error> {
        let stored = self.stored.table(&table.name())?;
        let generations = self.newest_first.iter().flatten().cloned();
        Merged::new(own, generations, stored.as_deref(), table, self.at, bounds, reverse)
    }

    /// All rows of a table, those in redb proven complete.
    pub(crate) fn whole(&self, table: TableId) -> Result<Merged, Error> {
        self.scan(table, super::merge::ALL, false, Vec::new())
    }

    /// How many rows a table has. Looks at every row of it that is not in redb yet.
    pub(crate) fn len(&self, table: TableId) -> Result<u64, Error> {
        let stored = self.stored.table(&table.name())?;
        let mut len = stored.as_ref().map_or(Ok(0), |stored| stored.len())?;
        let generations = self.newest_first.iter().flatten().cloned();
        let mut staged = Merged::staged(generations, table, self.at)?;
        while let Some((key, put)) = staged.next_put()? {
            let was = match &stored {
                Some(stored) => stored.get(&key)?.is_some(),
                None => false,
            };
            match (was, put.is_some()) {
                (false, true) => len = len.saturating_add(1),
                (true, false) => len = len.saturating_sub(1),
                _ => {}
            }
        }
        Ok(len)
    }

    /// A table of redb as it is, for runs: their rows are never staged.
    pub(crate) fn table(&self, name: &str) -> Result<Option<Arc<ReadTable>>, Error> {
        self.stored.table(name)
    }

    /// The names of redb's tables.
    pub(crate) fn table_names(&self) -> Result<Vec<String>, Error> {
        self.stored.table_names()
    }

    /// Whether nothing more can be read from it: its database failed, or it was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.stored.txn.read().as_ref().is_none_or(ReadTxn::has_failed)
    }

    /// Bytes written to the database's file since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.stored.txn.read().as_ref().map_or(0, ReadTxn::written_bytes)
    }
}

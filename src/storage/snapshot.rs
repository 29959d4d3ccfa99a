//! A snapshot whose tables are opened at most once.
//!
//! Owns the handles of one read transaction. Many threads read through one snapshot; it pins the
//! pages of its commit until the last of them lets go.

use super::db::{ReadTable, ReadTxn, Value};
use crate::base::error::Error;
use crate::base::hash::NameMap;
use crate::base::sync::{Arc, RwLock};

/// The state of the store after one commit.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// `None` once ended.
    txn: RwLock<Option<ReadTxn>>,
    tables: RwLock<NameMap<Option<Arc<ReadTable>>>>,
}

impl Snapshot {
    pub(crate) fn new(txn: ReadTxn) -> Self {
        Self { txn: RwLock::new(Some(txn)), tables: RwLock::default() }
    }

    /// The table of that name, if this snapshot has it.
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

    /// One row of one table.
    pub(crate) fn get(&self, table: &str, key: &[u8]) -> Result<Option<Value<'static>>, Error> {
        match self.table(table)? {
            Some(table) => table.get(key),
            None => Ok(None),
        }
    }

    pub(crate) fn table_names(&self) -> Result<Vec<String>, Error> {
        self.txn.read().as_ref().ok_or_else(Error::view_ended)?.table_names()
    }

    /// Whether nothing more can be read from it: its database failed, or it was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.txn.read().as_ref().is_none_or(ReadTxn::has_failed)
    }

    /// Bytes written to the database's file since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.txn.read().as_ref().map_or(0, ReadTxn::written_bytes)
    }

    /// Lets its pages go; later reads say so.
    pub(crate) fn end(&self) {
        *self.txn.write() = None;
        self.tables.write().clear();
    }
}

//! A snapshot whose tables are opened at most once.
//!
//! Owns the handles of one read transaction. Many threads read through one snapshot; it pins the
//! pages of its commit until the last of them lets go.

use std::collections::HashMap;

use super::db::{ReadTable, ReadTxn, Value};
use crate::base::error::Error;
use crate::base::sync::{Arc, RwLock};

/// The state of the store after one commit.
#[derive(Debug)]
pub(crate) struct Snapshot {
    txn: ReadTxn,
    tables: RwLock<HashMap<Box<str>, Option<Arc<ReadTable>>>>,
}

impl Snapshot {
    pub(crate) fn new(txn: ReadTxn) -> Self {
        Self {
            txn,
            tables: RwLock::default(),
        }
    }

    /// The table of that name, if this snapshot has it.
    pub(crate) fn table(&self, name: &str) -> Result<Option<Arc<ReadTable>>, Error> {
        if let Some(known) = self.tables.read().get(name) {
            return Ok(known.clone());
        }
        let table = self.txn.table(name)?.map(Arc::new);
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
        self.txn.table_names()
    }
}

//! Write transactions and their tables.
//!
//! Called with the write slot held; redb itself allows one at a time.

use std::ops::Bound;

use redb::{ReadableTable, ReadableTableMetadata};

use super::{Bounds, Bytes, Health, definition, guard};
use crate::base::error::Error;
use crate::base::sync::Arc;

/// A write transaction; dropping it drops all it wrote.
pub(crate) struct WriteTxn {
    pub(super) txn: redb::WriteTransaction,
    pub(super) health: Arc<Health>,
}

impl WriteTxn {
    /// The table of that name, made if it is absent. Open a table once per transaction.
    pub(crate) fn table(&self, name: &str) -> Result<WriteTable<'_>, Error> {
        guard(&self.health, "opening a table", || self.txn.open_table(definition(name)))
            .map(|inner| WriteTable { inner, health: &self.health })
    }

    /// Frees a whole table; reads all its leaves. False if there was none.
    pub(crate) fn delete_table(&self, name: &str) -> Result<bool, Error> {
        guard(&self.health, "deleting a table", || self.txn.delete_table(definition(name)))
    }

    /// After an error the transaction may or may not have become durable.
    pub(crate) fn commit(self) -> Result<(), Error> {
        let Self { txn, health } = self;
        guard(&health, "committing", || txn.commit())
    }

    pub(crate) fn abort(self) -> Result<(), Error> {
        let Self { txn, health } = self;
        guard(&health, "aborting", || txn.abort())
    }
}

/// A table of a write transaction.
pub(crate) struct WriteTable<'t> {
    pub(super) inner: redb::Table<'t, Bytes, Bytes>,
    pub(super) health: &'t Health,
}

impl WriteTable<'_> {
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        guard(self.health, "writing a row", || self.inner.insert(key, value).map(drop))
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        guard(self.health, "removing a row", || self.inner.remove(key).map(|old| old.is_some()))
    }

    pub(crate) fn len(&self) -> Result<u64, Error> {
        guard(self.health, "counting rows", || self.inner.len())
    }

    /// The last key of the table.
    pub(crate) fn last_key(&self) -> Result<Option<Vec<u8>>, Error> {
        guard(self.health, "reading the last row", || {
            Ok::<_, redb::StorageError>(self.inner.last()?.map(|(key, _)| key.value().to_vec()))
        })
    }

    /// Appends rows behind the last one; their keys must ascend, and lie above every stored key.
    /// Much cheaper than `insert`, since neighbours share their pages' writing.
    pub(crate) fn append<'r>(
        &mut self,
        rows: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<(), Error> {
        guard(self.health, "appending rows", || {
            let mut cursor = self.inner.upper_bound_mut(Bound::<&[u8]>::Unbounded)?;
            for (key, value) in rows {
                cursor.insert_before(key, value).map_err(redb::Error::from)?;
            }
            cursor.close().map_err(redb::Error::from)
        })
    }

    /// Removes all rows between the bounds. Read them through a snapshot first, so that the write
    /// transaction does not wait for cold pages.
    pub(crate) fn remove_range(&mut self, bounds: Bounds<'_>) -> Result<(), Error> {
        guard(self.health, "removing rows", || {
            self.inner.retain_in::<&[u8], _>(bounds, |_, _| false)
        })
    }
}

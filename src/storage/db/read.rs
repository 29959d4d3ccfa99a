//! Snapshots and their tables.
//!
//! What must hold: S4. Bytes handed out were reached inside the guard, so that damage which makes redb
//! panic is met here and not in a caller.

use std::ops::Bound;

use redb::{ReadableTableMetadata, TableHandle};

use super::{Bytes, Health, definition, guard};
use crate::base::error::Error;
use crate::base::sync::Arc;

/// A snapshot.
pub(crate) struct ReadTxn {
    pub(super) txn: redb::ReadTransaction,
    pub(super) health: Arc<Health>,
}

impl std::fmt::Debug for ReadTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadTxn")
    }
}

impl ReadTxn {
    /// The table of that name, if it exists in this snapshot.
    pub(crate) fn table(&self, name: &str) -> Result<Option<ReadTable>, Error> {
        let health = &self.health;
        guard(health, "opening a table", || match self.txn.open_table(definition(name)) {
            Ok(inner) => Ok(Some(ReadTable { inner, health: health.clone() })),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(e) => Err(e),
        })
    }

    /// Bytes written to its database's file.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.health.written_bytes.get()
    }

    /// Whether its database has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.health.has_failed()
    }

    /// The names of all tables.
    pub(crate) fn table_names(&self) -> Result<Vec<String>, Error> {
        guard(&self.health, "listing tables", || {
            Ok::<_, redb::StorageError>(
                self.txn.list_tables()?.map(|t| t.name().to_owned()).collect(),
            )
        })
    }
}

/// Bytes held by a snapshot.
pub(crate) struct Value<'a>(redb::AccessGuard<'a, Bytes>);

impl<'a> Value<'a> {
    /// Takes the bytes once inside the guard: where a damaged leaf says that they lie beyond it,
    /// redb panics.
    fn checked(inner: redb::AccessGuard<'a, Bytes>) -> Self {
        std::hint::black_box(inner.value());
        Self(inner)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.value()
    }
}

/// A row held by a snapshot: key and value.
pub(crate) type Row<'a> = (Value<'a>, Value<'a>);

/// The bounds of a scan.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A table of a snapshot; keeps the snapshot alive.
pub(crate) struct ReadTable {
    pub(super) inner: redb::ReadOnlyTable<Bytes, Bytes>,
    pub(super) health: Arc<Health>,
}

impl std::fmt::Debug for ReadTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadTable({})", self.inner.name())
    }
}

impl ReadTable {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value<'static>>, Error> {
        guard(&self.health, "reading a row", || self.inner.get(key).map(|v| v.map(Value::checked)))
    }

    /// The last row whose key is at most `key`.
    pub(crate) fn floor(&self, key: &[u8]) -> Result<Option<Row<'static>>, Error> {
        guard(&self.health, "reading a row", || row(self.inner.range::<&[u8]>(..=key)?.next_back()))
    }

    /// The rows between the bounds, in key order.
    pub(crate) fn range(&self, bounds: Bounds<'_>) -> Result<Rows, Error> {
        guard(&self.health, "opening a scan", || self.inner.range::<&[u8]>(bounds))
            .map(|inner| Rows { inner, health: self.health.clone() })
    }

    pub(crate) fn len(&self) -> Result<u64, Error> {
        guard(&self.health, "counting rows", || self.inner.len())
    }
}

/// A scan of a snapshot's table, from either end.
pub(crate) struct Rows {
    pub(super) inner: redb::Range<'static, Bytes, Bytes>,
    pub(super) health: Arc<Health>,
}

/// A row as redb hands it out.
type RawRow<'a> = (redb::AccessGuard<'a, Bytes>, redb::AccessGuard<'a, Bytes>);

fn row<'a>(
    step: Option<Result<RawRow<'a>, redb::StorageError>>,
) -> Result<Option<Row<'a>>, redb::StorageError> {
    Ok(step.transpose()?.map(|(k, v)| (Value::checked(k), Value::checked(v))))
}

impl Iterator for Rows {
    type Item = Result<Row<'static>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        guard(&self.health, "scanning", || row(self.inner.next())).transpose()
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        guard(&self.health, "scanning", || row(self.inner.next_back())).transpose()
    }
}

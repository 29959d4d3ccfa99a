//! Snapshots and their tables.
//!
//! What must hold: S4. Bytes handed out were reached inside the guard, so that damage which makes redb
//! panic is met here and not in a caller.

use std::cmp::Ordering;
use std::ops::Bound;

use redb::{ReadableTableMetadata, TableHandle};

use super::{Bytes, FILE, Health, definition, guard};
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
            .map(|inner| Rows { inner, health: self.health.clone(), whole: None })
    }

    /// All rows, in key order, proven complete.
    ///
    /// redb does not check its pages as it reads them. Where damage has put one sound page in the
    /// place of another, the rows come out of order, or in another number than the table's root
    /// says; the scan then ends with an error instead of fewer rows.
    pub(crate) fn whole(&self) -> Result<Rows, Error> {
        let mut rows = self.range((Bound::Unbounded, Bound::Unbounded))?;
        let table = self.inner.name().to_owned();
        rows.whole = Some(Whole { table, left: self.len()?, last: None });
        Ok(rows)
    }

    pub(crate) fn len(&self) -> Result<u64, Error> {
        guard(&self.health, "counting rows", || self.inner.len())
    }
}

/// A scan of a snapshot's table, from either end.
pub(crate) struct Rows {
    pub(super) inner: redb::Range<'static, Bytes, Bytes>,
    pub(super) health: Arc<Health>,
    whole: Option<Whole>,
}

/// What a scan of a whole table must still meet, from one end or the other.
struct Whole {
    table: String,
    left: u64,
    last: Option<Vec<u8>>,
}

impl Whole {
    fn check(&mut self, next: Option<&Row<'_>>, order: Ordering) -> Result<(), Error> {
        let misplaced = || {
            let detail = "rows are missing or out of order: a page lies in another's place";
            Err(Error::corrupt(format!("table {} of {FILE}", self.table), detail))
        };
        let Some((key, _)) = next else {
            return if self.left == 0 { Ok(()) } else { misplaced() };
        };
        if self.left == 0 || self.last.as_deref().is_some_and(|l| key.bytes().cmp(l) != order) {
            return misplaced();
        }
        self.left -= 1;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key.bytes());
        Ok(())
    }
}

impl Rows {
    fn checked(
        &mut self,
        row: Result<Option<Row<'static>>, Error>,
        order: Ordering,
    ) -> Option<Result<Row<'static>, Error>> {
        let checked = row.and_then(|row| {
            if let Some(whole) = &mut self.whole {
                whole.check(row.as_ref(), order)?;
            }
            Ok(row)
        });
        if checked.is_err() {
            self.whole = None; // told once
        }
        checked.transpose()
    }
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
        let next = guard(&self.health, "scanning", || row(self.inner.next()));
        self.checked(next, Ordering::Greater)
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        let next = guard(&self.health, "scanning", || row(self.inner.next_back()));
        self.checked(next, Ordering::Less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::db::Db;
    use crate::storage::disk::{Disk, MemoryDisk};

    /// A scan of a whole table from either end, against rows that a misplaced page would give it.
    #[test]
    fn a_whole_scan_tells_missing_extra_and_unordered_rows() -> Result<(), Error> {
        let disk = MemoryDisk::default();
        let db = Db::open(disk.open("db", true).unwrap(), 1 << 20)?;
        let txn = db.write(true)?;
        let keys: Vec<[u8; 1]> = (1..=9).map(|k| [k]).collect();
        txn.table("t")?.append(keys.iter().map(|k| (&k[..], &b"v"[..])))?;
        txn.commit()?;
        let read = db.read()?;
        let table = read.table("t")?.unwrap();
        assert_eq!(table.whole()?.filter(Result::is_ok).count(), 9);
        assert_eq!(table.whole()?.rev().filter(Result::is_ok).count(), 9);
        for (left, last) in [(8, None), (10, None), (9, Some(vec![1])), (9, Some(vec![200]))] {
            let mut rows = table.whole()?;
            rows.whole = Some(Whole { table: "t".to_owned(), left, last });
            let error = rows.find_map(Result::err).unwrap();
            assert!(error.is_corrupt() && error.to_string().contains("table t"), "{error}");
            assert!(rows.next().is_none_or(|row| row.is_ok()), "told once");
        }
        Ok(())
    }
}

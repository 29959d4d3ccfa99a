//! The one redb database: ordered tables of bytes, snapshots, and write transactions.
//!
//! What must hold:
//! S1. A durable commit is two-phase with quick repair: with one-phase commits a failed sync and a
//!     later power cut left images that did not open. S2. After any error of a write the database is
//!     dropped and opened again before anything else is written. S3. A panic inside redb, which a
//!     damaged file can cause, becomes an error that says so.
//!
//! Called by `claims` and `engine`. No redb type leaves this file.

use std::cmp::Ordering;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle};

use super::disk::DiskFile;
use super::redb_file::{Health, RedbFile};
use super::shadow::Shadow;
use crate::base::error::Error;
use crate::base::sync::Arc;

type Bytes = &'static [u8];

fn definition(name: &str) -> TableDefinition<'_, Bytes, Bytes> {
    TableDefinition::new(name)
}

/// Runs `f` against redb, turning its error, or a panic that damage caused, into ours.
fn guard<T, E: Into<redb::Error>>(
    health: &Health,
    doing: &str,
    f: impl FnOnce() -> Result<T, E>,
) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => {
            let error = sort_error(doing, e.into());
            if error.is_corrupt() {
                health.note_damage();
            }
            Err(error)
        }
        Err(panic) => {
            health.note_damage();
            let detail = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no detail");
            Err(Error::corrupt(FILE, format!("redb stopped while {doing}: {detail}")))
        }
    }
}

const FILE: &str = "the database file";

fn sort_error(doing: &str, error: redb::Error) -> Error {
    match error {
        redb::Error::Io(source) => Error::io(doing, source),
        redb::Error::PreviousIo => {
            Error::io(doing, std::io::Error::other("an earlier write or sync failed"))
        }
        redb::Error::DatabaseClosed => Error::view_ended(),
        redb::Error::DatabaseAlreadyOpen => Error::locked(FILE),
        redb::Error::UpgradeRequired(found) => {
            // One of redb's formats before the first that a store was ever written in.
            Error::corrupt(FILE, format!("it claims redb's format {found}, which no store has"))
        }
        other => Error::corrupt(FILE, format!("{other} while {doing}")),
    }
}

/// The open database.
pub(crate) struct Db {
    /// `None` only while it is being dropped.
    inner: Option<redb::Database>,
    health: Arc<Health>,
}

impl Drop for Db {
    /// As a crash would end it: nothing more is written. redb would make its pending commits durable
    /// in one phase here, which is what S1 forbids. Closing a damaged database can even panic inside
    /// redb's own destructors, which would end the process, so its memory is given up instead.
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        self.health.cut_off();
        if self.health.is_damaged() {
            std::mem::forget(inner);
        } else {
            drop(inner);
        }
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Db")
    }
}

impl Db {
    /// Opens the database in `file`, or makes one if the file is empty.
    pub(crate) fn open(file: Box<dyn DiskFile>, cache_bytes: usize) -> Result<Self, Error> {
        let health = Arc::new(Health::default());
        let file = RedbFile::new(file, health.clone());
        let inner = guard(&health, "opening it", || {
            redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(file)
        })?;
        Ok(Self { inner: Some(inner), health })
    }

    /// Closes it in order, so that the next opening has nothing to recover. All that was committed
    /// must be durable already.
    pub(crate) fn close(mut self) {
        let Some(inner) = self.inner.take() else { return };
        if self.health.has_failed() {
            self.inner = Some(inner); // dropped as after a crash
        } else {
            drop(inner);
        }
    }

    /// Bytes written to the file since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.health.written_bytes.get()
    }

    /// Whether any read, write or sync has failed; then only opening anew helps.
    pub(crate) fn has_failed(&self) -> bool {
        self.health.has_failed()
    }

    fn redb(&self) -> Result<&redb::Database, redb::Error> {
        self.inner.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// A snapshot of the last commit, durable or not.
    pub(crate) fn read(&self) -> Result<ReadTxn, Error> {
        guard(&self.health, "opening a snapshot", || {
            self.redb()?.begin_read().map_err(redb::Error::from)
        })
        .map(|txn| ReadTxn { txn, health: self.health.clone() })
    }

    /// A write transaction; waits for another to end.
    ///
    /// A commit that is not durable becomes so with the next durable one, and is lost by a crash
    /// before that.
    pub(crate) fn write(&self, durable: bool) -> Result<WriteTxn, Error> {
        let mut txn = guard(&self.health, "beginning a write", || {
            self.redb()?.begin_write().map_err(redb::Error::from)
        })?;
        if durable {
            txn.set_two_phase_commit(true);
            txn.set_quick_repair(true);
        } else {
            guard(&self.health, "setting durability", || {
                txn.set_durability(redb::Durability::None)
            })?;
        }
        Ok(WriteTxn { txn, health: self.health.clone() })
    }

    /// Checks every page's checksum; reads the whole file, and changes nothing.
    ///
    /// Nobody may write to the file meanwhile, but others may read. redb checks only a database
    /// without any transaction, and repairs what it finds: so a second one is opened over the
    /// file, and what it writes is forgotten.
    pub(crate) fn check(file: Box<dyn DiskFile>, cache_bytes: usize) -> Result<(), Error> {
        let file = Shadow::new(file).map_err(|e| Error::io("measuring the database file", e))?;
        let mut second = Self::open(Box::new(file), cache_bytes)?;
        let inner = second.inner.as_mut().ok_or_else(Error::closed)?;
        match guard(&second.health, "checking every page", || inner.check_integrity())? {
            true => Ok(()),
            false => Err(Error::corrupt(FILE, "a page does not match its checksum")),
        }
    }
}

/// A snapshot.
pub(crate) struct ReadTxn {
    txn: redb::ReadTransaction,
    health: Arc<Health>,
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
    inner: redb::ReadOnlyTable<Bytes, Bytes>,
    health: Arc<Health>,
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
    inner: redb::Range<'static, Bytes, Bytes>,
    health: Arc<Health>,
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

fn row<'a>(
    step: Option<
        Result<(redb::AccessGuard<'a, Bytes>, redb::AccessGuard<'a, Bytes>), redb::StorageError>,
    >,
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

/// A write transaction; dropping it drops all it wrote.
pub(crate) struct WriteTxn {
    txn: redb::WriteTransaction,
    health: Arc<Health>,
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
    inner: redb::Table<'t, Bytes, Bytes>,
    health: &'t Health,
}

impl WriteTable<'_> {
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        guard(self.health, "writing a row", || self.inner.insert(key, value).map(drop))
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        guard(self.health, "removing a row", || self.inner.remove(key).map(|old| old.is_some()))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        guard(self.health, "reading a row", || {
            self.inner.get(key).map(|v| v.map(|v| v.value().to_vec()))
        })
    }

    pub(crate) fn len(&self) -> Result<u64, Error> {
        guard(self.health, "counting rows", || self.inner.len())
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

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn tables_append_scan_and_remove() -> Result<(), Error> {
        let disk = MemoryDisk::default();
        let db = Db::open(disk.open("db", true).unwrap(), 1 << 20)?;
        let txn = db.write(true)?;
        let rows: Vec<[u8; 2]> = (0..1000_u16).map(u16::to_be_bytes).collect();
        txn.table("t")?.append(rows.iter().map(|r| (&r[..], &r[..])))?;
        txn.commit()?;
        let txn = db.write(false)?;
        let gone = (Bound::Unbounded, Bound::Excluded(&[1, 0][..]));
        txn.table("t")?.remove_range(gone)?;
        txn.commit()?;
        let table = db.read()?.table("t")?.unwrap();
        assert_eq!(table.len()?, 1000 - 256);
        assert_eq!(table.floor(&[9, 9])?.unwrap().0.bytes(), [3, 231]);
        assert!(table.floor(&[0, 9])?.is_none());
        assert!(db.read()?.table("u")?.is_none());
        Ok(())
    }
}

//! The one redb database: ordered tables of bytes, snapshots, and write transactions.
//!
//! What must hold:
//! S1. A durable commit is two-phase with quick repair: with one-phase commits a failed sync and a
//!     later power cut left images that did not open. S2. After any error of a write the database is
//!     dropped and opened again before anything else is written. S3. A panic inside redb, which a
//!     damaged file can cause, becomes an error that says so.
//!
//! Called by `claims` and `engine`. No redb type leaves this file.

mod read;
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{ReadableDatabase, TableDefinition};

pub(crate) use read::{Bounds, ReadTable, ReadTxn, Rows};
pub(crate) use write::WriteTxn;

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

    /// Whether any read, write or sync has failed; then only opening anew helps.
    #[cfg(test)]
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

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::storage::disk::{Disk, MemoryDisk};

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

//! A scripted use of the database, and the judgement of what a crash has left of it.
//!
//! The script writes a counter and, with it, rows that follow from the counter alone, so that any
//! mixture of two commits shows. Every third commit is durable; the two before it are not.

use std::ops::Bound;

use super::SimDisk;
use crate::base::error::Error;
use crate::storage::db::Db;
use crate::storage::disk::Disk;

const CACHE_BYTES: usize = 1 << 17;
/// How many rows stay; older ones are removed as new ones come.
const KEPT_ROWS: u64 = 8;

/// The first in a debug build, where the database is slow, and the second in a release build.
pub(super) fn scaled<T>(debug: T, release: T) -> T {
    if cfg!(debug_assertions) { debug } else { release }
}

/// What the script was told, and what it was about to ask.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Book {
    /// The store's making was reported as durable.
    pub(super) made: bool,
    /// The counter of the last commit reported as durable.
    pub(super) acknowledged: u64,
    /// The counter of the durable commit that was begun last.
    pub(super) begun: u64,
}

pub(super) fn io_error(source: std::io::Error) -> Error {
    Error::io("using the simulated disk", source)
}

/// Opens the database, or makes it under another name, so that a half-made one never bears its own.
///
/// A name found in the directory may be there for this process only: the one that gave it was killed
/// before it synced the directory. So the directory is synced before anything is answered.
pub(super) fn open(disk: &SimDisk) -> Result<Db, Error> {
    let names = disk.list().map_err(io_error)?;
    if names.iter().any(|name| name == "db") {
        disk.sync_dir().map_err(io_error)?;
        return Db::open(disk.open("db", false).map_err(io_error)?, CACHE_BYTES);
    }
    disk.remove("db.new").map_err(io_error)?;
    let db = Db::open(disk.open("db.new", true).map_err(io_error)?, CACHE_BYTES)?;
    disk.rename("db.new", "db").map_err(io_error)?;
    disk.sync_dir().map_err(io_error)?;
    Ok(db)
}

/// The row of that counter: mostly small, now and then of several pages, or so large that the file
/// grows and the cache overflows.
fn row(counter: u64) -> Vec<u8> {
    let len = match counter {
        c if c % 7 == 0 => 120_000,
        c if c % 5 == 0 => 9_000,
        c => 40 + c * 7 % 300,
    };
    (0..len).map(|i| (i * 31 + counter * 17) as u8).collect()
}

/// One commit: the counter, its row, and the end of an old row.
pub(super) fn commit(db: &Db, counter: u64, durable: bool, book: &mut Book) -> Result<(), Error> {
    let txn = db.write(durable)?;
    txn.table("counter")?.insert(b"n", &counter.to_be_bytes())?;
    let mut rows = txn.table("rows")?;
    rows.insert(&counter.to_be_bytes(), &row(counter))?;
    if let Some(old) = counter.checked_sub(KEPT_ROWS) {
        rows.remove(&old.to_be_bytes())?;
    }
    drop(rows);
    if durable {
        book.begun = counter;
    }
    txn.commit()?;
    if durable {
        book.acknowledged = counter;
    }
    Ok(())
}

/// The whole script, up to the first error.
pub(super) fn run(disk: &SimDisk, commits: u64, book: &mut Book) -> Result<(), Error> {
    let db = open(disk)?;
    book.made = true;
    let first = counter(&db)? + 1;
    for counter in first..first + commits {
        commit(&db, counter, counter % 3 == 0, book)?;
    }
    book.begun = first + commits - 1; // closing makes the last ones durable
    drop(db);
    Ok(())
}

fn counter(db: &Db) -> Result<u64, Error> {
    let Some(table) = db.read()?.table("counter")? else {
        return Ok(0);
    };
    let value = table.get(b"n")?;
    Ok(value.map_or(0, |v| u64::from_be_bytes(v.bytes().try_into().unwrap_or_default())))
}

/// The counter the database shows, if all its rows are those of that counter.
pub(super) fn whole(db: &Db) -> Result<u64, String> {
    let say = |e: Error| format!("reading: {e}");
    let counter = counter(db).map_err(say)?;
    let mut expected = (counter.saturating_sub(KEPT_ROWS) + 1..=counter)
        .map(|c| (c.to_be_bytes().to_vec(), row(c)));
    if let Some(table) = db.read().map_err(say)?.table("rows").map_err(say)? {
        for found in table.range((Bound::Unbounded, Bound::Unbounded)).map_err(say)? {
            let (key, value) = found.map_err(say)?;
            if expected.next() != Some((key.bytes().to_vec(), value.bytes().to_vec())) {
                return Err(format!("counter {counter} with a row that is not its own"));
            }
        }
    }
    match expected.next() {
        None => Ok(counter),
        Some(_) => Err(format!("counter {counter} without all its rows")),
    }
}

/// What the image shows, if it opens and is whole; `None` if there is no store.
pub(super) fn read_back(image: &SimDisk) -> Result<Option<u64>, String> {
    let names = image.list().map_err(|e| e.to_string())?;
    if !names.iter().any(|name| name == "db") {
        return Ok(None);
    }
    let db = open(image).map_err(|e| format!("it does not open: {e}"))?;
    whole(&db).map(Some)
}

/// Whether `found` is the last acknowledged commit or the one that was being committed.
pub(super) fn judge(found: Option<u64>, book: Book) -> Result<(), String> {
    match found {
        None if !book.made => Ok(()),
        Some(counter) if counter == book.acknowledged || counter == book.begun => Ok(()),
        _ => Err(format!("found {found:?} after {book:?}")),
    }
}

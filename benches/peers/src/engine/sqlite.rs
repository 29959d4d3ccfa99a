//! SQLite, through rusqlite with the bundled library.
//!
//! - `journal_mode=WAL`, `synchronous=FULL`: SQLite syncs the write-ahead log at every commit.
//! - `inbox(id BLOB PRIMARY KEY, at, fingerprint) WITHOUT ROWID`: the claim lives in the key's own B-tree, there is no
//!   second index. `counters(id INTEGER PRIMARY KEY, n)` is a rowid table, the cheapest form for integer keys.
//! - One writer connection, cached prepared statements, `BEGIN IMMEDIATE`. `INSERT OR IGNORE` tells new from
//!   duplicate by its change count; a group without a change is rolled back.
//! - A single event is looked up first, by a plain `SELECT`: a repeat then takes no write lock, and beside the sync of a
//!   new event the look-up is nothing.
//! - Built with `HAVE_FDATASYNC`, by `.cargo/config.toml`; without it the bundled library falls back to `fsync`.
//! - `wal_autocheckpoint=16000` pages (64 MiB): sixteen times the default, so that a hot page is copied back less often.
//!   Of 1000, 4000, 10,000 and 16,000 that was the fastest in groups and with threads, by up to a third. The log is brought
//!   to that size before the first window, as it is in a store that has run for a while: syncing a file that still
//!   grows costs about twice as much. `sqlite-N` as engine asks for another length.
//! - 4 KiB pages, the page cache as given, no mmap.
//! - Threads: one writer commits for those who wait; SQLite has one writer.
//! - Loading: no journal and no syncs, one transaction a batch, then one sync of the file.

use anyhow::{Context, Result};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{Engine, Mode, Settings};
use crate::events::{Event, now_ms};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS inbox(
        id BLOB PRIMARY KEY, at INTEGER NOT NULL, fingerprint INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counters(id INTEGER PRIMARY KEY, n INTEGER NOT NULL);";
const CLAIM: &str = "INSERT OR IGNORE INTO inbox(id, at, fingerprint) VALUES (?1, ?2, ?3)";
const KNOWN: &str = "SELECT 1 FROM inbox WHERE id = ?1";
const ADD_ONE: &str =
    "INSERT INTO counters(id, n) VALUES (?1, 1) ON CONFLICT(id) DO UPDATE SET n = n + 1";

/// Pages in the log at which SQLite copies them back into the database.
pub const LOG_PAGES: u32 = 16_000;

/// Whether the library was told that there is `fdatasync`, as `.cargo/config.toml` does.
const SYNCS_DATA_ONLY: bool = option_env!("LIBSQLITE3_FLAGS").is_some();

pub struct Sqlite {
    file: PathBuf,
    connection: Mutex<Connection>,
}

impl Sqlite {
    pub fn open(dir: &Path, settings: &Settings, log_pages: u32) -> Result<Self> {
        let file = dir.join("inbox.sqlite");
        let connection = Connection::open(&file)?;
        connection.pragma_update(None, "page_size", 4096)?;
        let (journal, synchronous) = match settings.mode {
            Mode::Load => ("OFF", "OFF"),
            Mode::Serve => ("WAL", "FULL"),
        };
        connection.pragma_update_and_check(None, "journal_mode", journal, |row| {
            let got: String = row.get(0)?;
            if got.eq_ignore_ascii_case(journal) {
                Ok(())
            } else {
                Err(rusqlite::Error::InvalidQuery)
            }
        })?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        let cache_kib = i64::try_from(settings.cache_bytes / 1024)?;
        connection.pragma_update(None, "cache_size", -cache_kib)?;
        connection.execute_batch(SCHEMA)?;
        if settings.mode == Mode::Serve {
            let log = dir.join("inbox.sqlite-wal");
            grow_log(&connection, &log, settings.claims, u64::from(log_pages) * 4096)?;
        }
        connection.pragma_update_and_check(None, "wal_autocheckpoint", log_pages, |_| Ok(()))?;
        connection.set_prepared_statement_cache_capacity(16);
        Ok(Self { file, connection: Mutex::new(connection) })
    }

    fn with<T>(&self, use_it: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let connection = self.connection.lock().ok().context("a caller panicked")?;
        use_it(&connection)
    }
}

/// Rewrites claims as they are until the log has its full size, then copies them back; the file keeps its size.
fn grow_log(connection: &Connection, log: &Path, claims: u64, bytes: u64) -> Result<()> {
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    // Ids are random, so their order picks a share of all: about a million claims, one log's worth of pages.
    let share = u64::MAX / claims.div_ceil(1_000_000).max(1);
    for _ in 0..64 {
        connection.execute("UPDATE inbox SET at = at WHERE id < ?1", [&share.to_be_bytes()[..]])?;
        if std::fs::metadata(log)?.len() >= bytes {
            break;
        }
    }
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    Ok(())
}

/// Runs `work` in one transaction; commits if it says so, rolls back otherwise.
fn transaction(connection: &Connection, work: impl FnOnce() -> Result<bool>) -> Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let outcome = work();
    let end = if matches!(outcome, Ok(true)) { "COMMIT" } else { "ROLLBACK" };
    connection.prepare_cached(end)?.execute([])?;
    outcome.map(|_| ())
}

/// SQLite's integers are signed; the bits are kept as they are.
fn signed(value: u64) -> i64 {
    value.cast_signed()
}

impl Engine for Sqlite {
    fn version(&self) -> Result<String> {
        let sync = if SYNCS_DATA_ONLY { "fdatasync" } else { "fsync" };
        Ok(format!("{} {sync}", rusqlite::version()))
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let mut fresh = Vec::with_capacity(claims.len());
        self.apply(claims, &mut fresh)
    }

    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        self.with(|connection| {
            transaction(connection, || {
                let mut insert =
                    connection.prepare_cached("INSERT INTO counters(id, n) VALUES (?1, 0)")?;
                for counter in counters {
                    insert.execute([signed(*counter)])?;
                }
                Ok(true)
            })
        })
    }

    fn finish_load(&self) -> Result<()> {
        Ok(std::fs::File::open(&self.file)?.sync_all()?)
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        let at = signed(now_ms());
        fresh.clear();
        self.with(|connection| {
            if let [event] = events
                && connection.prepare_cached(KNOWN)?.exists([&event.id[..]])?
            {
                fresh.push(false);
                return Ok(());
            }
            transaction(connection, || {
                let mut claim = connection.prepare_cached(CLAIM)?;
                let mut add_one = connection.prepare_cached(ADD_ONE)?;
                for event in events {
                    let new = claim.execute((&event.id[..], at, signed(event.fingerprint)))? == 1;
                    if let (true, Some(counter)) = (new, event.counter) {
                        add_one.execute([signed(counter)])?;
                    }
                    fresh.push(new);
                }
                Ok(fresh.contains(&true))
            })
        })
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        let sum = "SELECT coalesce(sum(n), 0) FROM counters";
        self.with(|connection| {
            Ok(Some(connection.query_row(sum, [], |row| row.get::<_, i64>(0))?.cast_unsigned()))
        })
    }
}

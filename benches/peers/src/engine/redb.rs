//! redb, as one would write an inbox on it by hand: the naive form of what txinbox does.
//!
//! - `claims: u128 -> u128` (fixed-width integer keys compare without allocating) and `counters: u64 -> u64`.
//! - One write transaction a group with `Durability::Immediate`: redb's default one-phase commit, one sync.
//! - Ids are looked up and inserted through one `entry`.
//! - Cache as given. A group without a change is aborted.
//! - Syncs are counted in the storage backend, which otherwise does what redb's own file backend does.
//! - Threads: one writer commits for those who wait; redb has one writer.
//! - Loading: one transaction a batch.

use anyhow::Result;
use redb::{Database, Entry, ReadableDatabase, ReadableTable, TableDefinition};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Engine, Mode, Settings, locked_version};
use crate::events::{Event, claim_value, now_ms};

const CLAIMS: TableDefinition<u128, u128> = TableDefinition::new("claims");
const COUNTERS: TableDefinition<u64, u64> = TableDefinition::new("counters");

pub struct Redb {
    database: Database,
    syncs: Arc<AtomicU64>,
}

impl Redb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let path = dir.join("inbox.redb");
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let syncs = Arc::new(AtomicU64::new(0));
        let cache = match settings.mode {
            Mode::Load => settings.cache_bytes.max(2 << 30),
            Mode::Serve => settings.cache_bytes,
        };
        let backend = CountingFile { file, syncs: Arc::clone(&syncs) };
        let database = redb::Builder::new().set_cache_size(cache).create_with_backend(backend)?;
        let tx = database.begin_write()?;
        tx.open_table(CLAIMS)?;
        tx.open_table(COUNTERS)?;
        tx.commit()?;
        Ok(Self { database, syncs })
    }
}

impl Engine for Redb {
    fn version(&self) -> Result<String> {
        Ok(locked_version("redb"))
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let mut fresh = Vec::new();
        claims.chunks(250_000).try_for_each(|chunk| self.apply(chunk, &mut fresh))
    }

    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        let tx = self.database.begin_write()?;
        let mut table = tx.open_table(COUNTERS)?;
        for counter in counters {
            table.insert(counter, 0)?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn finish_load(&self) -> Result<()> {
        Ok(())
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        let at = now_ms();
        fresh.clear();
        let tx = self.database.begin_write()?;
        let mut claims = tx.open_table(CLAIMS)?;
        let mut counters = tx.open_table(COUNTERS)?;
        for event in events {
            let new = match claims.entry(u128::from_be_bytes(event.id))? {
                Entry::Occupied(_) => false,
                Entry::Vacant(slot) => {
                    slot.insert(u128::from_be_bytes(claim_value(at, event.fingerprint)))?;
                    true
                }
            };
            if let (true, Some(counter)) = (new, event.counter) {
                let before = counters.get(counter)?.map_or(0, |value| value.value());
                counters.insert(counter, before + 1)?;
            }
            fresh.push(new);
        }
        drop((claims, counters));
        if fresh.contains(&true) {
            tx.commit()?
        } else {
            tx.abort()?
        }
        Ok(())
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        let mut total = 0;
        for entry in self.database.begin_read()?.open_table(COUNTERS)?.iter()? {
            total += entry?.1.value();
        }
        Ok(Some(total))
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.syncs.load(Ordering::Relaxed))
    }
}

/// A plain file that counts its syncs.
#[derive(Debug)]
struct CountingFile {
    file: File,
    syncs: Arc<AtomicU64>,
}

impl redb::StorageBackend for CountingFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

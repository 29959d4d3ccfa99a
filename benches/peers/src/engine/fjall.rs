//! fjall 3, an LSM tree in Rust.
//!
//! - Claims and counters are two keyspaces of one database; a group is one write batch with `PersistMode::SyncData`,
//!   which syncs the journal before the batch becomes visible.
//! - Claims: bloom filters of 10 bits a key on every level, filter and index blocks pinned and not partitioned, no
//!   compression (ids are random). Counters: the same, and `expect_point_read_hits`, since every look-up finds one.
//! - Block cache as given; memtables, journal size and worker threads as the library chooses.
//! - Look-ups and the batch run under one lock, so that read, decide and write is one step.
//! - Threads: fjall holds its journal lock while it syncs, so calls by themselves would get a sync each; one
//!   writer commits for those who wait instead, which is many times faster.
//! - Loading: batches that are not synced, then one sync, a flush, and a wait for compactions.

use anyhow::{Context, Result, bail};
use fjall::config::BloomConstructionPolicy::BitsPerKey;
use fjall::config::{
    CompressionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::overlay::{Overlay, counter_from};
use super::{Engine, Settings, locked_version};
use crate::events::{Event, claim_value, now_ms};

pub struct Fjall {
    database: Database,
    claims: Keyspace,
    counters: Keyspace,
    writer: Mutex<()>,
}

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BitsPerKey(10.0))))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
}

impl Fjall {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let database =
            Database::builder(dir).cache_size(u64::try_from(settings.cache_bytes)?).open()?;
        let claims = database.keyspace("claims", keyspace_options)?;
        let counters =
            database.keyspace("counters", || keyspace_options().expect_point_read_hits(true))?;
        Ok(Self { database, claims, counters, writer: Mutex::new(()) })
    }
}

impl Engine for Fjall {
    fn version(&self) -> Result<String> {
        Ok(locked_version("fjall"))
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let at = now_ms();
        for chunk in claims.chunks(10_000) {
            let mut batch = self.database.batch();
            for claim in chunk {
                batch.insert(&self.claims, claim.id, claim_value(at, claim.fingerprint));
            }
            batch.commit()?;
        }
        Ok(())
    }

    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        for chunk in counters.chunks(10_000) {
            let mut batch = self.database.batch();
            for counter in chunk {
                batch.insert(&self.counters, counter.to_be_bytes(), 0_u64.to_le_bytes());
            }
            batch.commit()?;
        }
        Ok(())
    }

    fn finish_load(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll)?;
        self.claims.rotate_memtable_and_wait()?;
        self.counters.rotate_memtable_and_wait()?;
        self.settle()
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        let _writer = self.writer.lock().ok().context("a caller panicked")?;
        let at = now_ms();
        let mut overlay = Overlay::default();
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        fresh.clear();
        for event in events {
            let new = !self.claims.contains_key(event.id)? && overlay.claim(event);
            fresh.push(new);
            if !new {
                continue;
            }
            batch.insert(&self.claims, event.id, claim_value(at, event.fingerprint));
            if let Some(counter) = event.counter {
                overlay.add_one(counter, || {
                    counter_from(self.counters.get(counter.to_be_bytes())?.as_deref())
                })?;
            }
        }
        for (counter, value) in overlay.counters() {
            batch.insert(&self.counters, counter.to_be_bytes(), value.to_le_bytes());
        }
        Ok(batch.commit()?)
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        let mut total = 0;
        for entry in self.counters.iter() {
            total += counter_from(Some(&entry.value()?))?;
        }
        Ok(Some(total))
    }

    fn settle(&self) -> Result<()> {
        let (start, mut idle) = (Instant::now(), 0);
        while idle < 5 {
            if start.elapsed() > Duration::from_secs(600) {
                bail!("compactions did not end within ten minutes");
            }
            let busy =
                self.database.outstanding_flushes() > 0 || self.database.active_compactions() > 0;
            idle = if busy { 0 } else { idle + 1 };
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

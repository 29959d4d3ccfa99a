//! RocksDB, through the rocksdb crate. Built with the feature `rocksdb`.
//!
//! - Claims and counters are two column families; a group is one write batch with `sync=true`, one WAL sync.
//! - Claims: full bloom filters of 10 bits a key (whole keys; also in the memtable), no compression (ids are random),
//!   index and filter blocks held by the table readers. Counters: the same.
//! - 64 MiB memtables, two background jobs a core's worth (`increase_parallelism`), four recycled WAL files, so that a
//!   sync seldom has to write the file's metadata as well. Block cache as given, shared by both families.
//! - Look-ups and the batch run under one lock, so that read, decide and write is one step.
//! - Threads: one writer commits for those who wait. RocksDB's own write queue also groups callers, with locks striped by
//!   id and counter in front of it; that was measured at two thirds of the leader's throughput with 64 threads.
//! - WAL syncs are counted by the library's statistics (`rocksdb.wal.synced`, at the level that takes no timings).
//! - Loading: batches without WAL, then a flush and a wait for compactions.

use anyhow::{Context, Result};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, IteratorMode, Options,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::path::Path;
use std::sync::Mutex;

use super::overlay::{Overlay, counter_from};
use super::{Engine, Settings, locked_version};
use crate::events::{Event, claim_value, now_ms};

pub struct RocksDb {
    database: DB,
    options: Options,
    writer: Mutex<()>,
}

impl RocksDb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.increase_parallelism(i32::try_from(std::thread::available_parallelism()?.get())?);
        options.set_recycle_log_file_num(4);
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptTimers);
        let cache = Cache::new_lru_cache(settings.cache_bytes);
        let families = ["claims", "counters"]
            .map(|name| ColumnFamilyDescriptor::new(name, family_options(&cache)));
        let database = DB::open_cf_descriptors(&options, dir, families)?;
        Ok(Self { database, options, writer: Mutex::new(()) })
    }

    fn family(&self, name: &str) -> Result<&ColumnFamily> {
        self.database.cf_handle(name).with_context(|| format!("no column family {name}"))
    }

    fn load(&self, family: &str, entries: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        let family = self.family(family)?;
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put_cf(family, key, value);
            if batch.len() >= 10_000 {
                self.database.write_opt(std::mem::take(&mut batch), &options)?;
            }
        }
        Ok(self.database.write_opt(batch, &options)?)
    }
}

fn family_options(cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_bloom_filter(10.0, false);
    blocks.set_block_cache(cache);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(0.05);
    options
}

impl Engine for RocksDb {
    fn version(&self) -> Result<String> {
        let version = locked_version("librocksdb-sys");
        Ok(version.split_once('+').map_or(version.clone(), |(_, library)| library.to_owned()))
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let at = now_ms();
        let entries = claims
            .iter()
            .map(|claim| (claim.id.to_vec(), claim_value(at, claim.fingerprint).to_vec()));
        self.load("claims", entries)
    }

    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        let entries = counters.iter().map(|counter| (counter.to_be_bytes().to_vec(), vec![0; 8]));
        self.load("counters", entries)
    }

    fn finish_load(&self) -> Result<()> {
        self.database.flush_cf(self.family("claims")?)?;
        self.database.flush_cf(self.family("counters")?)?;
        self.settle()
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        let _writer = self.writer.lock().ok().context("a caller panicked")?;
        let (claims, counters) = (self.family("claims")?, self.family("counters")?);
        let at = now_ms();
        let mut overlay = Overlay::default();
        let mut batch = WriteBatch::default();
        fresh.clear();
        for event in events {
            let new =
                self.database.get_pinned_cf(claims, event.id)?.is_none() && overlay.claim(event);
            fresh.push(new);
            if !new {
                continue;
            }
            batch.put_cf(claims, event.id, claim_value(at, event.fingerprint));
            if let Some(counter) = event.counter {
                let stored = || {
                    counter_from(
                        self.database.get_pinned_cf(counters, counter.to_be_bytes())?.as_deref(),
                    )
                };
                overlay.add_one(counter, stored)?;
            }
        }
        for (counter, value) in overlay.counters() {
            batch.put_cf(counters, counter.to_be_bytes(), value.to_le_bytes());
        }
        if batch.is_empty() {
            return Ok(());
        }
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        Ok(self.database.write_opt(batch, &durable)?)
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        let mut total = 0;
        for entry in self.database.iterator_cf(self.family("counters")?, IteratorMode::Start) {
            total += counter_from(Some(&entry?.1))?;
        }
        Ok(Some(total))
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.options.get_ticker_count(Ticker::WalFileSynced))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.database.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}

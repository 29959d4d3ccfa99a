//! LMDB, through heed.
//!
//! - Default flags: every commit syncs the data pages and then writes its meta page through a descriptor that syncs.
//!   No `NOSYNC`, `NOMETASYNC`, `MAPASYNC` or `WRITEMAP`.
//! - Two named databases in one environment; ids are looked up and inserted in one descent (`MDB_NOOVERWRITE`).
//! - A map of 512 bytes a claim and at least 4 GiB: address space, not disk.
//! - LMDB has no cache of its own: it maps the file, so its resident memory includes the mapped pages it touched.
//! - A group without a change is aborted.
//! - Threads: one writer commits for those who wait; LMDB has one writer.
//! - Loading: transactions of 100,000 sorted claims.

use anyhow::{Context, Result};
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions};
use std::path::Path;

use super::{Engine, Settings};
use crate::events::{Event, claim_value, now_ms};

type Counter = U64<BigEndian>;

pub struct Lmdb {
    env: Env,
    claims: Database<'static, Bytes, Bytes>,
    counters: Database<'static, Counter, Counter>,
}

impl Lmdb {
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self> {
        let map_size = usize::try_from(settings.claims)?
            .saturating_mul(512)
            .max(4 << 30)
            .next_multiple_of(1 << 20);
        let env = open_env(EnvOpenOptions::new().map_size(map_size).max_dbs(2), dir)?;
        let created = env.create_databases_and_commit(
            env.write_txn()?,
            |databases, tx| -> heed::Result<_> {
                let claims = databases.create_database(tx, Some("claims"))?;
                let counters = databases.create_database(tx, Some("counters"))?;
                Ok(CommitOrAbort::<_, ()>::Commit((claims, counters)))
            },
        )?;
        let (claims, counters) = created.commit().context("the databases were not created")?;
        Ok(Self { env, claims, counters })
    }
}

#[expect(
    unsafe_code,
    reason = "heed has no other way to open: the file is mapped, nobody else may change it"
)]
fn open_env(options: &EnvOpenOptions, dir: &Path) -> Result<Env> {
    // SAFETY: the directory belongs to this process alone for as long as it runs.
    Ok(unsafe { options.open(dir)? })
}

impl Engine for Lmdb {
    fn version(&self) -> Result<String> {
        let version = heed::lmdb_version();
        Ok(format!("{}.{}.{}", version.major, version.minor, version.patch))
    }

    fn load_claims(&self, claims: &[Event]) -> Result<()> {
        let mut fresh = Vec::new();
        claims.chunks(100_000).try_for_each(|chunk| self.apply(chunk, &mut fresh))
    }

    fn load_counters(&self, counters: &[u64]) -> Result<()> {
        for chunk in counters.chunks(100_000) {
            let mut tx = self.env.write_txn()?;
            for counter in chunk {
                self.counters.put(&mut tx, counter, &0)?;
            }
            tx.commit()?;
        }
        Ok(())
    }

    fn finish_load(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        let at = now_ms();
        let mut tx = self.env.write_txn()?;
        fresh.clear();
        for event in events {
            let value = claim_value(at, event.fingerprint);
            let new = self.claims.get_or_put(&mut tx, &event.id, &value)?.is_none();
            if let (true, Some(counter)) = (new, event.counter) {
                let before = self.counters.get(&tx, &counter)?.unwrap_or(0);
                self.counters.put(&mut tx, &counter, &(before + 1))?;
            }
            fresh.push(new);
        }
        if fresh.contains(&true) {
            tx.commit()?;
        } else {
            tx.abort();
        }
        Ok(())
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        let tx = self.env.read_txn()?;
        let mut total = 0;
        for entry in self.counters.iter(&tx)? {
            total += entry?.1;
        }
        Ok(Some(total))
    }
}

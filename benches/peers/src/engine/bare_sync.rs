//! The control: one 4 KiB write and one `fdatasync` an event, in turn through a zero-filled file of 64 MiB. It keeps
//! no claims; it says what the disk charges for a single durable write.

use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Engine;
use crate::events::Event;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 16_384;

pub struct BareSync {
    file: File,
    syncs: AtomicU64,
}

impl BareSync {
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("zeros");
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let zeros = vec![0; 1 << 20];
        while file.metadata()?.len() < BLOCKS * BLOCK as u64 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(Self { file, syncs: AtomicU64::new(0) })
    }
}

impl Engine for BareSync {
    fn version(&self) -> Result<String> {
        Ok("pwrite + fdatasync".to_owned())
    }

    fn load_claims(&self, _claims: &[Event]) -> Result<()> {
        Ok(())
    }

    fn load_counters(&self, _counters: &[u64]) -> Result<()> {
        Ok(())
    }

    fn finish_load(&self) -> Result<()> {
        Ok(())
    }

    fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
        let turn = self.syncs.fetch_add(1, Ordering::Relaxed);
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&turn.to_le_bytes());
        self.file.write_all_at(&block, turn % BLOCKS * BLOCK as u64)?;
        self.file.sync_data()?;
        fresh.clear();
        fresh.resize(events.len(), true);
        Ok(())
    }

    fn keeps_claims(&self) -> bool {
        false
    }

    fn counter_total(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.syncs.load(Ordering::Relaxed))
    }
}

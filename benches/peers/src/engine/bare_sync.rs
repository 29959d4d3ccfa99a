//! The controls: one write and one `fdatasync` a group, in turn through a zero-filled file of 64 MiB. They keep no
//! claims; they say what the disk charges for a durable write, and how long it pauses by itself.
//!
//! - `sync`: 4 KiB. `sync-512`: 512 bytes. `sync-group`: 48 bytes an event, 24 if it changes no counter, rounded
//!   up to 512. So long are the records of txinbox's journal, within a tenth: 1,024 bytes for a group of 16, 3,072 to 3,584
//!   of 64, 5,120 of 100, 46,080 of 1000, and 24,064 of 1000 without counters (seen with strace).

use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Engine;
use crate::events::Event;

const FILE_BYTES: u64 = 64 << 20;
const BYTES_PER_CLAIM: usize = 24;
const BYTES_PER_COUNTER: usize = 24;
const SECTOR: usize = 512;

/// How much is written at once.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    Bytes(usize),
    OfGroup,
}

impl Size {
    fn of(self, events: &[Event]) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::OfGroup => {
                let counters = events.iter().filter(|event| event.counter.is_some()).count();
                let bytes = events.len() * BYTES_PER_CLAIM + counters * BYTES_PER_COUNTER;
                bytes.next_multiple_of(SECTOR)
            }
        }
    }
}

pub struct BareSync {
    file: File,
    size: Size,
    /// Where the next write goes.
    offset: Mutex<u64>,
    syncs: AtomicU64,
}

impl BareSync {
    pub fn open(dir: &Path, size: Size) -> Result<Self> {
        let path = dir.join("zeros");
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let zeros = vec![0; 1 << 20];
        while file.metadata()?.len() < FILE_BYTES {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(Self { file, size, offset: Mutex::new(0), syncs: AtomicU64::new(0) })
    }

    /// The next `bytes` of the file, from its beginning again where they would pass its end.
    fn turn(&self, bytes: u64) -> Result<u64> {
        let mut offset = super::lock(&self.offset)?;
        let start = if *offset + bytes > FILE_BYTES { 0 } else { *offset };
        *offset = start + bytes;
        Ok(start)
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
        let count = self.syncs.fetch_add(1, Ordering::Relaxed);
        let mut data = vec![0; self.size.of(events)];
        data[..8].copy_from_slice(&count.to_le_bytes());
        let offset = self.turn(u64::try_from(data.len())?)?;
        self.file.write_all_at(&data, offset)?;
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

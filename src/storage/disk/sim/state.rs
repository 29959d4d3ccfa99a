//! What the disk holds: what processes see, what is durable, and what lies between.
//!
//! What must hold: Z1. What processes see is the durable image with every unsynced operation
//! applied, and with whatever a failed sync has lost. Z2. An operation leaves the unsynced ones only
//! by a sync that persisted it or a failed one that lost it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Traced};
use super::fault::{self, Effect, Fault, Loss};
use super::keep::coin;
use super::pages::{PAGE_BYTES, Pages, end_of};
use crate::base::sim_clock::SimClock;

/// What a file's number is; it outlives its name.
pub(super) type FileNo = u64;

#[derive(Debug, Clone, Default)]
pub(super) struct FileState {
    /// What processes read.
    pub(super) cache: Pages,
    /// What is certain to survive a power cut.
    pub(super) durable: Pages,
}

/// An operation that no sync has made durable.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Write {
        file: FileNo,
        offset: u64,
        data: Arc<[u8]>,
        /// It ended past the file's end of the time.
        grew: bool,
    },
    Length {
        file: FileNo,
        len: u64,
    },
    Link {
        name: String,
        file: FileNo,
    },
    Rename {
        from: String,
        to: String,
        file: FileNo,
    },
    Unlink {
        name: String,
    },
}

impl Op {
    fn file(&self) -> Option<FileNo> {
        match self {
            Self::Write { file, .. } | Self::Length { file, .. } => Some(*file),
            _ => None,
        }
    }

    /// Applies it to a directory; the operations of files are not for it.
    pub(super) fn apply_to_names(&self, names: &mut BTreeMap<String, FileNo>) {
        match self {
            Self::Link { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Unlink { name } => {
                names.remove(name);
            }
            Self::Write { .. } | Self::Length { .. } => {}
        }
    }
}

/// How much the disk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Capacity {
    /// As much as anybody writes.
    #[default]
    Unlimited,
    /// The lengths of all files together; growing past it fails, writing inside a file does not.
    Lengths(u64),
    /// The written 4 KiB pages of all files together, in bytes: a file may be grown past it, and the
    /// write into the hole fails.
    Written(u64),
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) exists: bool,
    pub(super) names: BTreeMap<String, FileNo>,
    pub(super) durable_names: BTreeMap<String, FileNo>,
    pub(super) files: BTreeMap<FileNo, FileState>,
    pub(super) unsynced: Vec<Op>,
    pub(super) next_file: FileNo,
    pub(super) locked: BTreeSet<String>,
    pub(super) powerless: bool,
    pub(super) calls: u64,
    pub(super) trace: Option<Vec<Traced>>,
    pub(super) faults: Vec<Fault>,
    pub(super) capacity: Capacity,
    pub(super) clock: Option<SimClock>,
    pub(super) latency: BTreeMap<Call, Duration>,
}

pub(super) fn power_is_gone() -> io::Error {
    io::Error::other("the machine lost power")
}

impl State {
    /// Counts and traces a call, lets its time pass, and says what goes wrong with it.
    pub(super) fn enter(&mut self, traced: Traced) -> io::Result<Option<Effect>> {
        let call = traced.call;
        self.calls = self.calls.saturating_add(1);
        let ordinal = self.calls;
        if let Some(trace) = &mut self.trace {
            trace.push(Traced { ordinal, ..traced });
        }
        if let (Some(clock), Some(latency)) = (&self.clock, self.latency.get(&call)) {
            clock.advance(*latency);
        }
        if self.powerless {
            return Err(power_is_gone());
        }
        match fault::strike(&mut self.faults, ordinal, call) {
            Some(Effect::Error(kind)) => Err(io::Error::new(kind, "injected by the simulation")),
            effect => Ok(effect),
        }
    }

    pub(super) fn file(&self, file: FileNo) -> io::Result<&FileState> {
        self.files.get(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file_mut(&mut self, file: FileNo) -> io::Result<&mut FileState> {
        self.files.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes as much of `data` as there is room for.
    pub(super) fn write(&mut self, file: FileNo, offset: u64, data: &[u8]) -> io::Result<()> {
        end_of(offset, data.len())?;
        let room = self.room_for(file, offset, data.len())?;
        let fits = data.get(..room).unwrap_or(data);
        let end = end_of(offset, fits.len())?;
        let grew = end > self.file(file)?.cache.len();
        if grew {
            self.unsynced.push(Op::Length { file, len: end });
        }
        if !fits.is_empty() {
            self.file_mut(file)?.cache.write(offset, fits)?;
            self.unsynced.push(Op::Write { file, offset, data: fits.into(), grew });
        }
        if fits.len() < data.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, file: FileNo, len: u64) -> io::Result<()> {
        let old = self.file(file)?.cache.len();
        if let Capacity::Lengths(most) = self.capacity
            && len > old
            && self.total_len().saturating_add(len - old) > most
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file_mut(file)?.cache.set_len(len)?;
        self.unsynced.push(Op::Length { file, len });
        Ok(())
    }

    fn total_len(&self) -> u64 {
        let lens = self.files.values().map(|f| f.cache.len());
        lens.fold(0, u64::saturating_add)
    }

    /// How many of `len` bytes at `offset` the capacity admits.
    fn room_for(&self, file: FileNo, offset: u64, len: usize) -> io::Result<usize> {
        let cache = &self.file(file)?.cache;
        let fit = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(len);
        match self.capacity {
            Capacity::Unlimited => Ok(len),
            Capacity::Lengths(most) => {
                let spare = most.saturating_sub(self.total_len());
                let longest = cache.len().saturating_add(spare);
                Ok(fit(longest.saturating_sub(offset)))
            }
            Capacity::Written(most) => {
                let used = self.files.values().map(|f| f.cache.allocated_bytes());
                let spare = most.saturating_sub(used.fold(0, u64::saturating_add));
                let page_bytes = PAGE_BYTES as u64;
                let mut fresh = spare / page_bytes;
                let last = offset.saturating_add(len as u64).div_ceil(page_bytes);
                for page in offset / page_bytes..last {
                    if cache.is_allocated(page) {
                        continue;
                    }
                    if fresh == 0 {
                        return Ok(fit((page * page_bytes).saturating_sub(offset)));
                    }
                    fresh -= 1;
                }
                Ok(len)
            }
        }
    }

    /// Takes a file's operations out of the unsynced ones and makes those durable that `persists`.
    fn settle(&mut self, file: FileNo, mut persists: impl FnMut(u64) -> bool) -> io::Result<()> {
        let (mine, others): (Vec<Op>, Vec<Op>) =
            std::mem::take(&mut self.unsynced).into_iter().partition(|op| op.file() == Some(file));
        self.unsynced = others;
        let durable = &mut self.file_mut(file)?.durable;
        for (op, index) in mine.into_iter().zip(0_u64..) {
            if !persists(index) {
                continue;
            }
            match op {
                Op::Write { offset, data, .. } => durable.write(offset, &data)?,
                Op::Length { len, .. } => durable.set_len(len)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, file: FileNo) -> io::Result<()> {
        self.settle(file, |_| true)
    }

    /// A sync that fails: what it does not persist leaves the unsynced operations all the same.
    pub(super) fn lose_sync(&mut self, file: FileNo, loss: Loss) -> io::Result<()> {
        match loss {
            Loss::All => self.settle(file, |_| false)?,
            Loss::Part(seed) => self.settle(file, |index| coin(seed, index))?,
        }
        Err(io::Error::other("injected by the simulation: sync failed"))
    }

    pub(super) fn sync_dir(&mut self) {
        let names = &mut self.durable_names;
        self.unsynced.retain(|op| {
            op.apply_to_names(names);
            op.file().is_some()
        });
    }
}

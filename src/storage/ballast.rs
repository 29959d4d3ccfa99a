//! Space kept back for the day the disk is full: a file that is emptied so that a commit can end.
//!
//! Owns `txinbox.ballast`. What must hold:
//! BA1. Its space is really taken: the file is written through, with bytes that no file system
//!     compresses or stores as a hole. BA2. Its last page is written only after the rest is durable,
//!     and it counts as whole by that page: what a crash leaves half laid is laid again by the next
//!     opening. BA3. It is given up for writes and length changes, never for a failed sync: what such
//!     a sync has lost cannot be tried again. BA4. Trying to lay it where there is no room keeps no
//!     space. BA5. Once the directory is let go, nothing touches the file.
//!
//! Called by the directory, and by the engine, which takes no new event while the ballast is missing.

use std::io;

use super::disk::{Disk, DiskFile};
use crate::base::error::Error;
use crate::base::random::Random;
use crate::base::sync::{Arc, AtomicBool, Mutex, Ordering};

pub(super) const BALLAST: &str = "txinbox.ballast";
const PAGE_BYTES: u64 = 4096;
const CHUNK_BYTES: u64 = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ballast {
    disk: Arc<dyn Disk>,
    bytes: u64,
    missing: AtomicBool,
    /// Whoever lays or empties the file holds this; a write that needs the space waits for a laying.
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Kept open, since a full disk or process may not be able to open anything.
    file: Option<Box<dyn DiskFile>>,
    ended: bool,
}

impl Ballast {
    /// Lays a ballast of `bytes` if there is room for it. With 0 there is none, and one that an
    /// earlier opening laid is removed.
    pub(super) fn open(disk: Arc<dyn Disk>, bytes: u64) -> Result<Self, Error> {
        let ballast = Self { missing: AtomicBool::new(bytes > 0), bytes, ..Self::none(disk) };
        if bytes == 0 {
            let disk = &ballast.disk;
            disk.remove(BALLAST).map_err(|e| ballast.error("removing", e))?;
        }
        ballast.lay()?;
        Ok(ballast)
    }

    /// One that is never missing and has nothing to give.
    pub(super) fn none(disk: Arc<dyn Disk>) -> Self {
        Self { disk, bytes: 0, missing: AtomicBool::new(false), held: Mutex::default() }
    }

    /// Whether one is asked for and its space has been given up, or was never there.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing.load(Ordering::SeqCst)
    }

    /// Lays it if it is missing. False if there is no room; then its file is left empty (BA4).
    pub(crate) fn lay(&self) -> Result<bool, Error> {
        let mut held = self.held.lock();
        if held.ended {
            return Ok(false);
        }
        if !self.is_missing() {
            return Ok(true);
        }
        if let Err(e) = self.fill(&mut held.file) {
            held.give_back();
            let error = self.error("laying", e);
            return if error.is_full() { Ok(false) } else { Err(error) };
        }
        self.missing.store(false, Ordering::SeqCst);
        Ok(true)
    }

    /// Gives its space to whoever asks for it next.
    pub(crate) fn release(&self) {
        let held = self.held.lock();
        if self.bytes > 0 && !self.missing.swap(true, Ordering::SeqCst) {
            held.give_back();
        }
    }

    /// From here on the file is left as it is; waits for a laying (BA5).
    pub(super) fn end(&self) {
        *self.held.lock() = Held { file: None, ended: true };
    }

    /// Writes all of it, unless it is whole. Writing again what a crash has left costs no space.
    fn fill(&self, slot: &mut Option<Box<dyn DiskFile>>) -> io::Result<()> {
        let file = match slot {
            Some(file) => file,
            None => slot.insert(self.disk.open(BALLAST, true)?),
        };
        let last = self.bytes.saturating_sub(1) / PAGE_BYTES * PAGE_BYTES;
        let last_page = noise(self.bytes, last, self.bytes.saturating_sub(last));
        let len = file.len()?;
        if len == self.bytes {
            let mut found = vec![0; last_page.len()];
            file.read_at(last, &mut found)?;
            if found == last_page {
                return Ok(());
            }
        } else if len > self.bytes {
            file.set_len(self.bytes)?;
        }
        let mut at = 0;
        while at < last {
            let chunk = noise(self.bytes, at, CHUNK_BYTES.min(last.saturating_sub(at)));
            file.write_at(at, &chunk)?;
            at = at.saturating_add(chunk.len() as u64);
        }
        file.sync()?;
        file.write_at(last, &last_page)?;
        file.sync()
    }

    fn error(&self, doing: &str, source: io::Error) -> Error {
        Error::io(format!("{doing} {}/{BALLAST}", self.disk.describe()), source)
    }
}

impl Held {
    /// Empties the file. Synced, because some file systems let nobody have the blocks before the
    /// cut is durable. An error changes nothing for the caller: he tries to go on without the space.
    fn give_back(&self) {
        if let Some(file) = &self.file {
            let _ = file.set_len(0).and_then(|()| file.sync());
        }
    }
}

/// The bytes of a ballast of `bytes` at a chunk's or the last page's beginning.
fn noise(bytes: u64, at: u64, len: u64) -> Vec<u8> {
    let random = Random::seeded(bytes.rotate_left(32) ^ at);
    let mut out = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    for start in (0..len).step_by(8) {
        let word = random.next_u64().unwrap_or_default().to_le_bytes();
        let wanted = len.saturating_sub(start).min(8) as usize;
        out.extend(word.get(..wanted).unwrap_or_default());
    }
    out
}

/// A file whose writes and length changes may have the space of the ballast.
#[derive(Debug)]
pub(super) struct Ballasted {
    file: Box<dyn DiskFile>,
    ballast: Arc<Ballast>,
}

impl Ballasted {
    pub(super) fn new(file: Box<dyn DiskFile>, ballast: Arc<Ballast>) -> Self {
        Self { file, ballast }
    }

    /// Makes the call, and once more after giving up the ballast if the disk was full.
    ///
    /// Also if the ballast was missing already: another thread may have given it up just now. A call
    /// that failed may have done part of its work, which the second does again with the same bytes.
    fn call(&self, call: impl Fn(&dyn DiskFile) -> io::Result<()>) -> io::Result<()> {
        match call(&*self.file) {
            Err(e) if is_full(&e) && self.ballast.bytes > 0 => {
                self.ballast.release();
                call(&*self.file)
            }
            done => done,
        }
    }
}

/// Whether space elsewhere would help. A file larger than the file system or the process may have
/// (`FileTooLarge`) is not such a case.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl DiskFile for Ballasted {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(|file| file.write_at(offset, data))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(|file| file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync() // BA3
    }
}

#[cfg(test)]
mod tests;

//! Carries redb's reads and writes to a file of the disk seam.
//!
//! Owns the gate that ends a database: once redb has closed its file, a snapshot that outlived it
//! can no longer read pages which a successor may be writing. The directory's own lock excludes
//! other processes, so no byte ranges are locked here.

use std::io;

use redb::StorageBackend;

use super::disk::DiskFile;
use crate::base::canary::planted;
use crate::base::metrics::Counter;
use crate::base::sync::{Arc, AtomicBool, Ordering, RwLock};

/// One file of the seam as redb sees it.
#[derive(Debug)]
pub(crate) struct RedbFile {
    file: Box<dyn DiskFile>,
    health: Arc<Health>,
}

/// What the database's owner wants to know of its file.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) written_bytes: Counter,
    /// Whether any call has failed: redb then refuses all that follows.
    failed: AtomicBool,
    /// Whether redb has met damage: it may not survive being closed then.
    damaged: AtomicBool,
    /// Whether the file may no longer be touched.
    closed: RwLock<bool>,
}

impl Health {
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    pub(crate) fn note_damage(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.damaged.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::SeqCst)
    }

    /// From here on nothing reads or writes the file; waits for those at it.
    pub(crate) fn cut_off(&self) {
        *self.closed.write() = true;
    }
}

impl RedbFile {
    pub(crate) fn new(file: Box<dyn DiskFile>, health: Arc<Health>) -> Self {
        Self { file, health }
    }

    fn open<T>(&self, f: impl FnOnce(&dyn DiskFile) -> io::Result<T>) -> io::Result<T> {
        let closed = self.health.closed.read();
        if *closed {
            return Err(io::Error::other("the database was closed"));
        }
        f(&*self.file).inspect_err(|_| self.health.failed.store(true, Ordering::SeqCst))
    }
}

impl StorageBackend for RedbFile {
    fn len(&self) -> io::Result<u64> {
        self.open(|file| file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.open(|file| file.read_at(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.open(|file| file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.open(|file| if planted("no-sync-at-all") { Ok(()) } else { file.sync() })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.health.written_bytes.add(data.len() as u64);
        self.open(|file| file.write_at(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.health.cut_off();
        Ok(())
    }
}

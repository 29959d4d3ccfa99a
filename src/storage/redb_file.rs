//! Carries redb's reads and writes to a file of the disk seam.
//!
//! Owns nothing else: the directory's own lock excludes other processes, so no byte ranges are
//! locked here.

use std::io;

use redb::StorageBackend;

use super::disk::DiskFile;

/// One file of the seam as redb sees it.
#[derive(Debug)]
pub(crate) struct RedbFile(pub(crate) Box<dyn DiskFile>);

impl StorageBackend for RedbFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}

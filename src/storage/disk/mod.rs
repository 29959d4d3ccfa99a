//! The one disk seam: every byte a store reads or writes passes through a [`Disk`].
//!
//! What must hold for an implementation: D1. `sync` returns only when all earlier writes and length
//! changes of that file survive a power cut. D2. `sync_dir` does the same for creations, renames and
//! removals. D3. A grown file reads as zeros where nothing was written. D4. A failed call may have done any
//! part of its work.

mod memory;
mod real;
#[cfg(any(test, feature = "testkit"))]
pub(crate) mod sim;

use std::fmt::Debug;
use std::io;

pub(crate) use memory::MemoryDisk;
pub(crate) use real::RealDisk;

/// One directory of files.
pub(crate) trait Disk: Debug + Send + Sync + 'static {
    /// The directory as a person would name it.
    fn describe(&self) -> String;

    /// Makes the directory, and makes that durable, if it is not there.
    fn create_dir(&self) -> io::Result<()>;

    /// The names in the directory, sorted; `NotFound` if there is no directory.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing; `NotFound` if it is absent and `create` is false.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Replaces `to` by `from` in one step.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; one that is absent is not an error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the directory for this handle alone; `None` if somebody else has it. It is given back
    /// when the lock is dropped, and by the system when the process dies.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskLock>>>;
}

/// An open file.
pub(crate) trait DiskFile: Debug + Send + Sync + 'static {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills `out` from `offset`; `UnexpectedEof` past the end.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`, growing the file if needed.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts or grows the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes all earlier writes and length changes durable.
    fn sync(&self) -> io::Result<()>;
}

/// Holds a directory until it is dropped.
pub(crate) trait DiskLock: Debug + Send + Sync + 'static {}

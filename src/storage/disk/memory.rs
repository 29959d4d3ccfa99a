//! A directory in memory, for `Inbox::in_memory()`.
//!
//! Owns no durability: everything is gone with the last handle. A `sync` has nothing to do, because
//! there is nothing that could survive.

use std::collections::BTreeMap;
use std::io;

use super::{Disk, DiskFile, DiskLock};
use crate::base::sync::{Arc, AtomicBool, Mutex, Ordering, RwLock};

type Contents = Arc<RwLock<Vec<u8>>>;

/// A directory that lives as long as its handle.
#[derive(Debug, Default)]
pub(crate) struct MemoryDisk {
    files: Mutex<BTreeMap<String, Contents>>,
    locked: Arc<AtomicBool>,
}

impl Disk for MemoryDisk {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn create_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut files = self.files.lock();
        if let Some(contents) = files.get(name) {
            return Ok(Box::new(MemoryFile { contents: contents.clone() }));
        }
        if !create {
            return Err(io::ErrorKind::NotFound.into());
        }
        let contents = Contents::default();
        files.insert(name.to_owned(), contents.clone());
        Ok(Box::new(MemoryFile { contents }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        let contents = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().remove(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn DiskLock>>> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock { locked: self.locked.clone() })))
    }
}

#[derive(Debug)]
struct MemoryLock {
    locked: Arc<AtomicBool>,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.locked.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct MemoryFile {
    contents: Contents,
}

/// The byte range of a transfer, if it can exist in memory at all.
fn span(offset: u64, len: usize) -> io::Result<std::ops::Range<usize>> {
    let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let end = start.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
    Ok(start..end)
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.contents.read().len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.contents.read();
        let source = contents.get(span(offset, out.len())?).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(source);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let span = span(offset, data.len())?;
        let mut contents = self.contents.write();
        if contents.len() < span.end {
            contents.resize(span.end, 0);
        }
        if let Some(target) = contents.get_mut(span) {
            target.copy_from_slice(data);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.contents.write().resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

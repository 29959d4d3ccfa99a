//! The real file system.
//!
//! Owns the calls that make a file, its length and its name durable. On Linux `sync` is
//! `fdatasync`, which also writes the length; a directory is synced through its own handle.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile, DiskLock};

/// A directory of the real file system.
#[derive(Debug)]
pub(crate) struct RealDisk {
    dir: PathBuf,
}

impl RealDisk {
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
}

impl Disk for RealDisk {
    fn describe(&self) -> String {
        self.dir.display().to_string()
    }

    fn create_dir(&self) -> io::Result<()> {
        let missing: Vec<&Path> = self.dir.ancestors().take_while(|dir| !dir.is_dir()).collect();
        if missing.is_empty() {
            // A predecessor killed at this point may have left a name that is not durable. Where the
            // parent may not be opened, the directory was made by somebody else.
            let _ = sync_directory(parent_of(&self.dir));
            return Ok(());
        }
        fs::create_dir_all(&self.dir)?;
        // Each new name lives in its parent, so that is what must be made durable.
        missing.into_iter().try_for_each(|dir| sync_directory(parent_of(dir)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .open(self.dir.join(name))?;
        Ok(Box::new(RealFile { file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.dir.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        sync_directory(&self.dir)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskLock>>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.dir.join(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealLock { file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}

fn parent_of(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_dir: &Path) -> io::Result<()> {
    Ok(()) // names are durable with the file itself where directories cannot be synced
}

/// The lock file; the death of the process, too, gives the directory back.
#[derive(Debug)]
struct RealLock {
    file: File,
}

impl DiskLock for RealLock {}

impl Drop for RealLock {
    /// Closing the file would not do while another thread is starting a process: until that has
    /// begun its program it holds copies of all open files.
    fn drop(&mut self) {
        // If it cannot be given back, closing the file still does it, a little later.
        let _ = self.file.unlock();
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, out, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    out = out.get_mut(n..).unwrap_or_default();
                    offset = offset.saturating_add(n as u64);
                }
            }
        }
        Ok(())
    }

    #[cfg(unix)]
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, data, offset)
    }

    #[cfg(windows)]
    fn write_at(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            match std::os::windows::fs::FileExt::seek_write(&self.file, data, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    data = data.get(n..).unwrap_or_default();
                    offset = offset.saturating_add(n as u64);
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

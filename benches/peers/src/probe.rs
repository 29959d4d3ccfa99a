//! What the operating system says about this process and its store: bytes written, resident memory, disk used, and
//! what reached the device.

use anyhow::{Context, Result};
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

/// Bytes that this process passed to write calls (`wchar` of /proc/self/io). `write_bytes` would be what it made dirty,
/// but kernels with large folios count a whole folio, up to megabytes, for a block of 4 KiB. No engine here writes
/// through a mapping, so that nothing is missed; that a small append costs the disk a whole block is not seen.
pub fn written_bytes() -> Result<u64> {
    field(&fs::read_to_string("/proc/self/io")?, "wchar:")
}

/// Resident memory of this process, mapped files included.
pub fn resident_bytes() -> Result<u64> {
    Ok(field(&fs::read_to_string("/proc/self/status")?, "VmRSS:")? * 1024)
}

/// Disk blocks allocated to the files below `dir`.
pub fn allocated_bytes(dir: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        // A store may delete a file between listing and looking; what is gone takes no space.
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        total += metadata.st_blocks() * 512;
        if metadata.is_dir() {
            total += allocated_bytes(&entry.path()).unwrap_or(0);
        }
    }
    Ok(total)
}

/// What the device below a directory has completed, for the whole machine: on a quiet machine an upper bound on what
/// this process made it do.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    pub written_bytes: u64,
    pub flushes: u64,
}

impl Device {
    /// None where the kernel does not say.
    pub fn below(dir: &Path) -> Option<Self> {
        let device = fs::metadata(dir).ok()?.st_dev();
        let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
        let minor = device & 0xff | (device >> 12) & !0xff;
        let base = format!("/sys/dev/block/{major}:{minor}");
        // Flushes are counted for whole disks; a partition's directory lies inside its disk's.
        [format!("{base}/../stat"), format!("{base}/stat")].iter().find_map(|path| {
            let text = fs::read_to_string(path).ok()?;
            let field = |at| text.split_whitespace().nth(at)?.parse::<u64>().ok();
            Some(Self { written_bytes: field(6)? * 512, flushes: field(15)? })
        })
    }

    pub fn since(self, before: Self) -> Self {
        Self {
            written_bytes: self.written_bytes - before.written_bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name}"))?;
    let number = line.split_whitespace().next().with_context(|| format!("{name} is empty"))?;
    Ok(number.parse()?)
}

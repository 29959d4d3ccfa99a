//! One file of the journal.
//!
//! What must hold: JS1. Once open, its length and its blocks are durable. JS2. Rewriting puts the same bytes
//! where they are, so a torn rewrite harms nothing.

use std::ops::Range;

use super::NAMES;
use crate::base::error::Error;
use crate::base::sync::Arc;
use crate::storage::disk::{Disk, DiskFile};

/// Written at once while a segment is filled.
const FILL_BYTES: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u8,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) bytes: u64,
}

/// Opens both segments, each of at least the length asked for, and never shorter than it was.
pub(super) fn open_both(disk: &dyn Disk, wanted_bytes: u64) -> Result<[Segment; 2], Error> {
    let mut segments = [Segment::open(disk, 0)?, Segment::open(disk, 1)?];
    let [zero, one] = &segments;
    let bytes = wanted_bytes.max(zero.bytes).max(one.bytes);
    let mut made = false;
    for segment in &mut segments {
        made |= segment.fill(bytes)?;
    }
    if made {
        let doing = |e| Error::io(format!("making the journal in {}", disk.describe()), e);
        disk.sync_dir().map_err(doing)?;
    }
    Ok(segments)
}

impl Segment {
    fn open(disk: &dyn Disk, number: u8) -> Result<Self, Error> {
        let name = NAMES.get(usize::from(number)).copied().unwrap_or_default();
        let doing = |e| Error::io(format!("opening {}/{name}", disk.describe()), e);
        let file: Arc<dyn DiskFile> = Arc::from(disk.open(name, true).map_err(doing)?);
        let bytes = file.len().map_err(doing)?;
        Ok(Self { number, file, bytes })
    }

    pub(super) fn name(&self) -> &'static str {
        NAMES.get(usize::from(self.number)).copied().unwrap_or_default()
    }

    fn doing(&self, what: &'static str) -> impl Fn(std::io::Error) -> Error {
        let name = self.name();
        move |e| Error::io(format!("{what} {name}"), e)
    }

    /// Fills it with zeros up to `bytes`; true if there was anything to do.
    fn fill(&mut self, bytes: u64) -> Result<bool, Error> {
        if self.bytes >= bytes {
            return Ok(false);
        }
        self.write_zeros(self.bytes..bytes)?;
        self.bytes = bytes;
        Ok(true)
    }

    fn write_zeros(&self, range: Range<u64>) -> Result<(), Error> {
        let zeros = vec![0; FILL_BYTES];
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(FILL_BYTES).min(FILL_BYTES);
            let part = zeros.get(..left).unwrap_or_default();
            self.file.write_at(at, part).map_err(self.doing("filling"))?;
            at += left as u64;
        }
        self.file.sync().map_err(self.doing("syncing"))
    }

    pub(super) fn contents(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(self.bytes).unwrap_or(usize::MAX)];
        self.file.read_at(0, &mut bytes).map_err(self.doing("reading"))?;
        Ok(bytes)
    }

    /// Writes a range again as it was read, and syncs it (JN3).
    pub(super) fn rewrite(&self, contents: &[u8], range: &Range<usize>) -> Result<(), Error> {
        let Some(bytes) = contents.get(range.clone()).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        self.file.write_at(range.start as u64, bytes).map_err(self.doing("rewriting"))?;
        self.file.sync().map_err(self.doing("syncing"))
    }

    pub(super) fn erase(&self) -> Result<(), Error> {
        self.write_zeros(0..self.bytes)
    }
}

//! A file to look at without touching it: what is written stays in memory and is forgotten.
//!
//! What must hold: H1. The file below is never written, resized or synced. H2. A reader sees its own
//! writes over the file. Used to let redb check a database, which repairs as it reads, while
//! another handle has it open and does not write.

use std::collections::BTreeMap;
use std::io;

use super::disk::DiskFile;
use crate::base::sync::Mutex;

const PAGE_BYTES: u64 = 4096;
type Page = [u8; PAGE_BYTES as usize];

/// See the module.
#[derive(Debug)]
pub(crate) struct Shadow {
    file: Box<dyn DiskFile>,
    over: Mutex<Over>,
}

#[derive(Debug)]
struct Over {
    len: u64,
    /// How much of the file below still shows; the rest was cut off.
    below: u64,
    pages: BTreeMap<u64, Box<Page>>,
}

impl Shadow {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, over: Mutex::new(Over { len, below: len, pages: BTreeMap::new() }) })
    }

    /// A page as it shows now.
    fn page(&self, over: &Over, number: u64) -> io::Result<Box<Page>> {
        if let Some(page) = over.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        let start = number.saturating_mul(PAGE_BYTES);
        let there = over.below.saturating_sub(start).min(PAGE_BYTES);
        if let Some(there) = page.get_mut(..usize::try_from(there).unwrap_or_default())
            && !there.is_empty()
        {
            self.file.read_at(start, there)?;
        }
        Ok(page)
    }

    /// Calls `f` for each stretch of `[offset, offset + len)` that lies in one page: the page's number,
    /// the stretch within it, and the stretch within the whole.
    fn stretches(
        offset: u64,
        len: usize,
        mut f: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let at = offset.saturating_add(done as u64);
            let within = usize::try_from(at % PAGE_BYTES).unwrap_or_default();
            let part = (len - done).min(PAGE_BYTES as usize - within);
            f(at / PAGE_BYTES, within..within + part, done..done + part)?;
            done += part;
        }
        Ok(())
    }
}

impl DiskFile for Shadow {
    fn len(&self) -> io::Result<u64> {
        Ok(self.over.lock().len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let over = self.over.lock();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > over.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::stretches(offset, out.len(), |number, within, whole| {
            let page = self.page(&over, number)?;
            if let (Some(to), Some(from)) = (out.get_mut(whole), page.get(within)) {
                to.copy_from_slice(from);
            }
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut over = self.over.lock();
        let end = offset.checked_add(data.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Self::stretches(offset, data.len(), |number, within, whole| {
            let mut page = self.page(&over, number)?;
            if let (Some(to), Some(from)) = (page.get_mut(within), data.get(whole)) {
                to.copy_from_slice(from);
            }
            over.pages.insert(number, page);
            Ok(())
        })?;
        over.len = over.len.max(end);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut over = self.over.lock();
        over.len = len;
        over.below = over.below.min(len);
        over.pages.split_off(&len.div_ceil(PAGE_BYTES));
        let within = usize::try_from(len % PAGE_BYTES).unwrap_or_default();
        if let Some(page) = over.pages.get_mut(&(len / PAGE_BYTES))
            && let Some(gone) = page.get_mut(within..)
        {
            gone.fill(0);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::{Disk, MemoryDisk};

    fn contents(file: &dyn DiskFile) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut out).unwrap();
        out
    }

    #[test]
    fn h1_h2_writes_show_over_a_file_that_stays_as_it_was() {
        let disk = MemoryDisk::default();
        let below = disk.open("f", true).unwrap();
        let mut expected: Vec<u8> = (0..10_000_u32).map(|i| i as u8).collect();
        below.write_at(0, &expected).unwrap();
        let before = expected.clone();
        let shadow = Shadow::new(disk.open("f", false).unwrap()).unwrap();
        assert_eq!(contents(&shadow), expected);

        shadow.write_at(4_000, &[7; 5_000]).unwrap();
        expected[4_000..9_000].fill(7);
        assert_eq!(contents(&shadow), expected);
        for len in [9_500, 5_000, 20_000, 4_096, 1, 9_000] {
            shadow.set_len(len as u64).unwrap();
            expected.resize(len, 0);
            assert_eq!(contents(&shadow), expected, "cut or grown to {len}");
        }
        shadow.write_at(12_000, b"end").unwrap();
        expected.resize(12_000, 0);
        expected.extend(b"end");
        assert_eq!(contents(&shadow), expected);
        assert!(shadow.read_at(12_001, &mut [0; 3]).is_err());
        assert_eq!(contents(&*below), before);
    }
}

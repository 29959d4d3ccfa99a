//! The bytes of a file in shared pages, so that a copy costs a few reference counts.
//!
//! What must hold: P1. A copy never sees a later write of the original, nor the other way round.
//! P2. What was never written, or was cut off and grown again, reads as zeros.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The unit of sharing, and of damage.
pub const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;
/// Pages in one shared block: a first write after a copy clones one block's list and one page.
const BLOCK_PAGES: usize = 64;
/// Longer files are refused, so that a wild length cannot hold the test up.
const MAX_LEN: u64 = 1 << 44;

type Page = [u8; PAGE_BYTES];

#[derive(Clone)]
struct Block([Option<Arc<Page>>; BLOCK_PAGES]);

impl Block {
    fn empty() -> Self {
        Self(std::array::from_fn(|_| None))
    }
}

/// A file's contents.
#[derive(Clone, Default)]
pub(super) struct Pages {
    blocks: Arc<BTreeMap<u64, Arc<Block>>>,
    len: u64,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pages({} bytes)", self.len)
    }
}

/// One page's share of a transfer.
struct Part {
    page: u64,
    in_page: std::ops::Range<usize>,
    in_buf: std::ops::Range<usize>,
}

/// Splits a transfer at page boundaries.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0_usize;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset.saturating_add(done as u64);
        let start = (at % PAGE) as usize;
        let count = (PAGE_BYTES - start).min(len - done);
        let part = Part {
            page: at / PAGE,
            in_page: start..start + count,
            in_buf: done..done + count,
        };
        done += count;
        Some(part)
    })
}

fn split(page: u64) -> (u64, usize) {
    let per_block = BLOCK_PAGES as u64;
    (page / per_block, (page % per_block) as usize)
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    fn page(&self, page: u64) -> Option<&Page> {
        let (block, slot) = split(page);
        self.blocks.get(&block)?.0.get(slot)?.as_deref()
    }

    /// The slot of a page, copied from its sharers if need be.
    fn slot(&mut self, page: u64) -> Option<&mut Option<Arc<Page>>> {
        let (block, slot) = split(page);
        let blocks = Arc::make_mut(&mut self.blocks);
        let block = blocks
            .entry(block)
            .or_insert_with(|| Arc::new(Block::empty()));
        Arc::make_mut(block).0.get_mut(slot)
    }

    /// Whether bytes were ever written to this page.
    pub(super) fn is_allocated(&self, page: u64) -> bool {
        self.page(page).is_some()
    }

    /// The bytes of all pages that were written, as `du` would count them.
    pub(super) fn allocated_bytes(&self) -> u64 {
        let pages = self.blocks.values().flat_map(|b| &b.0).flatten().count();
        (pages as u64).saturating_mul(PAGE)
    }

    /// Fills `out` up to the end of the file and says how far that was.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let there = self.len.saturating_sub(offset).min(out.len() as u64) as usize;
        for part in parts(offset, there) {
            let Some(target) = out.get_mut(part.in_buf) else {
                continue;
            };
            match self.page(part.page).and_then(|p| p.get(part.in_page)) {
                Some(bytes) => target.copy_from_slice(bytes),
                None => target.fill(0),
            }
        }
        there
    }

    /// Writes `data`, growing the file if needed.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = end_of(offset, data.len())?;
        for part in parts(offset, data.len()) {
            let (Some(slot), Some(bytes)) = (self.slot(part.page), data.get(part.in_buf)) else {
                continue;
            };
            let page = slot.get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            if let Some(target) = Arc::make_mut(page).get_mut(part.in_page) {
                target.copy_from_slice(bytes);
            }
        }
        self.len = self.len.max(end);
        Ok(())
    }

    /// Cuts or grows the file.
    pub(super) fn set_len(&mut self, len: u64) -> io::Result<()> {
        end_of(len, 0)?;
        if len < self.len {
            let kept_pages = len.div_ceil(PAGE);
            let (last_block, in_block) = split(kept_pages);
            let blocks = Arc::make_mut(&mut self.blocks);
            blocks.split_off(&last_block.saturating_add(1));
            if let Some(block) = blocks.get_mut(&last_block) {
                let gone = Arc::make_mut(block).0.iter_mut().skip(in_block);
                gone.for_each(|slot| *slot = None);
            }
            let used = (len % PAGE) as usize;
            if used > 0
                && self.is_allocated(len / PAGE)
                && let Some(Some(page)) = self.slot(len / PAGE)
            {
                Arc::make_mut(page)
                    .iter_mut()
                    .skip(used)
                    .for_each(|b| *b = 0);
            }
        }
        self.len = len;
        Ok(())
    }

    /// Swaps two whole pages.
    pub(super) fn swap(&mut self, a: u64, b: u64) {
        if a == b {
            return;
        }
        let first = self.slot(a).and_then(Option::take);
        let second = self.slot(b).and_then(|slot| std::mem::replace(slot, first));
        if let Some(slot) = self.slot(a) {
            *slot = second;
        }
    }

    /// Makes a whole page zeros.
    pub(super) fn zero(&mut self, page: u64) {
        if let Some(slot) = self.slot(page) {
            *slot = None;
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(self.len).unwrap_or(0)];
        self.read(0, &mut out);
        out
    }
}

/// Where a transfer ends, if a file may be that long.
pub(super) fn end_of(offset: u64, len: usize) -> io::Result<u64> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= MAX_LEN => Ok(end),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        let spot = 0_u64..600_000;
        prop_oneof![
            4 => (spot.clone(), any::<u8>(), 1_usize..9_000)
                .prop_map(|(at, byte, len)| Step::Write(at, vec![byte; len])),
            1 => spot.prop_map(Step::SetLen),
            1 => Just(Step::Copy),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn pages_agree_with_a_plain_vector(steps in prop::collection::vec(step(), 1..20)) {
            let (mut pages, mut plain) = (Pages::default(), Vec::new());
            let mut copies = Vec::new();
            for step in steps {
                match step {
                    Step::Write(at, data) => {
                        pages.write(at, &data).unwrap();
                        let end = at as usize + data.len();
                        plain.resize(plain.len().max(end), 0);
                        plain[at as usize..end].copy_from_slice(&data);
                    }
                    Step::SetLen(len) => {
                        pages.set_len(len).unwrap();
                        plain.resize(len as usize, 0);
                    }
                    Step::Copy => copies.push((pages.clone(), plain.clone())),
                }
                prop_assert_eq!(pages.len(), plain.len() as u64);
            }
            copies.push((pages, plain));
            for (pages, plain) in copies {
                prop_assert!(pages.to_vec() == plain);
            }
        }
    }

    #[test]
    fn a_read_stops_at_the_end_and_wild_lengths_are_refused() {
        let mut pages = Pages::default();
        pages.write(4_090, &[7; 10]).unwrap();
        let mut out = [9; 20];
        assert_eq!(pages.read(4_095, &mut out), 5);
        assert_eq!(out[..6], [7, 7, 7, 7, 7, 9]);
        assert_eq!(pages.read(u64::MAX, &mut out), 0);
        assert!(pages.write(u64::MAX, &[1]).is_err());
        assert!(pages.set_len(u64::MAX).is_err());
        assert_eq!(pages.allocated_bytes(), 8_192);
    }

    #[test]
    fn pages_are_swapped_and_zeroed_whole() {
        let mut pages = Pages::default();
        pages.write(0, &[1; 4_096]).unwrap();
        pages.set_len(12_288).unwrap();
        pages.swap(0, 2);
        let mut byte = [9];
        assert_eq!((pages.read(0, &mut byte), byte), (1, [0]));
        assert_eq!((pages.read(8_192, &mut byte), byte), (1, [1]));
        pages.zero(2);
        assert_eq!((pages.read(8_192, &mut byte), byte), (1, [0]));
    }
}

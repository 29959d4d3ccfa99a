//! What another program finds after a kill or a power cut.

use std::collections::{BTreeMap, BTreeSet};

use super::keep::{Fate, Keep, bits};
use super::pages::Pages;
use super::state::{FileNo, FileState, Op, State};

/// The unit a device writes whole.
pub(super) const SECTOR_BYTES: usize = 512;

/// One operation that no sync has made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsynced {
    /// Bytes were written.
    Write {
        /// Where.
        offset: u64,
        /// How many.
        len: usize,
    },
    /// A file was cut or grown to a length.
    Length {
        /// The length.
        len: u64,
    },
    /// A name was made, changed or removed.
    Name,
}

impl Op {
    pub(super) fn describe(&self) -> Unsynced {
        match self {
            Self::Write { offset, data, .. } => {
                Unsynced::Write { offset: *offset, len: data.len() }
            }
            Self::Length { len, .. } => Unsynced::Length { len: *len },
            _ => Unsynced::Name,
        }
    }
}

/// The medium as it comes out of a power cut.
struct Medium {
    names: BTreeMap<String, FileNo>,
    files: BTreeMap<FileNo, Pages>,
    /// Files that lost a length change: bytes past their end then belong to nobody.
    clipped: BTreeSet<FileNo>,
}

impl Medium {
    fn write(&mut self, file: FileNo, offset: u64, data: &[u8], grew: bool) {
        let clip = !grew && self.clipped.contains(&file);
        let Some(pages) = self.files.get_mut(&file) else {
            return;
        };
        let inside = usize::try_from(pages.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let data = match data.get(..inside) {
            Some(inside) if clip => inside,
            _ => data,
        };
        if !data.is_empty() {
            let _ = pages.write(offset, data); // its end was checked when it was first written
        }
    }

    fn apply(&mut self, op: &Op, fate: Fate) {
        match op {
            Op::Write { file, offset, data, grew } => {
                for (start, bytes) in kept_bytes(*offset, data, fate) {
                    self.write(*file, offset.saturating_add(start as u64), bytes, *grew);
                }
            }
            Op::Length { file, len } => {
                if fate != Fate::Kept {
                    self.clipped.insert(*file);
                } else if let Some(pages) = self.files.get_mut(file) {
                    let _ = pages.set_len(*len); // checked when it was first set
                }
            }
            names if fate == Fate::Kept => names.apply_to_names(&mut self.names),
            _ => {}
        }
    }
}

/// The surviving pieces of a write, with their distance from its start.
fn kept_bytes(offset: u64, data: &[u8], fate: Fate) -> Vec<(usize, &[u8])> {
    match fate {
        Fate::Kept => vec![(0, data)],
        Fate::Lost => Vec::new(),
        Fate::Prefix(at) => vec![(0, data.get(..at).unwrap_or(data))],
        Fate::Suffix(at) => vec![(at, data.get(at..).unwrap_or_default())],
        Fate::Sectors(seed) => {
            sectors(offset, data).filter(|(start, _)| bits(seed, *start as u64) & 1 == 1).collect()
        }
    }
}

/// Splits a write at the device's sector boundaries.
fn sectors(offset: u64, data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let misfit = (offset % SECTOR_BYTES as u64) as usize;
    let mut start = 0_usize;
    let mut rest = data;
    std::iter::from_fn(move || {
        let len = match start {
            0 => (SECTOR_BYTES - misfit).min(rest.len()),
            _ => SECTOR_BYTES.min(rest.len()),
        };
        let (sector, behind) = rest.split_at_checked(len)?;
        let at = start;
        start += len;
        rest = behind;
        (!sector.is_empty()).then_some((at, sector))
    })
}

impl State {
    /// The same machine seen by a process that knows nothing yet.
    fn restarted(&self) -> Self {
        Self {
            exists: self.exists,
            next_file: self.next_file,
            capacity: self.capacity,
            clock: self.clock.clone(),
            latency: self.latency.clone(),
            ..Self::default()
        }
    }

    pub(super) fn after_kill(&self) -> Self {
        Self {
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            files: self.files.clone(),
            unsynced: self.unsynced.clone(),
            ..self.restarted()
        }
    }

    pub(super) fn after_power_cut(&self, keep: Keep) -> Self {
        let durable = self.files.iter().map(|(no, f)| (*no, f.durable.clone()));
        let mut medium = Medium {
            names: self.durable_names.clone(),
            files: durable.collect(),
            clipped: BTreeSet::new(),
        };
        for (index, op) in self.unsynced.iter().enumerate() {
            medium.apply(op, keep.fate(index, op.describe()));
        }
        let named = medium.names.values().filter_map(|no| {
            let pages = medium.files.get(no)?;
            let file = FileState { cache: pages.clone(), durable: pages.clone() };
            Some((*no, file))
        });
        Self {
            files: named.collect(),
            durable_names: medium.names.clone(),
            names: medium.names,
            ..self.restarted()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_splits_at_the_devices_sectors_wherever_it_starts() {
        for (offset, len, expected) in [
            (0, 1_024, vec![(0, 512), (512, 512)]),
            (500, 600, vec![(0, 12), (12, 512), (524, 76)]),
            (512, 10, vec![(0, 10)]),
            (3, 0, vec![]),
        ] {
            let data = vec![0; len];
            let found: Vec<_> = sectors(offset, &data).map(|(s, b)| (s, b.len())).collect();
            assert_eq!(found, expected, "{offset} {len}");
        }
    }
}

//! Which records of two segments count, and whether one is missing.
//!
//! What must hold: JC1. The records found are the longest chain behind the place where it starts. JC2. The work
//! is bounded by the segments' length, whatever their bytes.

use std::ops::Range;

use super::End;
use super::record::{self, Header, SECTOR_BYTES};
use crate::base::canary::planted;
use crate::base::ids::Seq;

/// A record that counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) seq: Seq,
    pub(crate) payload: Vec<u8>,
}

/// What two segments hold.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) records: Vec<Replayed>,
    /// Where the records lie, in each segment.
    pub(super) accepted: [Range<usize>; 2],
    pub(super) end: End,
    /// A group whose record says that the one behind the end was durable.
    pub(super) damage: Option<Seq>,
}

/// Follows the chain from `from`, into the other segment and back.
pub(super) fn scan(store_id: u128, segments: [&[u8]; 2], from: End) -> Found {
    let mut found = Found { records: Vec::new(), accepted: [0..0, 0..0], end: from, damage: None };
    loop {
        let here = (found.end.segment, found.end.offset);
        let other = (1 - (found.end.segment & 1), 0);
        let step = [here, other].into_iter().find_map(|(segment, offset)| {
            let offset = usize::try_from(offset).ok()?;
            let bytes = segments.get(usize::from(segment))?.get(offset..)?;
            let (header, payload) = record::read(store_id, bytes)?;
            let counts = goes_on(&found.end, &header)
                || planted("journal-tail-of-an-older-cycle-taken-as-new")
                    && segment == found.end.segment;
            counts.then_some((segment, offset, header, payload))
        });
        let Some((segment, offset, header, payload)) = step else { break };
        let end = offset.saturating_add(header.record_bytes());
        if let Some(range) = found.accepted.get_mut(usize::from(segment)) {
            let start = if range.end == 0 { offset } else { range.start.min(offset) };
            *range = start..end.max(range.end);
        }
        let is_stale = header.seq < found.end.seq; // never, unless that bug is planted
        found.records.push(Replayed { seq: header.seq, payload: payload.to_vec() });
        found.end = End { seq: header.seq, crc: header.crc, segment, offset: end as u64 };
        if is_stale {
            break;
        }
    }
    found.damage = damage_behind(store_id, segments, found.end.seq);
    found
}

/// Whether a record is the next one of the chain.
fn goes_on(end: &End, header: &Header) -> bool {
    header.seq == end.seq.next() && header.previous_crc == end.crc
}

/// The first intact record which says that a group behind the end was durable.
fn damage_behind(store_id: u128, segments: [&[u8]; 2], end: Seq) -> Option<Seq> {
    segments.into_iter().find_map(|segment| {
        (0..segment.len()).step_by(SECTOR_BYTES).find_map(|offset| {
            let bytes = segment.get(offset..)?;
            // Most sectors are ruled out before anything is summed up.
            let header = record::peek(bytes)?;
            if header.seq <= end || header.durable <= end {
                return None;
            }
            record::read(store_id, bytes).map(|(header, _)| header.seq)
        })
    })
}

/// For the fuzz targets: any bytes as two segments.
#[cfg(feature = "testkit")]
pub(crate) fn scan_bytes(bytes: &[u8]) {
    let half = bytes.len() / 2 / SECTOR_BYTES * SECTOR_BYTES;
    let (one, two) = bytes.split_at(half);
    let found = scan(7, [one, two], End::default());
    let least = found.records.len().saturating_mul(SECTOR_BYTES);
    assert!(least <= bytes.len(), "records out of nothing");
}

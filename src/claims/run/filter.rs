//! The filter of a partition: nine bits a hash that say "certainly not here" to most others.
//!
//! A binary fuse filter (Graf, Lemire: "Binary fuse filters: fast and smaller than xor filters",
//! 2022). The crate `xorf` finds the fingerprints; how they are asked is written here, because
//! stored filters depend on it for ever.
//!
//! What must hold: F1. No false negatives: after building, every key is asked for, and a filter that
//! misses one is thrown away. F2. The stored form is closed by a CRC-32 and carries its table's tag.
//! F3. Asking never goes out of bounds, since the lengths are checked when it is read.
//!
//! Stored form: version u8, owner's tag u32, seed u64, segment u32, starts u32, then `starts` plus
//! two segments of fingerprints u8, CRC; cut into chunks that fill pages.

use std::ops::Range;

use xorf::BinaryFuse8;

use super::page::{FILTER_KEY_BYTES, room_bytes};
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::IdHash;

const VERSION: u8 = 1;
const CHUNK_MAX_PAGES: usize = 8;

/// A loaded filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    seed: u64,
    /// Slots in a segment, a power of two; a key's three slots lie in neighbouring segments.
    segment: u32,
    /// Slots that may be a key's first.
    starts: u32,
    fingerprints: Box<[u8]>,
}

/// What of a hash the filter sees. The upper half chose the partition, so this is the lower.
pub(super) fn key(hash: IdHash) -> u64 {
    hash.0 as u64
}

impl Filter {
    /// A filter of the hashes that have these keys, or none if none could be found.
    pub(super) fn build(keys: &mut Vec<u64>) -> Option<Self> {
        keys.sort_unstable();
        keys.dedup(); // a claim and aliases share a hash, and two hashes might share their half
        let built = BinaryFuse8::try_from(&*keys).ok()?;
        let filter = Self {
            seed: built.descriptor.seed,
            segment: built.descriptor.segment_length,
            starts: built.descriptor.segment_count_length,
            fingerprints: built.fingerprints,
        };
        let sound = filter.checked().is_ok() && keys.iter().all(|k| filter.has(*k));
        sound.then_some(filter)
    }

    /// False only if the hash was not among those the filter was built of.
    pub(super) fn maybe(&self, hash: IdHash) -> bool {
        self.has(key(hash))
    }

    fn has(&self, key: u64) -> bool {
        let mixed = mix(key.wrapping_add(self.seed));
        let first = ((u128::from(mixed) * u128::from(self.starts)) >> 64) as u32; // < starts
        let mask = self.segment.wrapping_sub(1);
        let second = first.wrapping_add(self.segment) ^ ((mixed >> 18) as u32 & mask);
        let third = first.wrapping_add(self.segment.wrapping_mul(2)) ^ (mixed as u32 & mask);
        let slot = |index: u32| self.fingerprints.get(index as usize).copied();
        match (slot(first), slot(second), slot(third)) {
            (Some(a), Some(b), Some(c)) => a ^ b ^ c == (mixed ^ (mixed >> 32)) as u8,
            _ => true,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.fingerprints.len()
    }

    /// F3: with these lengths every slot that is asked for exists.
    fn checked(&self) -> Result<(), Malformed> {
        let slots = u64::from(self.starts).saturating_add(2 * u64::from(self.segment));
        let whole = self.segment.is_power_of_two() && self.starts.is_multiple_of(self.segment);
        if whole && self.starts > 0 && slots == self.fingerprints.len() as u64 {
            Ok(())
        } else {
            Err(Malformed("a filter of impossible lengths"))
        }
    }

    pub(super) fn encode(&self, owner: u32) -> Vec<u8> {
        let mut w = Writer::with_capacity(self.fingerprints.len().saturating_add(32));
        w.u8(VERSION);
        w.u32(owner);
        w.u64(self.seed);
        w.u32(self.segment);
        w.u32(self.starts);
        w.raw(&self.fingerprints);
        w.seal()
    }

    pub(super) fn decode(bytes: &[u8], owner: u32) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(bytes)?);
        if r.u8()? != VERSION {
            return Err(Malformed("a filter of an unknown version"));
        }
        if r.u32()? != owner {
            return Err(Malformed("a filter of another table"));
        }
        let filter = Self {
            seed: r.u64()?,
            segment: r.u32()?,
            starts: r.u32()?,
            fingerprints: r.raw(r.remaining())?.into(),
        };
        filter.checked()?;
        Ok(filter)
    }
}

/// The finalizer of MurmurHash3 (Appleby): every input bit reaches every output bit.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// How a stored filter is cut: the largest chunks first, none wasting more than its last page.
pub(super) fn chunks(len: usize) -> Vec<Range<usize>> {
    let mut cut = Vec::new();
    let (mut start, mut pages) = (0_usize, CHUNK_MAX_PAGES);
    while start < len {
        let rest = len.saturating_sub(start);
        while pages > 1 && room_bytes(FILTER_KEY_BYTES, pages) > rest {
            pages /= 2;
        }
        let end = start.saturating_add(room_bytes(FILTER_KEY_BYTES, pages).min(rest));
        cut.push(start..end);
        start = end;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(hashes: impl Iterator<Item = IdHash>) -> Option<Filter> {
        Filter::build(&mut hashes.map(key).collect())
    }

    fn hashes(count: u64) -> impl Iterator<Item = IdHash> + Clone {
        (0..count).map(|i| IdHash(u128::from(mix(i)) << 64 | u128::from(mix(!i))))
    }

    #[test]
    fn f1_small_and_large_filters_know_all_their_hashes_and_few_others() {
        for count in [0, 1, 2, 3, 4, 5, 10, 100, 1_000, 117_000] {
            let filter = build(hashes(count)).unwrap();
            assert!(hashes(count).all(|h| filter.maybe(h)));
            let others = hashes(count + 100_000).skip(count as usize);
            let wrong = others.filter(|h| filter.maybe(*h)).count();
            assert!(count < 100 || wrong < 600, "{wrong} of 100,000 at {count}");
            assert!(count < 100_000 || filter.memory_bytes() * 8 < count as usize * 10);
        }
    }

    #[test]
    fn f1_hashes_that_share_their_lower_half_do_not_spoil_the_building() {
        let twice = hashes(1000).chain(hashes(1000).map(|h| IdHash(h.0 ^ 1 << 100)));
        let filter = build(twice.clone()).unwrap();
        assert!(twice.into_iter().all(|h| filter.maybe(h)));
    }

    /// Stored filters are asked by this arithmetic, and were built by that of `xorf`.
    #[test]
    fn f2_golden_bytes_of_a_stored_filter_never_change() {
        let filter = build(hashes(3)).unwrap();
        let bytes = filter.encode(0x0403_0201);
        let golden = GOLDEN.split_whitespace().collect::<String>();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, golden);
        assert_eq!(Filter::decode(&bytes, 0x0403_0201), Ok(filter));
    }

    const GOLDEN: &str = "01 01020304 c15c0289ec2d0a91 08000000 08000000
        00000000000000000000000000000000b70000000000c199 25401b8e";

    #[test]
    fn f2_damaged_filters_are_refused() {
        let filter = build(hashes(50)).unwrap();
        let bytes = filter.encode(9);
        assert_eq!(Filter::decode(&bytes, 9).as_ref(), Ok(&filter));
        assert!(Filter::decode(&bytes, 8).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Filter::decode(&bad, 9).is_err());
        }
        for len in 0..bytes.len() {
            assert!(Filter::decode(&bytes[..len], 9).is_err());
        }
    }

    #[test]
    fn f3_impossible_lengths_are_refused_behind_a_right_checksum() {
        let sound = build(hashes(50)).unwrap();
        let change = |f: &dyn Fn(&mut Filter)| {
            let mut filter = sound.clone();
            f(&mut filter);
            Filter::decode(&filter.encode(1), 1)
        };
        assert!(change(&|_| ()).is_ok());
        assert!(change(&|f| f.segment = 0).is_err());
        assert!(change(&|f| f.segment += 1).is_err());
        assert!(change(&|f| f.segment = 1 << 31).is_err());
        assert!(change(&|f| f.starts += f.segment).is_err());
        assert!(change(&|f| f.starts = 0).is_err());
        assert!(change(&|f| f.fingerprints = Box::default()).is_err());
    }

    #[test]
    fn chunks_cover_all_and_waste_less_than_one_page() {
        let one = room_bytes(FILTER_KEY_BYTES, 1);
        let eight = room_bytes(FILTER_KEY_BYTES, 8);
        for len in [0, 1, one, one + 1, 2 * one, eight - 1, eight, eight + 1, 139_289] {
            let cut = chunks(len);
            assert_eq!(cut.iter().map(Range::len).sum::<usize>(), len);
            assert!(cut.windows(2).all(|w| w[0].end == w[1].start && w[0].len() >= w[1].len()));
            let whole =
                |l: usize| [1, 2, 4, 8].iter().any(|p| room_bytes(FILTER_KEY_BYTES, *p) == l);
            let partial = cut.iter().filter(|c| !whole(c.len())).count();
            assert!(partial <= 1 && cut.iter().all(|c| whole(c.len()) || c.len() < one));
        }
    }
}

//! Keys of a partition table, and how large a value may be to fill pages without waste.
//!
//! The database gives a row that does not share its page 2^k pages of 4 KiB. A leaf spends 4 bytes
//! on its header and, for keys and values of no fixed length, 4 bytes each on where they end.

use crate::base::ids::IdHash;

const PAGE_BYTES: usize = 4096;
const LEAF_OVERHEAD_BYTES: usize = 4 + 4 + 4;

const BLOCK: u8 = 1;
const FILTER: u8 = 2;

pub(super) const BLOCK_KEY_BYTES: usize = 17;
pub(super) const FILTER_KEY_BYTES: usize = 5;

/// The largest value that fills `pages` pages together with its key.
pub(super) const fn room_bytes(key_bytes: usize, pages: usize) -> usize {
    PAGE_BYTES * pages - LEAF_OVERHEAD_BYTES - key_bytes
}

/// The key of the block whose first row has this hash.
pub(super) fn block_key(first: IdHash) -> [u8; BLOCK_KEY_BYTES] {
    let mut key = [BLOCK; BLOCK_KEY_BYTES];
    if let Some(tail) = key.last_chunk_mut::<16>() {
        *tail = first.0.to_be_bytes();
    }
    key
}

/// The hash in a block's key; `None` if it is no block's key.
pub(super) fn block_first(key: &[u8]) -> Option<IdHash> {
    let (kind, hash) = key.split_first()?;
    let hash: [u8; 16] = hash.try_into().ok()?;
    (*kind == BLOCK).then(|| IdHash(u128::from_be_bytes(hash)))
}

/// The key of a chunk of the filter.
pub(super) fn filter_key(chunk: u32) -> [u8; FILTER_KEY_BYTES] {
    let [a, b, c, d] = chunk.to_be_bytes();
    [FILTER, a, b, c, d]
}

/// Behind every block, before every chunk of the filter.
pub(super) const BLOCKS_END: &[u8] = &[FILTER];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_golden_sort_as_their_hashes_and_before_the_filter() {
        let key = block_key(IdHash(0x0102 << 112 | 3));
        assert_eq!(key, [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(block_first(&key), Some(IdHash(0x0102 << 112 | 3)));
        assert_eq!(block_first(&key[..16]), None);
        assert_eq!(filter_key(0x0102), [2, 0, 0, 1, 2]);
        assert_eq!(block_first(&filter_key(1)), None);
        assert!(block_key(IdHash(1)) < block_key(IdHash(1 << 64)));
        assert!(&block_key(IdHash(u128::MAX))[..] < BLOCKS_END);
        assert!(BLOCKS_END <= &filter_key(0)[..]);
        assert_eq!(room_bytes(BLOCK_KEY_BYTES, 1), 4067);
    }
}

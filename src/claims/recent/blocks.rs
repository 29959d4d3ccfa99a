//! A vector that never moves its items: growing costs one small block, not a copy of the whole.
//!
//! Owns its blocks. For `table` only, which may hold a million items and must not pause to copy.

const BLOCK_BITS: usize = 10;
const BLOCK: usize = 1 << BLOCK_BITS;

#[derive(Debug)]
pub(super) struct Blocks<T> {
    blocks: Vec<Vec<T>>,
}

impl<T: Copy> Blocks<T> {
    pub(super) fn new() -> Self {
        Self { blocks: Vec::new() }
    }

    /// Adds an item and returns its index.
    pub(super) fn push(&mut self, item: T) -> u32 {
        let full = self.blocks.last().is_none_or(|b| b.len() == BLOCK);
        if full {
            // The first block starts small: most tables of most stores hold few rows.
            let capacity = if self.blocks.is_empty() { 16 } else { BLOCK };
            self.blocks.push(Vec::with_capacity(capacity));
        }
        let before = (self.blocks.len() - 1) << BLOCK_BITS;
        match self.blocks.last_mut() {
            Some(block) => {
                block.push(item);
                (before + block.len() - 1) as u32
            }
            None => 0, // not reached: a block was pushed above
        }
    }

    /// The item that `push` gave this index.
    pub(super) fn get(&self, index: u32) -> T {
        let index = index as usize;
        self.blocks[index >> BLOCK_BITS][index & (BLOCK - 1)]
    }

    pub(super) fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::len);
        (self.blocks.len().saturating_sub(1) << BLOCK_BITS) + last
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    pub(super) fn bytes(&self) -> usize {
        let items: usize = self.blocks.iter().map(Vec::capacity).sum();
        items * size_of::<T>() + self.blocks.capacity() * size_of::<Vec<T>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_dense_and_lead_back_to_their_items() {
        let mut blocks = Blocks::new();
        for n in 0..3 * BLOCK as u32 + 1 {
            assert_eq!(blocks.push(n * 7), n);
        }
        for n in 0..3 * BLOCK as u32 + 1 {
            assert_eq!(blocks.get(n), n * 7);
        }
        assert_eq!(blocks.len(), 3 * BLOCK + 1);
        assert!(
            blocks
                .iter()
                .enumerate()
                .all(|(n, item)| *item == n as u32 * 7)
        );
        assert!(blocks.bytes() < 5 * BLOCK * 4);
    }
}

//! An open-addressing index of fixed capacity from hash to entry number; duplicates are legal.
//!
//! Owns its slots. For `table` only, which keeps the entries and compares whole hashes.
//!
//! What must hold: O1. Nothing is ever removed or moved, so all numbers of a hash lie between its
//! home and the first empty slot. O2. Some slots stay empty, so every search ends. O3. The slots are
//! allocated once, as zeros: the system hands out pages as they are first touched, and nobody
//! pauses to clear them or to hash again.
//!
//! A slot is four bytes, zero when empty: the number plus one in its low bits, and bits of the hash
//! in the others, so that a miss reads one cache line here and, but for one in hundreds at the
//! largest, no entry. Half of the slots are used; that costs as much memory as entries would that
//! lay in slots of their own at a load of 0.85, where a miss looks at four times as many. The hash
//! is keyed, so its bits need no further mixing: the low 32 choose the home.

use crate::base::ids::IdHash;

/// The most entries that an index is made for: eight bits of hash are then left to a slot.
pub(super) const CAPACITY_MAX: usize = 1 << 23;

#[derive(Debug)]
pub(super) struct Index {
    slots: Vec<u32>,
    number_mask: u32,
    len: usize,
}

impl Index {
    /// An index for `capacity` entries, half of its slots; it takes three quarters more.
    pub(super) fn new(capacity: usize) -> Self {
        let slots = 2 * capacity.clamp(4, CAPACITY_MAX);
        Self { slots: vec![0; slots], number_mask: (slots as u32).next_power_of_two() - 1, len: 0 }
    }

    /// Entries that still find room.
    pub(super) fn room(&self) -> usize {
        self.slots.len() / 8 * 7 - self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    fn home(&self, hash: IdHash) -> usize {
        ((u64::from(hash.0 as u32) * self.slots.len() as u64) >> 32) as usize
    }

    fn tag(&self, hash: IdHash) -> u32 {
        (hash.0 >> 96) as u32 & !self.number_mask
    }

    /// Reads the slot where a search for `hash` begins, so that it is near when that comes.
    pub(super) fn touch(&self, hash: IdHash) -> u32 {
        self.slots[self.home(hash)]
    }

    /// Adds a number below the room that this index began with; the caller has seen `room`.
    pub(super) fn insert(&mut self, hash: IdHash, number: u32) {
        debug_assert!(self.room() > 0 && number < self.number_mask);
        let filled = self.tag(hash) | (number + 1);
        let home = self.home(hash);
        let (before, after) = self.slots.split_at_mut(home);
        for slot in after.iter_mut().chain(before) {
            if *slot == 0 {
                *slot = filled;
                self.len += 1;
                return;
            }
        }
    }

    /// Calls `maybe` for the numbers of `hash`, and rarely for that of another.
    pub(super) fn find(&self, hash: IdHash, mut maybe: impl FnMut(u32)) {
        let tag = self.tag(hash);
        let (before, after) = self.slots.split_at(self.home(hash));
        for slot in after.iter().chain(before) {
            if *slot == 0 {
                return; // O1
            }
            if slot & !self.number_mask == tag {
                maybe((slot & self.number_mask) - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O1 and O2 where they are hardest: full, one home for all, wrapping round the end.
    #[test]
    fn a_full_index_finds_all_numbers_of_a_hash_and_ends_every_search() {
        for capacity in (1..40).chain([300]) {
            for low in [0, 1 << 31, u32::MAX] {
                for step in [0, 1 << 64, 1 << 120, 0x9E37_79B9_7F4A_7C15_u128 << 64] {
                    let hash = |n: u32| IdHash(u128::from(low) | step.wrapping_mul(n.into()));
                    let mut index = Index::new(capacity);
                    let room = index.room() as u32;
                    assert!(room as usize >= capacity);
                    (0..room).for_each(|n| index.insert(hash(n), n));
                    assert_eq!(index.room(), 0);
                    for n in 0..room {
                        let mut hits = 0;
                        index.find(hash(n), |found| hits += u32::from(found == n));
                        assert_eq!(hits, 1);
                    }
                    if step == 0 {
                        let mut all = Vec::new();
                        index.find(hash(0), |found| all.push(found));
                        all.sort_unstable();
                        assert!(all.into_iter().eq(0..room));
                    }
                }
            }
        }
    }

    #[test]
    fn the_hash_zero_is_a_hash_like_any_other() {
        let mut index = Index::new(5);
        let hits = |index: &Index| {
            let mut hits = Vec::new();
            index.find(IdHash(0), |number| hits.push(number));
            hits
        };
        assert!(hits(&index).is_empty());
        index.insert(IdHash(0), 0);
        assert_eq!(hits(&index), [0]);
    }

    /// A miss must seldom read an entry: at a million, one slot in a thousand looks alike.
    #[test]
    fn few_numbers_of_other_hashes_are_offered() {
        let mut index = Index::new(1 << 12);
        let hash =
            |n: u32| IdHash(u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        (0..1 << 12).for_each(|n| index.insert(hash(n), n));
        let mut others = 0;
        for n in 1 << 12..1 << 16 {
            index.find(hash(n), |_| others += 1);
        }
        assert!(others < 16, "{others}");
    }
}

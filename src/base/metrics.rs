//! Counters that anybody may add to at any time.
//!
//! Each is exact by itself; two read together may be a call apart.

use super::sync::{AtomicU64, Ordering};

/// One number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn raise_to(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by powers of two: entry `i` counts values below 2^i that no earlier entry did.
#[derive(Debug)]
pub(crate) struct Histogram([Counter; 64]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Histogram {
    pub(crate) fn add(&self, value: u64) {
        let bits = (u64::BITS - value.leading_zeros()).min(63) as usize;
        if let Some(counter) = self.0.get(bits) {
            counter.add(1);
        }
    }

    /// Pairs of an exclusive upper bound and the count below it, where the count is not zero.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let bound = |i: usize| 1_u64.checked_shl(i as u32).unwrap_or(u64::MAX);
        let all = self.0.iter().enumerate().map(|(i, c)| (bound(i), c.get()));
        all.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_value_once_below_its_bound() {
        let h = Histogram::default();
        for value in [0, 1, 2, 3, 4, u64::MAX] {
            h.add(value);
        }
        assert_eq!(h.counts(), [(1, 1), (2, 1), (4, 2), (8, 1), (1 << 63, 1)]);
    }
}

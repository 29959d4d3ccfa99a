//! How the hash space is split among a run's partitions.
//!
//! What must hold: the ranges of the partitions cover the space without gap or overlap, and
//! `partition_of` agrees with them. Stored runs depend on this split: it never changes.

use crate::base::ids::IdHash;
use crate::base::limits::PARTITION_MAX_CLAIMS;

/// Rows that a partition is planned for: nine tenths of the limit, since equal ranges of uniform
/// hashes come out a little uneven.
const PARTITION_PLANNED_CLAIMS: u64 = PARTITION_MAX_CLAIMS as u64 / 10 * 9;
/// More rows than this in one partition means that the hashes are not uniform.
pub(super) const PARTITION_BOUND_CLAIMS: usize = 2 * PARTITION_MAX_CLAIMS;

/// How many partitions a run of so many rows has; at least one.
pub(crate) fn partitions_for(total_claims: u64) -> u32 {
    let partitions = total_claims.div_ceil(PARTITION_PLANNED_CLAIMS).max(1);
    u32::try_from(partitions).unwrap_or(u32::MAX)
}

/// The partition, of so many, that holds a hash.
pub(crate) fn partition_of(hash: IdHash, partitions: u32) -> u32 {
    // The product of a 64-bit and a 32-bit number fits, and its upper half is below `partitions`.
    (((hash.0 >> 64) * u128::from(partitions)) >> 64) as u32
}

/// The lowest hash of a partition; for `partition == partitions`, one past the highest of all,
/// which is no hash.
fn lowest(partition: u32, partitions: u32) -> Option<u128> {
    let upper = (u128::from(partition) << 64).div_ceil(u128::from(partitions.max(1)));
    (upper >> 64 == 0).then_some(upper << 64)
}

/// The lowest and the highest hash of a partition, given as (which, of how many).
pub(crate) fn range_of((partition, partitions): (u32, u32)) -> (IdHash, IdHash) {
    let first = lowest(partition, partitions).unwrap_or(u128::MAX);
    let last = match partition.checked_add(1).map(|next| lowest(next, partitions)) {
        Some(Some(next)) => next.saturating_sub(1),
        _ => u128::MAX,
    };
    (IdHash(first), IdHash(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn partitions_follow_the_planned_size_at_its_edges() {
        let n = PARTITION_PLANNED_CLAIMS;
        assert!((n as usize) < PARTITION_MAX_CLAIMS);
        for (total, partitions) in [(0, 1), (1, 1), (n, 1), (n + 1, 2), (2 * n, 2), (2 * n + 1, 3)]
        {
            assert_eq!(partitions_for(total), partitions);
        }
        assert_eq!(partitions_for(u64::MAX), u32::MAX);
    }

    #[test]
    fn ranges_join_without_gap_and_cover_the_space() {
        for partitions in [1, 2, 3, 7, 64, 170, 1000, 65_537] {
            let mut next = Some(0_u128);
            for partition in 0..partitions {
                let (first, last) = range_of((partition, partitions));
                assert_eq!(Some(first.0), next);
                assert!(first <= last);
                assert_eq!(partition_of(first, partitions), partition);
                assert_eq!(partition_of(last, partitions), partition);
                next = last.0.checked_add(1);
            }
            assert_eq!(next, None);
        }
    }

    proptest! {
        #[test]
        fn a_hash_lies_in_the_range_of_its_partition(hash: u128, partitions in 1..u32::MAX) {
            let partition = partition_of(IdHash(hash), partitions);
            prop_assert!(partition < partitions);
            let (first, last) = range_of((partition, partitions));
            prop_assert!(first.0 <= hash && hash <= last.0);
        }
    }
}

//! Chooses the power cuts to try at one moment.
//!
//! What must hold: N1. The plans depend on the unsynced operations and the seed alone. N2. Nothing
//! and everything are always among them; beyond the budget, a seeded choice of the rest.

use super::cut::{SECTOR_BYTES, Unsynced};
use super::keep::{Keep, bits};

/// How many power cuts to try at one call, and of which kinds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) plans: usize,
    pub(super) subsets: u64,
    pub(super) torn: bool,
}

/// The power cuts to try on these unsynced operations.
pub(super) fn plans(unsynced: &[Unsynced], budget: Budget, seed: u64) -> Vec<Keep> {
    if unsynced.is_empty() {
        return vec![Keep::Nothing];
    }
    let mut chosen = vec![Keep::Nothing, Keep::Everything];
    let lengths = unsynced.iter().filter(|op| matches!(op, Unsynced::Length { .. })).count();
    if lengths > 0 && lengths < unsynced.len() {
        chosen.extend([Keep::Lengths, Keep::Writes]);
    }
    for n in 0..budget.subsets {
        let seed = bits(seed, n);
        if unsynced.len() > 2 {
            chosen.push(Keep::Subset(seed));
        }
        if budget.torn {
            chosen.push(Keep::Sectors(seed));
        }
    }
    chosen.truncate(budget.plans.max(2));
    let pool = single_plans(unsynced, budget.torn, seed);
    let room = budget.plans.saturating_sub(chosen.len());
    chosen.extend(sample(pool, room, seed));
    chosen
}

/// All plans that single out one operation.
fn single_plans(unsynced: &[Unsynced], torn: bool, seed: u64) -> Vec<Keep> {
    let mut pool = Vec::new();
    for (op, kind) in unsynced.iter().enumerate() {
        if unsynced.len() > 1 {
            pool.push(Keep::Only(op));
        }
        if unsynced.len() > 2 {
            pool.push(Keep::AllBut(op));
        }
        let Unsynced::Write { offset, len } = *kind else {
            continue;
        };
        for at in tears(offset, len, bits(seed, op as u64)) {
            for (prefix, rest) in [(true, true), (true, false), (false, true), (false, false)] {
                if torn && (rest || unsynced.len() > 1) {
                    pool.push(Keep::Torn { op, at, prefix, rest });
                }
            }
        }
    }
    pool
}

/// Where a write may tear: at each of the device's sectors, and at three places within.
fn tears(offset: u64, len: usize, seed: u64) -> Vec<usize> {
    let to_boundary = SECTOR_BYTES - (offset % SECTOR_BYTES as u64) as usize;
    let mut tears: Vec<usize> = (to_boundary..len).step_by(SECTOR_BYTES).collect();
    if let Some(inner) = len.checked_sub(1).filter(|inner| *inner > 0) {
        let drawn = 1 + (seed % inner as u64) as usize;
        tears.extend([1, drawn, inner]);
    }
    tears.sort_unstable();
    tears.dedup();
    tears
}

/// At most `most` of the pool, drawn without repetition, in their order.
fn sample(pool: Vec<Keep>, most: usize, seed: u64) -> Vec<Keep> {
    if pool.len() <= most {
        return pool;
    }
    let mut drawn: Vec<(u64, usize, Keep)> = pool
        .into_iter()
        .enumerate()
        .map(|(place, keep)| (bits(!seed, place as u64), place, keep))
        .collect();
    drawn.sort_unstable_by_key(|(lot, place, _)| (*lot, *place));
    drawn.truncate(most);
    drawn.sort_unstable_by_key(|(_, place, _)| *place);
    drawn.into_iter().map(|(.., keep)| keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Budget = Budget { plans: usize::MAX, subsets: 2, torn: true };

    fn write(offset: u64, len: usize) -> Unsynced {
        Unsynced::Write { offset, len }
    }

    #[test]
    fn a_write_tears_at_every_sector_and_at_three_bytes() {
        let tears = tears(0, 4_096, 699);
        let sectors = [512, 1_024, 1_536, 2_048, 2_560, 3_072, 3_584];
        assert!(sectors.iter().all(|at| tears.contains(at)));
        assert_eq!(tears.len(), 10);
        assert_eq!(super::tears(500, 20, 0), [1, 12, 19]);
        assert!(super::tears(7, 1, 0).is_empty());
        assert!(super::tears(7, 0, 0).is_empty());
    }

    #[test]
    fn every_kind_of_plan_is_tried_once() {
        let plans = plans(&[write(0, 600), Unsynced::Length { len: 9 }], ALL, 3);
        let distinct: std::collections::HashSet<String> =
            plans.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), plans.len());
        // nothing, everything, lengths, writes, 2 of sectors, 2 of only, and 4 tears 4 ways
        assert_eq!(plans.len(), 2 + 2 + 2 + 2 + 4 * 4);
        assert_eq!(super::plans(&[], ALL, 3), [Keep::Nothing]);
    }

    #[test]
    fn a_budget_keeps_the_two_ends_and_depends_on_the_seed_alone() {
        let ops = vec![write(0, 4_096); 40];
        let small = Budget { plans: 50, ..ALL };
        let chosen = plans(&ops, small, 1);
        assert_eq!(chosen.len(), 50);
        assert_eq!(chosen[..2], [Keep::Nothing, Keep::Everything]);
        assert_eq!(chosen, plans(&ops, small, 1));
        assert_ne!(chosen, plans(&ops, small, 2));
        assert_eq!(plans(&ops, Budget { plans: 0, ..ALL }, 1).len(), 2);
    }
}

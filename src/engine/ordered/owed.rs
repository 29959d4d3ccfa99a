//! Positions whose callers were told an error that is not in the source's row: the store could not
//! write, or nobody knows whether it did.
//!
//! What must hold: OW1. Later positions of the source are not handled in this process before such a one is
//! settled or given up. A crash forgets them: the source then goes on behind its durable position.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;
use crate::base::sync::Mutex;

#[derive(Debug)]
struct OfSource {
    incarnation: u64,
    positions: BTreeSet<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Owed(Mutex<BTreeMap<Vec<u8>, OfSource>>);

impl Owed {
    pub(crate) fn add(&self, source: &Source, position: u64) {
        let mut all = self.0.lock();
        let fresh =
            || OfSource { incarnation: source.owner.incarnation, positions: BTreeSet::new() };
        let of = all.entry(source.key.clone()).or_insert_with(fresh);
        if of.incarnation < source.owner.incarnation {
            *of = fresh();
        }
        // Those behind another are not handled anyway, and told so.
        let is_behind = of.positions.first().is_some_and(|first| *first < position);
        if of.incarnation == source.owner.incarnation && !is_behind {
            of.positions.insert(position);
        }
    }

    /// The lowest owed position, if it lies below this one.
    pub(crate) fn below(&self, source: &Source, position: u64) -> Option<u64> {
        let all = self.0.lock();
        let of = all.get(&source.key).filter(|of| of.incarnation == source.owner.incarnation)?;
        of.positions.first().copied().filter(|first| *first < position)
    }

    /// All up to this one are settled.
    pub(crate) fn clear(&self, source: &Source, through: u64) {
        let mut all = self.0.lock();
        let Some(of) = all.get_mut(&source.key) else { return };
        of.positions.retain(|position| *position > through);
        if of.positions.is_empty() {
            all.remove(&source.key);
        }
    }
}

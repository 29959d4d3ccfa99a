//! What a group has staged so far, for stores whose write batch cannot be read: LSM trees look an id up in the tree
//! and then here, so that two deliveries in one group count once and a counter hit twice counts twice.

use anyhow::Result;
use std::collections::{HashMap, HashSet};

use crate::events::Event;

#[derive(Default)]
pub struct Overlay {
    claimed: HashSet<[u8; 16]>,
    counters: HashMap<u64, u64>,
}

impl Overlay {
    /// Whether the event is new to this group; if so it is from now on claimed.
    pub fn claim(&mut self, event: &Event) -> bool {
        self.claimed.insert(event.id)
    }

    /// Adds one to a counter that `stored` reads when this group has not touched it yet.
    pub fn add_one(&mut self, counter: u64, stored: impl FnOnce() -> Result<u64>) -> Result<()> {
        match self.counters.entry(counter) {
            std::collections::hash_map::Entry::Occupied(mut slot) => *slot.get_mut() += 1,
            std::collections::hash_map::Entry::Vacant(slot) => drop(slot.insert(stored()? + 1)),
        }
        Ok(())
    }

    pub fn counters(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counters.iter().map(|(counter, value)| (*counter, *value))
    }
}

/// A stored counter, as LSM engines keep it.
pub fn counter_from(bytes: Option<&[u8]>) -> Result<u64> {
    match bytes {
        None => Ok(0),
        Some(bytes) => Ok(u64::from_le_bytes(bytes.try_into()?)),
    }
}

//! The image of the table of leases, notes and errors left out.
//!
//! What must hold: LB1. Every id that a row reserves leads to it, and to no other. LB2. The rows of a class
//! stand in order of age.

use std::collections::BTreeSet;

use super::row::{self, Head, Row, Standing};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::hash::IdHashMap;
use crate::base::ids::{ClassId, IdHash, StoreMs};
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// See the module.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Board {
    rows: IdHashMap<Head>,
    /// The primary of every reserved id, its own included.
    primaries: IdHashMap<IdHash>,
    ages: BTreeSet<(ClassId, StoreMs, IdHash)>,
    dead: usize,
}

impl Board {
    /// Reads the table.
    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self, Error> {
        let mut board = Self::default();
        for stored in snapshot.whole(TableId::Leases)? {
            let (key, value) = stored?;
            let damaged =
                |detail| Error::corrupt(format!("lease row {}", key.escape_ascii()), detail);
            let primary = row::decode_key(&key).map_err(|m| damaged(m.0))?;
            let head = Row::decode(&value).map_err(|m| damaged(m.0))?.head;
            let ids = || std::iter::once(&primary).chain(&head.ids);
            if ids().any(|id| board.primaries.contains_key(id)) {
                return Err(damaged("another lease has reserved its ids"));
            }
            if !(planted("lease-dropped-by-an-opening") && head.standing == Standing::Held) {
                board.put(primary, head);
            }
        }
        Ok(board)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn dead(&self) -> usize {
        self.dead
    }

    /// The leases that have reserved any of these ids, in the order of the ids.
    pub(crate) fn under(&self, ids: &[IdHash]) -> Vec<(IdHash, Head)> {
        let mut found: Vec<(IdHash, Head)> = Vec::new();
        for primary in ids.iter().filter_map(|id| self.primaries.get(id)) {
            if found.iter().all(|(known, _)| known != primary)
                && let Some(head) = self.rows.get(primary)
            {
                found.push((*primary, head.clone()));
            }
        }
        found
    }

    pub(super) fn put(&mut self, primary: IdHash, head: Head) {
        self.remove(primary);
        self.primaries.insert(primary, primary);
        for id in &head.ids {
            self.primaries.insert(*id, primary);
        }
        self.ages.insert((head.class, head.at, primary));
        self.dead += usize::from(head.standing == Standing::Dead);
        self.rows.insert(primary, head);
    }

    pub(super) fn remove(&mut self, primary: IdHash) {
        let Some(head) = self.rows.remove(&primary) else { return };
        self.primaries.remove(&primary);
        for id in &head.ids {
            self.primaries.remove(id);
        }
        self.ages.remove(&(head.class, head.at, primary));
        self.dead -= usize::from(head.standing == Standing::Dead);
    }

    /// When the oldest row of each class was last written.
    pub(super) fn oldest(&self) -> Vec<(ClassId, StoreMs)> {
        let mut oldest = Vec::new();
        let mut next = self.ages.first();
        while let Some((class, at, _)) = next {
            oldest.push((*class, *at));
            let above = ClassId(class.0.saturating_add(1));
            next = self.ages.range((above, StoreMs(0), IdHash(0))..).next();
        }
        oldest
    }

    /// The oldest rows of a class, with their heads, as far as they were last written at or before `at`.
    pub(super) fn older(
        &self,
        class: ClassId,
        at: StoreMs,
    ) -> impl Iterator<Item = (IdHash, &Head)> {
        let first = (class, StoreMs(0), IdHash(0));
        let aged = self.ages.range(first..=(class, at, IdHash(u128::MAX)));
        aged.filter_map(|(_, _, primary)| Some((*primary, self.rows.get(primary)?)))
    }
}

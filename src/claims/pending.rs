//! The claims of the group being built: seen by the events after them, by nobody else.
//!
//! What must hold: P1. Dropping the group drops them. P2. Order inside the group is kept, so that
//! apply, forget, apply of one id is decided.

use std::collections::HashMap;

use crate::base::hash::IdHashMap;
use crate::base::ids::{ClassId, EventMs, Fingerprint, IdHash, Place, ResultKey, Scope};
use crate::base::limits::GROUP_MAX_EVENTS;

/// What the group will store under an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingKind {
    Claim { fingerprint: Option<Fingerprint>, result: Option<Vec<u8>>, refused: bool },
    Alias { primary: IdHash },
}

/// One claim or alias on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingClaim {
    pub(crate) hash: IdHash,
    pub(crate) place: Place,
    pub(crate) scope: Scope,
    pub(crate) class: ClassId,
    pub(crate) event_time: Option<EventMs>,
    pub(crate) kind: PendingKind,
    /// How long its result is kept, where the consumer has an own rule.
    pub(crate) result_retention_ms: Option<u64>,
}

/// All claims and tombstones of the open group, in order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    claims: Vec<PendingClaim>,
    /// Index of the newest claim of each hash, and for each claim of the one before it.
    newest_of: IdHashMap<u32>,
    older: Vec<Option<u32>>,
    tombstones: IdHashMap<Place>,
    next_place: u32,
    newest: HashMap<Scope, EventMs>,
}

impl Pending {
    /// Empty, with room for as many claims as another had.
    pub(crate) fn with_room_of(other: &Self) -> Self {
        let claims = other.claims.len().min(GROUP_MAX_EVENTS);
        Self {
            claims: Vec::with_capacity(claims),
            newest_of: IdHashMap::with_capacity_and_hasher(claims, Default::default()),
            older: Vec::with_capacity(claims),
            ..Self::default()
        }
    }

    pub(crate) fn next_place(&mut self) -> Place {
        let place = Place(self.next_place);
        self.next_place = self.next_place.saturating_add(1);
        place
    }

    pub(crate) fn add(&mut self, claim: PendingClaim) {
        if let Some(time) = claim.event_time {
            let newest = self.newest.entry(claim.scope).or_insert(time);
            *newest = (*newest).max(time);
        }
        let index = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
        self.older.push(self.newest_of.insert(claim.hash, index));
        self.claims.push(claim);
    }

    /// Hides all that stands under `hash` before this place in history.
    pub(crate) fn forget(&mut self, hash: IdHash) {
        let place = self.next_place();
        self.tombstones.insert(hash, place);
    }

    pub(crate) fn find(&self, hash: IdHash) -> impl Iterator<Item = &PendingClaim> {
        let newest = self.newest_of.get(&hash).copied();
        let older = |i: &u32| self.older.get(*i as usize).copied().flatten();
        std::iter::successors(newest, older).filter_map(|i| self.claims.get(i as usize))
    }

    pub(crate) fn tombstone(&self, hash: IdHash) -> Option<Place> {
        self.tombstones.get(&hash).copied()
    }

    pub(crate) fn newest_event_time(&self, scope: Scope) -> Option<EventMs> {
        self.newest.get(&scope).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.tombstones.is_empty()
    }

    pub(crate) fn claims(&self) -> &[PendingClaim] {
        &self.claims
    }

    pub(crate) fn tombstones(&self) -> impl Iterator<Item = (IdHash, Place)> {
        self.tombstones.iter().map(|(hash, place)| (*hash, *place))
    }
}

/// The result key of the `n`th result of a result bucket.
pub(crate) fn result_key(bucket: u32, n: u64) -> ResultKey {
    ResultKey(u64::from(bucket) << 40 | (n & RESULT_COUNTER_MASK))
}

/// The result bucket that a key names.
pub(crate) fn result_bucket(key: ResultKey) -> u32 {
    (key.0 >> 40) as u32
}

/// Results that one bucket can hold.
pub(crate) const RESULT_COUNTER_MASK: u64 = (1 << 40) - 1;

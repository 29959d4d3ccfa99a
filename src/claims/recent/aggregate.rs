//! What the catalogue must know of claims about to be sealed: how many, and up to which event time.
//!
//! What must hold: A1. The newest event time of a scope in a bucket covers its claims and its
//! aliases; the floor is raised to it when the bucket is forgotten.

use std::collections::BTreeMap;

use crate::base::ids::{BucketId, EventMs, Scope};
use crate::claims::row::{RecentClaim, RowKind};

/// The rows of one scope in one bucket, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aggregate {
    pub(crate) claims: u64,
    pub(crate) aliases: u64,
    pub(crate) max_event_time: Option<EventMs>,
}

/// Sums per bucket and scope.
pub(crate) type Aggregates = BTreeMap<BucketId, BTreeMap<Scope, Aggregate>>;

impl Aggregate {
    pub(crate) fn add(&mut self, claim: &RecentClaim) {
        match claim.kind {
            RowKind::Claim { .. } => self.claims += 1,
            RowKind::Alias { .. } => self.aliases += 1,
        }
        self.max_event_time = self.max_event_time.max(claim.event_time);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.claims = self.claims.saturating_add(other.claims);
        self.aliases = self.aliases.saturating_add(other.aliases);
        self.max_event_time = self.max_event_time.max(other.max_event_time);
    }
}

/// Adds the claims of one bucket, looking a scope up once for as long as it repeats.
pub(super) fn add_claims(to: &mut BTreeMap<Scope, Aggregate>, claims: &[RecentClaim]) {
    for same in claims.chunk_by(|a, b| a.scope == b.scope) {
        if let Some(first) = same.first() {
            let sum = to.entry(first.scope).or_default();
            same.iter().for_each(|claim| sum.add(claim));
        }
    }
}

pub(super) fn merge_into(to: &mut Aggregates, from: &Aggregates) {
    for (bucket, scopes) in from {
        let bucket = to.entry(*bucket).or_default();
        for (scope, sum) in scopes {
            bucket.entry(*scope).or_default().merge(sum);
        }
    }
}

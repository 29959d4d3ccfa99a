//! From an event's ids to what is known of it: new, a duplicate, or something else under its id.
//!
//! Owns the rules of identity (guarantee 5). What must hold:
//! V1. A claim row outranks an alias row of the same hash. V2. An alias row counts only while its
//!     primary's claim row is stored. V3. An event that meets several primaries is a duplicate if any
//!     fingerprint matches, else a mismatch.

use std::cell::Cell;

use super::pending::{Pending, PendingClaim, PendingKind};
use super::row::{ClaimRow, RowKind};
use super::run::Run;
use super::state::{RunSet, Standing, State, Stored, Tombstones, hidden_by};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{ClassId, Fingerprint, IdHash, Seq};
use crate::base::sync::{Arc, RwLock};
use crate::storage::snapshot::Snapshot;

/// Where a claim was found.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Stored(Stored),
    /// In the group being built.
    Pending(PendingClaim),
}

impl Known {
    pub(crate) fn hash(&self) -> IdHash {
        match self {
            Self::Stored(stored) => stored.row.hash,
            Self::Pending(pending) => pending.hash,
        }
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::Stored(Stored {
                row: ClaimRow { kind: RowKind::Claim { fingerprint, .. }, .. },
                ..
            }) => *fingerprint,
            Self::Pending(PendingClaim {
                kind: PendingKind::Claim { fingerprint, .. }, ..
            }) => *fingerprint,
            _ => None,
        }
    }
}

/// What an event's ids say.
#[derive(Debug)]
pub(crate) enum Resolution {
    New,
    /// `unknown` are those of its ids that nothing was stored under.
    Duplicate {
        claim: Known,
        unknown: Vec<IdHash>,
    },
    Mismatch {
        claim: Known,
    },
}

/// Runs to be asked, with what they must be read through, taken under one lock.
struct Candidates {
    runs: Vec<(ClassId, Arc<Run>)>,
    tombstones: Arc<Tombstones>,
    snapshot: Arc<Snapshot>,
}

/// Looks ids up, in the open group if there is one and in all that is durable.
pub(crate) struct Resolver<'a> {
    state: &'a RwLock<State>,
    classes: &'a [ClassId],
    group: Option<&'a Pending>,
    /// A set of runs that is already known to hold nothing under the ids asked for.
    missed: Option<&'a Arc<RunSet>>,
    /// Whether any alias row was met: then "new" may end with the group being built.
    saw_alias: Cell<bool>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(
        state: &'a RwLock<State>,
        classes: &'a [ClassId],
        group: Option<&'a Pending>,
        missed: Option<&'a Arc<RunSet>>,
    ) -> Self {
        Self { state, classes, group, missed, saw_alias: Cell::new(false) }
    }

    /// Whether any alias row was met so far.
    pub(crate) fn saw_alias(&self) -> bool {
        self.saw_alias.get()
    }

    /// What an event with these ids, the first one its own, is.
    pub(crate) fn resolve(
        &self,
        ids: &[IdHash],
        fingerprint: Option<Fingerprint>,
    ) -> Result<Resolution, Error> {
        let mut primaries: Vec<Known> = Vec::new();
        let mut unknown = Vec::new();
        for (i, id) in ids.iter().enumerate() {
            if ids.iter().take(i).any(|earlier| earlier == id) {
                continue;
            }
            let claims = self.claims_under(*id)?;
            if claims.is_empty() && ids.len() > 1 {
                unknown.push(*id); // of a duplicate, which it cannot be by its only id
            }
            for claim in claims {
                if primaries.iter().all(|p| p.hash() != claim.hash()) {
                    primaries.push(claim);
                }
            }
        }
        let matches = |claim: &Known| match (fingerprint, claim.fingerprint()) {
            (Some(now), Some(then)) => now == then,
            _ => true,
        };
        if let Some(i) = primaries.iter().position(matches) {
            return Ok(Resolution::Duplicate { claim: primaries.swap_remove(i), unknown });
        }
        Ok(match primaries.into_iter().next() {
            Some(claim) => Resolution::Mismatch { claim },
            None => Resolution::New,
        })
    }

    /// The claim that this id stands for, directly or as an alias.
    pub(crate) fn claim_under(&self, id: IdHash) -> Result<Option<Known>, Error> {
        Ok(self.claims_under(id)?.into_iter().next())
    }

    /// All claims that this id stands for. An id can be the alias of several events: of one that was
    /// forgotten and came again, and of the event that had claimed the id in between (V3).
    pub(crate) fn claims_under(&self, id: IdHash) -> Result<Vec<Known>, Error> {
        let mut primaries = Vec::new();
        if let Some(claim) = self.rows(id, self.missed, &mut primaries)? {
            return Ok(vec![claim]);
        }
        let mut claims: Vec<Known> = Vec::new();
        for primary in primaries {
            self.saw_alias.set(true);
            if claims.iter().any(|known| known.hash() == primary) {
                continue;
            }
            claims.extend(self.rows(primary, None, &mut Vec::new())?);
        }
        Ok(claims)
    }

    /// The claim row under a hash; the primaries of its alias rows go to `aliases`.
    fn rows(
        &self,
        hash: IdHash,
        missed: Option<&Arc<RunSet>>,
        aliases: &mut Vec<IdHash>,
    ) -> Result<Option<Known>, Error> {
        if let Some(claim) = self.pending_rows(hash, aliases) {
            return Ok(Some(claim));
        }
        let candidates = {
            let state = self.state.read();
            let mut found = None;
            // The rows of a group in flight are there already, for the writer alone.
            let visible = if self.group.is_some() { Seq::MAX } else { state.snapshot.at() };
            state.recent.find(hash, &mut |hit| {
                if hit.position.0 > visible && !planted("claim-seen-before-it-is-durable") {
                    return;
                }
                let standing = Standing::At(hit.position);
                if found.is_some() || self.is_hidden(&state.tombstones, &hit.row, standing) {
                    return;
                }
                match hit.row.kind {
                    RowKind::Alias { primary } => aliases.push(primary),
                    RowKind::Claim { .. } => {
                        let (row, class) = (hit.row, hit.class);
                        found = Some(Known::Stored(Stored { row, class }));
                    }
                }
            });
            if found.is_some() || missed.is_some_and(|runs| Arc::ptr_eq(runs, &state.runs)) {
                return Ok(found);
            }
            self.candidates(hash, &state)
        };
        match candidates {
            Some(candidates) => self.sealed_rows(hash, &candidates, aliases),
            None => Ok(None),
        }
    }

    /// The runs that may hold the hash, newest first; most often there is none.
    fn candidates(&self, hash: IdHash, state: &State) -> Option<Candidates> {
        let mut runs = Vec::new();
        let asked = if planted("old-handle-misses-an-added-class") { 1 } else { usize::MAX };
        let depth = if planted("duplicate-check-in-the-newest-run-only") { 1 } else { usize::MAX };
        for class in self.classes.iter().take(asked) {
            let of_class = state.runs.get(class).map(Vec::as_slice).unwrap_or_default();
            let maybe = of_class.iter().take(depth).filter(|run| run.maybe(hash));
            runs.extend(maybe.map(|run| (*class, run.clone())));
        }
        (!runs.is_empty()).then(|| Candidates {
            runs,
            tombstones: state.tombstones.clone(),
            snapshot: state.snapshot.clone(),
        })
    }

    fn pending_rows(&self, hash: IdHash, aliases: &mut Vec<IdHash>) -> Option<Known> {
        let group = self.group?;
        for pending in group.find(hash) {
            let hidden = |hash| group.tombstone(hash).is_some_and(|t| pending.place < t);
            match pending.kind {
                PendingKind::Claim { .. } if !hidden(hash) => {
                    return Some(Known::Pending(pending.clone()));
                }
                PendingKind::Alias { primary } if !hidden(hash) && !hidden(primary) => {
                    aliases.push(primary);
                }
                _ => {}
            }
        }
        None
    }

    fn sealed_rows(
        &self,
        hash: IdHash,
        candidates: &Candidates,
        aliases: &mut Vec<IdHash>,
    ) -> Result<Option<Known>, Error> {
        let mut rows = Vec::new();
        for (class, run) in &candidates.runs {
            rows.clear();
            run.find(&candidates.snapshot, hash, &mut rows)?;
            let standing = Standing::InRunThrough(run.meta().last);
            let tombstones = &candidates.tombstones;
            for row in rows.iter().filter(|r| !self.is_hidden(tombstones, r, standing)) {
                match row.kind {
                    RowKind::Alias { primary } => aliases.push(primary),
                    RowKind::Claim { .. } => {
                        let (row, class) = (*row, *class);
                        return Ok(Some(Known::Stored(Stored { row, class })));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Hidden by a durable tombstone, or by one of the open group, which stands after all stored.
    fn is_hidden(&self, tombstones: &Tombstones, row: &ClaimRow, standing: Standing) -> bool {
        if hidden_by(tombstones, row, standing) {
            return true;
        }
        let Some(group) = self.group else { return false };
        let primary = match row.kind {
            RowKind::Alias { primary } => Some(primary),
            RowKind::Claim { .. } => None,
        };
        group.tombstone(row.hash).is_some() || primary.is_some_and(|p| group.tombstone(p).is_some())
    }
}

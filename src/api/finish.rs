//! From a draft to the outcome that users see, once it is durable.
//!
//! Owns the words of an answer: claims with their ages, floors as times, and the counting of both.

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

use super::claim::Claim;
use super::inbox::Inbox;
use super::outcome::Outcome;
use crate::base::error::Error;
use crate::base::ids::{ClassId, Fingerprint, StoreMs, WallMs};
use crate::base::sync::Arc;
use crate::claims::pending::{PendingClaim, PendingKind};
use crate::claims::resolve::Known;
use crate::claims::row::RowKind;
use crate::engine::{Committed, ConsumerCounters, Done, Draft, ResultBytes};

/// Turns a draft into the outcome that users see, once it is durable.
#[derive(Debug)]
pub(crate) struct Finisher {
    inbox: Inbox,
    counters: Arc<ConsumerCounters>,
    /// Store time and retention of the class last asked for: one reading serves a whole batch.
    clock: Cell<Option<(ClassId, StoreMs, Option<u64>)>>,
}

/// What a claim says besides when it was committed.
struct Says {
    fingerprint: Option<Fingerprint>,
    result: ResultBytes,
    refused: bool,
}

impl Finisher {
    pub(crate) fn new(inbox: Inbox, counters: Arc<ConsumerCounters>) -> Self {
        Self { inbox, counters, clock: Cell::new(None) }
    }

    fn clock_of(&self, class: ClassId) -> (StoreMs, Option<u64>) {
        match self.clock.get() {
            Some((known, now, retention_ms)) if known == class => (now, retention_ms),
            _ => {
                let engine = self.inbox.engine();
                let (now, retention_ms) = (engine.now(class), engine.retention_ms(class));
                self.clock.set(Some((class, now, retention_ms)));
                (now, retention_ms)
            }
        }
    }

    /// Sees to it that the group becomes durable, and waits for it.
    pub(crate) fn settle(&self, done: &Arc<Done>) -> Result<Arc<Committed>, Error> {
        done.promise();
        self.hurry(done, None)?;
        self.inbox.engine().wait(done)
    }

    /// Sees to it that the group gets closed, waiting for the slot for at most `max_wait`.
    pub(crate) fn hurry(&self, done: &Arc<Done>, max_wait: Option<Duration>) -> Result<(), Error> {
        done.want();
        let engine = self.inbox.engine();
        if !done.is_closed() {
            // The slot's next holder closes the group; that may be us.
            match engine.turn(max_wait) {
                Ok(turn) => drop(turn),
                Err(error) if done.is_set() => drop(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the group is answered within `limit`.
    pub(crate) fn wait_for(&self, done: &Arc<Done>, limit: Duration) -> Result<bool, Error> {
        let engine = self.inbox.engine();
        let started_us = engine.clock.stopwatch_us();
        if !engine.config.threads {
            // Nobody else would close the group, however long the limit.
            match self.hurry(done, Some(limit)) {
                Err(error) if error.is_timeout() => return Ok(done.is_set()),
                other => other?,
            }
        }
        let spent_us = engine.clock.stopwatch_us().saturating_sub(started_us);
        Ok(done.wait_timeout(limit.saturating_sub(Duration::from_micros(spent_us))).is_some())
    }

    pub(crate) fn finish<T>(
        &self,
        draft: Draft<T>,
        committed: Option<&Committed>,
    ) -> Result<Outcome<T>, Error> {
        Ok(match draft {
            Draft::Applied(value, claim) => {
                self.counters.applied.add(1);
                Outcome::Applied(value, self.pending_claim(&claim, committed))
            }
            Draft::Refused(value, claim) => {
                self.counters.refused.add(1);
                Outcome::Refused(value, self.pending_claim(&claim, committed))
            }
            Draft::Skipped(value) => {
                self.counters.skipped.add(1);
                Outcome::Skipped(value)
            }
            Draft::Duplicate(known) => {
                let claim = self.claim(&known, committed)?;
                self.counters.duplicates.add(1);
                let age_ms = u64::try_from(claim.age.as_millis()).unwrap_or(u64::MAX);
                self.counters.duplicate_ages_ms.add(age_ms);
                Outcome::Duplicate(claim)
            }
            Draft::Mismatch(known) => {
                self.counters.mismatches.add(1);
                Outcome::Mismatch(self.claim(&known, committed)?)
            }
            Draft::InProgress { expires_in_ms, attempt, .. } => {
                self.counters.in_progress.add(1);
                let expires_in = Duration::from_millis(expires_in_ms);
                Outcome::InProgress { expires_in, attempt }
            }
            Draft::Fenced { token } => {
                self.counters.late_finishers.add(1);
                Outcome::Fenced { epoch: token }
            }
            Draft::Dead { attempts } => {
                self.counters.dead.add(1);
                Outcome::Dead { attempts }
            }
            Draft::TooLate { floor } => {
                self.counters.too_late.add(1);
                let distance = Duration::from_millis(floor.0.unsigned_abs());
                let floor = if floor.0 < 0 {
                    UNIX_EPOCH.checked_sub(distance)
                } else {
                    UNIX_EPOCH.checked_add(distance)
                };
                Outcome::TooLate { floor: floor.unwrap_or(UNIX_EPOCH) }
            }
        })
    }

    pub(crate) fn claim(
        &self,
        known: &Known,
        committed: Option<&Committed>,
    ) -> Result<Claim, Error> {
        let engine = self.inbox.engine();
        match known {
            Known::Pending(pending) => Ok(self.pending_claim(pending, committed)),
            Known::Stored(stored) => {
                let RowKind::Claim { fingerprint, result } = stored.row.kind else {
                    return Err(Error::corrupt("a claim", "an alias row stands for it"));
                };
                let refused = result.is_refused();
                let result = engine.read_result_now(result)?;
                let says = Says { fingerprint, result, refused };
                Ok(self.claim_of(stored.class, stored.row.at, stored.row.wall, says))
            }
        }
    }

    fn pending_claim(&self, claim: &PendingClaim, committed: Option<&Committed>) -> Claim {
        let (fingerprint, result, refused) = match &claim.kind {
            PendingKind::Claim { fingerprint, result, refused } => {
                (*fingerprint, result.clone(), *refused)
            }
            PendingKind::Alias { .. } => (None, None, false),
        };
        let result = result.map_or(ResultBytes::None, ResultBytes::Some);
        let says = Says { fingerprint, result, refused };
        let at = committed.map(|c| c.at(claim.class)).unwrap_or_default();
        let wall = committed.map(|c| c.wall).unwrap_or_default();
        self.claim_of(claim.class, at, wall, says)
    }

    fn claim_of(&self, class: ClassId, at: StoreMs, wall: WallMs, says: Says) -> Claim {
        let (now, retention_ms) = self.clock_of(class);
        let age_ms = now.0.saturating_sub(at.0);
        let kept_for = retention_ms.map(|keep| Duration::from_millis(keep.saturating_sub(age_ms)));
        let age = Duration::from_millis(age_ms);
        let Says { fingerprint, result, refused } = says;
        Claim { wall, at, age, kept_for, fingerprint, result, refused }
    }
}

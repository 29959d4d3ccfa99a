//! One delivery, from its ids to its answer.
//!
//! Owns the order of the checks. What must hold: Z1. The claim is looked up before anything else is
//! judged. Z2. The handler runs at most once a call, on the caller's thread, with no redb table open.
//! Z3. A handler that fails or panics leaves nothing, and the rest of its group stays.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Engine;
use super::core::Core;
use super::stage::{Stage, Verdict};
use crate::base::canary::planted;
use crate::base::error::{BoxError, Error};
use crate::base::ids::{ClassId, EventMs, Fingerprint, IdHash, Scope, Seq};
use crate::base::limits::RELEASE_WALL_MS;
use crate::base::sync::Arc;
use crate::claims::pending::{PendingClaim, PendingKind};
use crate::claims::resolve::{Known, OpenGroup, Resolution, Resolver};
use crate::claims::state::RunSet;

/// What a consumer is, as far as handling its events needs.
#[derive(Clone, Debug)]
pub(crate) struct Handling {
    pub(crate) scope: Scope,
    pub(crate) accept_late: bool,
    pub(crate) result_retention_ms: Option<u64>,
}

/// A delivery with everything computed that needs no lock.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The event's own id, then its aliases.
    pub(crate) ids: Vec<IdHash>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) time: Option<EventMs>,
}

/// An answer before its group is durable.
#[derive(Debug)]
pub(crate) enum Draft<T> {
    Applied(T, PendingClaim),
    Duplicate(Known),
    Skipped(T),
    Mismatch(Known),
    TooLate { floor: EventMs },
}

/// What a handler's call came to.
pub(crate) enum Ran<T> {
    Draft(Draft<T>),
    Failed(Error),
    Panicked(Box<dyn std::any::Any + Send>),
}

impl<T> From<Result<Draft<T>, Error>> for Ran<T> {
    fn from(result: Result<Draft<T>, Error>) -> Self {
        match result {
            Ok(draft) => Self::Draft(draft),
            Err(error) => Self::Failed(error),
        }
    }
}

/// What a look-up outside the slot found out: no run of this set knows the ids.
pub(crate) struct Missed(Arc<RunSet>);

impl Engine {
    /// Answers a plain repeat from durable claims, without the write slot. Otherwise returns what
    /// it learnt, so that the runs need not be asked again.
    pub(crate) fn peek<T>(
        &self,
        handling: &Handling,
        delivery: &Delivery,
    ) -> Result<Result<Draft<T>, Option<Missed>>, Error> {
        let runs = self.state.read().runs.clone();
        let classes = self.classes_of(handling);
        let resolver = Resolver::new(&self.state, &classes, None, None);
        match resolver.resolve(&delivery.ids, delivery.fingerprint) {
            Ok(Resolution::Duplicate { claim, unknown }) if unknown.is_empty() => {
                Ok(Ok(Draft::Duplicate(claim)))
            }
            Ok(Resolution::Mismatch { claim }) => Ok(Ok(Draft::Mismatch(claim))),
            Ok(Resolution::New) if !resolver.saw_alias() => Ok(Err(Some(Missed(runs)))),
            Ok(Resolution::New) => Ok(Err(None)),
            Ok(Resolution::Duplicate { .. }) => Ok(Err(None)),
            // A recovery is under way, or due: behind the slot it is over.
            Err(error) if error.is_view_ended() || error.is_io() => Ok(Err(None)),
            Err(error) => Err(error),
        }
    }

    /// Every class that a consumer's claims may lie in. Asked anew for each delivery, since another
    /// handle may have changed its retention.
    pub(crate) fn classes_of(&self, handling: &Handling) -> Arc<[ClassId]> {
        self.registry.read().classes_of(handling.scope.consumer)
    }

    /// Handles one delivery in the open group. The caller holds the slot.
    pub(crate) fn handle<T>(
        &self,
        core: &mut Core,
        handling: &Handling,
        delivery: &Delivery,
        missed: Option<&Missed>,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Ran<T> {
        core.group.events = core.group.events.saturating_add(1);
        match self.judge(core, handling, delivery, missed) {
            Ok(Some(draft)) => Ran::Draft(draft),
            Ok(None) => self.run(core, handling, delivery, handler),
            Err(error) => Ran::Failed(error),
        }
    }

    /// The answer that needs no handler; `None` for a new event that may be handled.
    fn judge<T>(
        &self,
        core: &mut Core,
        handling: &Handling,
        delivery: &Delivery,
        missed: Option<&Missed>,
    ) -> Result<Option<Draft<T>>, Error> {
        let seq = Seq(core.seq.0.saturating_add(1));
        let group = OpenGroup { seq, pending: &core.group.pending };
        let group = Some(group).filter(|_| !planted("duplicates-inside-one-batch-missed"));
        let missed = missed.map(|m| &m.0);
        let classes = self.classes_of(handling);
        let resolution = Resolver::new(&self.state, &classes, group, missed)
            .resolve(&delivery.ids, delivery.fingerprint)?;
        match resolution {
            Resolution::Duplicate { claim, unknown } => {
                if !unknown.is_empty() {
                    core.check_space(&*self.clock)?;
                    add_aliases(
                        core,
                        handling,
                        newest_class(&classes),
                        delivery,
                        &unknown,
                        claim.hash(),
                    );
                }
                Ok(Some(Draft::Duplicate(claim)))
            }
            Resolution::Mismatch { claim } => Ok(Some(Draft::Mismatch(claim))),
            Resolution::New => {
                if let Some(time) = delivery.time {
                    let floor = self.state.read().catalogue.floors.get(&handling.scope).copied();
                    if let Some(floor) = floor.filter(|f| time <= *f && !handling.accept_late) {
                        return Ok(Some(Draft::TooLate { floor }));
                    }
                    self.check_not_ahead(core, handling, time)?;
                }
                core.check_space(&*self.clock)?;
                Ok(None)
            }
        }
    }

    /// Refuses an event time that cannot be true yet: believed, it would raise a floor over events
    /// still to come.
    fn check_not_ahead(
        &self,
        core: &Core,
        handling: &Handling,
        time: EventMs,
    ) -> Result<(), Error> {
        let wall_ms = self.clock.wall_ms();
        let reference = if wall_ms >= RELEASE_WALL_MS {
            Some(wall_ms)
        } else {
            // A clock before this crate's release was never set: go by the events themselves.
            let stored = self.state.read().newest_event_time(handling.scope);
            stored.max(core.group.pending.newest_event_time(handling.scope)).map(|t| t.0)
        };
        let Some(reference) = reference else { return Ok(()) };
        let limit_ms = self.ahead_limit_ms(newest_class(&self.classes_of(handling)));
        let ahead = time.0.saturating_sub(reference);
        match u64::try_from(ahead) {
            Ok(ahead_ms) if ahead_ms > limit_ms => Err(Error::future(ahead_ms, limit_ms)),
            _ => Ok(()),
        }
    }

    fn run<T>(
        &self,
        core: &mut Core,
        handling: &Handling,
        delivery: &Delivery,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Ran<T> {
        let snapshot = self.state.read().snapshot.clone();
        let stage = Stage::new(&core.group, snapshot, self.config.result_max_bytes);
        let (stage, value) = match catch_unwind(AssertUnwindSafe(|| handler(stage))) {
            Ok((stage, Ok(value))) => (stage, value),
            Ok((stage, Err(error))) => {
                let storage = match stage.finish() {
                    Ok(staged) if planted("failed-event-leaks-into-its-group") => {
                        core.group.overlay.absorb(staged.overlay);
                        None
                    }
                    finished => finished.err(),
                };
                return Ran::Failed(storage.unwrap_or_else(|| Error::handler_failed(error)));
            }
            Err(panic) => return Ran::Panicked(panic),
        };
        let staged = match stage.finish() {
            Ok(staged) => staged,
            Err(error) => return Ran::Failed(error),
        };
        if staged.verdict == Verdict::Skip {
            return Ran::Draft(Draft::Skipped(value));
        }
        core.group.overlay.absorb(staged.overlay);
        core.group.result_bytes =
            core.group.result_bytes.saturating_add(staged.result.as_ref().map_or(0, Vec::len));
        let class = newest_class(&self.classes_of(handling));
        let claim = add_claim(core, handling, class, delivery, staged.result);
        Ran::Draft(Draft::Applied(value, claim))
    }
}

/// The class that new claims go to.
fn newest_class(classes: &[ClassId]) -> ClassId {
    classes.last().copied().unwrap_or_default()
}

fn add_claim(
    core: &mut Core,
    handling: &Handling,
    class: ClassId,
    delivery: &Delivery,
    result: Option<Vec<u8>>,
) -> PendingClaim {
    let pending = &mut core.group.pending;
    let claim = PendingClaim {
        hash: delivery.ids.first().copied().unwrap_or_default(),
        place: pending.next_place(),
        scope: handling.scope,
        class,
        event_time: delivery.time,
        kind: PendingKind::Claim { fingerprint: delivery.fingerprint, result },
        result_retention_ms: handling.result_retention_ms,
    };
    pending.add(claim.clone());
    let primary = claim.hash;
    let aliases: Vec<IdHash> = delivery
        .ids
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(i, id)| !delivery.ids.iter().take(*i).any(|earlier| earlier == *id))
        .map(|(_, id)| *id)
        .collect();
    add_aliases(core, handling, class, delivery, &aliases, primary);
    claim
}

fn add_aliases(
    core: &mut Core,
    handling: &Handling,
    class: ClassId,
    delivery: &Delivery,
    ids: &[IdHash],
    primary: IdHash,
) {
    let pending = &mut core.group.pending;
    for id in ids {
        let place = pending.next_place();
        pending.add(PendingClaim {
            hash: *id,
            place,
            scope: handling.scope,
            class,
            event_time: delivery.time,
            kind: PendingKind::Alias { primary },
            result_retention_ms: None,
        });
    }
}

//! One delivery, from its ids to its answer.
//!
//! Owns the order of the checks. What must hold: Z1. The claim is looked up before anything else is
//! judged. Z2. The handler runs at most once a call, on the caller's thread, with no redb table open.
//! Z3. A handler that fails or panics leaves nothing, and the rest of its group stays.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Engine;
use super::core::Core;
use super::outbox::{Origin, Sender};
use super::overlay::Overlay;
use super::stage::{Stage, Staged, Verdict};
use crate::base::canary::planted;
use crate::base::error::{BoxError, Error};
use crate::base::ids::{ClassId, EventMs, Fingerprint, IdHash, Scope};
use crate::base::limits::RELEASE_WALL_MS;
use crate::base::sync::Arc;
use crate::claims::pending::{PendingClaim, PendingKind};
use crate::claims::resolve::{Known, Resolution, Resolver};
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
    /// The event's own id, then its aliases; none for a position that goes without.
    pub(crate) ids: Vec<IdHash>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) time: Option<EventMs>,
}

/// A delivery at the writer: whose it is, and what is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) handling: &'a Handling,
    /// Every class that the consumer's claims may lie in; new ones go to the last. Asked for anew
    /// in each turn, since another handle may have changed its retention.
    pub(crate) classes: &'a [ClassId],
    pub(crate) delivery: &'a Delivery,
    /// Where the messages of its handler come from.
    pub(crate) sender: Sender<'a>,
    pub(crate) missed: Option<&'a Missed>,
}

impl Case<'_> {
    pub(super) fn class(&self) -> ClassId {
        self.classes.last().copied().unwrap_or_default()
    }
}

/// An answer before its group is durable.
#[derive(Debug)]
pub(crate) enum Draft<T> {
    Applied(T, PendingClaim),
    Refused(T, PendingClaim),
    Duplicate(Known),
    Skipped(T),
    Mismatch(Known),
    TooLate {
        floor: EventMs,
    },
    /// Somebody holds a lease on it, or its next attempt is not due. `is_other` if that is for another payload.
    InProgress {
        expires_in_ms: u64,
        attempt: u32,
        is_other: bool,
    },
    /// A later lease has taken its place.
    Fenced {
        token: u64,
    },
    Dead {
        attempts: u32,
    },
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

/// What the filters said of some deliveries, in their order.
pub(crate) struct Ahead {
    classes: Arc<[ClassId]>,
    missed: Missed,
    absent: Vec<bool>,
}

impl Ahead {
    /// What is known of one of them, if its consumer's claims lie where they did.
    pub(crate) fn missed(&self, index: usize, classes: &[ClassId]) -> Option<&Missed> {
        let absent = self.absent.get(index).copied().unwrap_or_default();
        (absent && *self.classes == *classes).then_some(&self.missed)
    }
}

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

    /// Asks the runs' filters for these deliveries, without the slot and many at once, so that the processor
    /// waits for memory once and not for each; and brings into its caches what look-ups read first.
    pub(crate) fn look_ahead<'d>(
        &self,
        handling: &Handling,
        deliveries: impl Iterator<Item = &'d Result<Delivery, Error>> + Clone,
    ) -> Ahead {
        let classes = self.classes_of(handling);
        let set = {
            let state = self.state.read();
            for id in deliveries.clone().flatten().filter_map(|delivery| delivery.ids.first()) {
                state.recent.touch(*id);
            }
            state.runs.clone()
        };
        // Not under the lock, which a group that lands wants to have.
        let runs: Vec<_> = classes.iter().filter_map(|class| set.get(class)).flatten().collect();
        let is_absent = |delivery: &Delivery| {
            delivery.ids.iter().all(|id| runs.iter().all(|run| !run.maybe(*id)))
        };
        let absent = deliveries.map(|d| d.as_ref().is_ok_and(is_absent)).collect();
        Ahead { classes, missed: Missed(set), absent }
    }

    /// Every class that a consumer's claims may lie in.
    pub(crate) fn classes_of(&self, handling: &Handling) -> Arc<[ClassId]> {
        self.registry.read().classes_of(handling.scope.consumer)
    }

    /// Handles one delivery in the open group. The caller holds the slot.
    pub(crate) fn handle<T>(
        &self,
        core: &mut Core,
        case: Case<'_>,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Ran<T> {
        core.group.events = core.group.events.saturating_add(1);
        match self.judge(core, case) {
            Ok(Some(draft)) => Ran::Draft(draft),
            Ok(None) => self.run(core, case, handler),
            Err(error) => Ran::Failed(error),
        }
    }

    /// The answer that needs no handler; `None` for a new event that may be handled.
    pub(super) fn judge<T>(
        &self,
        core: &mut Core,
        case: Case<'_>,
    ) -> Result<Option<Draft<T>>, Error> {
        if let Some(draft) = self.settled(core, case)? {
            return Ok(Some(draft));
        }
        let Case { handling, delivery, .. } = case;
        if let Some(draft) = self.leased(core, delivery) {
            return Ok(Some(draft));
        }
        if let Some(time) = delivery.time {
            let floor = self.state.read().catalogue.floors.get(&handling.scope).copied();
            if let Some(floor) = floor.filter(|f| time <= *f && !handling.accept_late) {
                return Ok(Some(Draft::TooLate { floor }));
            }
            self.check_not_ahead(core, case, time)?;
        }
        self.check_space(core)?;
        Ok(None)
    }

    /// The answer by the claims alone.
    pub(super) fn settled<T>(
        &self,
        core: &mut Core,
        case: Case<'_>,
    ) -> Result<Option<Draft<T>>, Error> {
        let Case { classes, delivery, missed, .. } = case;
        let pending =
            Some(&core.group.pending).filter(|_| !planted("duplicates-inside-one-batch-missed"));
        let resolution = Resolver::new(&self.state, classes, pending, missed.map(|m| &m.0))
            .resolve(&delivery.ids, delivery.fingerprint)?;
        match resolution {
            Resolution::Duplicate { claim, unknown } => {
                if !unknown.is_empty() {
                    if let Some(time) = delivery.time
                        && !planted("alias-with-a-time-to-come")
                    {
                        self.check_not_ahead(core, case, time)?; // its row can raise a floor, too
                    }
                    self.check_space(core)?;
                    add_aliases(core, case, &unknown, claim.hash());
                }
                Ok(Some(Draft::Duplicate(claim)))
            }
            Resolution::Mismatch { claim } => Ok(Some(Draft::Mismatch(claim))),
            Resolution::New => Ok(None),
        }
    }

    /// Errs while there is no room for new events: for a while after the disk was full, and until the
    /// ballast lies again, without which the next full disk could not be got over.
    pub(super) fn check_space(&self, core: &mut Core) -> Result<(), Error> {
        core.check_space(&*self.clock)?;
        let ballast = self.directory.ballast();
        if !ballast.is_missing() {
            return Ok(());
        }
        core.note_full(&*self.clock); // so that it is tried again now and then, not each time
        if ballast.lay()? {
            core.full_until_us = None;
            return Ok(());
        }
        Err(Error::full("laying the ballast without which no new event is admitted"))
    }

    /// Refuses an event time that cannot be true yet: believed, it would raise a floor over events
    /// still to come.
    fn check_not_ahead(&self, core: &Core, case: Case<'_>, time: EventMs) -> Result<(), Error> {
        let scope = case.handling.scope;
        let wall_ms = self.clock.wall_ms();
        let reference = if wall_ms >= RELEASE_WALL_MS {
            Some(wall_ms)
        } else {
            // A clock before this crate's release was never set: go by the events themselves.
            let stored = self.state.read().newest_event_time(scope);
            stored.max(core.group.pending.newest_event_time(scope)).map(|t| t.0)
        };
        let Some(reference) = reference else { return Ok(()) };
        let limit_ms = self.ahead_limit_ms(case.class());
        let ahead = time.0.saturating_sub(reference);
        match u64::try_from(ahead) {
            Ok(ahead_ms) if ahead_ms > limit_ms => Err(Error::future(ahead_ms, limit_ms)),
            _ => Ok(()),
        }
    }

    pub(super) fn run<T>(
        &self,
        core: &mut Core,
        case: Case<'_>,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Ran<T> {
        if !core.group.has_begun {
            self.begin_group(core);
        }
        let own = std::mem::take(&mut core.spare);
        let origin = Origin { engine: self, scope: case.handling.scope, sender: case.sender };
        let stage = Stage::new(own, &core.tip, Some(origin), self.config.result_max_bytes);
        let (stage, value) = match catch_unwind(AssertUnwindSafe(|| handler(stage))) {
            Ok((stage, Ok(value))) => (stage, value),
            Ok((stage, Err(error))) => {
                let storage = match stage.finish() {
                    Ok(staged) if planted("failed-event-leaks-into-its-group") => {
                        self.stage_rows(core, staged.overlay);
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
        Ran::Draft(self.keep(core, case, staged, value))
    }

    /// What the group keeps of an event whose handler succeeded.
    fn keep<T>(&self, core: &mut Core, case: Case<'_>, staged: Staged, value: T) -> Draft<T> {
        let (result, refused) = match staged.verdict {
            Verdict::Skip => return Draft::Skipped(value),
            Verdict::Refuse(bytes) => (Some(bytes), true),
            Verdict::Keep => {
                self.stage_rows(core, staged.overlay);
                if !staged.messages.is_empty() {
                    self.stage_messages(core, case.handling.scope, staged.messages);
                }
                (staged.result, false)
            }
        };
        let result_bytes = result.as_ref().map_or(0, Vec::len);
        core.group.staged_bytes = core.group.staged_bytes.saturating_add(result_bytes);
        let claim = add_claim(core, case, result, refused);
        let reserved = self.release(core, &case.delivery.ids);
        add_aliases(core, case, &reserved, claim.hash);
        if refused { Draft::Refused(value, claim) } else { Draft::Applied(value, claim) }
    }
}

impl Engine {
    /// Adds the writes of an event that succeeded to the open group.
    pub(crate) fn stage_rows(&self, core: &mut Core, own: Overlay) {
        let seq = core.seq.next();
        let from = core.group.batch.end();
        core.group.staged_bytes = core.group.staged_bytes.saturating_add(own.bytes());
        own.write(&mut core.group.batch);
        self.memtable.absorb(seq, core.group.batch.rows_from(from));
        core.spare = own.cleared();
    }
}

fn add_claim(
    core: &mut Core,
    case: Case<'_>,
    result: Option<Vec<u8>>,
    refused: bool,
) -> PendingClaim {
    let Case { handling, delivery, .. } = case;
    let pending = &mut core.group.pending;
    let (ids, fingerprint) = (&delivery.ids, delivery.fingerprint);
    let claim = PendingClaim {
        hash: ids.first().copied().unwrap_or_default(),
        place: pending.next_place(),
        scope: handling.scope,
        class: case.class(),
        event_time: delivery.time,
        kind: PendingKind::Claim { fingerprint, result, refused },
        result_retention_ms: handling.result_retention_ms,
    };
    if ids.is_empty() {
        return claim; // a position alone settles it
    }
    pending.add(claim.clone());
    if ids.len() > 1 {
        let is_new = |i: usize, id: &IdHash| !ids.iter().take(i).any(|earlier| earlier == id);
        let aliases = ids.iter().enumerate().skip(1).filter(|(i, id)| is_new(*i, id));
        let aliases: Vec<IdHash> = aliases.map(|(_, id)| *id).collect();
        add_aliases(core, case, &aliases, claim.hash);
    }
    claim
}

fn add_aliases(core: &mut Core, case: Case<'_>, ids: &[IdHash], primary: IdHash) {
    let pending = &mut core.group.pending;
    for id in ids {
        let place = pending.next_place();
        pending.add(PendingClaim {
            hash: *id,
            place,
            scope: case.handling.scope,
            class: case.class(),
            event_time: case.delivery.time,
            kind: PendingKind::Alias { primary },
            result_retention_ms: None,
        });
    }
}

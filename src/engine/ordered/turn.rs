//! What happens to positions while their caller holds the write slot.
//!
//! Owns the order of the checks. What must hold: OT1. A row that was changed is staged before the turn ends,
//! whatever became of the handler. OT2. Of the rows that one turn makes of a source at most two are staged:
//! one that makes the group dirty, and the last.

use super::super::Engine;
use super::super::core::Core;
use super::super::process::{Case, Draft, Ran};
use super::super::stage::Stage;
use super::row::{Moment, PositionRow, Standing};
use super::{Source, read_row};
use crate::base::canary::planted;
use crate::base::error::{BoxError, Error};
use crate::base::ids::{ClassId, WallMs};
use crate::base::limits::FAILED_POSITIONS_MAX;
use crate::claims::resolve::{Resolution, Resolver};
use crate::storage::tables::TableId;

/// A source's row in one holding of the slot.
#[derive(Debug)]
pub(crate) struct Sitting {
    pub(crate) row: PositionRow,
    /// Now, for what moves the row in this turn.
    pub(super) now: Moment,
    pub(super) is_changed: bool,
    /// Whether a position failed in this turn.
    has_failed: bool,
}

/// What became of a position handed in.
pub(crate) enum Placed<T> {
    /// It was handled, or failed, or its event's id had the answer; and when the source moved, if it did.
    Ran(Ran<T>, Moment),
    /// The source has moved past it.
    Settled(Moment),
    Blocked {
        at: u64,
    },
    Fenced {
        epoch: u64,
    },
}

impl<T> Placed<T> {
    fn failed(error: Error) -> Self {
        Self::Ran(Ran::Failed(error), Moment::default())
    }
}

impl Engine {
    /// Reads a source's row to handle positions by. The caller holds the slot.
    pub(crate) fn sit(
        &self,
        core: &mut Core,
        source: &Source,
        class: ClassId,
    ) -> Result<Sitting, Error> {
        if !core.group.has_begun {
            self.begin_group(core);
        }
        let row = PositionRow::of(read_row(&core.tip, source)?, source.owner.incarnation);
        if let Some(last) = row.last {
            self.owed.clear(source, last);
        }
        let now = Moment { wall: WallMs(self.clock.wall_ms()), class, at: self.now(class) };
        Ok(Sitting { row, now, is_changed: false, has_failed: false })
    }

    /// Stages the row if it was changed.
    pub(crate) fn rise(&self, core: &mut Core, source: &Source, sitting: &mut Sitting) {
        if !std::mem::take(&mut sitting.is_changed) {
            return;
        }
        let row = sitting.row.encode();
        let group = &mut core.group;
        group.staged_bytes = group.staged_bytes.saturating_add(source.key.len() + row.len());
        group.batch.put(TableId::Positions, &source.key, &row);
        self.memtable.put(core.seq.next(), TableId::Positions, &source.key, Some(&row));
    }

    /// Handles one position in the open group.
    pub(crate) fn place<T>(
        &self,
        core: &mut Core,
        sitting: &mut Sitting,
        (source, position): (&Source, u64),
        case: Case<'_>,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Placed<T> {
        let standing = sitting.row.judge(source.owner, position);
        let owed = self.owed.below(source, position);
        match (standing, owed) {
            (Standing::Stale { newest }, _) => return Placed::failed(source.stale(newest)),
            (Standing::Fenced { epoch }, _) => return Placed::Fenced { epoch },
            (Standing::Settled, _) => return self.behind(core, sitting, case, handler),
            (Standing::Blocked { .. }, _)
                if sitting.has_failed && planted("blocked-not-seen-inside-one-batch") => {}
            (Standing::Blocked { at }, owed) => {
                return Placed::Blocked { at: owed.map_or(at, |owed| owed.min(at)) };
            }
            (_, Some(at)) => return Placed::Blocked { at },
            (Standing::Crowded, _) => return Placed::failed(crowded()),
            (Standing::Open, _) => {}
        }
        let ran = self.handle(core, case, handler);
        match &ran {
            Ran::Draft(
                Draft::Applied(..) | Draft::Refused(..) | Draft::Duplicate(_) | Draft::Skipped(_),
            ) => {
                sitting.row.settle(position, sitting.now);
                sitting.is_changed = !planted("position-committed-apart-from-its-state");
                self.owed.clear(source, position);
            }
            // What may pass by itself is the store's trouble, not this position's.
            Ran::Failed(error) if error.is_retryable() => {}
            // Somebody's lease on its event: not settled, so nothing may pass it.
            Ran::Draft(Draft::InProgress { .. } | Draft::Fenced { .. } | Draft::Dead { .. })
            | Ran::Draft(Draft::Mismatch(_) | Draft::TooLate { .. })
            | Ran::Failed(_)
            | Ran::Panicked(_) => {
                let is_new = sitting.row.fail(position);
                sitting.is_changed |= is_new && !planted("failed-position-not-marked-durably");
                sitting.has_failed = true;
            }
        }
        if sitting.is_changed && !core.group.is_dirty() {
            self.rise(core, source, sitting);
        }
        Placed::Ran(ran, sitting.now)
    }

    /// The answer to a position that the source has moved past: what its event's id says, if it has one
    /// and that is known.
    fn behind<T>(
        &self,
        core: &mut Core,
        sitting: &Sitting,
        case: Case<'_>,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Placed<T> {
        let delivery = case.delivery;
        if delivery.ids.is_empty() {
            return Placed::Settled(sitting.row.moved);
        }
        let resolved = Resolver::new(&self.state, case.classes, Some(&core.group.pending), None)
            .resolve(&delivery.ids, delivery.fingerprint);
        match resolved {
            Ok(Resolution::New) => Placed::Settled(sitting.row.moved),
            // The handler does not run for what is known.
            Ok(_) => Placed::Ran(self.handle(core, case, handler), sitting.row.moved),
            Err(error) => Placed::failed(error),
        }
    }
}

fn crowded() -> Error {
    let limit = FAILED_POSITIONS_MAX as u64;
    Error::limit("the number of failed positions of a source", limit + 1, limit)
}

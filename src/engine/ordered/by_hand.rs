//! What is done to a source's row besides handling: registering it, owning it, giving a position up.
//!
//! What must hold: OH1. Each is durable before it is answered. OH2. An incarnation or an owner's epoch, once
//! durable, never goes back.

use std::time::Duration;

use super::super::audit::Note;
use super::super::core::Core;
use super::super::{Done, Engine};
use super::row::{Moment, PositionRow, Standing};
use super::{Placed, Sitting, Source};
use crate::base::error::Error;
use crate::base::ids::ClassId;
use crate::base::sync::Arc;

/// What became of a claim of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owning {
    Held,
    Fenced { epoch: u64 },
}

/// What became of giving a position up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipping {
    Skipped,
    Settled(Moment),
    Blocked { at: u64 },
    Fenced { epoch: u64 },
}

impl Engine {
    /// Sees to it that a source has a row of this incarnation.
    pub(crate) fn register_source(&self, source: &Source, class: ClassId) -> Result<(), Error> {
        let is_ours = |row: &PositionRow| row.incarnation >= source.owner.incarnation;
        match self.position(source)? {
            Some(row) if row.incarnation > source.owner.incarnation => {
                return Err(source.stale(row.incarnation));
            }
            Some(row) if is_ours(&row) => return Ok(()),
            _ => {}
        }
        let ((), done) = self.change_row(source, class, None, |_, sitting| {
            if sitting.row.incarnation > source.owner.incarnation {
                return Err(source.stale(sitting.row.incarnation));
            }
            sitting.is_changed = true; // the row is read as this incarnation's, stored or not
            Ok(())
        })?;
        done.map_or(Ok(()), |done| self.wait(&done).map(drop))
    }

    /// Makes this epoch the newest owner's, unless there is a newer one.
    pub(crate) fn own_source(
        &self,
        source: &Source,
        (epoch, class): (u64, ClassId),
        max_wait: Option<Duration>,
    ) -> Result<Owning, Error> {
        let (owning, done) = self.change_row(source, class, max_wait, |_, sitting| {
            let row = &mut sitting.row;
            if row.incarnation > source.owner.incarnation {
                return Err(source.stale(row.incarnation));
            }
            if row.owner > epoch {
                return Ok(Owning::Fenced { epoch: row.owner });
            }
            sitting.is_changed = row.owner < epoch;
            row.owner = epoch;
            Ok(Owning::Held)
        })?;
        done.map(|done| self.wait(&done)).transpose()?;
        Ok(owning)
    }

    /// Settles a position without handling it.
    pub(crate) fn skip_position(
        &self,
        (source, position): (&Source, u64),
        (class, note): (ClassId, Note),
        max_wait: Option<Duration>,
    ) -> Result<Skipping, Error> {
        let (skipping, done) = self.change_row(source, class, max_wait, |core, sitting| {
            let owed = self.owed.below(source, position);
            match (sitting.row.judge(source.owner, position), owed) {
                (Standing::Stale { newest }, _) => return Err(source.stale(newest)),
                (Standing::Fenced { epoch }, _) => return Ok(Skipping::Fenced { epoch }),
                (Standing::Settled, _) => return Ok(Skipping::Settled(sitting.row.moved)),
                (Standing::Blocked { at }, owed) => {
                    let at = owed.map_or(at, |owed| owed.min(at));
                    return Ok(Skipping::Blocked { at });
                }
                (_, Some(at)) => return Ok(Skipping::Blocked { at }),
                (Standing::Open | Standing::Crowded, None) => {}
            }
            let now = sitting.now;
            sitting.row.settle(position, now);
            self.note_by_hand(core, &note)?;
            sitting.row.skipped = sitting.row.skipped.saturating_add(1);
            sitting.is_changed = true;
            self.owed.clear(source, position);
            Ok(Skipping::Skipped)
        })?;
        if let Some(done) = done
            && let Err(error) = self.wait(&done)
        {
            self.owed.add(source, position);
            return Err(error);
        }
        Ok(skipping)
    }

    /// Changes a source's row in a turn of its own; what `change` says of it, and what that waits for.
    fn change_row<T>(
        &self,
        source: &Source,
        class: ClassId,
        max_wait: Option<Duration>,
        change: impl FnOnce(&mut Core, &mut Sitting) -> Result<T, Error>,
    ) -> Result<(T, Option<Arc<Done>>), Error> {
        self.check_open()?;
        let mut turn = self.turn(max_wait)?;
        self.check_generation(source.scope())?;
        let mut sitting = self.sit(turn.core(), source, class)?;
        let changed = change(turn.core(), &mut sitting);
        self.rise(turn.core(), source, &mut sitting);
        let done = turn.attach_waiting();
        drop(turn);
        match (changed, done) {
            (Ok(value), done) => Ok((value, done)),
            (Err(error), Some(done)) => {
                self.wait(&done)?; // the error rests on what that group wrote
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The planted bug: the source moves in a group after the one that holds the state.
    pub(crate) fn settle_apart<T>(
        &self,
        (source, position): (&Source, u64),
        class: ClassId,
        placed: &Placed<T>,
    ) -> Result<(), Error> {
        if !matches!(placed, Placed::Ran(..)) {
            return Ok(());
        }
        let ((), done) = self.change_row(source, class, None, |_, sitting| {
            let now = sitting.now;
            sitting.row.settle(position, now);
            sitting.is_changed = true;
            Ok(())
        })?;
        done.map_or(Ok(()), |done| self.wait(&done).map(drop))
    }
}

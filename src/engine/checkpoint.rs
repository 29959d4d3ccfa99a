//! Checkpoints: the groups that the journal made durable are written to redb, many at once.
//!
//! The memtable holds what redb does not have yet. At the start of a group it may be *frozen*: what it holds
//! by then is written by one durable redb commit, on the checkpoint thread and outside the write slot, while
//! the groups after it go on in a fresh generation and, as a rule, in the other segment of the journal.
//!
//! What must hold:
//! CP1. Only durable groups are written, and all groups up to one, with their mark and the place where the
//!     journal goes on after it: a crash before the commit leaves the journal to replay, after it nothing.
//! CP2. A segment is used again only once a checkpoint holds every record in it. CP3. Readers see the same
//!     before, during and after. CP4. When a checkpoint cannot keep up, intake waits; nothing is dropped.

use std::time::Duration;

use super::Engine;
use super::core::Core;
use super::flight::Frozen;
use super::writer::PART_ROWS;
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::Seq;
use crate::base::sync::{Arc, Ordering};
use crate::claims::state::State;
use crate::storage::batch::Batch;
use crate::storage::journal::End;

/// What no checkpoint holds is written after this at the latest.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(10);
/// How long checkpoints rest after a failure.
const AFTER_ERROR: Duration = Duration::from_millis(500);

impl Engine {
    /// To be called in the slot before the first handler of a group runs, and before any row of it is
    /// staged.
    pub(crate) fn begin_group(&self, core: &mut Core) {
        if let Some(journal) = &core.journal {
            let due = journal.used_bytes() >= journal.segment_bytes() / 4 * 3;
            if self.memtable.is_empty() {
                self.note_unstored();
                self.wake_checkpoints(); // so that what comes now is stored in a while at the latest
            } else if due && self.freeze(core) {
                self.wake_checkpoints();
            }
        }
        core.group.has_begun = true;
        core.tip = Arc::new(self.memtable.snapshot(self.state.read().snapshot.stored(), Seq::MAX));
    }

    /// Makes all that was closed so far the next checkpoint, unless one is under way. The caller
    /// holds the slot, and the open group is empty.
    fn freeze(&self, core: &mut Core) -> bool {
        if self.memtable.is_empty() || self.flight.frozen().is_some() || !self.memtable.freeze() {
            return false;
        }
        self.note_unstored();
        let end = core.journal.as_ref().map(|journal| journal.end());
        self.flight.freeze(Frozen { through: core.seq, end });
        self.switch_segment(core);
        true
    }

    /// From now on there is something that no checkpoint holds.
    fn note_unstored(&self) {
        self.unstored_since_us.store(self.clock.stopwatch_us(), Ordering::Relaxed);
    }

    fn is_checkpoint_due(&self) -> bool {
        let since_us = self.unstored_since_us.load(Ordering::Relaxed);
        let age_us = self.clock.stopwatch_us().saturating_sub(since_us);
        !self.memtable.is_empty() && Duration::from_micros(age_us) >= CHECKPOINT_AFTER
    }

    /// Goes on in the other segment if a checkpoint holds all that is in it (CP2).
    fn switch_segment(&self, core: &mut Core) -> bool {
        let Some(journal) = &mut core.journal else { return false };
        let other = usize::from(1 - (journal.current() & 1));
        let is_free = core.segment_last[other] <= self.flight.applied()
            || planted("journal-segment-reused-too-early");
        if is_free {
            journal.switch();
        }
        is_free
    }

    /// Sees that the journal can take a record of this batch; false if it cannot, and the group must
    /// become a commit of its own. No group flies.
    pub(super) fn make_room(&self, core: &mut Core, batch: &Batch) -> Result<bool, Error> {
        let bytes = batch.bytes().len();
        let Some(journal) = &core.journal else { return Ok(false) };
        if journal.fits(bytes) {
            return Ok(true);
        }
        if !journal.fits_empty(bytes) {
            return Ok(false);
        }
        self.counters.journal_full.add(1);
        self.checkpoint_frozen()?; // waits for the one that is under way
        Ok(self.switch_segment(core))
    }

    /// Writes what is frozen to redb, if anything is. Whoever comes while somebody is at it waits.
    pub(crate) fn checkpoint_frozen(&self) -> Result<(), Error> {
        let _one_at_a_time = self.checkpointing.lock();
        let Some(frozen) = self.flight.frozen() else { return Ok(()) };
        if !self.flight.wait_until_durable(frozen.through) {
            return Err(Error::io(
                "waiting for the journal before a checkpoint",
                std::io::Error::other("a group could not be made durable"),
            ));
        }
        self.apply_frozen(frozen.through, frozen.end, |_| ())
    }

    /// Writes the frozen rows, all up to `through`: many of them in parts first, the last group's, the
    /// mark and what is left in one durable commit. Then readers get its snapshot, and what `accept` makes
    /// of the image, in one step.
    pub(super) fn apply_frozen(
        &self,
        through: Seq,
        end: Option<End>,
        accept: impl FnOnce(&mut State),
    ) -> Result<(), Error> {
        let started_us = self.clock.stopwatch_us();
        let parts = self.memtable.frozen_len() > PART_ROWS;
        if parts {
            self.apply_parts(through)?;
        }
        let writer = self.writer.lock();
        let stored = writer.apply_rest(&self.memtable, through, end, parts)?;
        self.publish(through, Some(stored), accept);
        self.flight.note_applied(through);
        drop(writer);
        self.counters.checkpoints.add(1);
        let us = self.clock.stopwatch_us().saturating_sub(started_us);
        self.counters.checkpoint_max_us.raise_to(us);
        Ok(())
    }

    /// What the checkpoint thread does when it is called, or when its time has come; returns how long it
    /// may sleep then.
    pub(super) fn checkpoint_due(&self) -> Option<Duration> {
        let written = match self.flight.frozen() {
            Some(_) => self.checkpoint_frozen(),
            None if self.is_checkpoint_due() => self.checkpoint_soon(),
            None => Ok(()),
        };
        if written.is_err() {
            // Heals, or says why it cannot; either way it is tried again in a while.
            if let Ok(mut turn) = self.turn(None)
                && written.as_ref().is_err_and(Error::is_full)
            {
                turn.core().note_full(&*self.clock);
            }
            return Some(AFTER_ERROR);
        }
        (!self.memtable.is_empty()).then_some(CHECKPOINT_AFTER)
    }

    fn apply_parts(&self, through: Seq) -> Result<(), Error> {
        let mut after = None;
        loop {
            // Given up between two parts, so that maintenance gets its turn.
            after = self.writer.lock().apply_part(&self.memtable, through, after.as_ref())?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes what was closed by now to redb, outside the slot, so that a commit made in the slot soon
    /// after has little to do.
    pub(crate) fn checkpoint_soon(&self) -> Result<(), Error> {
        self.checkpoint_frozen()?;
        let mut turn = self.turn(None)?;
        turn.finish_group();
        let core = turn.core();
        core.ready(self)?;
        self.freeze(core);
        drop(turn);
        self.checkpoint_frozen()
    }

    /// Writes all that was closed to redb. The caller holds the slot, and the open group is empty.
    pub(crate) fn checkpoint_here(&self, core: &mut Core) -> Result<(), Error> {
        self.clear_the_air();
        core.ready(self)?;
        let written = self.checkpoint_frozen().and_then(|()| {
            self.freeze(core);
            self.checkpoint_frozen()
        });
        if written.is_err() {
            core.heal(self)?;
        }
        written
    }
}

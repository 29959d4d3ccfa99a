//! One holding of the write slot, and how it ends.
//!
//! Owns the rule of who closes a group: whoever holds the slot and sees nobody behind him, or a full
//! group; but while a group is in flight, one that is not full waits for its landing, and whoever lands it
//! closes it himself, or after a few groups names one of those who wait: he runs already, they sleep. What must hold: Y1. However a turn ends, by return, error or panic, the slot is passed on and
//! no group that somebody waits for is left open without a next holder.

use std::time::Duration;

use super::Engine;
use super::commit::Takeoff;
use super::core::Core;
use super::flight::Crashed;
use super::group::Done;
use crate::base::error::Error;
use crate::base::sync::{Arc, MutexGuard};

/// How many groups a caller closes for others after his own: each keeps his own answer back for a sync.
const LEADS: usize = 4;

/// The slot, held.
pub(crate) struct Turn<'e> {
    engine: &'e Engine,
    core: Option<MutexGuard<'e, Core>>,
}

impl Engine {
    /// Waits for the write slot and sees that the store can write.
    pub(crate) fn turn(&self, max_wait: Option<Duration>) -> Result<Turn<'_>, Error> {
        self.slot.acquire(&*self.clock, max_wait)?;
        let mut turn = Turn { engine: self, core: Some(self.core.lock()) };
        let core = turn.core();
        core.ready(self)?;
        Ok(turn)
    }
}

impl<'e> Turn<'e> {
    #[allow(clippy::expect_used)] // taken only by `drop`
    pub(crate) fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("the turn is not over")
    }

    /// Ties this caller's answer to all that its event can have read: the open group if there is
    /// anything in it, else the one in flight.
    pub(crate) fn attach(&mut self) -> Option<Arc<Done>> {
        let engine = self.engine;
        let group = &self.core().group;
        if group.is_dirty() { Some(group.done.clone()) } else { engine.flight.flying() }
    }

    /// As `attach`; the caller will wait, so the group may not wait for further events.
    pub(crate) fn attach_waiting(&mut self) -> Option<Arc<Done>> {
        let done = self.attach();
        if let Some(done) = &done {
            done.promise();
        }
        done
    }

    /// Makes the open group durable at once, keeping the slot.
    pub(crate) fn finish_group(&mut self) {
        let engine = self.engine;
        // Its error is told to those who wait for the group.
        let _ = engine.finish_group(self.core());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            let parked = self.engine.end_turn(core);
            self.engine.lead(parked);
        }
    }
}

impl Engine {
    /// Makes a closed group durable, and those that waited behind it.
    pub(crate) fn land_and_lead(&self, takeoff: Takeoff) {
        let landed = self.land(takeoff);
        let parked = self.after(landed);
        self.lead(parked);
    }

    /// Closes groups that waited for one to land.
    fn lead(&self, mut parked: Option<Arc<Done>>) {
        for _ in 0..LEADS {
            if parked.is_none() {
                return;
            }
            // If the slot cannot be had, those who wait were answered with the reason.
            let Ok(mut turn) = self.turn(None) else { return };
            parked = turn.core.take().and_then(|core| self.end_turn(core));
        }
        if let Some(parked) = parked
            && !parked.lead()
        {
            self.sync_open_group();
        }
    }

    /// Gives the slot up and, if the open group is to be closed now, makes it durable or leaves that to
    /// the sync thread; returns the group that waits to be closed then.
    fn end_turn<'e>(&'e self, mut core: MutexGuard<'e, Core>) -> Option<Arc<Done>> {
        let is_wanted = core.group.done.is_wanted();
        let mut takeoff = None;
        if !core.group.is_dirty() {
            core.group.events = 0; // repeats alone, which no commit will count
            core.group.has_begun = false; // what the next reads from is fixed anew
        } else if core.group.is_full() {
            takeoff = self.close_group(&mut core);
        } else if !is_wanted && !self.handover.is_open() {
            // The next call, or who waits for a ticket, will close it.
        } else if !self.flight.park(&core.group.done) {
            if is_wanted {
                // Somebody behind us will add to the group and then stand here himself.
                drop(core);
                if self.slot.pass(&*self.clock) {
                    return None;
                }
                core = self.core.lock();
            }
            takeoff = self.close_group(&mut core);
        }
        let mut landed = Ok(None);
        if let Some(heavy) = takeoff.take_if(|takeoff| !takeoff.may_fly()) {
            landed = self.land(heavy);
        }
        let flies = takeoff.is_some();
        let mine = if is_wanted { takeoff } else { takeoff.and_then(|t| self.handover.give(t)) };
        drop(core);
        self.slot.release(&*self.clock);
        match mine {
            Some(takeoff) => landed = self.land(takeoff),
            None if flies => self.wake_sync_thread(),
            None => {}
        }
        self.after(landed)
    }

    /// Waits until no group flies. The caller holds the slot.
    ///
    /// A group that was handed over is landed here: the sync thread may be waiting for this very slot, to close
    /// the group behind the one that it landed last.
    pub(super) fn clear_the_air(&self) {
        if let Some(takeoff) = self.handover.take()
            && let Err(crashed) = self.land(takeoff)
        {
            self.flight.crashed(crashed);
        }
        self.flight.wait_until_clear();
    }

    /// After a group has landed, or crashed; the slot was given up.
    fn after(&self, landed: Result<Option<Arc<Done>>, Crashed>) -> Option<Arc<Done>> {
        landed.unwrap_or_else(|crashed| {
            self.flight.crashed(crashed);
            // Recovering answers everybody who waits for the group, or says why it cannot.
            drop(self.turn(None));
            None
        })
    }
}

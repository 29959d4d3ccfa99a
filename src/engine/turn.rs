//! One holding of the write slot, and how it ends.
//!
//! Owns the rule of who closes a group: whoever holds the slot and sees nobody behind him, or a full
//! group. What must hold: Y1. However a turn ends, by return, error or panic, the slot is passed on and
//! no group that somebody waits for is left open without a next holder.

use std::time::Duration;

use super::Engine;
use super::core::Core;
use super::group::Done;
use crate::base::error::Error;
use crate::base::sync::{Arc, MutexGuard};

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
        core.ready(self, &self.state)?;
        Ok(turn)
    }
}

impl<'e> Turn<'e> {
    #[allow(clippy::expect_used)] // taken only by `drop`
    pub(crate) fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("the turn is not over")
    }

    /// Ties this caller's answer to the open group if there is anything in it.
    pub(crate) fn attach(&mut self) -> Option<Arc<Done>> {
        let group = &self.core().group;
        group.is_dirty().then(|| group.done.clone())
    }

    /// As `attach`, and the group may not wait for further events.
    pub(crate) fn attach_waiting(&mut self) -> Option<Arc<Done>> {
        let done = self.attach();
        if let Some(done) = &done {
            done.want();
        }
        done
    }

    /// Closes the open group at once, keeping the slot.
    pub(crate) fn close_group(&mut self) {
        let engine = self.engine;
        engine.close_group(self.core());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let engine = self.engine;
        let Some(mut core) = self.core.take() else { return };
        let open = core.group.is_dirty();
        if !open {
            core.group.events = 0; // repeats alone, which no commit will count
        }
        if open && core.group.is_full() {
            engine.close_group(&mut core);
        } else if open && core.group.done.is_wanted() {
            // Somebody behind us will add to the group and then stand here himself.
            drop(core);
            if engine.slot.pass() {
                return;
            }
            core = engine.core.lock();
            engine.close_group(&mut core);
        } else if open {
            engine.wake_sync_thread();
        }
        drop(core);
        engine.slot.release();
    }
}

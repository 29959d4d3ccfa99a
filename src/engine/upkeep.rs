//! What callers do for the store besides their own events, and calls that concern the whole of it.
//!
//! What must hold: KP1. Intake slows down while maintenance is behind; nothing is dropped for it. KP2.
//! A migration commits its writes together with the version they bring.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Engine;
use super::overlay::Overlay;
use super::stage::Stage;
use crate::base::error::{BoxError, Error};

impl Engine {
    /// A little maintenance on a caller's thread, where the store may have none of its own.
    pub(crate) fn work_a_little(&self) {
        if !self.config.threads && !self.slot.is_mine() {
            // What fails here fails again, and is reported, at the next commit.
            let _ = self.checkpoint_frozen();
            self.try_maintain_step();
        }
    }

    /// Holds a new event up while more claims are in memory than should be.
    pub(crate) fn throttle(&self) -> Result<(), Error> {
        let limit = self.config.recent_max_claims.saturating_add(self.config.recent_max_claims / 4);
        if self.state.read().recent.len() < limit || self.slot.is_mine() {
            return Ok(());
        }
        self.counters.throttled.add(1);
        while self.state.read().recent.len() >= limit {
            match self.maintain_step() {
                Ok(None) => break,
                Ok(Some(_)) => {}
                // A recovery came between; what was under way is begun again.
                Err(error) if error.is_view_ended() && self.check_open().is_ok() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Brings the application's state to `version` if it is below.
    pub(crate) fn migrate(
        &self,
        version: u64,
        migrate: impl for<'g> FnOnce(u64, Stage<'g>) -> (Stage<'g>, Result<(), BoxError>),
    ) -> Result<(), Error> {
        let mut turn = self.turn(None)?;
        let from = self.registry.read().state_version;
        if from > version {
            return Err(Error::newer("the application's state", from, version));
        }
        if from == version {
            return Ok(());
        }
        turn.finish_group();
        let core = turn.core();
        core.ready(self)?;
        self.begin_group(core);
        let stage = Stage::new(Overlay::default(), &core.tip, None, self.config.result_max_bytes);
        let (stage, result) = match catch_unwind(AssertUnwindSafe(|| migrate(from, stage))) {
            Ok(ran) => ran,
            Err(panic) => {
                drop(turn);
                resume_unwind(panic);
            }
        };
        let staged = stage.finish()?;
        result.map_err(Error::handler_failed)?;
        self.stage_rows(core, staged.overlay);
        self.stage_state_version(core, version);
        let done = core.group.done.clone();
        done.promise();
        turn.finish_group();
        drop(turn);
        self.wait(&done)?;
        self.registry.write().state_version = version;
        Ok(())
    }
}

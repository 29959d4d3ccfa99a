//! Reading without the write slot: views, look-ups; and forgetting one id by hand.
//!
//! What must hold: VW1. A view opens on the last durable group and sees every call that had returned.
//! VW2. A view that pins too much is ended, and says so; it never shows another state than its own.

use std::sync::Weak;
use std::time::Duration;

use super::core::Core;
use super::process::Handling;
use super::{Done, Engine};
use crate::base::error::Error;
use crate::base::ids::{IdHash, Seq};
use crate::base::sync::{Arc, Mutex};
use crate::claims::resolve::{Known, OpenGroup, Resolver};
use crate::claims::state::State;
use crate::storage::snapshot::Snapshot;

/// A superseded snapshot that somebody may still read.
#[derive(Debug)]
struct Old {
    snapshot: Weak<Snapshot>,
    written_bytes: u64,
    opened_us: u64,
}

/// The snapshots that readers may hold, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Views {
    old: Mutex<Vec<Old>>,
}

/// A durable snapshot held for reading.
#[derive(Debug, Clone)]
pub(crate) struct PinnedView {
    pub(crate) snapshot: Arc<Snapshot>,
}

impl Views {
    /// Notes a snapshot that is no longer the newest, and ends those that pin too much.
    fn supersede(&self, snapshot: &Arc<Snapshot>, written_bytes: u64, now_us: u64, limit: u64) {
        let mut old = self.old.lock();
        old.push(Old { snapshot: Arc::downgrade(snapshot), written_bytes, opened_us: now_us });
        old.retain(|o| match o.snapshot.upgrade() {
            None => false,
            Some(held) if written_bytes.saturating_sub(o.written_bytes) > limit => {
                held.end();
                false
            }
            Some(_) => true,
        });
    }

    /// Age of the oldest snapshot still held, in microseconds; zero if none is.
    pub(crate) fn oldest_us(&self, now_us: u64) -> u64 {
        let old = self.old.lock();
        let held = old.iter().filter(|o| o.snapshot.strong_count() > 0);
        held.map(|o| now_us.saturating_sub(o.opened_us)).max().unwrap_or(0)
    }
}

impl Engine {
    /// Gives readers a new durable snapshot, and in the same step what `accept` changes.
    pub(crate) fn publish(
        &self,
        core: &Core,
        snapshot: Arc<Snapshot>,
        accept: impl FnOnce(&mut State),
    ) {
        let previous = {
            let mut state = self.state.write();
            accept(&mut state);
            std::mem::replace(&mut state.snapshot, snapshot)
        };
        let written_bytes = core.db().map(|db| db.written_bytes()).unwrap_or(0);
        let limit = self.config.view_max_pinned_bytes;
        // A snapshot that only this call still holds is nobody's view.
        if Arc::strong_count(&previous) > 1 {
            self.views.supersede(&previous, written_bytes, self.clock.stopwatch_us(), limit);
        }
    }

    /// The last durable group, to read from.
    pub(crate) fn view(&self) -> Result<PinnedView, Error> {
        self.check_open()?;
        let snapshot = self.state.read().snapshot.clone();
        if snapshot.is_over() && !self.slot.is_mine() {
            // Behind the slot the store is healed, or says why it cannot be.
            let _turn = self.turn(None)?;
            return Ok(PinnedView { snapshot: self.state.read().snapshot.clone() });
        }
        Ok(PinnedView { snapshot })
    }

    /// The durable claim that an id stands for.
    pub(crate) fn lookup(&self, handling: &Handling, id: IdHash) -> Result<Option<Known>, Error> {
        self.check_open()?;
        let classes = self.classes_of(handling);
        let resolver = Resolver::new(&self.state, &classes, None, None);
        let found = resolver.claim_under(id);
        let is_stale = match &found {
            Ok(Some(_)) => false,
            // A commit that failed may be durable all the same: "not known" would be a guess.
            Ok(None) => self.state.read().snapshot.is_over() && !self.slot.is_mine(),
            Err(error) => error.is_view_ended() || error.is_io(),
        };
        if is_stale {
            // A recovery is due, or replaced the snapshot under us; behind the slot it is over.
            let _turn = self.turn(None)?;
            return resolver.claim_under(id);
        }
        found
    }

    /// Stages that an id is forgotten, with the event that it belongs to; `None` if there is none.
    pub(crate) fn forget(
        &self,
        handling: &Handling,
        id: IdHash,
        max_wait: Option<Duration>,
    ) -> Result<Option<Arc<Done>>, Error> {
        self.check_open()?;
        let mut turn = self.turn(max_wait)?;
        let core = turn.core();
        let classes = self.classes_of(handling);
        let mut any = false;
        loop {
            let seq = Seq(core.seq.0.saturating_add(1));
            let group = OpenGroup { seq, pending: &core.group.pending };
            let resolver = Resolver::new(&self.state, &classes, Some(group), None);
            let Some(claim) = resolver.claim_under(id)? else { break };
            core.group.pending.forget(claim.hash());
            any = true;
        }
        Ok(if any { turn.attach_waiting() } else { None })
    }
}

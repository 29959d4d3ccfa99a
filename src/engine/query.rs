//! Reading without the write slot: views, look-ups; and forgetting one id by hand.
//!
//! What must hold: VW1. A view opens on the last durable group and sees every call that had returned.
//! VW2. A view that pins too much is ended, and says so; it never shows another state than its own.

use std::sync::Weak;
use std::time::Duration;

use super::audit::Note;
use super::process::Handling;
use super::{Done, Engine};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{IdHash, Seq};
use crate::base::sync::{Arc, Mutex};
use crate::claims::resolve::{Known, Resolver};
use crate::claims::state::State;
use crate::storage::snapshot::{Snapshot, Stored};

/// A superseded snapshot that somebody may still read.
#[derive(Debug)]
struct Old {
    stored: Weak<Stored>,
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
    /// Notes a snapshot that is no longer the newest, if anybody else holds it, and ends all noted
    /// ones that pin too much.
    fn supersede(&self, stored: Arc<Stored>, written_bytes: u64, now_us: u64, limit: u64) {
        let mut old = self.old.lock();
        if Arc::strong_count(&stored) > 1 {
            let stored = Arc::downgrade(&stored);
            old.push(Old { stored, written_bytes, opened_us: now_us });
        }
        drop(stored);
        old.retain(|o| match o.stored.upgrade() {
            None => false,
            Some(held)
                if written_bytes.saturating_sub(o.written_bytes) > limit
                    && !planted("view-that-pins-too-much-goes-on") =>
            {
                held.end();
                false
            }
            Some(_) => true,
        });
    }

    /// Age of the oldest snapshot still held, in microseconds; zero if none is.
    pub(crate) fn oldest_us(&self, now_us: u64) -> u64 {
        let old = self.old.lock();
        let held = old.iter().filter(|o| o.stored.strong_count() > 0);
        held.map(|o| now_us.saturating_sub(o.opened_us)).max().unwrap_or(0)
    }
}

impl Engine {
    /// Lets readers see all up to `seq`, now durable, and in the same step what `accept` changes.
    /// `stored` is a new snapshot of redb that holds all that was frozen.
    pub(crate) fn publish(
        &self,
        seq: Seq,
        stored: Option<Arc<Stored>>,
        accept: impl FnOnce(&mut State),
    ) {
        let is_new = stored.is_some();
        let previous = {
            let mut state = self.state.write();
            if is_new {
                self.memtable.drop_frozen();
            }
            let stored = stored.unwrap_or_else(|| state.snapshot.stored());
            let at = state.snapshot.at().max(seq);
            let snapshot = Arc::new(self.memtable.snapshot(stored, at));
            let previous = std::mem::replace(&mut state.snapshot, snapshot);
            if planted("group-published-in-two-steps") {
                drop(state);
                self.clock.wall_ms(); // a test's clock looks round while nobody is locked out
                state = self.state.write();
            }
            accept(&mut state);
            previous
        };
        if is_new {
            let limit = self.config.view_max_pinned_bytes;
            let written_bytes = previous.written_bytes();
            let stored = previous.stored();
            drop(previous);
            self.views.supersede(stored, written_bytes, self.clock.stopwatch_us(), limit);
        }
    }

    /// The last durable group, to read from.
    pub(crate) fn view(&self) -> Result<PinnedView, Error> {
        self.check_open()?;
        let snapshot = self.state.read().snapshot.clone();
        if planted("view-on-a-group-that-is-not-durable") {
            let snapshot = Arc::new(self.memtable.snapshot(snapshot.stored(), Seq::MAX));
            return Ok(PinnedView { snapshot });
        }
        if self.has_failed() && !self.slot.is_mine() {
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
            Ok(None) => self.has_failed() && !self.slot.is_mine(),
            Err(error) => error.is_view_ended() || error.is_io(),
        };
        if is_stale {
            // A recovery is due, or replaced the snapshot under us; behind the slot it is over.
            let _turn = self.turn(None)?;
            return resolver.claim_under(id);
        }
        found
    }

    /// Stages that an id is forgotten, with the event that it belongs to. Whether there is any, and what
    /// that answer waits for.
    pub(crate) fn forget(
        &self,
        handling: &Handling,
        id: IdHash,
        note: Option<&Note>,
        max_wait: Option<Duration>,
    ) -> Result<(bool, Option<Arc<Done>>), Error> {
        self.check_open()?;
        let mut turn = self.turn(max_wait)?;
        self.check_generation(handling.scope)?;
        let core = turn.core();
        let classes = self.classes_of(handling);
        let pending = Some(&core.group.pending);
        let claims = Resolver::new(&self.state, &classes, pending, None).claims_under(id)?;
        for claim in &claims {
            core.group.pending.forget(claim.hash());
        }
        let any = !claims.is_empty();
        if any && let Some(note) = note {
            self.note_by_hand(core, note)?;
        }
        if !any && planted("forget-answers-before-it-is-durable") {
            return Ok((false, None));
        }
        // "There is none" may rest on a tombstone of a group that is not durable yet.
        Ok((any, turn.attach_waiting()))
    }
}

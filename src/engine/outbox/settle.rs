//! Settling messages: acknowledged, failed, given up.
//!
//! A message is first marked in its lane, so that nobody else settles it; then its rows change in the open
//! group; then, once that is durable, the lane learns what became of it.
//!
//! What must hold: ST1. What was acknowledged durably is never handed out again. ST2. An acknowledgement
//! counts whichever hand-out it is for. ST3. After a commit that failed the message is offered again, if it is
//! still there.

use std::collections::HashSet;

use super::hand::{read_attempts, read_message};
use super::lane::{Lane, Wait};
use super::row::{self, MessagePlace, Tally};
use super::{Engine, Shared};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::DestinationId;
use crate::base::sync::MutexGuard;
use crate::engine::core::Core;
use crate::storage::tables::TableId;

/// A message marked as being settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked {
    pub(super) place: MessagePlace,
    pub(super) key_hash: Option<u128>,
    /// Attempts that have failed, so that there is a row of them.
    pub(super) failed: u32,
    /// It was given up and blocks its key.
    pub(super) blocks: bool,
}

impl Engine {
    /// Removes messages durably; how many of them were still there.
    pub(crate) fn acknowledge(
        &self,
        destination: DestinationId,
        places: &[MessagePlace],
    ) -> Result<u64, Error> {
        let marked = self.mark(destination, places)?;
        if marked.is_empty() {
            return Ok(0);
        }
        let gone = self.in_group(|core| {
            let kept = if planted("acknowledged-only-in-memory") { marked.len() } else { 0 };
            for marked in marked.iter().skip(kept) {
                self.stage_removal(core, destination, *marked);
            }
            Ok(())
        });
        self.unmark(destination, &marked, gone.is_ok(), |_, _| true);
        gone?;
        let count = marked.len() as u64;
        self.counters.destination(destination).acknowledged.add(count);
        Ok(count)
    }

    /// Marks those of some messages that are there, waiting for whoever is settling them.
    pub(super) fn mark(
        &self,
        destination: DestinationId,
        places: &[MessagePlace],
    ) -> Result<Vec<Marked>, Error> {
        let shared = self.outbox.shared(destination);
        let is_settling = |lane: &Lane| places.iter().any(|place| lane.is_settling(*place));
        let mut lane = self.sound_lane(&shared, is_settling)?;
        let snapshot = self.state.read().snapshot.clone();
        let mut marked = Vec::with_capacity(places.len());
        let mut seen = HashSet::with_capacity(places.len());
        for place in places.iter().copied().filter(|place| seen.insert(*place)) {
            match lane.known(place) {
                Some(known) => marked.push(Marked {
                    place,
                    key_hash: known.key_hash,
                    failed: known.failed,
                    blocks: known.wait == Wait::Hand,
                }),
                None => {
                    let Some(body) = read_message(&snapshot, destination, place)? else { continue };
                    let attempts = read_attempts(&snapshot, destination, place)?;
                    marked.push(Marked {
                        place,
                        key_hash: body.key.as_deref().map(|key| self.hash_key().message_key(key)),
                        failed: attempts.as_ref().map_or(0, |attempts| attempts.failed),
                        blocks: attempts.is_some_and(|attempts| attempts.blocks),
                    });
                }
            }
        }
        marked.iter().for_each(|marked| lane.settle(marked.place));
        Ok(marked)
    }

    /// The lane, once it is not as `is_so` any more. Reads of what is durable agree with it: a store that has
    /// failed recovers first, which nobody may wait for who holds a lane (OB7).
    pub(super) fn sound_lane<'s>(
        &self,
        shared: &'s Shared,
        is_so: impl Fn(&Lane) -> bool,
    ) -> Result<MutexGuard<'s, Lane>, Error> {
        drop(self.view()?);
        let lane = shared.wait_for(is_so);
        if self.has_failed() {
            let about = std::io::Error::other("the store has failed and will recover");
            return Err(Error::io("looking at messages", about));
        }
        Ok(lane)
    }

    /// Lets go of marked messages: those that `is_gone` make room for the next of their keys; after a
    /// commit that failed all is looked at again.
    pub(super) fn unmark(
        &self,
        destination: DestinationId,
        marked: &[Marked],
        is_durable: bool,
        mut is_gone: impl FnMut(&mut Lane, &Marked) -> bool,
    ) {
        let shared = self.outbox.shared(destination);
        let mut lane = shared.lane.lock();
        let snapshot = self.state.read().snapshot.clone();
        for marked in marked {
            lane.settled(marked.place);
            if is_durable && is_gone(&mut lane, marked) {
                // What cannot be read now is looked at again by the next hand-out, which tells.
                let _ = self.pass_on(destination, &mut lane, &snapshot, marked.place);
            }
        }
        if !is_durable {
            lane.doubt(marked.iter().map(|marked| marked.place));
        }
        drop(lane);
        shared.settled.notify_all();
        self.outbox.ring();
    }

    /// Runs `f` in the write slot, and waits until what it staged is durable.
    pub(super) fn in_group<T>(
        &self,
        f: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_open()?;
        let mut turn = self.turn(None)?;
        let core = turn.core();
        core.group.events = core.group.events.saturating_add(1);
        if !core.group.has_begun {
            self.begin_group(core);
        }
        let from = core.group.batch.end();
        let value = f(core);
        let seq = core.seq.next();
        self.memtable.absorb(seq, core.group.batch.rows_from(from));
        let done = turn.attach_waiting();
        drop(turn);
        done.map(|done| self.wait(&done)).transpose()?;
        value
    }

    /// Changes a tally in the open group.
    pub(super) fn count_messages(
        &self,
        core: &mut Core,
        destination: DestinationId,
        change: impl FnOnce(&mut Tally),
    ) {
        let tally = core.tallies.change(destination, change);
        self.outbox.note_one(destination, tally);
    }

    /// Stages that a message goes, with all that belongs to it.
    pub(super) fn stage_removal(&self, core: &mut Core, destination: DestinationId, gone: Marked) {
        let key = row::key(destination, gone.place);
        let batch = &mut core.group.batch;
        batch.remove(TableId::Messages, &key);
        if let Some(hash) = gone.key_hash {
            batch.remove(TableId::MessageKeys, &row::index_key(destination, hash, gone.place));
        }
        if gone.failed > 0 || gone.blocks {
            batch.remove(TableId::Attempts, &key);
        }
        if gone.blocks {
            batch.remove(TableId::DeadLetters, &key);
        }
        core.group.staged_bytes = core.group.staged_bytes.saturating_add(key.len());
        self.count_messages(core, destination, |tally| match gone.blocks {
            true => tally.dead = tally.dead.saturating_sub(1),
            false => tally.waiting = tally.waiting.saturating_sub(1),
        });
    }
}

impl Shared {
    /// The lane, once it is not as `is_so` any more.
    fn wait_for(&self, is_so: impl Fn(&Lane) -> bool) -> MutexGuard<'_, Lane> {
        let mut lane = self.lane.lock();
        while is_so(&lane) {
            lane = self.settled.wait(lane);
        }
        lane
    }
}

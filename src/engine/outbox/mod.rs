//! The outbox: messages that leave in the group of the event that sends them, and their way out.
//!
//! A message is a row of its event's group: journaled, replayed, and gone with the group if that fails. Relays
//! are handed what is durable, and settle it by further groups. Owns the tables of messages, of their index by
//! key, of attempts, dead letters and tallies; and, in memory, one [`Lane`] a destination.
//!
//! What must hold:
//! OB1. A message is durable together with its event's claim, or not at all. OB2. Only durable messages are
//!      handed out, and none that is durably settled. OB3. Of one key, messages are handed out in the order of
//!      their places, each once the one before it is settled. OB4. What is neither settled nor given up is
//!      offered again, after every crash and every relay's end. OB5. A row of the index, of attempts or of a
//!      blocking dead letter is there only with its message. OB6. The tallies count the rows. OB7. No lock
//!      is held while a relay works; nobody who holds the write slot waits for a lane.
//!
//! Called by `process`, `commit` and `core`, and by `api`.

mod by_hand;
mod enqueue;
mod fail;
mod hand;
mod lane;
mod look;
mod origin;
mod row;
mod settle;
mod tallies;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use enqueue::Outgoing;
pub(crate) use fail::{Exhausted, Failure, Patience, Verdict};
pub(crate) use hand::Handed;
pub(crate) use look::{DeadLetter, Standing, Waiting};
pub(crate) use origin::{Origin, Sender};
pub(crate) use row::{MessageBody, MessagePlace};
pub(crate) use tallies::Tallies;

use super::Engine;
use super::group::Sent;
use super::registry::{check_name, put_destination};
use crate::base::error::Error;
use crate::base::ids::DestinationId;
use crate::base::sync::{Arc, Condvar, Mutex};
use crate::claims::catalogue::Change;
use crate::storage::batch::Batch;
use lane::{Lane, Now};
use row::Tally;

/// One destination's lane, and who waits to settle what is being settled.
#[derive(Debug, Default)]
pub(super) struct Shared {
    lane: Mutex<Lane>,
    settled: Condvar,
}

/// What of the outbox is shared by all, without the write slot.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    lanes: Mutex<BTreeMap<DestinationId, Arc<Shared>>>,
    /// As of the newest group, the open one included.
    tallies: Mutex<BTreeMap<DestinationId, Tally>>,
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Outbox {
    fn shared(&self, destination: DestinationId) -> Arc<Shared> {
        self.lanes.lock().entry(destination).or_default().clone()
    }

    /// Tells relays that wait that there may be something for them.
    fn ring(&self) {
        let mut changes = self.changes.lock();
        *changes = changes.wrapping_add(1);
        drop(changes);
        self.changed.notify_all();
    }

    /// A number that every change makes another.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Waits until anything has changed since `changes`, for at most `limit`.
    pub(crate) fn wait(&self, changes: u64, limit: Duration) {
        let seen = self.changes.lock();
        if *seen == changes {
            drop(self.changed.wait_timeout(seen, limit));
        }
    }

    /// Tells what the tallies have become.
    pub(super) fn note(&self, tallies: &Tallies) {
        self.tallies.lock().clone_from(tallies.all());
    }

    pub(super) fn note_one(&self, destination: DestinationId, tally: Tally) {
        self.tallies.lock().insert(destination, tally);
    }
}

impl Engine {
    /// The destination of that name, registered durably if it is new.
    pub(crate) fn destination(&self, name: &str) -> Result<DestinationId, Error> {
        check_name("a destination's name, in bytes,", name)?;
        if let Some(known) = self.registry.read().destinations.get(name) {
            return Ok(*known);
        }
        let mut turn = self.turn(None)?;
        // Again, now that nobody else can be registering it.
        if let Some(known) = self.registry.read().destinations.get(name) {
            return Ok(*known);
        }
        let id = self.registry.read().next_destination()?;
        let mut batch = Batch::default();
        put_destination(&mut batch, name, id);
        self.commit_change(turn.core(), batch, &Change::default())?;
        self.registry.write().destinations.insert(name.to_owned(), id);
        Ok(id)
    }

    /// A group with these messages has become durable.
    pub(super) fn note_sent(&self, sent: &[(DestinationId, Sent)]) {
        if sent.is_empty() {
            return;
        }
        for (destination, sent) in sent {
            let counters = self.counters.destination(*destination);
            counters.enqueued.add(sent.enqueued);
            counters.muted.add(sent.muted);
        }
        self.outbox.ring();
    }

    fn lane_now(&self) -> Now {
        Now {
            us: self.clock.stopwatch_us(),
            uptime_ms: self.uptime_ms(),
            wall_ms: self.clock.wall_ms(),
        }
    }
}

//! The open group: the events that will share one commit, and what they wait for.
//!
//! What must hold: G1. Nothing in a group is visible outside it before it is durable, but to the group after
//! it. G2. Every event that read from a group that is open or in flight waits for it, whatever its own answer
//! is. G3. A group is answered exactly once. G4. Of those who wait for an open group at most one is told to
//! close it.

use crate::base::error::Error;
use crate::base::ids::{ClassId, DestinationId, Seq, StoreMs, WallMs};
use crate::base::limits::{GROUP_MAX_BYTES, GROUP_MAX_EVENTS};
use crate::base::sync::{Arc, AtomicBool, AtomicU32, Condvar, Mutex, Ordering};
use crate::claims::pending::Pending;
use crate::storage::batch::Batch;
use std::time::Duration;

/// When and as what a group became durable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) seq: Seq,
    pub(crate) wall: WallMs,
    /// Store time of each class that had claims in it.
    pub(crate) at: Vec<(ClassId, StoreMs)>,
}

impl Committed {
    pub(crate) fn at(&self, class: ClassId) -> StoreMs {
        self.at.iter().find(|(c, _)| *c == class).map(|(_, at)| *at).unwrap_or_default()
    }
}

type Answer = Result<Arc<Committed>, Error>;

/// The answer that all events of a group wait for.
#[derive(Debug, Default)]
pub(crate) struct Done {
    state: Mutex<Waiting>,
    changed: Condvar,
    /// Somebody waits, so the group may not stay open for more events.
    wanted: AtomicBool,
    /// The group takes no more events: its answer comes by itself.
    closed: AtomicBool,
    tickets: AtomicU32,
}

#[derive(Debug, Default)]
struct Waiting {
    answer: Option<Answer>,
    /// Those who have promised to call `wait`.
    promised: u32,
    /// One of them is to close the group.
    lead: bool,
}

/// What a wait for a group ended with.
pub(crate) enum Waited {
    Answer(Answer),
    /// The group is still open, and the caller is the one to close it.
    Lead,
}

impl Done {
    pub(crate) fn set(&self, answer: Answer) {
        self.state.lock().answer = Some(answer);
        self.changed.notify_all();
    }

    /// Tells one of those who wait, or have promised to, that it is to close the group; false if there
    /// is nobody.
    pub(crate) fn lead(&self) -> bool {
        let mut state = self.state.lock();
        if state.promised == 0 || state.answer.is_some() {
            return state.answer.is_some();
        }
        state.lead = true;
        self.changed.notify_one();
        true
    }

    /// The caller will call `wait`.
    pub(crate) fn promise(&self) {
        self.want();
        self.state.lock().promised += 1;
    }

    /// Waits, once promised.
    pub(crate) fn wait(&self) -> Waited {
        let mut state = self.state.lock();
        loop {
            if let Some(answer) = &state.answer {
                return Waited::Answer(answer.clone());
            }
            if state.lead {
                state.lead = false;
                return Waited::Lead;
            }
            state = self.changed.wait(state);
        }
    }

    /// The answer, or `None` if it has not come within `limit`.
    pub(crate) fn wait_timeout(&self, limit: Duration) -> Option<Answer> {
        let mut state = self.state.lock();
        if state.answer.is_none() {
            state = self.changed.wait_timeout(state, limit);
        }
        state.answer.clone()
    }

    pub(crate) fn answer(&self) -> Option<Answer> {
        self.state.lock().answer.clone()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.state.lock().answer.is_some()
    }

    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    pub(crate) fn note_closed(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn add_ticket(&self) {
        self.tickets.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a ticket away; true if it was the last.
    pub(crate) fn drop_ticket(&self) -> bool {
        self.tickets.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

/// Messages to one destination.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) enqueued: u64,
    /// Of generations that are not served.
    pub(crate) muted: u64,
}

/// What the next commit will hold.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The rows that its events staged, in order; they are in the memtable too.
    pub(crate) batch: Batch,
    pub(crate) pending: Pending,
    pub(crate) events: usize,
    /// Messages sent in it, and how many to whom.
    pub(crate) messages: u32,
    pub(crate) sent: Vec<(DestinationId, Sent)>,
    /// Leases given out in it.
    pub(crate) leases: u64,
    /// Whether a handler ran in it: what they read from was fixed then.
    pub(crate) has_begun: bool,
    /// Bytes of keys, values and results that its events staged.
    pub(crate) staged_bytes: usize,
    pub(crate) done: Arc<Done>,
}

impl Group {
    /// A fresh one, with room for what this one has: groups that follow one another are alike.
    pub(crate) fn next(&self) -> Self {
        Self {
            batch: Batch::with_room_of(&self.batch),
            pending: Pending::with_room_of(&self.pending),
            ..Self::default()
        }
    }

    /// The count of messages to a destination; there are few, and the last is the likeliest.
    pub(crate) fn sent_to(&mut self, destination: DestinationId) -> &mut Sent {
        let known = self.sent.iter().rposition(|(id, _)| *id == destination);
        let at = known.unwrap_or_else(|| {
            self.sent.push((destination, Sent::default()));
            self.sent.len() - 1
        });
        &mut self.sent[at].1
    }

    /// Whether there is anything to commit.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.batch.is_empty() && self.pending.is_empty())
    }

    /// Whether it takes no further event.
    pub(crate) fn is_full(&self) -> bool {
        let is_large = self.staged_bytes >= GROUP_MAX_BYTES;
        self.is_dirty() && (self.events >= GROUP_MAX_EVENTS || is_large)
    }
}

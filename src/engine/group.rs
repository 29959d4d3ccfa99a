//! The open group: the events that will share one commit, and what they wait for.
//!
//! What must hold: G1. Nothing in a group is visible outside it before its commit is durable. G2.
//! Every event that read from an open group waits for that group, whatever its own answer is. G3. A
//! group is answered exactly once.

use super::overlay::Overlay;
use crate::base::error::Error;
use crate::base::ids::{ClassId, Seq, StoreMs, WallMs};
use crate::base::limits::{GROUP_MAX_BYTES, GROUP_MAX_EVENTS};
use crate::base::sync::{Arc, AtomicBool, AtomicU32, Condvar, Mutex, Ordering};
use crate::claims::pending::Pending;
use crate::storage::batch::Batch;
use std::time::Duration;

/// When and as what a group became durable.
#[derive(Debug, PartialEq, Eq)]
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
    answer: Mutex<Option<Answer>>,
    answered: Condvar,
    /// Somebody waits, so the group may not stay open for more events.
    wanted: AtomicBool,
    tickets: AtomicU32,
}

impl Done {
    pub(crate) fn set(&self, answer: Answer) {
        *self.answer.lock() = Some(answer);
        self.answered.notify_all();
    }

    pub(crate) fn wait(&self) -> Answer {
        let mut answer = self.answer.lock();
        loop {
            if let Some(answer) = &*answer {
                return answer.clone();
            }
            answer = self.answered.wait(answer);
        }
    }

    /// The answer, or `None` if it has not come within `limit`.
    pub(crate) fn wait_timeout(&self, limit: Duration) -> Option<Answer> {
        let mut answer = self.answer.lock();
        if answer.is_none() {
            answer = self.answered.wait_timeout(answer, limit);
        }
        answer.clone()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.answer.lock().is_some()
    }

    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    pub(crate) fn add_ticket(&self) {
        self.tickets.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a ticket away; true if it was the last.
    pub(crate) fn drop_ticket(&self) -> bool {
        self.tickets.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

/// What the next commit will hold.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) overlay: Overlay,
    pub(crate) pending: Pending,
    /// Rows of the catalogue: new names, migrated versions.
    pub(crate) rows: Batch,
    pub(crate) events: usize,
    /// Bytes of results staged by its claims.
    pub(crate) result_bytes: usize,
    pub(crate) done: Arc<Done>,
}

impl Group {
    /// Whether there is anything to commit.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.overlay.is_empty() && self.pending.is_empty() && self.rows.is_empty())
    }

    /// Whether it takes no further event.
    pub(crate) fn is_full(&self) -> bool {
        let bytes = self.overlay.bytes().saturating_add(self.result_bytes);
        self.is_dirty() && (self.events >= GROUP_MAX_EVENTS || bytes >= GROUP_MAX_BYTES)
    }
}

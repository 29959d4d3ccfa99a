//! What of the leases is seen without the write slot: how many there are, how old, and that one has changed.

use std::time::Duration;

use super::Board;
use crate::base::ids::{ClassId, StoreMs};
use crate::base::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
struct Seen {
    rows: usize,
    dead: usize,
    oldest: Vec<(ClassId, StoreMs)>,
    changes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    pub(crate) fn new(board: &Board) -> Self {
        let shared = Self::default();
        shared.note(board);
        shared
    }

    /// Tells what the board has become.
    pub(crate) fn note(&self, board: &Board) {
        let mut seen = self.seen.lock();
        seen.rows = board.len();
        seen.dead = board.dead();
        seen.oldest = board.oldest();
        seen.changes = seen.changes.wrapping_add(1);
        drop(seen);
        self.changed.notify_all();
    }

    /// Leases held or waiting for their next attempt, and events given up.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let seen = self.seen.lock();
        (seen.rows.saturating_sub(seen.dead) as u64, seen.dead as u64)
    }

    pub(super) fn oldest(&self) -> Vec<(ClassId, StoreMs)> {
        self.seen.lock().oldest.clone()
    }

    /// A number that every change makes another.
    pub(crate) fn changes(&self) -> u64 {
        self.seen.lock().changes
    }

    /// Waits until anything has changed since `changes`, for at most `limit`; whether it has.
    pub(crate) fn wait(&self, changes: u64, limit: Duration) -> bool {
        let mut seen = self.seen.lock();
        if seen.changes == changes {
            seen = self.changed.wait_timeout(seen, limit);
        }
        seen.changes != changes
    }
}

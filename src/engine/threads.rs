//! The engine's own threads: one for maintenance, one that writes checkpoints, one
//! that syncs what tickets left open.
//!
//! Owns their start, their bells and their end. What must hold: J1. A bell rung while its thread is
//! busy is heard afterwards. J2. No thread outlives the store, nor keeps it from being dropped. J3. A group
//! that was handed over lands: the sync thread ends only when there is none, and takes none afterwards.

use std::time::Duration;

use super::Engine;
use super::commit::Takeoff;
use super::group::{Committed, Done, Waited};
use crate::base::error::Error;
use crate::base::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, thread};

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Call {
    #[default]
    Quiet,
    Rung,
    Stopped,
}

/// How long maintenance rests after a failure.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    call: Mutex<Call>,
    changed: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut call = self.call.lock();
        if *call == Call::Quiet {
            *call = Call::Rung;
            self.changed.notify_all();
        }
    }

    pub(crate) fn stop(&self) {
        *self.call.lock() = Call::Stopped;
        self.changed.notify_all();
    }

    /// Waits for a ring, or for `limit`; false once stopped.
    fn wait(&self, limit: Option<Duration>) -> bool {
        let mut call = self.call.lock();
        if *call == Call::Quiet {
            call = match limit {
                Some(limit) => self.changed.wait_timeout(call, limit),
                None => self.changed.wait(call),
            };
        }
        if *call == Call::Rung {
            *call = Call::Quiet;
        }
        *call != Call::Stopped
    }
}

/// A closed group on its way to the sync thread.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    waiting: Mutex<Option<Takeoff>>,
    /// Whether the sync thread takes it. Changed only under the lock of `waiting`.
    is_open: AtomicBool,
}

impl Handover {
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::SeqCst)
    }

    /// Leaves a group to the sync thread, who is to be called then; gives it back if there is no such thread.
    pub(crate) fn give(&self, takeoff: Takeoff) -> Option<Takeoff> {
        let mut waiting = self.waiting.lock();
        if !self.is_open() {
            return Some(takeoff);
        }
        debug_assert!(waiting.is_none(), "one group flies at a time");
        *waiting = Some(takeoff);
        None
    }

    pub(crate) fn take(&self) -> Option<Takeoff> {
        self.waiting.lock().take()
    }

    /// Takes no more, unless a group is waiting: then false.
    fn end(&self) -> bool {
        let waiting = self.waiting.lock();
        if waiting.is_none() {
            self.is_open.store(false, Ordering::SeqCst);
        }
        waiting.is_none()
    }
}

/// The handles to join at the end.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    handles: Mutex<Vec<thread::JoinHandle<()>>>,
    sync_started: Mutex<bool>,
}

impl Threads {
    pub(crate) fn join(&self) {
        let me = thread::current().id();
        let handles = std::mem::take(&mut *self.handles.lock());
        for handle in handles {
            // The last handle may be dropped on one of these threads; it cannot wait for itself.
            if handle.thread().id() != me {
                let _ = handle.join();
            }
        }
    }
}

impl Engine {
    pub(crate) fn start_maintenance_thread(self: &Arc<Self>) {
        let engine = self.clone();
        let handle = thread::spawn(move || {
            let mut limit = engine.next_due();
            while engine.maintenance_bell.wait(limit) {
                let done = engine.maintain_until_idle();
                limit = match (done, engine.next_due()) {
                    (Ok(()), due) => due,
                    // What failed may fail again: do not hurry.
                    (Err(_), due) => Some(due.unwrap_or(AFTER_ERROR).max(AFTER_ERROR)),
                };
            }
        });
        self.threads.handles.lock().push(handle);
    }

    pub(crate) fn wake_maintenance(&self) {
        self.maintenance_bell.ring();
    }

    /// Starts the thread that makes groups durable which only tickets wait for.
    pub(crate) fn start_sync_thread(self: &Arc<Self>) {
        let mut started = self.threads.sync_started.lock();
        if *started || !self.config.threads {
            return;
        }
        *started = true;
        self.handover.is_open.store(true, Ordering::SeqCst);
        let engine = self.clone();
        let handle = thread::spawn(move || {
            loop {
                let goes_on = engine.sync_bell.wait(None);
                while let Some(takeoff) = engine.handover.take() {
                    engine.land_and_lead(takeoff);
                }
                if !goes_on && engine.handover.end() {
                    return;
                }
            }
        });
        self.threads.handles.lock().push(handle);
    }

    pub(crate) fn wake_sync_thread(&self) {
        self.sync_bell.ring();
    }

    /// Waits for the answer to a group, closing it if nobody else is there to do that. The caller has
    /// promised to.
    pub(crate) fn wait(&self, done: &Done) -> Result<Arc<Committed>, Error> {
        loop {
            match done.wait() {
                Waited::Answer(answer) => return answer,
                // If the slot cannot be had, the group was answered with the reason.
                Waited::Lead => drop(self.turn(None)),
            }
        }
    }

    /// Closes the open group if there is anything in it, and lets it land.
    pub(crate) fn sync_open_group(&self) {
        if let Ok(mut turn) = self.turn(None) {
            turn.core().group.done.want();
        }
    }

    /// Starts the thread that writes checkpoints.
    pub(crate) fn start_checkpoint_thread(self: &Arc<Self>) {
        if !self.config.journal {
            return;
        }
        let engine = self.clone();
        let handle = thread::spawn(move || {
            let mut limit = None;
            while engine.checkpoint_bell.wait(limit) {
                limit = engine.checkpoint_due();
            }
        });
        self.threads.handles.lock().push(handle);
    }

    pub(crate) fn wake_checkpoints(&self) {
        self.checkpoint_bell.ring();
    }
}

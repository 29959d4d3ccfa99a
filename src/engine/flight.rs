//! Where groups stand between closed and stored: in flight, durable, applied.
//!
//! A closed group *flies* while its journal record is written and synced, *lands* when that is durable,
//! and is *applied* once a durable redb commit holds it. Owns these three marks and who waits for them.
//! What must hold:
//! FL1. At most one group flies, so groups land in order. FL2. A group that failed to land stays known
//!     until a recovery has answered it; nothing takes off meanwhile. FL3. When a group lands, exactly one
//!     thread is told to close the group that waited behind it.
//!
//! Takes no other lock while it holds its own.

use super::group::Done;
use crate::base::error::Error;
use crate::base::ids::Seq;
use crate::base::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use crate::storage::journal::End;

/// A group whose record could not be made durable.
#[derive(Debug)]
pub(crate) struct Crashed {
    pub(crate) seq: Seq,
    pub(crate) done: Arc<Done>,
    pub(crate) error: Error,
}

/// What the next checkpoint will hold: all groups up to one, and where the journal goes on then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frozen {
    pub(crate) through: Seq,
    pub(crate) end: Option<End>,
}

#[derive(Debug, Default)]
struct Air {
    flying: Option<Arc<Done>>,
    /// The open group that waits to be closed until the one in flight has landed.
    parked: Option<Arc<Done>>,
    crashed: Option<Crashed>,
    frozen: Option<Frozen>,
    durable: Seq,
    applied: Seq,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    air: Mutex<Air>,
    changed: Condvar,
    /// As `Air::crashed`, to be asked without the lock.
    has_crashed: AtomicBool,
}

impl Flight {
    /// Begins anew after opening or recovering: all up to `durable` is on disk, all up to `applied` in
    /// redb. Returns the group that had crashed, for the caller to answer.
    pub(crate) fn reset(&self, durable: Seq, applied: Seq) -> Option<Crashed> {
        let mut air = self.air.lock();
        let crashed = air.crashed.take();
        *air = Air { durable, applied, parked: air.parked.take(), ..Air::default() };
        self.has_crashed.store(false, Ordering::SeqCst);
        self.changed.notify_all();
        crashed
    }

    /// The group that crashed, when nothing more can be found out about it.
    pub(crate) fn take_crashed(&self) -> Option<Crashed> {
        self.air.lock().crashed.take()
    }

    pub(crate) fn take_off(&self, done: Arc<Done>) {
        let mut air = self.air.lock();
        debug_assert!(air.flying.is_none(), "FL1");
        air.flying = Some(done);
    }

    /// The group in flight is durable; returns the group that waits to be closed behind it.
    pub(crate) fn landed(&self, seq: Seq) -> Option<Arc<Done>> {
        let mut air = self.air.lock();
        air.flying = None;
        air.durable = seq;
        self.changed.notify_all();
        air.parked.take()
    }

    /// The group in flight failed: nothing takes off until a recovery.
    pub(crate) fn crashed(&self, crashed: Crashed) {
        let mut air = self.air.lock();
        air.flying = None;
        air.crashed = Some(crashed);
        self.has_crashed.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::SeqCst)
    }

    /// What an answer must wait for that read all that was closed.
    pub(crate) fn flying(&self) -> Option<Arc<Done>> {
        self.air.lock().flying.clone()
    }

    /// Leaves the open group to whoever lands the one in flight; false if none flies.
    pub(crate) fn park(&self, done: &Arc<Done>) -> bool {
        let mut air = self.air.lock();
        let flies = air.flying.is_some();
        if flies {
            air.parked = Some(done.clone());
        }
        flies
    }

    /// Waits until no group flies.
    pub(crate) fn wait_until_clear(&self) {
        let mut air = self.air.lock();
        while air.flying.is_some() {
            air = self.changed.wait(air);
        }
    }

    /// Waits until all up to `seq` is durable; false if that failed.
    pub(crate) fn wait_until_durable(&self, seq: Seq) -> bool {
        let mut air = self.air.lock();
        while air.durable < seq && air.crashed.is_none() && air.flying.is_some() {
            air = self.changed.wait(air);
        }
        air.durable >= seq
    }

    pub(crate) fn durable(&self) -> Seq {
        self.air.lock().durable
    }

    pub(crate) fn freeze(&self, frozen: Frozen) {
        self.air.lock().frozen = Some(frozen);
    }

    pub(crate) fn frozen(&self) -> Option<Frozen> {
        self.air.lock().frozen
    }

    /// A durable redb commit holds all up to `seq`.
    pub(crate) fn note_applied(&self, seq: Seq) {
        let mut air = self.air.lock();
        air.frozen = None;
        air.applied = seq;
        air.durable = air.durable.max(seq); // without having flown, if it was committed in the slot
    }

    pub(crate) fn applied(&self) -> Seq {
        self.air.lock().applied
    }
}

//! The one place where threads meet: locks and condition variables behind a shim.
//!
//! Under `--cfg txinbox_shuttle` the shuttle scheduler supplies them, so that the very code that
//! ships is run under thousands of schedules. A poisoned lock is entered all the same: whatever
//! a panic could leave half done is guarded by the engine's own refusal, not by the lock.

#![allow(clippy::disallowed_types)]

#[cfg(txinbox_shuttle)]
pub(crate) use shuttle::{sync as imp, thread};
#[cfg(not(txinbox_shuttle))]
pub(crate) use std::{sync as imp, thread};

use std::time::Duration;

pub(crate) use imp::Arc;
pub(crate) use imp::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A mutual exclusion lock that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(imp::PoisonError::into_inner)
    }

    /// The lock, unless somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(imp::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(imp::TryLockError::WouldBlock) => None,
        }
    }
}

/// A reader-writer lock that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(imp::PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(imp::PoisonError::into_inner)
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(imp::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(imp::PoisonError::into_inner)
    }

    /// Waits for at most `limit`; may wake without cause, so the caller checks its condition.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, limit).unwrap_or_else(imp::PoisonError::into_inner).0
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

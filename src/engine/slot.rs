//! The write slot: who writes now, and who is next.
//!
//! Owns the callers who want to write. The slot is given up rather than passed on, so that a caller who runs
//! already takes it without a thread switch; whoever has waited too long is handed it all the same.
//!
//! What must hold:
//! Q1. Nobody starves, and no wake-up is lost: of those who sleep the first is woken whenever the slot is
//!     given up, and once it has waited for `FAIR_US` the slot is passed to it and to nobody else.
//! Q2. Whoever holds the slot when nobody else wants it knows it, and so closes the group that others wait
//!     for. Q3. A caller with a limit gives up when it runs out, and only while somebody else holds the slot.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::canary::planted;
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::sync::{Arc, AtomicBool, Condvar, Mutex, MutexGuard, Ordering, thread};

/// How long others may overtake a caller who sleeps.
const FAIR_US: u64 = 10_000;
/// How often a caller looks again before it sleeps, and the pause between two looks: together about as long
/// as a handler that changes a row or two.
const LOOKS: u32 = if cfg!(txinbox_shuttle) { 1 } else { 16 };
const PAUSES_A_LOOK: u32 = 8;

const YIELDS: u32 = 8;

/// A caller who sleeps until the slot is free.
#[derive(Debug)]
struct Waiter {
    woken: Condvar,
    since_us: u64,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<thread::ThreadId>,
    held: bool,
    /// The slot is held for the first of the queue, who has not noticed yet.
    is_granted: bool,
    /// The first of the queue was woken and has not looked yet.
    is_waking: bool,
    /// Callers who want the slot, asleep or not.
    wanting: usize,
    queue: VecDeque<Arc<Waiter>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    /// As `State::held`, to be asked without the lock.
    looks_held: AtomicBool,
}

impl Slot {
    /// Waits for the slot, for at most `max_wait`.
    pub(crate) fn acquire(
        &self,
        clock: &dyn Clock,
        max_wait: Option<Duration>,
    ) -> Result<(), Error> {
        let me = thread::current().id();
        let mut state = self.state.lock();
        if state.holder == Some(me) {
            return Err(Error::reentrant());
        }
        if self.take(&mut state, me) {
            return Ok(());
        }
        if max_wait == Some(Duration::ZERO) {
            return Err(Error::timeout(Duration::ZERO));
        }
        state.wanting += 1;
        drop(state);
        if self.take_soon(me) { Ok(()) } else { self.sleep(clock, max_wait, me) }
    }

    fn take(&self, state: &mut State, me: thread::ThreadId) -> bool {
        if state.held {
            return false;
        }
        state.held = true;
        state.holder = Some(me);
        self.looks_held.store(true, Ordering::Relaxed);
        true
    }

    /// Looks a few times whether the slot has become free.
    fn take_soon(&self, me: thread::ThreadId) -> bool {
        for look in 0..LOOKS + YIELDS {
            if look < LOOKS {
                (0..PAUSES_A_LOOK).for_each(|_| std::hint::spin_loop());
            } else {
                thread::yield_now();
            }
            if !self.looks_held.load(Ordering::Relaxed) {
                let mut state = self.state.lock();
                if self.take(&mut state, me) {
                    state.wanting -= 1;
                    return true;
                }
            }
        }
        false
    }

    fn sleep(
        &self,
        clock: &dyn Clock,
        max_wait: Option<Duration>,
        me: thread::ThreadId,
    ) -> Result<(), Error> {
        let since_us = clock.stopwatch_us();
        let waiter = Arc::new(Waiter { woken: Condvar::new(), since_us });
        let mut state = self.state.lock();
        state.queue.push_back(waiter.clone());
        loop {
            let is_first = state.queue.front().is_some_and(|first| Arc::ptr_eq(first, &waiter));
            if is_first {
                state.is_waking = false;
                if std::mem::take(&mut state.is_granted) {
                    state.held = false;
                }
            }
            if self.take(&mut state, me) {
                state.wanting -= 1;
                state.queue.retain(|other| !Arc::ptr_eq(other, &waiter));
                return Ok(());
            }
            let spent = Duration::from_micros(clock.stopwatch_us().saturating_sub(since_us));
            let left = max_wait.map(|limit| limit.saturating_sub(spent));
            if let (Some(limit), Some(Duration::ZERO)) = (max_wait, left) {
                state.wanting -= 1;
                state.queue.retain(|other| !Arc::ptr_eq(other, &waiter));
                return Err(Error::timeout(limit));
            }
            state = match left {
                Some(left) => waiter.woken.wait_timeout(state, left),
                None => waiter.woken.wait(state),
            };
        }
    }

    /// Gives the slot up if somebody wants it; false, and the slot is kept, if nobody does.
    pub(crate) fn pass(&self, clock: &dyn Clock) -> bool {
        let state = self.state.lock();
        let wanted = state.wanting > 0;
        if wanted {
            self.give_up(state, clock);
        }
        wanted
    }

    /// Gives the slot up.
    pub(crate) fn release(&self, clock: &dyn Clock) {
        self.give_up(self.state.lock(), clock);
    }

    fn give_up(&self, mut state: MutexGuard<'_, State>, clock: &dyn Clock) {
        state.holder = None;
        let first = state.queue.front().cloned();
        let waited_us = first.as_ref().map(|f| clock.stopwatch_us().saturating_sub(f.since_us));
        if waited_us.is_some_and(|us| us >= FAIR_US) {
            state.is_granted = true;
        } else {
            state.held = false;
            self.looks_held.store(false, Ordering::Relaxed);
        }
        let wake = first.filter(|_| !state.is_waking || state.is_granted);
        state.is_waking |= wake.is_some();
        drop(state);
        if let Some(first) = wake
            && !planted("missed-wake-up-in-the-queue")
        {
            first.woken.notify_one();
        }
    }

    /// Whether the calling thread holds the slot: it is inside a handler.
    pub(crate) fn is_mine(&self) -> bool {
        self.state.lock().holder == Some(thread::current().id())
    }
}

#[cfg(all(test, not(txinbox_shuttle)))]
mod tests {
    use super::*;
    use crate::base::clock::SystemClock;
    use crate::base::sync::{AtomicU64, Ordering};

    #[test]
    fn q1_q3_order_limits_and_reentrancy() {
        let slot = Arc::new(Slot::default());
        let clock = Arc::new(SystemClock::new());
        slot.acquire(&*clock, None).unwrap();
        assert!(slot.acquire(&*clock, None).unwrap_err().is_reentrant());
        assert!(!slot.pass(&*clock));
        let order = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for i in 0..8_u64 {
            let (slot2, clock2, order2) = (slot.clone(), clock.clone(), order.clone());
            threads.push(thread::spawn(move || {
                slot2.acquire(&*clock2, None).unwrap();
                assert_eq!(order2.fetch_add(1, Ordering::SeqCst), i);
                slot2.release(&*clock2);
            }));
            while slot.state.lock().queue.len() <= i as usize {
                thread::yield_now();
            }
        }
        let (slot2, clock2) = (slot.clone(), clock.clone());
        let limited = thread::spawn(move || {
            let limit = Duration::from_millis(20);
            slot2.acquire(&*clock2, Some(limit)).unwrap_err().is_timeout()
        });
        assert!(limited.join().unwrap());
        slot.release(&*clock);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(order.load(Ordering::SeqCst), 8);
        slot.acquire(&*clock, Some(Duration::ZERO)).unwrap();
    }
}

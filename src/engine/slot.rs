//! The write slot: who writes now, and who is next.
//!
//! Owns the queue of callers. What must hold:
//! Q1. First come, first served: the slot passes straight to the caller at the head of the queue, so
//!     that nobody starves and no wake-up is lost. Q2. Whoever holds the slot when the queue is empty
//!     knows it, and so closes the group that others wait for. Q3. A caller with a limit leaves the
//!     queue when it runs out, and only if the slot was not already his.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::canary::planted;
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::sync::{Arc, Condvar, Mutex, thread};

/// A caller in the queue.
#[derive(Debug)]
struct Waiter {
    granted: Condvar,
    ticket: u64,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<thread::ThreadId>,
    /// The waiter that the slot was passed to, until it has noticed.
    granted: Option<u64>,
    held: bool,
    next_ticket: u64,
    queue: VecDeque<Arc<Waiter>>,
}

/// The queue for the one write slot.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
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
        if !state.held {
            state.held = true;
            state.holder = Some(me);
            return Ok(());
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let waiter = Arc::new(Waiter { granted: Condvar::new(), ticket });
        state.queue.push_back(waiter.clone());
        let started_us = clock.stopwatch_us();
        loop {
            let spent = Duration::from_micros(clock.stopwatch_us().saturating_sub(started_us));
            let left = max_wait.map(|limit| limit.saturating_sub(spent));
            if state.granted == Some(ticket) {
                state.granted = None;
                state.holder = Some(me);
                return Ok(());
            }
            if let (Some(limit), Some(Duration::ZERO)) = (max_wait, left) {
                state.queue.retain(|w| w.ticket != ticket);
                return Err(Error::timeout(limit));
            }
            state = match left {
                Some(left) => waiter.granted.wait_timeout(state, left),
                None => waiter.granted.wait(state),
            };
        }
    }

    /// Passes the slot to the next caller; false, and the slot is kept, if there is none.
    pub(crate) fn pass(&self) -> bool {
        let mut state = self.state.lock();
        let Some(next) = state.queue.pop_front() else { return false };
        state.holder = None;
        state.granted = Some(next.ticket);
        if !planted("missed-wake-up-in-the-queue") {
            next.granted.notify_one();
        }
        true
    }

    /// Gives the slot up.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.holder = None;
        match state.queue.pop_front() {
            Some(next) => {
                state.granted = Some(next.ticket);
                next.granted.notify_one();
            }
            None => state.held = false,
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
        assert!(!slot.pass());
        let order = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for i in 0..8_u64 {
            let (slot2, clock2, order2) = (slot.clone(), clock.clone(), order.clone());
            threads.push(thread::spawn(move || {
                slot2.acquire(&*clock2, None).unwrap();
                assert_eq!(order2.fetch_add(1, Ordering::SeqCst), i);
                slot2.release();
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
        slot.release();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(order.load(Ordering::SeqCst), 8);
        slot.acquire(&*clock, Some(Duration::ZERO)).unwrap();
    }
}

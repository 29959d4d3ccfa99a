//! Group commit for stores with one writer: callers put their event into the open group and wait; the one who finds
//! nobody committing becomes the leader, commits the open group for all of it, and hands the lead to a caller of the
//! next group. No thread of its own, no timer: a group is what arrived while the one before was being synced.

use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::engine::Engine;
use crate::events::Event;

pub struct GroupCommit<'a> {
    engine: &'a dyn Engine,
    open: Mutex<Open>,
    commits: AtomicU64,
}

/// The group that callers may still join.
#[derive(Default)]
struct Open {
    events: Vec<Event>,
    group: Arc<Group>,
    /// Whether a leader is at work; it takes this group when it is done, or names another leader.
    led: bool,
}

#[derive(Default)]
struct Group {
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Default)]
enum Phase {
    #[default]
    Waiting,
    /// One of the waiting callers is asked to lead.
    NeedsLeader,
    Done(Result<Vec<bool>, String>),
}

impl<'a> GroupCommit<'a> {
    pub fn new(engine: &'a dyn Engine) -> Self {
        Self { engine, open: Mutex::default(), commits: AtomicU64::new(0) }
    }

    /// Groups that held something new.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Settles one event and says whether it was new; returns once that is durable.
    pub fn call(&self, event: Event) -> Result<bool> {
        let (group, index, lead) = {
            let mut open = lock(&self.open)?;
            open.events.push(event);
            let lead = !std::mem::replace(&mut open.led, true);
            (Arc::clone(&open.group), open.events.len() - 1, lead)
        };
        if lead {
            self.lead()?;
        }
        let mut phase = lock(&group.phase)?;
        loop {
            match &*phase {
                Phase::Done(Ok(fresh)) => {
                    return fresh.get(index).copied().context("an answer is missing");
                }
                Phase::Done(Err(error)) => return Err(anyhow!("the group failed: {error}")),
                Phase::Waiting => {
                    phase = group.changed.wait(phase).ok().context("a caller panicked")?
                }
                Phase::NeedsLeader => {
                    *phase = Phase::Waiting;
                    drop(phase);
                    self.lead()?;
                    phase = lock(&group.phase)?;
                }
            }
        }
    }

    /// Commits the open group, answers its callers, and names the next leader if anybody waits.
    fn lead(&self) -> Result<()> {
        let taken = {
            let mut open = lock(&self.open)?;
            std::mem::replace(&mut *open, Open { led: true, ..Open::default() })
        };
        let mut fresh = Vec::with_capacity(taken.events.len());
        let outcome = self.engine.apply(&taken.events, &mut fresh);
        self.commits.fetch_add(u64::from(fresh.contains(&true)), Ordering::Relaxed);
        *lock(&taken.group.phase)? =
            Phase::Done(outcome.map(|()| fresh).map_err(|error| format!("{error:#}")));
        taken.group.changed.notify_all();

        let mut open = lock(&self.open)?;
        if open.events.is_empty() {
            open.led = false;
        } else {
            *lock(&open.group.phase)? = Phase::NeedsLeader;
            open.group.changed.notify_one();
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().ok().context("a caller panicked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Remembers ids; fails a group that holds the id zero.
    #[derive(Default)]
    struct Memory(Mutex<HashSet<[u8; 16]>>);

    impl Engine for Memory {
        fn version(&self) -> Result<String> {
            Ok(String::new())
        }

        fn load_claims(&self, _claims: &[Event]) -> Result<()> {
            Ok(())
        }

        fn load_counters(&self, _counters: &[u64]) -> Result<()> {
            Ok(())
        }

        fn finish_load(&self) -> Result<()> {
            Ok(())
        }

        fn apply(&self, events: &[Event], fresh: &mut Vec<bool>) -> Result<()> {
            let mut ids = lock(&self.0)?;
            anyhow::ensure!(events.iter().all(|event| event.id != [0; 16]), "zero");
            fresh.extend(events.iter().map(|event| ids.insert(event.id)));
            Ok(())
        }

        fn counter_total(&self) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    fn event(number: u64) -> Event {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        Event { id, fingerprint: 0, counter: None }
    }

    #[test]
    fn each_caller_gets_the_answer_to_its_own_event() -> Result<()> {
        let engine = Memory::default();
        let group = GroupCommit::new(&engine);
        let fresh = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let group = &group;
            let fresh = &fresh;
            let callers: Vec<_> = (0..16_u64)
                .map(|thread| {
                    scope.spawn(move || -> Result<()> {
                        for number in 1..=500 {
                            anyhow::ensure!(group.call(event(number << 32 | thread))?);
                            fresh.fetch_add(
                                u64::from(group.call(event(number))?),
                                Ordering::Relaxed,
                            );
                        }
                        Ok(())
                    })
                })
                .collect();
            callers
                .into_iter()
                .try_for_each(|caller| caller.join().map_err(|_| anyhow!("panicked"))?)
        })?;
        // `number << 32 | 0` never equals a small number, so each of those was new to exactly one caller.
        assert_eq!(fresh.load(Ordering::Relaxed), 500);
        Ok(())
    }

    #[test]
    fn a_failed_group_fails_its_callers_and_the_next_one_works() -> Result<()> {
        let engine = Memory::default();
        let group = GroupCommit::new(&engine);
        assert!(group.call(event(0)).is_err());
        assert!(group.call(event(1))?);
        assert_eq!(group.commits(), 1);
        Ok(())
    }
}

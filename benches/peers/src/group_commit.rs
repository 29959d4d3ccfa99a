//! Group commit for stores with one writer: callers put their event into the open group and wait; a writer takes
//! whatever has arrived, commits it as one group, wakes its callers, and takes what arrived meanwhile. No timer: a group
//! is what came while the one before was being synced.
//!
//! The writer is a thread of its own. The other usual form, in which a waiting caller is made the leader of the next
//! group, leaves the disk idle until that caller has been scheduled, behind all those who were woken with their answers.

use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::engine::Engine;
use crate::events::Event;

pub struct GroupCommit {
    open: Mutex<Open>,
    /// Rung for the writer: an event for an empty group, or the end.
    arrived: Condvar,
    commits: AtomicU64,
}

/// The group that callers may still join.
#[derive(Default)]
struct Open {
    events: Vec<Event>,
    group: Arc<Group>,
    /// Whether the writer sleeps until something arrives.
    writer_waits: bool,
    ended: bool,
}

#[derive(Default)]
struct Group {
    /// Set once; all who wait for it are woken together, and none of them needs a lock to read it.
    answers: OnceLock<Result<Vec<bool>, String>>,
}

/// Runs the writer for as long as `callers` works.
pub fn serve<T>(engine: &dyn Engine, callers: impl FnOnce(&GroupCommit) -> Result<T>) -> Result<T> {
    let group =
        GroupCommit { open: Mutex::default(), arrived: Condvar::new(), commits: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| group.write(engine));
        let end = End(&group);
        let outcome = callers(&group);
        drop(end);
        writer.join().map_err(|_| anyhow!("the writer panicked"))??;
        outcome
    })
}

/// Ends the writer when the callers are done, or have panicked: the scope waits for it in any case.
struct End<'g>(&'g GroupCommit);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let open = self.0.open.lock();
        open.unwrap_or_else(PoisonError::into_inner).ended = true;
        self.0.arrived.notify_one();
    }
}

impl GroupCommit {
    /// Groups that held something new.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Settles one event and says whether it was new; returns once that is durable.
    pub fn call(&self, event: Event) -> Result<bool> {
        let (group, index, wake) = {
            let mut open = lock(&self.open)?;
            open.events.push(event);
            let wake = std::mem::take(&mut open.writer_waits);
            (Arc::clone(&open.group), open.events.len() - 1, wake)
        };
        if wake {
            self.arrived.notify_one();
        }
        match group.answers.wait() {
            Ok(fresh) => fresh.get(index).copied().context("an answer is missing"),
            Err(error) => Err(anyhow!("the group failed: {error}")),
        }
    }

    /// Commits one group after another until the end.
    fn write(&self, engine: &dyn Engine) -> Result<()> {
        let mut fresh = Vec::new();
        while let Some((events, group)) = self.next_group()? {
            let outcome = engine.apply(&events, &mut fresh);
            let new = outcome.is_ok() && fresh.contains(&true);
            self.commits.fetch_add(u64::from(new), Ordering::Relaxed);
            let answers = outcome.map(|()| std::mem::take(&mut fresh));
            // Nobody else sets it.
            let _ = group.answers.set(answers.map_err(|error| format!("{error:#}")));
        }
        Ok(())
    }

    fn next_group(&self) -> Result<Option<(Vec<Event>, Arc<Group>)>> {
        let mut open = lock(&self.open)?;
        while open.events.is_empty() {
            if open.ended {
                return Ok(None);
            }
            open.writer_waits = true;
            open = self.arrived.wait(open).ok().context("a caller panicked")?;
        }
        open.writer_waits = false;
        Ok(Some((std::mem::take(&mut open.events), std::mem::take(&mut open.group))))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().ok().context("a thread panicked")
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
            fresh.clear();
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
        let fresh = AtomicU64::new(0);
        serve(&engine, |group| {
            std::thread::scope(|scope| {
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
            })
        })?;
        // `number << 32 | 0` never equals a small number, so each of those was new to exactly one caller.
        assert_eq!(fresh.load(Ordering::Relaxed), 500);
        Ok(())
    }

    #[test]
    fn a_failed_group_fails_its_callers_and_the_next_one_works() -> Result<()> {
        let engine = Memory::default();
        serve(&engine, |group| {
            assert!(group.call(event(0)).is_err());
            assert!(group.call(event(1))?);
            assert_eq!(group.commits(), 1);
            Ok(())
        })
    }
}

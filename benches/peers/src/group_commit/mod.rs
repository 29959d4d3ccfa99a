//! Group commit for stores with one writer: callers put their event into the open group and wait; whatever has arrived
//! is committed as one group, its callers are woken together, and then what arrived meanwhile is committed. No timer: a
//! group is what came while the one before was being synced.
//!
//! It comes in two forms. Which is faster depends on the store and on the machine, so each store's warm-up tries both.

mod leader;
mod writer;

use anyhow::{Context, Result};
use std::sync::{Mutex, MutexGuard};

use crate::engine::Engine;
use crate::events::Event;

/// Who commits a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A thread of its own.
    Writer,
    /// One of the callers that wait.
    Leader,
}

pub const FORMS: [Form; 2] = [Form::Writer, Form::Leader];

/// What callers see of either form.
pub trait GroupCommit: Sync {
    /// Settles one event and says whether it was new; returns once that is durable.
    fn call(&self, event: Event) -> Result<bool>;

    /// Groups that held something new.
    fn commits(&self) -> u64;
}

/// Commits groups in this form for as long as `callers` works.
pub fn serve<T>(
    form: Form,
    engine: &dyn Engine,
    callers: impl FnOnce(&dyn GroupCommit) -> Result<T>,
) -> Result<T> {
    match form {
        Form::Writer => writer::serve(engine, callers),
        Form::Leader => callers(&leader::Leader::new(engine)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().ok().context("a thread panicked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicU64, Ordering};

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
        FORMS.into_iter().try_for_each(answers_are_the_callers_own)
    }

    fn answers_are_the_callers_own(form: Form) -> Result<()> {
        let engine = Memory::default();
        let fresh = AtomicU64::new(0);
        serve(form, &engine, |group| {
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
        for form in FORMS {
            serve(form, &Memory::default(), |group| {
                assert!(group.call(event(0)).is_err());
                assert!(group.call(event(1))?);
                assert_eq!(group.commits(), 1);
                Ok(())
            })?;
        }
        Ok(())
    }
}

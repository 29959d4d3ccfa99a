//! A thread of its own commits one group after another. The disk is never idle while somebody waits, but every group
//! costs two switches of threads.

use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use super::{GroupCommit, lock};
use crate::engine::Engine;
use crate::events::Event;

struct Writer {
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
pub fn serve<T>(
    engine: &dyn Engine,
    callers: impl FnOnce(&dyn GroupCommit) -> Result<T>,
) -> Result<T> {
    let group =
        Writer { open: Mutex::default(), arrived: Condvar::new(), commits: AtomicU64::new(0) };
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
struct End<'g>(&'g Writer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let open = self.0.open.lock();
        open.unwrap_or_else(PoisonError::into_inner).ended = true;
        self.0.arrived.notify_one();
    }
}

impl GroupCommit for Writer {
    fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn call(&self, event: Event) -> Result<bool> {
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
}

impl Writer {
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

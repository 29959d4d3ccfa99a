//! The caller who finds nobody committing becomes the leader, commits the open group for all of it, and hands the lead to
//! a caller of the next group. No thread of its own, but the disk is idle until the next leader has been scheduled, behind
//! all those who were woken with their answers.

use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::{GroupCommit, lock};
use crate::engine::Engine;
use crate::events::Event;

pub struct Leader<'a> {
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

impl<'a> Leader<'a> {
    pub fn new(engine: &'a dyn Engine) -> Self {
        Self { engine, open: Mutex::default(), commits: AtomicU64::new(0) }
    }
}

impl GroupCommit for Leader<'_> {
    fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn call(&self, event: Event) -> Result<bool> {
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
}

impl Leader<'_> {
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

//! The oracle: what must hold of a store, given all that was asked of it and answered.
//!
//! I1, I2, I3: it shows the model after every answered call, or after the one that was not answered
//! too, never anything between. I4: feeding the trace again changes no counter of what is still
//! promised. I5: nothing is forgotten before its time, and floors are what forgetting makes them. I6:
//! floors, sequence and store time never go back. I8: indexes equal full scans. I12: nothing is left
//! behind a sweep.

use super::{Runner, say, through};
use crate::api::consumer::Consumer;
use crate::api::event_id::EventId;
use crate::api::inbox::Inbox;
use crate::api::map::Map;
use crate::api::testkit::audit::{Probe, audit};
use crate::api::testkit::model::{Known, Model, ModelState};
use crate::api::testkit::{Op, SimClock, SimDisk};
use crate::base::clock::Clock;

/// How many rows of state are read at once.
const PAGE: usize = 1_000;
/// Of the ids that came once, one in so many is looked up in each check.
const SAMPLE: usize = 13;

impl Runner {
    /// Holds the open store to the model. A call that was not answered may have taken effect or not;
    /// whichever the store shows is what counts from here on.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&mut self) -> Result<(), String> {
        let inbox = self.store()?.inbox.clone();
        let probe = Probe::of(&inbox).map_err(say("looking at the store"))?;
        self.check_monotone(&probe)?;
        let mut candidates = std::mem::take(&mut self.maybe);
        candidates.insert(0, self.model.clone());
        let mut reasons = Vec::new();
        for (place, candidate) in candidates.iter().enumerate() {
            let mut candidate = candidate.clone();
            match self.explains(&mut candidate, &probe) {
                Ok(()) => {
                    match (place, candidates.len()) {
                        (0, 1) => {}
                        (0, _) => self.coverage.hit("lost, not answered"),
                        _ => self.coverage.hit("kept, not answered"),
                    }
                    self.model = candidate;
                    self.resumed = false;
                    self.last = Some(probe);
                    return Ok(());
                }
                Err(reason) => reasons.push(reason),
            }
        }
        self.maybe = candidates.split_off(1);
        Err(reasons.join("; nor, if the last call counts: "))
    }

    fn check_monotone(&self, now: &Probe) -> Result<(), String> {
        let Some(then) = &self.last else { return Ok(()) };
        if now.seq < then.seq {
            return Err(format!("I6: sequence {} after {}", now.seq, then.seq));
        }
        for (consumer, floor_ms) in &then.floors {
            if now.floors.get(consumer).is_none_or(|now| now < floor_ms) {
                return Err(format!("I6: the floor of {consumer} fell from {floor_ms}"));
            }
        }
        Ok(())
    }

    /// Whether the store shows what this model says.
    fn explains(&self, model: &mut Model, probe: &Probe) -> Result<(), String> {
        if self.resumed {
            let (wall_ms, boot_ms) = (self.clock.wall_ms(), self.clock.boot_ms());
            model.resume(&self.saved, wall_ms, boot_ms, &probe.times)?;
        }
        model.follow(&probe.buckets, &probe.results)?;
        let mut live = probe.buckets.clone();
        live.sort_unstable();
        if model.live_buckets() != live {
            return Err(format!("I3: buckets {live:?} instead of {:?}", model.live_buckets()));
        }
        model.follow_idle(&probe.times);
        for (class, now_ms) in &probe.times {
            if model.now_ms(*class) != *now_ms {
                let expected_ms = model.now_ms(*class);
                return Err(format!("store time of {class:?} is {now_ms}, not {expected_ms}"));
            }
        }
        for consumer in model.consumers() {
            let floor_ms = probe.floors.get(consumer).copied();
            if model.floor_ms(consumer) != floor_ms {
                let expected = model.floor_ms(consumer);
                return Err(format!(
                    "I5: the floor of {consumer} is {floor_ms:?}, not {expected:?}"
                ));
            }
        }
        for consumer in model.consumers() {
            // Of a row that nobody can look up any more this is all that shows, until it raises a floor.
            let (is, should) =
                (probe.newest.get(consumer).copied(), model.newest_event_ms(consumer));
            if is != should {
                return Err(format!("I5: the newest time of {consumer} is {is:?}, not {should:?}"));
            }
        }
        let open = self.store()?;
        same_state(&open.inbox, &open.map, model.state())?;
        same_claims(&open.consumers, model)
    }

    /// Compares indexes with full scans.
    pub(super) fn audit(&mut self, settled: bool) -> Result<(), String> {
        self.coverage.hit("audited");
        audit(&self.store()?.inbox, settled)
    }

    /// The last of an image's checks: everything is delivered again, the store swept and audited, and
    /// each counter must equal the model's, which applies every id once.
    ///
    /// # Errors
    /// What does not hold.
    pub fn feed_again(&mut self) -> Result<(), String> {
        let fed = self.fed.clone();
        self.feed()?;
        self.check().map_err(|e| format!("I4: after feeding again: {e}"))?;
        let before = self.model.state().clone();
        self.fed = fed;
        self.feed()?;
        self.check().map_err(|e| format!("I4: after feeding twice: {e}"))?;
        let moved = self.model.state() != &before;
        if moved { Err("I4: a repeat changed the state".to_owned()) } else { Ok(()) }
    }

    /// Checks a disk that some machine was left with: it opens, shows what was answered or that and
    /// the call that was not, and takes every event exactly once.
    ///
    /// # Errors
    /// What does not hold.
    pub fn examine(&self, image: &SimDisk) -> Result<Self, String> {
        let mut examined = self.fork(image.clone());
        examined.open_store()?;
        examined.check()?;
        examined.audit(false)?;
        examined.step(&Op::Sweep)?;
        examined.feed_again()?;
        Ok(examined)
    }

    /// The same knowledge about another machine, whose store is not open yet.
    #[must_use]
    pub fn fork(&self, disk: SimDisk) -> Self {
        let clock = SimClock::new(self.clock.wall_ms());
        clock.set_boot_ms(self.clock.boot_ms());
        clock.set_stopwatch_us(self.clock.stopwatch_us());
        Self {
            disk,
            clock,
            seed: self.seed,
            open: None,
            model: self.model.clone(),
            saved: self.saved.clone(),
            maybe: self.maybe.clone(),
            resumed: true,
            under_trouble: false,
            fed: self.fed.clone(),
            fresh: self.fresh,
            last: None,
            coverage: self.coverage.clone(),
        }
    }

    /// Runs steps until one meets a disk that has lost its power; what was not answered then is kept
    /// as a thing that may be true.
    ///
    /// # Errors
    /// What does not hold before the power goes.
    pub fn steps_until_dark<'a>(
        &mut self,
        ops: impl IntoIterator<Item = &'a Op>,
    ) -> Result<(), String> {
        if self.open.is_none() {
            match self.try_open() {
                Ok(open) => self.open = Some(open),
                Err(_) if self.disk.has_crashed() => return Ok(()),
                Err(error) => return Err(format!("opening: {error}")),
            }
            match self.check() {
                Err(_) if self.disk.has_crashed() => return Ok(()),
                other => other?,
            }
        }
        for op in ops {
            let done = self.step(op);
            if self.disk.has_crashed() {
                return Ok(()); // a call without an answer has left what it may have done in `maybe`
            }
            done?;
        }
        Ok(())
    }
}

fn same_state(inbox: &Inbox, map: &Map<u64, u64>, expected: &ModelState) -> Result<(), String> {
    let found = inbox.read(|view| view.scan(map, .., PAGE)).map_err(say("reading the state"))?;
    let expected: Vec<(u64, u64)> = expected.iter().map(|(k, v)| (*k, *v)).collect();
    if found == expected {
        return Ok(());
    }
    Err(format!("I2: state {found:?} instead of {expected:?}"))
}

fn same_claims(consumers: &[Consumer], model: &Model) -> Result<(), String> {
    for (place, consumer) in (0..).zip(consumers) {
        let name = through(place).consumer;
        let mut ids: Vec<EventId> = Vec::new();
        for id in 0..48 {
            ids.push(super::id_of(id)?);
        }
        let fillers = model.ids().filter(|(owner, _)| *owner == name).map(|(_, id)| id);
        ids.extend(fillers.step_by(SAMPLE).cloned());
        for id in ids {
            let found = consumer.lookup(&id).map_err(say("looking up"))?.map(|c| Known::of(&c));
            let expected = model.lookup(&name, &id);
            let right = match &found {
                None => expected.is_empty(),
                Some(known) => expected.contains(known),
            };
            if !right {
                return Err(format!("I1: {name} shows {found:?} under {id}, not {expected:?}"));
            }
        }
    }
    Ok(())
}

//! Runs steps against a store and the model at once, and holds the one to the other.
//!
//! Owns a simulated machine, the store on it, the model of all that was answered, and the trace of all
//! that was delivered. Every driver of this crate's tests goes through here. What must hold after
//! each step is what [`Runner::check`] says.

mod deliver;
mod disturb;
mod oracle;

use std::collections::BTreeMap;
use std::time::Duration;

use super::audit::Probe;
use super::model::{Class, Model, Through};
use super::op::{Item, Op};
use super::{Keep, SimClock, SimDisk};
use crate::api::builder::Durability;
use crate::api::consumer::Consumer;
use crate::api::event::Event;
use crate::api::event_id::EventId;
use crate::api::inbox::Inbox;
use crate::api::map::Map;
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::claims::policy::Retention;

/// Wall time at the start of every run: 2027-01-15.
pub const WALL_MS: i64 = 1_800_000_000_000;
/// The consumers of every run: the store's retention of 60 s, 20 s, 20 s with late events accepted
/// and results kept for 5 s, and for ever.
pub const CONSUMERS: [&str; 4] = ["default", "short", "late", "ever"];
/// Keys at and above it are the consumers' counters.
pub const COUNTERS: u64 = 1_000;

/// How often each thing happened, so that a test can tell that its run met all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    /// Counts one more.
    pub fn hit(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts several.
    pub fn add(&mut self, what: &'static str, n: u64) {
        *self.0.entry(what).or_default() += n;
    }

    /// Adds all counts of another.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, n)| self.add(what, *n));
    }

    /// How often it happened.
    #[must_use]
    pub fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Those of the names that never happened.
    #[must_use]
    pub fn missing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        names.iter().copied().filter(|name| self.count(name) == 0).collect()
    }
}

/// An open store with its handles.
struct Open {
    inbox: Inbox,
    consumers: Vec<Consumer>,
    map: Map<u64, u64>,
}

/// See the module.
pub struct Runner {
    disk: SimDisk,
    clock: SimClock,
    seed: u64,
    open: Option<Open>,
    /// What every answer so far amounts to.
    model: Model,
    /// Store times at the last commit that was answered.
    saved: BTreeMap<Class, u64>,
    /// What else may be true, since the last call was not answered.
    maybe: Vec<Model>,
    /// Set once a crash may have set store time back.
    resumed: bool,
    /// Set while a fault may strike.
    under_trouble: bool,
    fed: Vec<(u8, Item)>,
    fresh: u32,
    last: Option<Probe>,
    coverage: Coverage,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("seed", &self.seed).field("disk", &self.disk).finish()
    }
}

fn say(doing: &str) -> impl Fn(Error) -> String {
    move |e| format!("{doing}: {e}")
}

fn default_retention() -> Retention {
    Retention::at_least(Duration::from_secs(60))
}

fn retention_of(consumer: &str) -> Option<Retention> {
    match consumer {
        "short" | "late" => Some(Retention::at_least(Duration::from_secs(20))),
        "ever" => Some(Retention::forever()),
        _ => None,
    }
}

fn through(consumer: u8) -> Through {
    let name = CONSUMERS.get(usize::from(consumer) % CONSUMERS.len()).copied().unwrap_or("default");
    let late = name == "late";
    Through {
        consumer: name.to_owned(),
        accept_late: late,
        result_retention_ms: late.then_some(5_000),
    }
}

/// The id of a made-up event.
fn id_of(id: u16) -> Result<EventId, String> {
    EventId::text(&format!("event-{id}")).map_err(say("an id"))
}

fn fresh_id(n: u32) -> Result<EventId, String> {
    EventId::bytes(&n.to_be_bytes()).map_err(say("an id"))
}

fn event_of(item: &Item) -> Result<Event<'static>, String> {
    let mut event = Event::unchecked(id_of(item.id)?);
    if let Some(fingerprint) = item.fingerprint {
        event = event.fingerprint(fingerprint);
    }
    if let Some(time_ms) = item.time_ms {
        event = event.at_ms(WALL_MS.saturating_add(time_ms));
    }
    for alias in &item.aliases {
        event = event.alias(id_of(*alias)?);
    }
    Ok(event)
}

impl Runner {
    /// A new store on an empty simulated disk, all from one seed.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    pub fn new(seed: u64) -> Result<Self, String> {
        Self::on(SimDisk::new(), seed)
    }

    /// As [`new`](Self::new), on that disk, which may have faults waiting.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    pub fn on(disk: SimDisk, seed: u64) -> Result<Self, String> {
        let mut runner = Self::unopened(disk, seed)?;
        runner.open_store()?;
        runner.check()?;
        Ok(runner)
    }

    /// As [`on`](Self::on), without opening the store yet.
    ///
    /// # Errors
    /// None in practice.
    pub fn unopened(disk: SimDisk, seed: u64) -> Result<Self, String> {
        let mut model = Model::new(&default_retention()).map_err(say("the model"))?;
        let clock = SimClock::new(WALL_MS);
        model.set_clock(clock.wall_ms(), clock.boot_ms());
        for name in CONSUMERS {
            model.register(name, retention_of(name).as_ref()).map_err(say("the model"))?;
        }
        Ok(Self {
            disk,
            clock,
            seed,
            open: None,
            model,
            saved: BTreeMap::new(),
            maybe: Vec::new(),
            resumed: true,
            under_trouble: false,
            fed: Vec::new(),
            fresh: 0,
            last: None,
            coverage: Coverage::default(),
        })
    }

    /// The simulated disk.
    #[must_use]
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// The model of everything that was answered.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How often each thing happened.
    #[must_use]
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The open store.
    #[must_use]
    pub fn inbox(&self) -> Option<&Inbox> {
        self.open.as_ref().map(|open| &open.inbox)
    }

    fn store(&self) -> Result<&Open, String> {
        self.open.as_ref().ok_or_else(|| "the store is not open".to_owned())
    }

    /// Opens the store, its consumers and its map.
    fn open_store(&mut self) -> Result<(), String> {
        let open = self.try_open().map_err(say("I9: opening"))?;
        self.coverage.hit("opened");
        self.open = Some(open);
        Ok(())
    }

    /// As a program of a user would.
    fn try_open(&self) -> Result<Open, Error> {
        // Now and then the other way, so that each takes over what the other left.
        let every_commit = (self.seed ^ self.disk.calls()) % 4 == 1;
        let durability = if every_commit { Durability::EveryCommit } else { Durability::Journal };
        let inbox = Inbox::builder(default_retention())
            .clock(self.clock.clone())
            .seed(self.seed)
            .recent_max_claims(1_024)
            .cache_bytes(1 << 20)
            .no_threads()
            .durability(durability)
            .open_on(&self.disk)?;
        let mut consumers = Vec::new();
        for (place, name) in (0..).zip(CONSUMERS) {
            let consumer = match retention_of(name) {
                Some(retention) => inbox.consumer_with(name, retention)?,
                None => inbox.consumer(name)?,
            };
            let Through { accept_late, result_retention_ms, .. } = through(place);
            let consumer = if accept_late { consumer.accept_late() } else { consumer };
            consumers.push(match result_retention_ms {
                Some(ms) => consumer.result_retention(Duration::from_millis(ms)),
                None => consumer,
            });
        }
        let map = inbox.map("state")?;
        Ok(Open { inbox, consumers, map })
    }

    /// Opens the store once, for what that answers, and lets it go.
    ///
    /// # Errors
    /// The store's own.
    pub fn open_once(&self) -> Result<(), Error> {
        self.try_open().map(drop)
    }

    /// Runs one step and checks the store against the model.
    ///
    /// # Errors
    /// The first thing that does not hold, in words.
    pub fn step(&mut self, op: &Op) -> Result<(), String> {
        self.sweep_if_crowded()?;
        self.run(op).map_err(|e| format!("{e}, in {op:?}"))?;
        self.check().map_err(|e| format!("{e}, after {op:?}"))
    }

    /// Runs all steps.
    ///
    /// # Errors
    /// The first thing that does not hold, with the step's number.
    pub fn steps<'a>(&mut self, ops: impl IntoIterator<Item = &'a Op>) -> Result<(), String> {
        for (number, op) in ops.into_iter().enumerate() {
            self.step(op).map_err(|e| format!("step {number}: {e}; seed {}", self.seed))?;
        }
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Advance(ms) => self.clock.advance(Duration::from_millis(*ms)),
            Op::Wall(ms) => self.clock.step_wall_ms(*ms),
            Op::Boot(ms) => self.clock.step_boot_ms(*ms),
            Op::Reopen(ms) => return self.reopen(*ms),
            Op::Kill => return self.restart(self.disk.kill()),
            Op::PowerCut(keep) => return self.restart(self.disk.power_cut(*keep)),
            Op::CrashIn(calls, keep, op) => return self.crash_in(*calls, *keep, op),
            Op::TroubleIn(calls, trouble, op) => return self.trouble_in(*calls, *trouble, op),
            other => {
                if let Some(error) = self.attempt(other)? {
                    return Err(format!("I10: without any fault: {error}"));
                }
                return if *other == Op::Sweep { self.audit(false) } else { Ok(()) };
            }
        }
        self.tick();
        Ok(())
    }

    /// Carries the clock's reading into the model and lets the store see it.
    fn tick(&mut self) {
        self.model.set_clock(self.clock.wall_ms(), self.clock.boot_ms());
        // The store notes the time when it is asked; the model noted it just now.
        let _ = self.open.as_ref().map(|open| Probe::of(&open.inbox));
    }

    /// More recent claims than are meant to be would let the next call do maintenance first.
    fn sweep_if_crowded(&mut self) -> Result<(), String> {
        let Ok(open) = self.store() else { return Ok(()) };
        let stats = open.inbox.stats().map_err(say("stats"))?;
        if stats.recent_claims > 900 { self.step_sweep() } else { Ok(()) }
    }

    fn step_sweep(&mut self) -> Result<(), String> {
        self.run(&Op::Sweep)?;
        self.check()
    }

    /// The power is cut now, keeping nothing that was not synced, and the store is opened again.
    ///
    /// # Errors
    /// What does not hold then.
    pub fn power_cut(&mut self, keep: Keep) -> Result<(), String> {
        self.restart(self.disk.power_cut(keep))?;
        self.check()
    }
}

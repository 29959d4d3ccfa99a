//! A store on a simulated disk whose commits fail where they are told to.

use std::time::Duration;

use txinbox::testkit::{Call, Fault, Keep, Loss, SimClock, SimDisk, Traced};
use txinbox::{Consumer, Error, Event, Inbox, Map, Outcome, Retention, days};

use crate::support::{Counts, Way, bump, event, id, sim_clock};

/// A closed store that has handled `e0`; each run starts from a copy of it.
pub(crate) struct Base {
    disk: SimDisk,
}

/// An open store in the middle of a run.
pub(crate) struct Run {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    pub(crate) inbox: Inbox,
    pub(crate) consumer: Consumer,
    pub(crate) counts: Counts,
    blobs: Map<str, [u8]>,
}

impl Base {
    pub(crate) fn new() -> Self {
        let disk = SimDisk::new();
        let run = Run::open(&disk);
        assert!(run.deliver(Way::Process, "e0").unwrap().is_applied());
        drop(run.consumer);
        run.inbox.close().unwrap();
        Self { disk }
    }

    /// A copy that is open and has counted no call yet.
    pub(crate) fn start(&self) -> Run {
        let run = Run::open(&self.disk.kill());
        run.disk.reset_calls();
        run
    }
}

impl Run {
    pub(crate) fn try_open(disk: &SimDisk) -> Result<Self, Error> {
        let clock = sim_clock();
        let inbox = Inbox::builder(Retention::at_least(days(7)))
            .clock(clock.clone())
            .seed(7)
            .no_threads()
            .open_on(disk)?;
        let (consumer, counts) = (inbox.consumer("c")?, inbox.map("n")?);
        let blobs = inbox.map("blobs")?;
        Ok(Self { disk: disk.clone(), clock, inbox, consumer, counts, blobs })
    }

    pub(crate) fn open(disk: &SimDisk) -> Self {
        Self::try_open(disk).unwrap()
    }

    /// Handles an event: a counter, a value of several pages, a result.
    pub(crate) fn deliver(&self, way: Way, name: &str) -> Result<Outcome<()>, Error> {
        way.deliver(&self.consumer, &Event::new(id(name), "payload"), |tx| {
            bump(tx, &self.counts, name)?;
            tx.insert(&self.blobs, name, &[7; 20_000])?;
            Ok(tx.set_result(name)?)
        })
    }

    /// How often the effect of `name` took place; `None` if the store cannot tell.
    pub(crate) fn effects(&self, name: &str) -> Option<u64> {
        let read = self.inbox.read(|view| view.get(&self.counts, name));
        read.ok().map(|n| n.unwrap_or(0))
    }

    /// Whether `name` is claimed; `None` if the store cannot tell.
    pub(crate) fn is_claimed(&self, name: &str) -> Option<bool> {
        let claim = self.consumer.lookup(&id(name)).ok()?;
        if let Some(claim) = &claim {
            assert_eq!(claim.result(), Some(name.as_bytes()), "a claim with its result");
        }
        Some(claim.is_some())
    }

    /// The fault is over, and so is the pause after it.
    pub(crate) fn recover(&self) {
        self.disk.clear_faults();
        self.clock.advance(Duration::from_secs(1));
    }

    /// Both parts of `name` or none of it: whether it was kept.
    pub(crate) fn kept(&self, name: &str, context: &str) -> bool {
        let (claimed, effects) = (self.is_claimed(name), self.effects(name));
        let claimed = claimed.unwrap_or_else(|| panic!("{context}: cannot look up"));
        assert_eq!(effects, Some(u64::from(claimed)), "{context}: {name} kept in part");
        claimed
    }
}

/// The calls on the disk from the delivery of `e1` to its answer.
pub(crate) fn traced(base: &Base, way: Way) -> Vec<Traced> {
    let run = base.start();
    run.disk.record(true);
    assert!(run.deliver(way, "e1").unwrap().is_applied());
    let trace = run.disk.trace();
    assert!(run.consumer.process(&event("e1"), |_| Ok(())).unwrap().is_duplicate());
    trace
}

/// All that can go wrong with one call, except a power cut.
pub(crate) fn faults(at: &Traced) -> Vec<Fault> {
    let (n, call) = (at.ordinal, at.call);
    let once = match call {
        Call::Write => vec![
            Fault::error(n, &[call]),
            Fault::full(n, &[call]),
            Fault::short_write(n, at.len as usize / 2),
        ],
        Call::Sync => vec![
            Fault::error(n, &[call]),
            Fault::lost_sync(n, Loss::All),
            Fault::lost_sync(n, Loss::Part(n)),
        ],
        Call::SetLen => vec![Fault::error(n, &[call]), Fault::full(n, &[call])],
        Call::Read => vec![Fault::error(n, &[call]), Fault::short_read(n, 1)],
        _ => vec![Fault::error(n, &[call])],
    };
    once.iter().cloned().chain(once.iter().cloned().map(Fault::lasting)).collect()
}

/// What a process that starts again may find: after its death alone, and after power cuts.
pub(crate) fn restarts(disk: &SimDisk, seed: u64) -> Vec<(String, SimDisk)> {
    let keeps = [Keep::Nothing, Keep::Everything, Keep::Subset(seed), Keep::Sectors(seed)];
    let cuts = keeps.into_iter().map(|keep| (format!("power cut, {keep}"), disk.power_cut(keep)));
    cuts.chain([("kill".to_owned(), disk.kill())]).collect()
}

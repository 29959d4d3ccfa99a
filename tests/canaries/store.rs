//! A small store on a simulated machine, opened the same way each time.

use std::time::Duration;

use txinbox::testkit::{Keep, SimClock, SimDisk};
use txinbox::{
    Builder, Consumer, Durability, Error, Event, EventId, Inbox, Map, Outcome, Retention,
};

/// What the policy below promises, and what follows from it: R is the window times 32/31, and a
/// bucket takes claims for an eighth of R.
pub(crate) const WINDOW: Duration = Duration::from_secs(3_100);
pub(crate) const RETENTION: Duration = Duration::from_secs(3_200);
pub(crate) const SPAN: Duration = Duration::from_secs(400);
/// Later than the crate's release, so that this wall clock is believed.
pub(crate) const START_MS: i64 = 1_800_000_000_000;
/// Claims that make sealing due at the smallest setting.
pub(crate) const SEALED: u32 = 600;

/// A machine: its disk and its clock.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(SimDisk::new())
    }

    pub(crate) fn with(disk: SimDisk) -> Self {
        Self { disk, clock: SimClock::new(START_MS) }
    }

    pub(crate) fn try_open(&self) -> Result<Inbox, Error> {
        self.try_open_for(Retention::at_least(WINDOW))
    }

    pub(crate) fn try_open_for(&self, retention: Retention) -> Result<Inbox, Error> {
        self.builder(retention).open_on(&self.disk)
    }

    /// As `open`, every group a commit of the database.
    pub(crate) fn open_without_journal(&self) -> Result<Inbox, Error> {
        let builder = self.builder(Retention::at_least(WINDOW));
        builder.durability(Durability::EveryCommit).open_on(&self.disk)
    }

    fn builder(&self, retention: Retention) -> Builder {
        Inbox::builder(retention)
            .clock(self.clock.clone())
            .seed(7)
            .no_threads()
            .recent_max_claims(1_024)
            .cache_bytes(1 << 20)
    }

    pub(crate) fn open(&self) -> Inbox {
        self.try_open().unwrap()
    }

    /// The machine as it starts again when the power fails now and nothing unsynced survives.
    pub(crate) fn cut(&self) -> Self {
        Self { disk: self.disk.power_cut(Keep::Nothing), clock: self.clock.clone() }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

pub(crate) fn id(n: u32) -> EventId {
    EventId::text(&format!("event-{n}")).unwrap()
}

pub(crate) fn event(n: u32) -> Event<'static> {
    Event::unchecked(id(n))
}

pub(crate) fn deliver(consumer: &Consumer, n: u32) -> Outcome<()> {
    consumer.process(&event(n), |_| Ok(())).unwrap()
}

pub(crate) fn counter(inbox: &Inbox) -> Map<u32, u64> {
    inbox.map("counter").unwrap()
}

pub(crate) fn count(inbox: &Inbox) -> Option<u64> {
    inbox.read(|view| view.get(&counter(inbox), &0)).unwrap()
}

/// Enough events from `first` on to be sealed, and sealed.
pub(crate) fn seal(inbox: &Inbox, consumer: &Consumer, first: u32) {
    let ids: Vec<u32> = (first..first + SEALED).collect();
    let batch = consumer.process_batch(&ids, |n| event(*n), |_, _| Ok(()));
    assert!(batch.iter().all(|answer| answer.as_ref().unwrap().is_applied()));
    // One more group, which goes to a table of its own and so freezes the full one.
    assert!(deliver(consumer, first + SEALED).is_applied());
    inbox.sweep().unwrap();
}

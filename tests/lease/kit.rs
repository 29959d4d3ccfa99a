//! What the tests share: a simulated machine, short names.

use std::time::Duration;

use txinbox::lease::{Begun, Lease};
use txinbox::testkit::{SimClock, SimDisk};
use txinbox::{Builder, Consumer, Event, EventId, Inbox, Outcome, Retention, hours};

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn id(text: &str) -> EventId {
    EventId::text(text).unwrap()
}

pub(crate) fn event(text: &str) -> Event<'static> {
    Event::new(id(text), "its payload")
}

/// A machine on which one store is opened again and again.
pub(crate) struct Lab {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { disk: SimDisk::new(), clock: SimClock::new(1_800_000_000_000) }
    }

    pub(crate) fn builder(&self) -> Builder {
        Inbox::builder(Retention::at_least(hours(31)))
            .clock(self.clock.clone())
            .seed(1)
            .no_threads()
            .recent_max_claims(1_024)
            .journal_segment_bytes(64 << 10)
            .ballast_bytes(0)
    }

    pub(crate) fn open(&self) -> Inbox {
        self.builder().open_on(&self.disk).unwrap()
    }

    /// The machine as the death of the process leaves it.
    pub(crate) fn killed(&self) -> Self {
        Self { disk: self.disk.kill(), clock: self.clock.clone() }
    }
}

pub(crate) fn begin(consumer: &Consumer, text: &str, duration: Duration) -> Lease {
    match consumer.begin(&event(text), duration).unwrap() {
        Begun::Lease(lease) => lease,
        Begun::Settled(outcome) => panic!("{text}: {outcome:?}"),
    }
}

pub(crate) fn not_begun(consumer: &Consumer, text: &str) -> Outcome<()> {
    match consumer.begin(&event(text), secs(10)).unwrap() {
        Begun::Lease(lease) => panic!("{text}: {lease:?}"),
        Begun::Settled(outcome) => outcome,
    }
}

pub(crate) fn process(consumer: &Consumer, text: &str) -> Outcome<()> {
    consumer.process(&event(text), |tx| Ok(tx.set_result("processed")?)).unwrap()
}

pub(crate) fn in_progress(secs_left: u64, attempt: u32) -> Outcome<()> {
    Outcome::InProgress { expires_in: secs(secs_left), attempt }
}

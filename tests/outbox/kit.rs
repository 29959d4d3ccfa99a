//! What the tests share: a simulated machine, short names.

use std::time::Duration;

use txinbox::outbox::{Delivery, Destination, Message};
use txinbox::testkit::{SimClock, SimDisk};
use txinbox::{Builder, Consumer, Event, EventId, Inbox, Outcome, Retention, hours};

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn event(text: &str) -> Event<'static> {
    Event::unchecked(EventId::text(text).unwrap())
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

    pub(crate) fn desk(&self) -> Desk {
        Desk::at(self.open())
    }

    /// The machine as the death of the process leaves it.
    pub(crate) fn killed(&self) -> Self {
        Self { disk: self.disk.kill(), clock: self.clock.clone() }
    }
}

/// A store with one consumer and one destination.
pub(crate) struct Desk {
    pub(crate) inbox: Inbox,
    pub(crate) consumer: Consumer,
    pub(crate) to: Destination,
}

impl Desk {
    pub(crate) fn at(inbox: Inbox) -> Self {
        let (consumer, to) = (inbox.consumer("c").unwrap(), inbox.destination("to").unwrap());
        Self { inbox, consumer, to }
    }

    /// With relays' settings of its own.
    pub(crate) fn with(self, change: impl FnOnce(Destination) -> Destination) -> Self {
        Self { to: change(self.to), ..self }
    }

    /// Sends one message as the event of its payload, which is new.
    pub(crate) fn send(&self, payload: &str, key: Option<&str>) {
        assert!(self.deliver(payload, key).is_applied());
    }

    /// As `send`, whatever the outcome.
    pub(crate) fn deliver(&self, payload: &str, key: Option<&str>) -> Outcome<()> {
        let message = Message::new(payload);
        let message = match key {
            Some(key) => message.key(key),
            None => message,
        };
        let send = |tx: &mut txinbox::Tx<'_>| {
            tx.enqueue(&self.to, message.clone())?;
            Ok(())
        };
        self.consumer.process(&event(payload), send).unwrap()
    }

    pub(crate) fn take(&self) -> Vec<Delivery> {
        self.to.take(1_000).unwrap()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.to.waiting(None, 10_000).unwrap().len()
    }
}

pub(crate) fn payload(delivery: &Delivery) -> &str {
    std::str::from_utf8(delivery.payload()).unwrap()
}

pub(crate) fn payloads(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(payload).collect()
}

//! Every limit at n-1, n and n+1, and at 0, through the public interface.
//!
//! The numbers are written out here, since they are what the documentation promises; that a constant
//! of the crate changes must fail a test. Limits that no caller can reach in a test's time (consumers
//! and keyspaces of a store, claims of a partition) are tested beside their code.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests, helpers included

mod events;
mod groups;
mod settings;
mod state;

use std::time::Duration;

use txinbox::testkit::SimClock;
use txinbox::{Builder, Consumer, Error, Event, EventId, Inbox, Outcome, Retention};

/// Milliseconds since 1970 of the crate's release; earlier wall clocks are not believed.
const RELEASE_MS: i64 = 1_796_083_200_000;

fn builder() -> Builder {
    Inbox::builder(Retention::at_least(Duration::from_secs(3_100))).no_threads()
}

fn inbox() -> Inbox {
    builder().open_in_memory().unwrap()
}

fn id(n: usize) -> EventId {
    EventId::text(&format!("event-{n}")).unwrap()
}

fn event(n: usize) -> Event<'static> {
    Event::unchecked(id(n))
}

fn deliver(consumer: &Consumer, event: &Event<'_>) -> Result<Outcome<()>, Error> {
    consumer.process(event, |_| Ok(()))
}

fn clock() -> SimClock {
    SimClock::new(RELEASE_MS)
}

//! A small store on a simulated machine, with a source and a map that counts what was done at each position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use txinbox::ordered::Ordered;
use txinbox::testkit::{Keep, SimClock, SimDisk};
use txinbox::{BoxError, Error, Event, EventId, Inbox, Map, Outcome, Retention, Tx};

pub(crate) const START_MS: i64 = 1_800_000_000_000;

#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    /// So that each opening draws other numbers, as a real one would.
    openings: Arc<AtomicU64>,
}

/// How often each position of each source was handled, as the state has it.
pub(crate) type Done = Map<(u8, u64, u64), u64>;

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(SimDisk::new())
    }

    pub(crate) fn with(disk: SimDisk) -> Self {
        Self { disk, clock: SimClock::new(START_MS), openings: Arc::default() }
    }

    pub(crate) fn try_open(&self) -> Result<Inbox, Error> {
        Inbox::builder(Retention::at_least(Duration::from_secs(3_100)))
            .clock(self.clock.clone())
            .seed(self.openings.fetch_add(1, Ordering::SeqCst))
            .no_threads()
            .recent_max_claims(1_024)
            .cache_bytes(1 << 20)
            .open_on(&self.disk)
    }

    pub(crate) fn open(&self) -> Inbox {
        self.try_open().unwrap()
    }

    pub(crate) fn cut(&self, keep: Keep) -> Self {
        Self { disk: self.disk.power_cut(keep), ..self.clone() }
    }

    pub(crate) fn kill(&self) -> Self {
        Self { disk: self.disk.kill(), ..self.clone() }
    }
}

/// Source 0, as one opening of a store sees it.
pub(crate) fn source(inbox: &Inbox) -> Ordered {
    inbox.consumer("c").unwrap().ordered("s0", 1).unwrap()
}

pub(crate) fn done(inbox: &Inbox) -> Done {
    inbox.map("done").unwrap()
}

pub(crate) fn count(
    tx: &mut Tx<'_>,
    done: &Done,
    (source, incarnation): (u8, u64),
    position: u64,
) -> Result<(), BoxError> {
    tx.update(done, &(source, incarnation, position), |n| Some(n.unwrap_or(0) + 1))?;
    Ok(())
}

/// Handles a position of source 0.
pub(crate) fn deliver(inbox: &Inbox, position: u64) -> Result<Outcome<()>, Error> {
    let done = done(inbox);
    source(inbox).process(position, |tx| count(tx, &done, (0, 1), position))
}

/// Writes, and then fails.
pub(crate) fn fail(inbox: &Inbox, position: u64) -> Error {
    let done = done(inbox);
    let handled = source(inbox).process(position, |tx| {
        count(tx, &done, (0, 1), position)?;
        Err::<(), _>("no".into())
    });
    handled.unwrap_err()
}

/// The positions of source 0 that were handled, and how often.
pub(crate) fn handled(inbox: &Inbox) -> Vec<(u64, u64)> {
    let done = done(inbox);
    let rows = inbox.read(|view| view.scan(&done, .., 10_000)).unwrap();
    rows.into_iter().map(|((_, _, position), n)| (position, n)).collect()
}

pub(crate) fn event(n: u64) -> Event<'static> {
    Event::unchecked(EventId::parts(&[b"event", &n.to_be_bytes()]).unwrap())
}

//! What the cases share: a simulated machine, short names, a source of numbers, a watchdog.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

use txinbox::testkit::{SimClock, SimDisk};
use txinbox::{Builder, Consumer, Error, Event, EventId, Inbox, Outcome, Retention};

/// A wall clock after the crate's release, so that event times are judged by it.
pub(crate) const WALL_MS: i64 = 1_800_000_000_000;

/// Debug builds run a tenth of what a release build runs in the same time.
pub(crate) const fn sized(debug: u64, release: u64) -> u64 {
    if cfg!(debug_assertions) { debug } else { release }
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn id(n: u64) -> EventId {
    EventId::parts(&[b"event", &n.to_be_bytes()]).unwrap()
}

/// An event whose id is its number, and whose payload is never compared.
pub(crate) fn event(n: u64) -> Event<'static> {
    Event::unchecked(id(n))
}

/// A machine with a simulated disk and clock, on which one store is opened again and again.
pub(crate) struct Lab {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    pub(crate) retention: Retention,
    openings: Cell<u64>,
}

impl Lab {
    pub(crate) fn new(retention: Retention) -> Self {
        Self {
            disk: SimDisk::new(),
            clock: SimClock::new(WALL_MS),
            retention,
            openings: Cell::new(0),
        }
    }

    /// Settings under which a few thousand claims pass through every part of the store. Each
    /// opening draws other numbers, as a real one would.
    pub(crate) fn builder(&self) -> Builder {
        self.openings.set(self.openings.get() + 1);
        Inbox::builder(self.retention.clone())
            .clock(self.clock.clone())
            .seed(self.openings.get())
            .no_threads()
            .recent_max_claims(1_024)
            .cache_bytes(4 << 20)
    }

    pub(crate) fn open(&self) -> Inbox {
        self.builder().open_on(&self.disk).unwrap()
    }
}

/// Delivers the events of these numbers in batches of a thousand; every one must be answered. Returns
/// how many were applied and how many were duplicates.
pub(crate) fn deliver(consumer: &Consumer, numbers: impl IntoIterator<Item = u64>) -> (u64, u64) {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let (mut applied, mut duplicates) = (0, 0);
    for chunk in numbers.chunks(1_000) {
        for answer in consumer.process_batch(chunk, |n| event(*n), |_, _| Ok(())) {
            match answer.unwrap() {
                Outcome::Applied(..) => applied += 1,
                Outcome::Duplicate(_) => duplicates += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    (applied, duplicates)
}

/// Whether an error is one that a failing or damaged disk may cause, and not a wrong kind.
pub(crate) fn is_typed_disk_error(error: &Error) -> bool {
    error.is_io() || error.is_full() || error.is_corrupt() || error.is_unknown_outcome()
}

/// A sequence of numbers that depends on its seed alone (splitmix64).
#[derive(Clone)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Runs `f`, and panics if it takes longer: a loop that never ends must fail its test.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    f: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || tell.send(f()));
    match told.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not done within {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it ended without an answer"),
        },
    }
}

pub(crate) fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

//! What the cases share: places to keep a store, ways to deliver an event, a watchdog.

use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use txinbox::{
    BoxError, Builder, Claim, Consumer, Error, Event, EventId, Inbox, Map, Outcome, Retention, Tx,
    days,
};

/// Where a store lives between openings.
pub(crate) enum Place {
    /// Real files.
    Dir(tempfile::TempDir),
    #[cfg(feature = "testkit")]
    Sim(txinbox::testkit::SimDisk),
}

impl Place {
    pub(crate) fn dir() -> Self {
        Self::Dir(tempfile::tempdir().unwrap())
    }

    /// Opens the store, its settings changed by `set`.
    pub(crate) fn open_with(&self, set: impl FnOnce(Builder) -> Builder) -> Inbox {
        let builder = set(Inbox::builder(Retention::at_least(days(7))));
        match self {
            Self::Dir(dir) => builder.open(dir.path()).unwrap(),
            #[cfg(feature = "testkit")]
            Self::Sim(disk) => builder.open_on(disk).unwrap(),
        }
    }

    /// The directory, for another process to open.
    pub(crate) fn path(&self) -> &std::path::Path {
        match self {
            Self::Dir(dir) => dir.path(),
            #[cfg(feature = "testkit")]
            Self::Sim(_) => panic!("another process needs real files"),
        }
    }

    pub(crate) fn open(&self) -> Inbox {
        self.open_with(|builder| builder)
    }
}

/// Runs a case on real files, with the store's own threads and without, and on a simulated disk.
pub(crate) fn everywhere(case: impl Fn(&Place, fn(Builder) -> Builder)) {
    case(&Place::dir(), |builder| builder);
    case(&Place::dir(), Builder::no_threads);
    #[cfg(feature = "testkit")]
    case(&Place::Sim(txinbox::testkit::SimDisk::new()), Builder::no_threads);
}

/// How a delivery reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Process,
    Batch,
    Submit,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Process, Self::Batch, Self::Submit];

    /// Delivers one event and waits for its answer.
    pub(crate) fn deliver<T>(
        self,
        consumer: &Consumer,
        event: &Event<'_>,
        mut handler: impl FnMut(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        match self {
            Self::Process => consumer.process(event, handler),
            Self::Submit => consumer.submit(event, handler)?.wait(),
            Self::Batch => {
                let one = std::slice::from_ref(event);
                let batch = consumer.process_batch(one, |event| event.clone(), |tx, _| handler(tx));
                batch.into_iter().next().unwrap()
            }
        }
    }
}

pub(crate) fn id(text: &str) -> EventId {
    EventId::text(text).unwrap()
}

/// An event without a payload.
pub(crate) fn event(text: &str) -> Event<'static> {
    Event::unchecked(id(text))
}

/// Counts how often each event's effect took place.
pub(crate) type Counts = Map<str, u64>;

/// The effect: one more under `key`.
pub(crate) fn bump(tx: &mut Tx<'_>, counts: &Counts, key: &str) -> Result<(), BoxError> {
    tx.update(counts, key, |n| Some(n.unwrap_or(0) + 1))?;
    Ok(())
}

pub(crate) fn count(inbox: &Inbox, counts: &Counts, key: &str) -> u64 {
    inbox.read(|view| view.get(counts, key)).unwrap().unwrap_or(0)
}

/// A handler for events that must not be handled.
pub(crate) fn never<T>(_: &mut Tx<'_>) -> Result<T, BoxError> {
    panic!("the handler ran for an event that is not new");
}

pub(crate) fn is_mismatch<T>(outcome: &Outcome<T>) -> bool {
    matches!(outcome, Outcome::Mismatch(_))
}

/// The claim that an outcome rests on.
pub(crate) fn claim_of<T>(outcome: &Outcome<T>) -> &Claim {
    outcome.claim().expect("an outcome with a claim")
}

/// Fails the test if `body` takes longer than `limit`, instead of hanging with it.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, finished) = mpsc::channel();
    let thread = thread::spawn(move || {
        let value = body();
        let _ = done.send(());
        value
    });
    if finished.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what}: not done after {limit:?}");
    }
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A simulated clock that stands, and a way to give it to a builder.
#[cfg(feature = "testkit")]
pub(crate) fn sim_clock() -> txinbox::testkit::SimClock {
    txinbox::testkit::SimClock::new(1_800_000_000_000)
}

//! Ordered sources: one durable position each instead of a claim for every event.
//!
//! For a source that numbers what it delivers and delivers it in order: a partition of a log, a table that
//! is read by sequence, another store's change stream. See [`Ordered`].

mod batch;
mod by_hand;
mod position;

use std::fmt;
use std::panic::resume_unwind;

pub use position::{Ownership, Position};

use super::super::claim::Claim;
use super::super::event::Event;
use super::super::finish::Finisher;
use super::super::outcome::Outcome;
use super::super::tx::Tx;
use super::{Consumer, in_tx};
use crate::base::canary::planted;
use crate::base::error::{BoxError, Error};
use crate::base::ids::ClassId;
use crate::base::sync::Arc;
use crate::engine::outbox::Sender;
use crate::engine::{
    Case, Delivery, Done, Moment, Placed, Ran, ResultBytes, Source, Stage, Standing,
};

/// One ordered source of a consumer: positions are handled once each, in order.
///
/// The store keeps the highest position settled, in one row a source, and moves it in the transaction of
/// the state. A position at or below it is a duplicate, for ever: nothing ages out. Get one from
/// [`Consumer::ordered`].
///
/// # In order
///
/// The source must deliver in order, to one caller at a time. A position that comes after a higher one was
/// settled is taken for a repeat. Gaps are allowed, since many logs leave numbers out, and are told by
/// [`position`](Self::position). After a crash go on at [`Position::next`], or let the source begin
/// anywhere before.
///
/// # After a failure
///
/// If a handler fails or panics, or an id says [`Mismatch`](Outcome::Mismatch) or
/// [`TooLate`](Outcome::TooLate), the position is marked *failed*, durably before the caller hears of it.
/// Later positions are then [`Outcome::Blocked`], inside the same batch, over crashes and in other
/// processes, until it is delivered again and settled, or given up by [`skip`](Self::skip). So nothing is
/// lost behind a failure. After `Blocked { at }`, deliver again from `at` on.
///
/// An error of the store itself (a full disk, a device, a writer that was busy, an unknown outcome) marks
/// nothing on disk, since the store may be unable to write: it blocks later positions in this process only. After
/// a crash the source goes on behind its durable position all the same, in order.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Inbox, Map, Outcome, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let totals: Map<str, u64> = inbox.map("totals")?;
/// let log = inbox.consumer("totals")?.ordered("orders/0", 1)?;
/// let add = |position: u64, amount: u64| {
///     log.process(position, |tx| {
///         if amount == 0 {
///             return Err("no amount".into());
///         }
///         tx.update(&totals, "eur", |sum| Some(sum.unwrap_or(0) + amount))?;
///         Ok(())
///     })
/// };
/// assert!(add(1, 5)?.is_applied());
/// assert!(add(1, 5)?.is_duplicate());
/// assert!(add(2, 0).unwrap_err().is_handler());
/// assert_eq!(add(3, 7)?, Outcome::Blocked { at: 2 });
/// assert_eq!(log.skip(2, "no amount, see ticket 12")?, Outcome::Skipped(()));
/// assert!(add(3, 7)?.is_applied());
/// assert_eq!(inbox.read(|view| view.get(&totals, "eur"))?, Some(12));
/// assert_eq!(log.position()?.next(), 4);
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone)]
pub struct Ordered {
    consumer: Consumer,
    source: Source,
}

impl fmt::Debug for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ordered")
            .field("consumer", &self.consumer.name)
            .field("source", &self.source.shown())
            .field("incarnation", &self.source.owner.incarnation)
            .field("epoch", &self.source.owner.epoch)
            .finish()
    }
}

/// A position handled, and the group that its answer waits for.
struct PlacedItem<T> {
    position: u64,
    /// Without an event's id, and so without a claim of its own.
    is_bare: bool,
    placed: Placed<T>,
    done: Option<Arc<Done>>,
}

impl Consumer {
    /// An ordered source of this consumer, registered durably if it is new.
    ///
    /// `source` names what numbers its deliveries by itself: topic and partition, say. `incarnation` tells
    /// its lives apart: give a higher one whenever the source was made anew and counts from the start
    /// again, such as a topic that was deleted and created (its creation time will do). The positions of
    /// the lives before are dropped then, failed ones included, and whoever still delivers from one gets
    /// [`is_stale_source`](Error::is_stale_source).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let consumer = inbox.consumer("billing")?;
    /// let first = consumer.ordered("orders/0", 1)?;
    /// assert!(first.process(41, |_| Ok(()))?.is_applied());
    /// // The topic was made again, and counts from 0.
    /// let second = consumer.ordered("orders/0", 2)?;
    /// assert!(second.process(0, |_| Ok(()))?.is_applied());
    /// assert!(first.process(42, |_| Ok(())).unwrap_err().is_stale_source());
    /// assert!(consumer.ordered("orders/0", 1).unwrap_err().is_stale_source());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// An older incarnation than the newest ([`is_stale_source`](Error::is_stale_source)); an empty name, or
    /// one above 1,024 bytes; errors of a commit.
    pub fn ordered(
        &self,
        source: &(impl AsRef<[u8]> + ?Sized),
        incarnation: u64,
    ) -> Result<Ordered, Error> {
        let source = Source::new(self.handling.scope, source.as_ref(), incarnation)?;
        let ordered = Ordered { consumer: self.clone(), source };
        self.inbox.engine().register_source(&ordered.source, ordered.class())?;
        Ok(ordered)
    }
}

impl Ordered {
    /// The name that it was asked for with.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        self.source.name()
    }

    /// Which of the source's lives this handle delivers from.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.source.owner.incarnation
    }

    /// Handles the delivery at a position: runs `handler` if the position is new and nothing before it
    /// is open, and commits the position with all that the handler wrote.
    ///
    /// Returns only once everything that the answer says is durable. Besides the outcomes of
    /// [`Consumer::process`], there are [`Blocked`](Outcome::Blocked) and [`Fenced`](Outcome::Fenced).
    /// [`Tx::skip`] drops the handler's writes and settles the position all the same. There is no claim
    /// for each position, so [`Tx::set_result`] is an error here, and the claim in an answer is the
    /// source's: when it moved last, kept for ever, without fingerprint and result.
    ///
    /// # Errors
    /// As [`Consumer::process`]; and a newer incarnation
    /// ([`is_stale_source`](Error::is_stale_source)).
    ///
    /// # Panics
    /// If the handler panics, once it is durable that this position failed.
    pub fn process<T>(
        &self,
        position: u64,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        self.process_one(position, None, handler)
    }

    /// As [`process`](Self::process), for an event that has an id, too: its producer may repeat it, and a
    /// repeat is another position. Claim and position are committed together.
    ///
    /// An id that is known at a new position is a duplicate, and the source moves on. Results work as
    /// ever. With [`Tx::skip`] the source moves, and the id stays new.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let log = inbox.consumer("billing")?.ordered("orders/0", 1)?;
    /// let event = Event::new(EventId::text("order-17")?, "10 EUR");
    /// assert!(log.process_event(8, &event, |_| Ok(()))?.is_applied());
    /// // Published again: another position of the log.
    /// assert!(log.process_event(9, &event, |_| Ok(()))?.is_duplicate());
    /// assert_eq!(log.position()?.last, Some(9));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`process`](Self::process).
    ///
    /// # Panics
    /// As [`process`](Self::process).
    pub fn process_event<T>(
        &self,
        position: u64,
        event: &Event<'_>,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        self.process_one(position, Some(event), handler)
    }

    fn process_one<T>(
        &self,
        position: u64,
        event: Option<&Event<'_>>,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        let engine = self.consumer.inbox.engine();
        let answer = match self.run_one(position, event, handler) {
            Ok(item) => self.settle(&self.consumer.finisher(), item),
            Err(error) => Err(self.owe(position, error)),
        };
        engine.work_a_little();
        answer
    }

    fn run_one<T>(
        &self,
        position: u64,
        event: Option<&Event<'_>>,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<PlacedItem<T>, Error> {
        let consumer = &self.consumer;
        let engine = consumer.inbox.engine();
        let delivery = self.delivery(event)?;
        let is_bare = delivery.ids.is_empty();
        engine.check_generation(consumer.handling.scope)?;
        if let Some(placed) = self.peek(position, &delivery)? {
            return Ok(PlacedItem { position, is_bare, placed, done: None });
        }
        if !is_bare {
            engine.throttle()?;
        }
        let mut turn = engine.turn(consumer.max_wait)?;
        engine.check_generation(consumer.handling.scope)?;
        let classes = engine.classes_of(&consumer.handling);
        let (handling, delivery) = (&consumer.handling, &delivery);
        let id = || event.map_or_else(Vec::new, |event| event.id().as_encoded().to_vec());
        let sender = self.sender(position, is_bare, &id);
        let case = Case { handling, classes: &classes, delivery, sender, missed: None };
        let core = turn.core();
        let mut sitting = engine.sit(core, &self.source, self.class())?;
        let at = (&self.source, position);
        let placed = engine.place(core, &mut sitting, at, case, in_tx_of(delivery, handler));
        engine.rise(core, &self.source, &mut sitting);
        let done = turn.attach_waiting();
        drop(turn);
        if planted("position-committed-apart-from-its-state") {
            done.as_ref().map(|done| engine.wait(done)).transpose()?;
            engine.settle_apart(at, self.class(), &placed)?;
        }
        Ok(PlacedItem { position, is_bare, placed, done })
    }

    /// Where the messages of a position come from: its event if it has one, else the position itself.
    fn sender<'o>(
        &'o self,
        position: u64,
        is_bare: bool,
        id: &'o dyn Fn() -> Vec<u8>,
    ) -> Sender<'o> {
        let consumer = &*self.consumer.name;
        let (source, incarnation) = (self.source.name(), self.source.owner.incarnation);
        match is_bare {
            true => Sender::Position { consumer, source, incarnation, position },
            false => Sender::Event { consumer, id },
        }
    }

    fn delivery(&self, event: Option<&Event<'_>>) -> Result<Delivery, Error> {
        let engine = self.consumer.inbox.engine();
        match event {
            Some(event) => self.consumer.delivery(engine, event),
            None => {
                engine.check_open()?;
                Ok(Delivery { ids: Vec::new(), fingerprint: None, time: None })
            }
        }
    }

    /// The class that the consumer's claims go to, whose store time the source's row tells.
    fn class(&self) -> ClassId {
        let classes = self.consumer.inbox.engine().classes_of(&self.consumer.handling);
        classes.last().copied().unwrap_or_default()
    }

    /// The answer to a plain repeat, from what is durable and without the write slot.
    fn peek<T>(&self, position: u64, delivery: &Delivery) -> Result<Option<Placed<T>>, Error> {
        let engine = self.consumer.inbox.engine();
        let Some(row) = engine.position(&self.source)? else { return Ok(None) };
        Ok(match row.judge(self.source.owner, position) {
            Standing::Fenced { epoch } => Some(Placed::Fenced { epoch }),
            Standing::Settled if delivery.ids.is_empty() => Some(Placed::Settled(row.moved)),
            _ => None,
        })
    }

    /// Notes a position whose caller is told an error, so that later ones wait for it.
    fn owe(&self, position: u64, error: Error) -> Error {
        self.consumer.count_error(self.note_owed(position, error))
    }

    fn note_owed(&self, position: u64, error: Error) -> Error {
        let is_final = error.is_stale_source() || error.is_superseded() || error.is_closed();
        if !is_final {
            self.consumer.inbox.engine().owed.add(&self.source, position);
        }
        error
    }

    fn settle<T>(&self, finisher: &Finisher, item: PlacedItem<T>) -> Result<Outcome<T>, Error> {
        let PlacedItem { position, is_bare, placed, done } = item;
        let counters = &self.consumer.counters;
        let committed = done.map(|done| self.consumer.inbox.engine().wait(&done)).transpose();
        let committed = match (&placed, committed) {
            (_, Ok(committed)) => committed,
            (Placed::Ran(Ran::Panicked(_), _), Err(error)) => {
                drop(self.owe(position, error)); // the panic goes on either way
                None
            }
            (_, Err(error)) => return Err(self.owe(position, error)),
        };
        match placed {
            Placed::Ran(Ran::Panicked(panic), _) => {
                counters.panics.add(1);
                resume_unwind(panic)
            }
            Placed::Ran(Ran::Failed(error), _) => Err(self.owe(position, error)),
            Placed::Ran(Ran::Draft(draft), moved) => {
                let outcome = finisher.finish(draft, committed.as_deref());
                let outcome = outcome.map_err(|error| self.owe(position, error))?;
                Ok(match outcome {
                    Outcome::Applied(value, _) if is_bare => {
                        Outcome::Applied(value, self.claim(moved))
                    }
                    Outcome::Refused(value, _) if is_bare => {
                        Outcome::Refused(value, self.claim(moved))
                    }
                    other => other,
                })
            }
            Placed::Settled(moved) => {
                counters.duplicates.add(1);
                Ok(Outcome::Duplicate(self.claim(moved)))
            }
            Placed::Blocked { at } => {
                counters.blocked.add(1);
                Ok(Outcome::Blocked { at })
            }
            Placed::Fenced { epoch } => {
                counters.fenced.add(1);
                Ok(Outcome::Fenced { epoch })
            }
        }
    }

    /// The source's row as a claim.
    fn claim(&self, moved: Moment) -> Claim {
        let now = self.consumer.inbox.engine().now(moved.class);
        Claim {
            wall: moved.wall,
            at: moved.at,
            age: std::time::Duration::from_millis(now.0.saturating_sub(moved.at.0)),
            kept_for: None,
            fingerprint: None,
            result: ResultBytes::None,
            refused: false,
        }
    }
}

/// As `in_tx`, and an error if the handler leaves a result that no claim will hold.
fn in_tx_of<T>(
    delivery: &Delivery,
    handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
) -> impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>) {
    let is_bare = delivery.ids.is_empty();
    move |stage| {
        let (stage, value) = in_tx(handler)(stage);
        if is_bare && value.is_ok() && stage.has_result() {
            let what = "a position without an event id has no claim to keep a result in; \
                        use process_event, or keep the result in a map";
            return (stage, Err(Error::invalid(what).into()));
        }
        (stage, value)
    }
}

//! A named logical handler and its calls.

mod batch;
pub mod generation;
mod lease;
pub mod ordered;

pub(crate) use lease::{Started, lease_ms};

use std::panic::resume_unwind;
use std::time::Duration;

use super::audit::Reason;
use super::claim::Claim;
use super::event::Event;
use super::event_id::EventId;
use super::finish::Finisher;
use super::inbox::Inbox;
use super::outcome::Outcome;
use super::ticket::Ticket;
use super::tx::Tx;
use crate::base::canary::planted;
use crate::base::error::{BoxError, Error};
use crate::base::ids::IdHash;
use crate::base::limits::{ALIASES_MAX, LEASE_MAX_ATTEMPTS};
use crate::base::sync::Arc;
use crate::engine::outbox::Sender;
use crate::engine::{
    self, Case, Committed, ConsumerCounters, ConsumerEntry, Delivery, Done, Draft, Engine,
    Handling, Note, Ran, Stage,
};

/// A named logical handler: the scope in which an event is handled once.
///
/// Two consumers each handle the same event. Cloning is cheap, and clones may be used from any
/// number of threads; the settings of a clone are its own. Get one from
/// [`Inbox::consumer`](crate::Inbox::consumer).
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<str>,
    inbox: Inbox,
    handling: Handling,
    max_wait: Option<Duration>,
    max_attempts: u32,
    counters: Arc<ConsumerCounters>,
}

impl Consumer {
    pub(crate) fn new(name: &str, inbox: Inbox, entry: &ConsumerEntry) -> Self {
        let counters = inbox.engine().counters.consumer(entry.id);
        let handling =
            Handling { scope: entry.scope(), accept_late: false, result_retention_ms: None };
        let max_attempts = LEASE_MAX_ATTEMPTS;
        Self { name: name.into(), inbox, handling, max_wait: None, max_attempts, counters }
    }

    /// The name that it was registered under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bounds how long a call of this handle waits for the writer; without it, as long as needed.
    ///
    /// A call that gives up fails with [`is_timeout`](Error::is_timeout), and its handler has not
    /// run. The time that a handler and its commit take is not bounded. Zero means not to wait at
    /// all.
    #[must_use]
    pub fn max_wait(mut self, limit: Duration) -> Self {
        self.max_wait = Some(limit);
        self
    }

    /// Handles an event that lies at or below the floor as new, at the risk of handling it
    /// twice; without it such an event is [`Outcome::TooLate`].
    #[must_use]
    pub fn accept_late(mut self) -> Self {
        self.handling.accept_late = true;
        self
    }

    /// Keeps the results of events that this handle settles from now on only for so long, in
    /// store time, instead of as long as their claims. Afterwards they read as expired.
    #[must_use]
    pub fn result_retention(mut self, keep: Duration) -> Self {
        self.handling.result_retention_ms =
            Some(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Handles one delivery: runs `handler` if the event is new, and commits its claim with all
    /// that the handler wrote.
    ///
    /// Returns only once everything that the answer says is durable. The handler runs at most
    /// once a call, on this thread, while no other handler of the store runs; it may run again on a later
    /// delivery if nothing was kept, so effects outside `tx` may be repeated. Calls from several
    /// threads share commits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Map, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let balances: Map<u64, i64> = inbox.map("balances")?;
    /// let billing = inbox.consumer("billing")?;
    /// for _delivery in 0..3 {
    ///     let event = Event::new(EventId::text("order-1")?, "10 EUR");
    ///     let outcome = billing.process(&event, |tx| {
    ///         let b = tx.get(&balances, &7)?.unwrap_or(0);
    ///         tx.insert(&balances, &7, &(b + 10))?;
    ///         Ok(())
    ///     })?;
    ///     assert_eq!(outcome.advice(), txinbox::Advice::Ack);
    /// }
    /// assert_eq!(inbox.read(|v| v.get(&balances, &7))?, Some(10)); // once, not three times
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// The handler's own error ([`is_handler`](Error::is_handler)); a full disk
    /// ([`is_full`](Error::is_full)); a device error; a commit whose outcome is unknown
    /// ([`is_unknown_outcome`](Error::is_unknown_outcome)); an event time too far ahead
    /// ([`is_future`](Error::is_future)); a call from inside a handler
    /// ([`is_reentrant`](Error::is_reentrant)). Except for an unknown outcome, nothing of the
    /// event was kept.
    ///
    /// # Panics
    /// If the handler panics, the panic goes on to the caller once nothing of the event is left
    /// and the events it shared a group with are durable. The store stays usable.
    pub fn process<T>(
        &self,
        event: &Event<'_>,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        let (ran, done) = self.run_one(event, handler, true)?;
        let answer = self.settle(&self.finisher(), ran, done);
        // Only now: it may forget the result that a repeat was just told of.
        self.inbox.engine().work_a_little();
        answer
    }

    /// As [`process`](Self::process), but returns once the handler has run; the ticket tells when
    /// the answer is durable.
    ///
    /// The first call starts one thread that commits what tickets leave open. Where the builder
    /// forbids threads, the next call, `wait`, the last ticket's drop or `close` commits.
    ///
    /// # Errors
    /// As [`process`](Self::process), but for errors of the commit, which the ticket reports.
    ///
    /// # Panics
    /// As [`process`](Self::process).
    pub fn submit<T>(
        &self,
        event: &Event<'_>,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Ticket<T>, Error> {
        self.inbox.engine().start_sync_thread();
        let (ran, done) = self.run_one(event, handler, false)?;
        self.inbox.engine().work_a_little();
        match ran {
            Ran::Draft(draft) => Ok(Ticket::new(draft, done, self.finisher())),
            Ran::Failed(error) => {
                // What the handler read may not be durable yet, and its error may rest on it.
                if let Some(done) = done {
                    self.finisher().settle(&done).map_err(|e| self.count_error(e))?;
                }
                Err(self.count_error(error))
            }
            Ran::Panicked(panic) => {
                if let Some(done) = done {
                    // The panic goes on either way.
                    let _ = self.finisher().settle(&done);
                }
                resume_unwind(panic)
            }
        }
    }

    fn run_one<T>(
        &self,
        event: &Event<'_>,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
        waits: bool,
    ) -> Result<(Ran<T>, Option<Arc<Done>>), Error> {
        let engine = self.inbox.engine();
        let delivery = self.delivery(engine, event)?;
        engine.check_generation(self.handling.scope).map_err(|e| self.count_error(e))?;
        let missed = match engine.peek(&self.handling, &delivery)? {
            Ok(draft) => return Ok((Ran::Draft(draft), None)),
            Err(missed) => missed,
        };
        engine.throttle()?;
        let mut turn = engine.turn(self.max_wait).map_err(|e| self.count_error(e))?;
        engine.check_generation(self.handling.scope).map_err(|e| self.count_error(e))?;
        let classes = engine.classes_of(&self.handling);
        let (handling, missed) = (&self.handling, missed.as_ref());
        let id = || event.id().as_encoded().to_vec();
        let sender = Sender::Event { consumer: &self.name, id: &id };
        let case = Case { handling, classes: &classes, delivery: &delivery, sender, missed };
        let ran = engine.handle(turn.core(), case, in_tx(handler));
        self.note(&ran);
        let early = match &ran {
            Ran::Failed(_) => planted("handler-error-before-what-it-read-is-durable"),
            Ran::Draft(Draft::Duplicate(_)) => {
                planted("duplicate-released-before-its-group-is-durable")
            }
            _ => false,
        };
        if early {
            return Ok((ran, None));
        }
        let done = if waits { turn.attach_waiting() } else { turn.attach() };
        Ok((ran, done))
    }

    pub(crate) fn settle<T>(
        &self,
        finisher: &Finisher,
        ran: Ran<T>,
        done: Option<Arc<Done>>,
    ) -> Result<Outcome<T>, Error> {
        let committed = done.map(|done| self.inbox.engine().wait(&done)).transpose();
        self.answer(finisher, ran, committed.as_ref().map(Option::as_deref).map_err(Error::clone))
    }

    fn answer<T>(
        &self,
        finisher: &Finisher,
        ran: Ran<T>,
        committed: Result<Option<&Committed>, Error>,
    ) -> Result<Outcome<T>, Error> {
        match (ran, committed) {
            (Ran::Panicked(panic), _) => resume_unwind(panic),
            (_, Err(error)) => Err(self.count_error(error)),
            (Ran::Failed(error), Ok(_)) => Err(self.count_error(error)),
            (Ran::Draft(draft), Ok(committed)) => finisher.finish(draft, committed),
        }
    }

    /// The claim that an id stands for, directly or as an alias; `None` if there is none.
    ///
    /// Reads what is durable, waits for no writer and changes nothing.
    ///
    /// # Errors
    /// A failed read or a damaged row.
    pub fn lookup(&self, id: &EventId) -> Result<Option<Claim>, Error> {
        self.counters.lookups.add(1);
        let known = self.inbox.engine().lookup(&self.handling, self.hash(id))?;
        known.map(|known| self.finisher().claim(&known, None)).transpose()
    }

    /// Forgets an event by hand, with all its aliases: its next delivery is handled as new.
    /// Returns whether there was anything to forget; durable when it returns.
    ///
    /// A floor that the event's own time has raised, or will raise when its bucket is forgotten,
    /// is left as it is.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let consumer = inbox.consumer("c")?;
    /// let id = EventId::text("order-1")?;
    /// consumer.process(&Event::unchecked(id.clone()), |_| Ok(()))?;
    /// assert!(consumer.forget(&id)?);
    /// assert!(!consumer.forget(&id)?);
    /// assert!(consumer.process(&Event::unchecked(id), |_| Ok(()))?.is_applied());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`process`](Self::process), without a handler's.
    pub fn forget(&self, id: &EventId) -> Result<bool, Error> {
        self.forget_noted(id, None)
    }

    /// As [`forget`](Self::forget), leaving on record who did it and why.
    ///
    /// The record is part of the same commit; see [`Inbox::audit`](crate::Inbox::audit). Where nothing
    /// was there to forget, none is left.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::audit::{Action, Reason};
    /// # use txinbox::{Event, EventId, Inbox, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let consumer = inbox.consumer("billing")?;
    /// let id = EventId::text("order-1")?;
    /// consumer.process(&Event::unchecked(id.clone()), |_| Ok(()))?;
    /// let reason = Reason::new("booked twice by hand, ticket 12").by("anna");
    /// assert!(consumer.forget_with_reason(&id, reason)?);
    ///
    /// let record = inbox.audit(None, 10)?.remove(0);
    /// assert_eq!((record.who(), record.reason()), ("anna", "booked twice by hand, ticket 12"));
    /// assert_eq!(record.consumer(), "billing");
    /// assert_eq!(record.action(), &Action::Forgot { id });
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`forget`](Self::forget); a reason out of bounds (see [`Reason`]).
    pub fn forget_with_reason(
        &self,
        id: &EventId,
        reason: impl Into<Reason>,
    ) -> Result<bool, Error> {
        let action = engine::Action::Forgot { id: id.as_encoded().to_vec() };
        let note = reason.into().checked()?.note(self.handling.scope, action);
        self.forget_noted(id, Some(&note))
    }

    fn forget_noted(&self, id: &EventId, note: Option<&Note>) -> Result<bool, Error> {
        let engine = self.inbox.engine();
        let (any, done) = engine.forget(&self.handling, self.hash(id), note, self.max_wait)?;
        done.map(|done| engine.wait(&done)).transpose()?;
        self.counters.forgotten.add(u64::from(any));
        Ok(any)
    }

    fn hash(&self, id: &EventId) -> IdHash {
        let key = self.inbox.engine().hash_key();
        key.identity(self.handling.scope, id.as_encoded())
    }

    fn delivery(&self, engine: &Engine, event: &Event<'_>) -> Result<Delivery, Error> {
        engine.check_open()?;
        let aliases = event.aliases();
        if aliases.len() > ALIASES_MAX {
            let (got, limit) = (aliases.len() as u64, ALIASES_MAX as u64);
            return Err(Error::limit("the number of aliases of an event", got, limit));
        }
        let mut ids = Vec::with_capacity(1 + aliases.len());
        ids.push(self.hash(event.id()));
        ids.extend(aliases.iter().map(|alias| self.hash(alias)));
        let fingerprint = event.payload_fingerprint(engine.hash_key());
        Ok(Delivery { ids, fingerprint, time: event.time() })
    }

    pub(crate) fn finisher(&self) -> Finisher {
        Finisher::new(self.inbox.clone(), self.counters.clone())
    }

    fn note<T>(&self, ran: &Ran<T>) {
        if let Ran::Panicked(_) = ran {
            self.counters.panics.add(1);
        }
    }

    fn count_error(&self, error: Error) -> Error {
        let counter = if error.is_handler() {
            &self.counters.handler_errors
        } else {
            &self.counters.other_errors
        };
        counter.add(1);
        error
    }
}

/// Hands a staging area to a user's handler as the transaction it is.
fn in_tx<T>(
    handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
) -> impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>) {
    move |stage| {
        let mut tx = Tx { stage };
        let value = handler(&mut tx);
        (tx.stage, value)
    }
}

/// What an item came to, and the group that its answer waits for.
pub(crate) type RanItem<T> = (Ran<T>, Option<Arc<Done>>);

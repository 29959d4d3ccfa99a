//! A named logical handler and its calls.

use std::panic::resume_unwind;
use std::time::{Duration, UNIX_EPOCH};

use super::batch::Batch;
use super::claim::Claim;
use super::event::Event;
use super::event_id::EventId;
use super::inbox::Inbox;
use super::outcome::Outcome;
use super::ticket::Ticket;
use super::tx::Tx;
use crate::base::error::{BoxError, Error};
use crate::base::ids::{ClassId, IdHash, StoreMs, WallMs};
use crate::base::limits::ALIASES_MAX;
use crate::base::sync::Arc;
use crate::claims::pending::{PendingClaim, PendingKind};
use crate::claims::resolve::Known;
use crate::claims::row::RowKind;
use crate::engine::{
    Committed, ConsumerCounters, ConsumerEntry, Delivery, Done, Draft, Engine, Handling, Ran,
    ResultBytes, Stage,
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
    counters: Arc<ConsumerCounters>,
}

impl Consumer {
    pub(crate) fn new(name: &str, inbox: Inbox, entry: &ConsumerEntry) -> Self {
        let counters = inbox.engine().counters.consumer(entry.id);
        let handling =
            Handling { scope: entry.scope(), accept_late: false, result_retention_ms: None };
        Self { name: name.into(), inbox, handling, max_wait: None, counters }
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
        let committed = done.map(|done| done.wait()).transpose();
        self.inbox.engine().work_a_little();
        match (ran, committed) {
            (Ran::Panicked(panic), _) => resume_unwind(panic),
            (_, Err(error)) => Err(self.count_error(error)),
            (Ran::Failed(error), Ok(_)) => Err(self.count_error(error)),
            (Ran::Draft(draft), Ok(committed)) => {
                self.finisher().finish(draft, committed.as_deref())
            }
        }
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
                    self.finisher().hurry(&done, None)?;
                    done.wait().map_err(|e| self.count_error(e))?;
                }
                Err(self.count_error(error))
            }
            Ran::Panicked(panic) => resume_unwind(panic),
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
        let missed = match engine.peek(&self.handling, &delivery)? {
            Ok(draft) => return Ok((Ran::Draft(draft), None)),
            Err(missed) => missed,
        };
        engine.throttle()?;
        let mut turn = engine.turn(self.max_wait).map_err(|e| self.count_error(e))?;
        let ran =
            engine.handle(turn.core(), &self.handling, &delivery, missed.as_ref(), in_tx(handler));
        self.note(&ran);
        let done = if waits { turn.attach_waiting() } else { turn.attach() };
        Ok((ran, done))
    }

    /// Handles many deliveries, sharing commits: one answer per item, in order.
    ///
    /// `event` names the event of an item; `handler` runs for each new one. Not atomic as a whole:
    /// an item that fails leaves the others as they are. Durable when it returns. A repeat inside
    /// the batch is a duplicate. A call that cannot write at all gives every item that error.
    ///
    /// See [`Batch`] for an example.
    ///
    /// # Panics
    /// If a handler panics, the panic goes on to the caller once the items before it are durable;
    /// those after it have not run.
    pub fn process_batch<M, T>(
        &self,
        items: &[M],
        event: impl for<'m> Fn(&'m M) -> Event<'m>,
        mut handler: impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
    ) -> Batch<T> {
        let mut pending = Vec::with_capacity(items.len());
        let mut panic = None;
        let mut rest = items.iter();
        while panic.is_none() && !rest.as_slice().is_empty() {
            if let Err(error) =
                self.run_group(&mut rest, &event, &mut handler, &mut pending, &mut panic)
            {
                pending.extend(rest.by_ref().map(|_| (Ran::Failed(error.clone()), None)));
            }
        }
        let answers = pending.into_iter().map(|(ran, done)| self.settle(ran, done)).collect();
        self.inbox.engine().work_a_little();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        Batch { answers }
    }

    /// Runs items until the group is full, somebody else wants the slot at its end, or none is left.
    fn run_group<M, T>(
        &self,
        rest: &mut std::slice::Iter<'_, M>,
        event: &impl for<'m> Fn(&'m M) -> Event<'m>,
        handler: &mut impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
        pending: &mut Vec<(Ran<T>, Option<Arc<Done>>)>,
        panic: &mut Option<Box<dyn std::any::Any + Send>>,
    ) -> Result<(), Error> {
        let engine = self.inbox.engine();
        engine.check_open()?;
        engine.throttle()?;
        let mut turn = engine.turn(self.max_wait)?;
        for item in rest.by_ref() {
            let ran = match self.delivery(engine, &event(item)) {
                Err(error) => Ran::Failed(error),
                Ok(delivery) => engine.handle(
                    turn.core(),
                    &self.handling,
                    &delivery,
                    None,
                    in_tx(|tx: &mut Tx<'_>| handler(tx, item)),
                ),
            };
            self.note(&ran);
            if let Ran::Panicked(payload) = ran {
                *panic = Some(payload);
                break;
            }
            pending.push((ran, turn.attach()));
            if turn.core().group.is_full() {
                break;
            }
        }
        turn.attach_waiting();
        Ok(())
    }

    fn settle<T>(&self, ran: Ran<T>, done: Option<Arc<Done>>) -> Result<Outcome<T>, Error> {
        let committed = done.map(|done| done.wait()).transpose();
        match (ran, committed) {
            (_, Err(error)) => Err(self.count_error(error)),
            (Ran::Failed(error), Ok(_)) => Err(self.count_error(error)),
            (Ran::Draft(draft), Ok(committed)) => {
                self.finisher().finish(draft, committed.as_deref())
            }
            (Ran::Panicked(panic), Ok(_)) => resume_unwind(panic),
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
        let done = self.inbox.engine().forget(&self.handling, self.hash(id), self.max_wait)?;
        match done {
            None => Ok(false),
            Some(done) => {
                done.wait()?;
                self.counters.forgotten.add(1);
                Ok(true)
            }
        }
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

    fn finisher(&self) -> Finisher {
        Finisher { inbox: self.inbox.clone(), counters: self.counters.clone() }
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

/// Turns a draft into the outcome that users see, once it is durable.
#[derive(Debug)]
pub(crate) struct Finisher {
    inbox: Inbox,
    counters: Arc<ConsumerCounters>,
}

impl Finisher {
    /// Sees to it that the group gets closed, waiting for the slot for at most `max_wait`.
    pub(crate) fn hurry(&self, done: &Arc<Done>, max_wait: Option<Duration>) -> Result<(), Error> {
        done.want();
        let engine = self.inbox.engine();
        if !done.is_set() {
            // The slot's next holder closes the group; that may be us.
            match engine.turn(max_wait) {
                Ok(turn) => drop(turn),
                Err(error) if done.is_set() => drop(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the group is answered within `limit`.
    pub(crate) fn wait_for(&self, done: &Arc<Done>, limit: Duration) -> Result<bool, Error> {
        let engine = self.inbox.engine();
        let started_us = engine.clock.stopwatch_us();
        if !engine.config.threads {
            // Nobody else would close the group, however long the limit.
            match self.hurry(done, Some(limit)) {
                Err(error) if error.is_timeout() => return Ok(done.is_set()),
                other => other?,
            }
        }
        let spent_us = engine.clock.stopwatch_us().saturating_sub(started_us);
        Ok(done.wait_timeout(limit.saturating_sub(Duration::from_micros(spent_us))).is_some())
    }

    pub(crate) fn finish<T>(
        &self,
        draft: Draft<T>,
        committed: Option<&Committed>,
    ) -> Result<Outcome<T>, Error> {
        Ok(match draft {
            Draft::Applied(value, claim) => {
                self.counters.applied.add(1);
                Outcome::Applied(value, self.pending_claim(&claim, committed))
            }
            Draft::Skipped(value) => {
                self.counters.skipped.add(1);
                Outcome::Skipped(value)
            }
            Draft::Duplicate(known) => {
                let claim = self.claim(&known, committed)?;
                self.counters.duplicates.add(1);
                let age_ms = u64::try_from(claim.age.as_millis()).unwrap_or(u64::MAX);
                self.counters.duplicate_ages_ms.add(age_ms);
                Outcome::Duplicate(claim)
            }
            Draft::Mismatch(known) => {
                self.counters.mismatches.add(1);
                Outcome::Mismatch(self.claim(&known, committed)?)
            }
            Draft::TooLate { floor } => {
                self.counters.too_late.add(1);
                let distance = Duration::from_millis(floor.0.unsigned_abs());
                let floor = if floor.0 < 0 {
                    UNIX_EPOCH.checked_sub(distance)
                } else {
                    UNIX_EPOCH.checked_add(distance)
                };
                Outcome::TooLate { floor: floor.unwrap_or(UNIX_EPOCH) }
            }
        })
    }

    pub(crate) fn claim(
        &self,
        known: &Known,
        committed: Option<&Committed>,
    ) -> Result<Claim, Error> {
        let engine = self.inbox.engine();
        match known {
            Known::Pending(pending) => Ok(self.pending_claim(pending, committed)),
            Known::Stored(stored) => {
                let (fingerprint, result) = match stored.row.kind {
                    RowKind::Claim { fingerprint, result } => (fingerprint, result),
                    RowKind::Alias { .. } => {
                        return Err(Error::corrupt("a claim", "an alias row stands for it"));
                    }
                };
                let result = engine.read_result_now(result)?;
                Ok(self.claim_of(stored.class, stored.row.at, stored.row.wall, fingerprint, result))
            }
        }
    }

    fn pending_claim(&self, claim: &PendingClaim, committed: Option<&Committed>) -> Claim {
        let (fingerprint, result) = match &claim.kind {
            PendingKind::Claim { fingerprint, result } => (*fingerprint, result.clone()),
            PendingKind::Alias { .. } => (None, None),
        };
        let result = result.map_or(ResultBytes::None, ResultBytes::Some);
        let at = committed.map(|c| c.at(claim.class)).unwrap_or_default();
        let wall = committed.map(|c| c.wall).unwrap_or_default();
        self.claim_of(claim.class, at, wall, fingerprint, result)
    }

    fn claim_of(
        &self,
        class: ClassId,
        at: StoreMs,
        wall: WallMs,
        fingerprint: Option<crate::base::ids::Fingerprint>,
        result: ResultBytes,
    ) -> Claim {
        let engine = self.inbox.engine();
        let age_ms = engine.now(class).0.saturating_sub(at.0);
        let kept_for = engine
            .retention_ms(class)
            .map(|keep| Duration::from_millis(keep.saturating_sub(age_ms)));
        let age = Duration::from_millis(age_ms);
        Claim { wall, at, age, kept_for, fingerprint, result }
    }
}

//! Work outside a transaction: taking an event on, and going on with what is taken on.
//!
//! What must hold: CN1. Every answer here waits until all it rests on is durable; a lease is such an answer.

use std::time::Duration;

use super::super::event::Event;
use super::super::event_id::EventId;
use super::super::lease::{Begun, Lease};
use super::super::outcome::Outcome;
use super::super::tx::Tx;
use super::{Consumer, in_tx};
use crate::base::canary::planted;
use crate::base::error::{BoxError, Error};
use crate::base::ids::IdHash;
use crate::base::limits::{LEASE_MAX_MS, LEASE_MIN_MS};
use crate::base::sync::Arc;
use crate::engine::lease::{Asked, Grant};
use crate::engine::outbox::Sender;
use crate::engine::{Case, Core, Delivery, Done, Draft, Engine, Ran};

/// What a begin came to, in the engine's words.
pub(crate) enum Started {
    Lease(Lease),
    /// Settled, or not to be had. `is_other` if a lease on it is for another payload.
    Settled {
        outcome: Outcome<()>,
        is_other: bool,
    },
}

impl Consumer {
    /// After how many attempts under a lease an event is given up; without it 16.
    ///
    /// An attempt counts whether it [failed](Lease::fail) or ended with its lease, say with its
    /// process. See [`lease`](crate::lease).
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Takes an event on, for work that cannot run inside a transaction: a lease on it, or the answer why
    /// there is none. See [`lease`](crate::lease).
    ///
    /// Until `duration` has passed, in time for which the store is open, or the lease is renewed,
    /// completed or failed, every other delivery of the event, under any of its ids, is
    /// [`Outcome::InProgress`]. The lease is durable when it is returned.
    ///
    /// # Errors
    /// A duration below 1 ms ([`is_invalid`](Error::is_invalid)) or above 24 hours
    /// ([`is_limit`](Error::is_limit)); [`max_attempts`](Self::max_attempts) of zero; more than about a
    /// million events taken on or given up in one store; else as [`process`](Self::process).
    pub fn begin(&self, event: &Event<'_>, duration: Duration) -> Result<Begun, Error> {
        Ok(match self.start(event, duration)? {
            Started::Lease(lease) => Begun::Lease(lease),
            Started::Settled { outcome, .. } => Begun::Settled(outcome),
        })
    }

    pub(crate) fn start(&self, event: &Event<'_>, duration: Duration) -> Result<Started, Error> {
        let duration_ms = lease_ms(duration)?;
        if self.max_attempts == 0 {
            return Err(Error::invalid("max_attempts is 0: no event could ever be begun"));
        }
        let engine = self.inbox.engine();
        let delivery = self.delivery(engine, event)?;
        engine.check_generation(self.handling.scope).map_err(|e| self.count_error(e))?;
        if let Ok(draft) = engine.peek(&self.handling, &delivery)? {
            return self.not_begun(draft, None);
        }
        engine.throttle()?;
        let root = engine.namespace.event_root(&self.name, event.id().as_encoded());
        let asked = Asked { duration_ms, max_attempts: self.max_attempts, root };
        let (begun, done) =
            self.in_turn(&delivery, |engine, core, case| engine.take_on(core, case, asked))?;
        match begun {
            Ok(Ok(grant)) => {
                self.wait_for(done)?;
                self.counters.leased.add(1);
                Ok(Started::Lease(self.lease(grant, &delivery)))
            }
            Ok(Err(draft)) => self.not_begun(draft, done),
            Err(error) => {
                self.wait_for(done)?;
                Err(self.count_error(error))
            }
        }
    }

    fn lease(&self, grant: Grant, delivery: &Delivery) -> Lease {
        let Grant { token, attempt, root, note, ids } = grant;
        let (fingerprint, time) = (delivery.fingerprint, delivery.time);
        let delivery = Delivery { ids, fingerprint, time };
        Lease { consumer: self.clone(), delivery, token, attempt, root, previous_note: note }
    }

    fn not_begun(&self, draft: Draft<()>, done: Option<Arc<Done>>) -> Result<Started, Error> {
        let is_other = matches!(draft, Draft::InProgress { is_other: true, .. });
        let outcome = self.settle(&self.finisher(), Ran::Draft(draft), done)?;
        self.inbox.engine().work_a_little();
        Ok(Started::Settled { outcome, is_other })
    }

    /// Lets an event that was given up be tried again, from its first attempt. Its note and its
    /// idempotency keys stay. Returns whether it was given up; durable when it returns.
    ///
    /// # Errors
    /// As [`process`](Self::process), without a handler's.
    pub fn redrive(&self, id: &EventId) -> Result<bool, Error> {
        let id = self.hash(id);
        self.durably(&self.delivery_of_hash(id), |engine, core, _| engine.redrive(core, id))
    }

    /// Runs `f` in the write slot, and waits until all that it read or staged is durable.
    pub(crate) fn durably<T>(
        &self,
        delivery: &Delivery,
        f: impl FnOnce(&Engine, &mut Core, Case<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.inbox.engine().check_open()?;
        let (value, done) = self.in_turn(delivery, f)?;
        self.wait_for(done)?;
        value.map_err(|e| self.count_error(e))
    }

    /// As `durably`, for what ends with an outcome.
    pub(crate) fn outcome_of<T>(
        &self,
        delivery: &Delivery,
        f: impl FnOnce(&Engine, &mut Core, Case<'_>) -> Ran<T>,
    ) -> Result<Outcome<T>, Error> {
        self.inbox.engine().check_open()?;
        let (ran, done) = self.in_turn(delivery, f)?;
        self.note(&ran);
        let answer = self.settle(&self.finisher(), ran, done);
        self.inbox.engine().work_a_little();
        answer
    }

    pub(crate) fn complete<T>(
        &self,
        delivery: &Delivery,
        (token, root): (u64, u128),
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        self.inbox.engine().throttle()?;
        self.outcome_of(delivery, |engine, core, case| {
            let case = Case { sender: Sender::Root(root), ..case };
            engine.complete(core, case, token, in_tx(handler))
        })
    }

    pub(crate) fn fail(
        &self,
        delivery: &Delivery,
        token: u64,
        why: &str,
        backoff_ms: u64,
    ) -> Result<Outcome<()>, Error> {
        let max_attempts = self.max_attempts;
        self.outcome_of(delivery, |engine, core, case| {
            engine.fail(core, case, token, why, backoff_ms, max_attempts).into()
        })
    }

    /// What the event's repeat would be told now, with whether waiting may change it.
    pub(crate) fn watch(&self, event: &Event<'_>) -> Result<Option<(Outcome<()>, bool)>, Error> {
        let delivery = self.delivery(self.inbox.engine(), event)?;
        let (watched, done) = self.in_turn(&delivery, |e, core, case| e.watch(core, case))?;
        self.wait_for(done)?;
        let Some((draft, is_live)) = watched? else { return Ok(None) };
        Ok(Some((self.finisher().finish(draft, None)?, is_live)))
    }

    pub(crate) fn delivery_of(&self, id: &EventId) -> Delivery {
        self.delivery_of_hash(self.hash(id))
    }

    fn delivery_of_hash(&self, id: IdHash) -> Delivery {
        Delivery { ids: vec![id], fingerprint: None, time: None }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.inbox.engine()
    }

    fn in_turn<R>(
        &self,
        delivery: &Delivery,
        f: impl FnOnce(&Engine, &mut Core, Case<'_>) -> R,
    ) -> Result<(R, Option<Arc<Done>>), Error> {
        let engine = self.inbox.engine();
        let mut turn = engine.turn(self.max_wait).map_err(|e| self.count_error(e))?;
        engine.check_generation(self.handling.scope).map_err(|e| self.count_error(e))?;
        let classes = engine.classes_of(&self.handling);
        let handling = &self.handling;
        let sender = Sender::Root(0); // nothing is sent but by `complete`
        let case = Case { handling, classes: &classes, delivery, sender, missed: None };
        let value = f(engine, turn.core(), case);
        let early = planted("lease-given-out-before-durable");
        let done = if early { None } else { turn.attach_waiting() };
        Ok((value, done))
    }

    fn wait_for(&self, done: Option<Arc<Done>>) -> Result<(), Error> {
        let waited = done.map(|done| self.inbox.engine().wait(&done)).transpose();
        waited.map(drop).map_err(|e| self.count_error(e))
    }
}

/// A lease's time in milliseconds.
pub(crate) fn lease_ms(duration: Duration) -> Result<u64, Error> {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms < LEASE_MIN_MS {
        return Err(Error::invalid(
            "a lease of less than a millisecond would run out before it is given out; ask for the time \
             that the work may take",
        ));
    }
    if ms > LEASE_MAX_MS {
        return Err(Error::limit("the time of a lease, in milliseconds,", ms, LEASE_MAX_MS));
    }
    Ok(ms)
}

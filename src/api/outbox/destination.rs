//! A destination: what is sent to it, handed to relays, and settled.

use std::fmt;
use std::time::Duration;

use super::super::inbox::Inbox;
use super::delivery::{Address, DeadLetter, Delivery, Waiting};
use crate::base::error::Error;
use crate::base::ids::DestinationId;
use crate::base::limits::DELIVERIES_MAX;
use crate::base::sync::Arc;
use crate::engine::Engine;
use crate::engine::outbox::{self as engine, MessagePlace, Patience, Verdict};

/// What becomes of a message whose [attempts](Destination::attempts) are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exhausted {
    /// It becomes a dead letter; later messages of its key go on without it.
    #[default]
    Park,
    /// It is dropped, and counted; later messages of its key go on without it.
    Skip,
    /// It becomes a dead letter, and later messages of its key wait until it is
    /// [put back](Destination::requeue) or [thrown away](Destination::discard). Other keys go on.
    Block,
}

/// What a failed attempt has led to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is handed out again after this long, in time for which the store is open.
    Again(Duration),
    /// It was the last attempt: the message is a dead letter now.
    Dead,
    /// It was the last attempt: the message was dropped.
    Dropped,
    /// Nothing: the message is settled, or was handed out again since.
    Late,
}

/// A named place that messages are sent to, with the settings of this handle for relaying them.
///
/// Cloning is cheap; all handles of one name in a process share what is handed out. Get one from
/// [`Inbox::destination`](crate::Inbox::destination); see [`outbox`](crate::outbox).
#[derive(Clone)]
pub struct Destination {
    inbox: Inbox,
    name: Arc<str>,
    pub(crate) id: DestinationId,
    patience: Patience,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Destination {
    pub(crate) fn new(name: &str, inbox: Inbox, id: DestinationId) -> Self {
        let patience = Patience {
            answer_within_us: 60_000_000,
            first_backoff_ms: 1_000,
            longest_backoff_ms: 600_000,
            attempts_max: 16,
            exhausted: engine::Exhausted::Park,
        };
        Self { inbox, name: name.into(), id, patience }
    }

    /// The name that it was registered under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// After how many failed attempts a message is given up; 16 unless set, at least one.
    #[must_use]
    pub fn attempts(mut self, most: u32) -> Self {
        self.patience.attempts_max = most.max(1);
        self
    }

    /// How long a message waits after its first failed attempt, 1 s unless set. It doubles with each, up
    /// to `longest`, 10 minutes unless set; up to half of it is taken off at random.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.patience.first_backoff_ms = ms(first);
        self.patience.longest_backoff_ms = ms(longest.max(first));
        self
    }

    /// How long a relay has for the answer to a hand-out, 60 s unless set; counted from the newest one. Past
    /// it the attempt counts as failed and the message is handed out again.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.patience.answer_within_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// What becomes of a message whose attempts are used up; [`Park`](Exhausted::Park) unless set.
    #[must_use]
    pub fn when_exhausted(mut self, policy: Exhausted) -> Self {
        self.patience.exhausted = match policy {
            Exhausted::Park => engine::Exhausted::Park,
            Exhausted::Skip => engine::Exhausted::Skip,
            Exhausted::Block => engine::Exhausted::Block,
        };
        self
    }

    /// Takes up to `most` messages to send, 4,096 at most: of each key the first that is not settled. Empty if
    /// none may go now.
    ///
    /// Each is durable, and is this caller's until [answered](Self::answer_within). Takes no write slot, so
    /// that it goes on while handlers run; any number of threads may call it.
    ///
    /// # Errors
    /// A failed read or a damaged row; a store that is closed or cannot recover.
    pub fn take(&self, most: usize) -> Result<Vec<Delivery>, Error> {
        let most = most.min(DELIVERIES_MAX);
        let handed = self.engine().hand_out(self.id, most, &self.patience)?;
        let store_id = self.engine().store_id();
        Ok(handed.into_iter().map(|handed| Delivery::new(store_id, self.id, handed)).collect())
    }

    /// As [`take`](Self::take), waiting for something to send for up to `limit`; empty if nothing came.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_within(&self, most: usize, limit: Duration) -> Result<Vec<Delivery>, Error> {
        let engine = self.engine();
        let started_us = engine.clock.stopwatch_us();
        let limit_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        loop {
            let changes = engine.outbox.changes();
            let taken = self.take(most)?;
            let spent_us = engine.clock.stopwatch_us().saturating_sub(started_us);
            if !taken.is_empty() || most == 0 || spent_us >= limit_us {
                return Ok(taken);
            }
            let left_us = limit_us - spent_us;
            let next_us = engine.next_delivery_us(self.id).unwrap_or(u64::MAX).max(1_000);
            engine.outbox.wait(changes, Duration::from_micros(left_us.min(next_us)));
        }
    }

    /// Settles messages that were sent: they are gone when this returns, durably. Returns how many were
    /// still there.
    ///
    /// An answer to an earlier hand-out counts, too: sent is sent. Taking many in one call costs one
    /// commit.
    ///
    /// # Errors
    /// A delivery of another destination or store ([`is_invalid`](Error::is_invalid)); errors of a commit, after
    /// which they are handed out again unless they are gone.
    pub fn acknowledge<'d>(
        &self,
        deliveries: impl IntoIterator<Item = &'d Delivery>,
    ) -> Result<u64, Error> {
        let places = deliveries.into_iter().map(|delivery| self.place_of(delivery.address));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let mut gone = 0;
        for places in places.chunks(DELIVERIES_MAX) {
            gone += self.engine().acknowledge(self.id, places)?;
        }
        Ok(gone)
    }

    /// Notes, durably, that an attempt failed and why, up to a kilobyte of it; what that led to.
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge).
    pub fn fail(&self, delivery: &Delivery, why: &str) -> Result<Failed, Error> {
        let failed = self.fail_all(&[(delivery, why.to_owned())])?;
        Ok(failed.first().copied().unwrap_or(Failed::Late))
    }

    pub(super) fn fail_all(&self, failed: &[(&Delivery, String)]) -> Result<Vec<Failed>, Error> {
        let failures = failed.iter().map(|(delivery, why)| {
            let verdict = Verdict { why, at_once: false };
            Ok((self.place_of(delivery.address)?, Some(delivery.token), verdict))
        });
        let failures = failures.collect::<Result<Vec<_>, Error>>()?;
        let led_to = self.engine().fail_deliveries(self.id, &failures, &self.patience)?;
        Ok(led_to
            .into_iter()
            .map(|failure| match failure {
                engine::Failure::Again { in_ms } => Failed::Again(Duration::from_millis(in_ms)),
                engine::Failure::Dead => Failed::Dead,
                engine::Failure::Dropped => Failed::Dropped,
                engine::Failure::Late => Failed::Late,
            })
            .collect())
    }

    /// Messages that are not settled, in the order of their commits: at most `limit` behind `after`, or from
    /// the first.
    ///
    /// # Errors
    /// A failed read or a damaged row.
    pub fn waiting(&self, after: Option<&Waiting>, limit: usize) -> Result<Vec<Waiting>, Error> {
        let after = after.map(|after| self.place_of(after.address)).transpose()?;
        let (found, store_id) =
            (self.engine().waiting(self.id, after, limit)?, self.engine().store_id());
        Ok(found.into_iter().map(|of| Waiting::new(store_id, self.id, of)).collect())
    }

    /// Messages that were given up, in the order of their commits: at most `limit` behind `after`, or from the
    /// first.
    ///
    /// # Errors
    /// A failed read or a damaged row.
    pub fn dead_letters(
        &self,
        after: Option<&DeadLetter>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let after = after.map(|after| self.place_of(after.address)).transpose()?;
        let (found, store_id) =
            (self.engine().dead_letters(self.id, after, limit)?, self.engine().store_id());
        Ok(found.into_iter().map(|of| DeadLetter::new(store_id, self.id, of)).collect())
    }

    /// Lets a dead letter be tried again, from its first attempt, under its old id and in its old place: before
    /// all later messages of its key that are not out yet. Returns whether it was still one; durable
    /// when it returns.
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge).
    pub fn requeue(&self, dead: &DeadLetter) -> Result<bool, Error> {
        self.engine().requeue(self.id, self.place_of(dead.address)?)
    }

    /// Throws a dead letter away. Returns whether it was still one; durable when it returns.
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge).
    pub fn discard(&self, dead: &DeadLetter) -> Result<bool, Error> {
        self.engine().discard(self.id, self.place_of(dead.address)?)
    }

    /// Throws a message away that waits, or is out with a relay, who may have sent it. Returns whether it was
    /// still there; durable when it returns.
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge).
    pub fn drop_waiting(&self, waiting: &Waiting) -> Result<bool, Error> {
        self.engine().drop_message(self.id, self.place_of(waiting.address)?)
    }

    fn engine(&self) -> &Arc<Engine> {
        self.inbox.engine()
    }

    fn place_of(&self, address: Address) -> Result<MessagePlace, Error> {
        let (store_id, destination) = (self.engine().store_id(), self.id);
        if (address.store_id, address.destination) == (store_id, destination) {
            Ok(address.place)
        } else {
            Err(Error::invalid("the message belongs to another destination, or to another store"))
        }
    }

    /// An error unless it is a destination of this store.
    pub(crate) fn check_store(&self, engine: &Engine) -> Result<(), Error> {
        if std::ptr::eq(&**self.engine(), engine) || self.engine().store_id() == engine.store_id() {
            Ok(())
        } else {
            Err(Error::invalid(
                "the destination belongs to another store: ask the inbox that is written for its own",
            ))
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

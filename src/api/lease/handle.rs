//! The lease in a worker's hands.

use std::fmt;
use std::time::Duration;

use super::super::consumer::{Consumer, lease_ms};
use super::super::outcome::Outcome;
use super::super::tx::Tx;
use crate::base::error::{BoxError, Error};
use crate::base::limits::LEASE_NOTE_MAX_BYTES;
use crate::engine::Delivery;

/// An event that this worker has taken on, until it completes, fails, or its time is over. See
/// [`lease`](crate::lease).
///
/// It can go to another thread, or wait across an `await`. Dropping it does not release it.
pub struct Lease {
    pub(crate) consumer: Consumer,
    pub(crate) delivery: Delivery,
    pub(crate) token: u64,
    pub(crate) attempt: u32,
    pub(crate) root: u128,
    pub(crate) previous_note: Option<Vec<u8>>,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("consumer", &self.consumer.name())
            .field("token", &self.token)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl Lease {
    /// The fencing token: larger than that of every lease given out before, of any event of this store.
    ///
    /// Tokens have gaps. Those of a store restored from a backup lie above all of its source's.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A key to hand to the other side of a call: the same at every attempt of this event, and another
    /// for every event, consumer, store and label. 32 hexadecimal digits.
    ///
    /// It comes from the event's id at the first attempt, the consumer's name and the store's identity,
    /// which a backup keeps.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention, lease::Begun};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// # let consumer = inbox.consumer("c")?;
    /// let event = Event::unchecked(EventId::text("order-1")?);
    /// let begin = || consumer.begin(&event, Duration::from_secs(5));
    /// let Begun::Lease(mut lease) = begin()? else { panic!() };
    /// let (charge, mail) = (lease.idempotency_key("charge"), lease.idempotency_key("mail"));
    /// assert_ne!(charge, mail);
    /// let _outcome = lease.fail("no connection", Duration::ZERO)?;
    /// let Begun::Lease(lease) = begin()? else { panic!() };
    /// assert_eq!((lease.attempt(), lease.idempotency_key("charge")), (2, charge));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    #[must_use]
    pub fn idempotency_key(&self, label: &str) -> String {
        let key = self.consumer.engine().namespace.idempotency_key(self.root, label);
        format!("{key:032x}")
    }

    /// What the last attempt that left a note had left; `None` if none did.
    #[must_use]
    pub fn previous_note(&self) -> Option<&[u8]> {
        self.previous_note.as_deref()
    }

    /// Leaves a note for the attempt after this one, should there be one; durable when this returns. The
    /// last note counts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention, lease::Begun};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// # let consumer = inbox.consumer("c")?;
    /// let event = Event::unchecked(EventId::text("order-1")?);
    /// let begin = || consumer.begin(&event, Duration::from_secs(5));
    /// let Begun::Lease(mut lease) = begin()? else { panic!() };
    /// lease.note("sent")?;
    /// let _outcome = lease.fail("no answer", Duration::ZERO)?;
    /// let Begun::Lease(next) = begin()? else { panic!() };
    /// assert_eq!(next.previous_note(), Some(&b"sent"[..]));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// A lease that is no longer current ([`is_lease_lost`](Error::is_lease_lost)): stop the work. More than
    /// 64 KiB ([`is_limit`](Error::is_limit)). Errors of the commit.
    pub fn note(&mut self, note: impl Into<Vec<u8>>) -> Result<(), Error> {
        let note = note.into();
        let (got, limit) = (note.len(), LEASE_NOTE_MAX_BYTES);
        if got > limit {
            return Err(Error::limit("a note, in bytes,", got as u64, limit as u64));
        }
        self.consumer.durably(&self.delivery, |engine, core, case| {
            engine.amend(core, case, self.token, |row, _| row.note = Some(note))
        })
    }

    /// Lets the lease run for `duration` from now, be that longer or shorter than what is left.
    ///
    /// Works on a lease that has run out, too, as long as nobody has taken it over.
    ///
    /// # Errors
    /// A lease that is no longer current ([`is_lease_lost`](Error::is_lease_lost)): stop the work. A duration
    /// that [`begin`](crate::Consumer::begin) would not take. Errors of the commit.
    pub fn renew(&mut self, duration: Duration) -> Result<(), Error> {
        let ms = lease_ms(duration)?;
        self.consumer.durably(&self.delivery, |engine, core, case| {
            let until = |now_ms: u64| now_ms.saturating_add(ms);
            engine.amend(core, case, self.token, |row, now_ms| row.head.until_ms = until(now_ms))
        })
    }

    /// Settles the event: commits its claim, all that the handler wrote and the end of the lease together, if
    /// this lease is still the current one.
    ///
    /// If it is not, the handler does not run and nothing changes: the outcome is that of the repeat of
    /// a settled event, or [`Outcome::Fenced`] with the newest token. After an error the lease is as it
    /// was: complete it again, or fail it. [`Tx::refuse`] settles the event, too; [`Tx::skip`] ends the lease and remembers nothing.
    ///
    /// # Errors
    /// As [`Consumer::process`].
    ///
    /// # Panics
    /// As [`Consumer::process`]; the lease is as it was.
    pub fn complete<T>(
        &mut self,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<T, BoxError>,
    ) -> Result<Outcome<T>, Error> {
        self.consumer.complete(&self.delivery, (self.token, self.root), handler)
    }

    /// Ends this attempt without settling the event, and says why: the next may begin after `backoff`, or
    /// at once if that is zero. Up to a kilobyte of `why` is kept.
    ///
    /// The outcome is [`Outcome::InProgress`], whose advice is to let the event come again after the
    /// backoff, or [`Outcome::Dead`] after [the last attempt](Consumer::max_attempts); that of
    /// [`complete`](Self::complete) for a lease that is no longer current.
    ///
    /// # Errors
    /// A backoff above 24 hours ([`is_limit`](Error::is_limit)). Errors of the commit.
    pub fn fail(&mut self, why: &str, backoff: Duration) -> Result<Outcome<()>, Error> {
        let backoff_ms = if backoff.is_zero() { 0 } else { lease_ms(backoff)? };
        self.consumer.fail(&self.delivery, self.token, why, backoff_ms)
    }
}

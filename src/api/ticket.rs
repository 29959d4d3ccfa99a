//! An answer that is still becoming durable.

use std::time::Duration;

use super::finish::Finisher;
use super::outcome::Outcome;
use crate::base::error::Error;
use crate::base::sync::Arc;
use crate::engine::{Done, Draft};

/// The pending answer of [`Consumer::submit`](crate::Consumer::submit): the handler has run, its
/// commit is under way.
///
/// Acknowledge the delivery only once [`wait`](Self::wait) has returned. Dropping a ticket still
/// commits the event.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let consumer = inbox.consumer("c")?;
/// let tickets: Vec<_> = ["a", "b"]
///     .map(|id| consumer.submit(&Event::unchecked(EventId::text(id).unwrap()), |_| Ok(())))
///     .into_iter()
///     .collect::<Result<_, _>>()?;
/// for ticket in tickets {
///     assert!(ticket.wait()?.is_applied());
/// }
/// # Ok::<(), txinbox::Error>(())
/// ```
#[must_use = "only `wait` says whether the delivery may be acknowledged"]
pub struct Ticket<T> {
    /// `None` once taken by `wait`.
    draft: Option<Draft<T>>,
    /// `None` if the answer read only what was durable already.
    done: Option<Arc<Done>>,
    finisher: Finisher,
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("is_durable", &self.is_durable()).finish()
    }
}

impl<T> Ticket<T> {
    pub(crate) fn new(draft: Draft<T>, done: Option<Arc<Done>>, finisher: Finisher) -> Self {
        if let Some(done) = &done {
            done.add_ticket();
        }
        Self { draft: Some(draft), done, finisher }
    }

    /// Whether `wait` would return at once.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.done.as_ref().is_none_or(|done| done.is_set())
    }

    /// Waits until the answer is durable.
    ///
    /// # Errors
    /// As [`Consumer::process`](crate::Consumer::process).
    pub fn wait(mut self) -> Result<Outcome<T>, Error> {
        let committed = match self.done.as_ref() {
            None => None,
            Some(done) => Some(self.finisher.settle(done)?),
        };
        match self.draft.take() {
            Some(draft) => self.finisher.finish(draft, committed.as_deref()),
            None => Err(Error::closed()),
        }
    }

    /// Waits for at most `limit`; gives the ticket back if that was not enough.
    ///
    /// In a store without threads of its own this call commits the answer if the writer becomes
    /// free in that time, and a commit is not cut short.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[allow(clippy::result_large_err)] // the error is the ticket itself
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<Outcome<T>, Error>, Self> {
        let Some(done) = &self.done else { return Ok(self.wait()) };
        match self.finisher.wait_for(done, limit) {
            Ok(true) => Ok(self.wait()),
            Ok(false) => Err(self),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(done) = self.done.take()
            && done.drop_ticket()
            && !done.is_set()
        {
            // Without a thread of the store's own nobody else would close the group. A failure
            // here is the failure of a commit that nobody waits for.
            let _ = self.finisher.hurry(&done, None);
        }
    }
}

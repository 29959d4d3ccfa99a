//! The answers to a batch.

use super::consumer::{Consumer, RanItem};
use super::outcome::{Advice, Outcome};
use crate::base::error::Error;
use crate::base::sync::Arc;
use crate::engine::Done;

/// One answer per item of a batch, in the order of the items.
///
/// A batch is not atomic as a whole: each item succeeds or fails by itself. Dereferences to a slice
/// of `Result<Outcome<T>, Error>`.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let ids = ["a", "b", "bad", "c"].map(|id| EventId::text(id).unwrap());
/// let batch = inbox.consumer("c")?.process_batch(
///     &ids,
///     |id| Event::unchecked(id.clone()),
///     |_, id| if id == &ids[2] { Err("no".into()) } else { Ok(()) },
/// );
/// assert_eq!(batch.len(), 4);
/// assert_eq!(batch.settled_prefix(), 2); // acknowledge up to here
/// assert!(batch[3].as_ref().unwrap().is_applied()); // later ones are kept all the same
/// # Ok::<(), txinbox::Error>(())
/// ```
#[must_use = "each item's outcome says whether it may be acknowledged"]
#[derive(Debug)]
pub struct Batch<T> {
    pub(crate) answers: Vec<Result<Outcome<T>, Error>>,
}

impl<T> Batch<T> {
    /// How many items from the first on may be acknowledged, for sources that acknowledge prefixes.
    #[must_use]
    pub fn settled_prefix(&self) -> usize {
        let settled = |answer: &&Result<Outcome<T>, Error>| {
            answer.as_ref().is_ok_and(|outcome| outcome.advice() == Advice::Ack)
        };
        self.answers.iter().take_while(settled).count()
    }
}

impl<T> std::ops::Deref for Batch<T> {
    type Target = [Result<Outcome<T>, Error>];

    fn deref(&self) -> &Self::Target {
        &self.answers
    }
}

impl<T> IntoIterator for Batch<T> {
    type Item = Result<Outcome<T>, Error>;
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.answers.into_iter()
    }
}

/// The pending answers of [`Consumer::submit_batch`]: the handlers have run, their commits are under
/// way. Dropping it still commits them.
#[must_use = "only `wait` says which deliveries may be acknowledged"]
pub struct BatchTicket<T> {
    ran: Vec<RanItem<T>>,
    consumer: Consumer,
}

impl<T> std::fmt::Debug for BatchTicket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchTicket").field("is_durable", &self.is_durable()).finish()
    }
}

impl<T> BatchTicket<T> {
    pub(crate) fn new(ran: Vec<RanItem<T>>, consumer: Consumer) -> Self {
        let ticket = Self { ran, consumer };
        for done in ticket.groups() {
            done.add_ticket();
        }
        ticket
    }

    /// The groups that its items are in, each once: items of one group stand together.
    fn groups(&self) -> impl Iterator<Item = &Arc<Done>> {
        let mut last = None;
        self.ran.iter().filter_map(|(_, done)| done.as_ref()).filter(move |done| {
            let is_new = last.is_none_or(|last| !Arc::ptr_eq(last, done));
            last = Some(*done);
            is_new
        })
    }

    /// Whether `wait` would return at once.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.groups().all(|done| done.is_set())
    }

    /// Waits until all answers are durable; an item whose commit failed gets that error.
    pub fn wait(mut self) -> Batch<T> {
        let finisher = self.consumer.finisher();
        for done in self.groups() {
            // An error is told to each item of the group, below.
            let _ = finisher.settle(done);
        }
        let ran = std::mem::take(&mut self.ran);
        Batch { answers: self.consumer.settle_all(&finisher, ran) }
    }
}

impl<T> Drop for BatchTicket<T> {
    fn drop(&mut self) {
        for done in self.groups() {
            if done.drop_ticket() && !done.is_set() {
                // Without a thread of the store's own nobody else would close the group. A failure
                // here is the failure of a commit that nobody waits for.
                let _ = self.consumer.finisher().hurry(done, None);
            }
        }
    }
}

//! The answers to a batch.

use super::outcome::{Advice, Outcome};
use crate::base::error::Error;

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

//! The loop that most relays are: take, send, answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::delivery::Delivery;
use super::destination::{Destination, Failed};
use crate::base::error::{BoxError, Error};

/// What one [`Destination::deliver`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// Messages that were sent and are settled, durably.
    pub sent: u64,
    /// Attempts that failed and will be followed by others.
    pub failed: u64,
    /// Messages that were given up.
    pub given_up: u64,
}

impl Destination {
    /// Takes up to `most` messages, waiting for the first for up to `limit`, calls `send` for each, and settles
    /// them: those for which it returned `Ok` in one commit, those for which it failed or panicked in
    /// another. A thread that calls this in a loop is a relay.
    ///
    /// `send` runs without any lock of the store, and may be called again for a message that it has sent, if
    /// the process ends before that is durable: hand the other side its [id](Delivery::id).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention, outbox::Message};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let mails = inbox.destination("mails")?.attempts(2).backoff(Duration::ZERO, Duration::ZERO);
    /// inbox.consumer("orders")?.process(&Event::unchecked(EventId::text("order-1")?), |tx| {
    ///     tx.enqueue(&mails, Message::new("good"))?;
    ///     tx.enqueue(&mails, Message::new("bad"))?;
    ///     Ok(())
    /// })?;
    /// let mut relay = || {
    ///     mails.deliver(100, Duration::ZERO, |mail| match mail.payload() {
    ///         b"bad" => Err("no such address".into()),
    ///         _ => Ok(()),
    ///     })
    /// };
    /// let first = relay()?;
    /// assert_eq!((first.sent, first.failed), (1, 1));
    /// assert_eq!(relay()?.given_up, 1);
    /// let dead = mails.dead_letters(None, 10)?;
    /// assert_eq!((dead[0].attempts(), dead[0].last_error()), (2, "no such address"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`take`](Destination::take) and [`acknowledge`](Destination::acknowledge).
    pub fn deliver(
        &self,
        most: usize,
        limit: Duration,
        mut send: impl FnMut(&Delivery) -> Result<(), BoxError>,
    ) -> Result<Delivered, Error> {
        let taken = self.take_within(most, limit)?;
        let (mut sent, mut failed) = (Vec::new(), Vec::new());
        for delivery in &taken {
            match catch_unwind(AssertUnwindSafe(|| send(delivery))) {
                Ok(Ok(())) => sent.push(delivery),
                Ok(Err(error)) => failed.push((delivery, error.to_string())),
                Err(_) => failed.push((delivery, "the sender panicked".to_owned())),
            }
        }
        let mut delivered = Delivered { sent: self.acknowledge(sent)?, ..Delivered::default() };
        if !failed.is_empty() {
            for failed in self.fail_all(&failed)? {
                match failed {
                    Failed::Again(_) => delivered.failed += 1,
                    Failed::Dead | Failed::Dropped => delivered.given_up += 1,
                    Failed::Late => {}
                }
            }
        }
        Ok(delivered)
    }
}

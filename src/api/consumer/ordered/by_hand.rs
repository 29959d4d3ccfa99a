//! A source's position for its reader, and what is done to it besides delivering: giving positions up, and
//! owning it.

use super::super::super::audit::Reason;
use super::super::super::outcome::Outcome;
use super::{Ordered, Ownership, Position};
use crate::base::error::Error;
use crate::engine::{Action, Owning, Skipping};

impl Ordered {
    /// Where the source stands, as of the last durable group: read it at the start, to know where to begin.
    ///
    /// # Errors
    /// A newer incarnation ([`is_stale_source`](Error::is_stale_source)); a failed read or a damaged row.
    pub fn position(&self) -> Result<Position, Error> {
        let row = self.consumer.inbox.engine().position(&self.source)?.unwrap_or_default();
        if row.incarnation > self.source.owner.incarnation {
            return Err(self.source.stale(row.incarnation));
        }
        Ok(Position::of(&row))
    }

    /// Gives a position up: settles it without handling it, so that those behind it may go on. Durable when
    /// it returns, and told by [`Inbox::audit`](crate::Inbox::audit).
    ///
    /// The position need not have failed: one whose handler takes the whole process down can be skipped
    /// before it is handled. What lies between the last position and this one becomes a gap. The outcome
    /// is [`Skipped`](Outcome::Skipped); or [`Duplicate`](Outcome::Duplicate) if it is settled
    /// already; or [`Blocked`](Outcome::Blocked) if an earlier one failed; or [`Fenced`](Outcome::Fenced).
    ///
    /// # Errors
    /// A reason out of bounds (see [`Reason`]); a newer incarnation
    /// ([`is_stale_source`](Error::is_stale_source)); errors of a commit.
    pub fn skip(&self, position: u64, reason: impl Into<Reason>) -> Result<Outcome<()>, Error> {
        let consumer = &self.consumer;
        let reason = reason.into().checked()?;
        let engine = consumer.inbox.engine();
        let action = Action::Skipped {
            source: self.source().to_vec(),
            incarnation: self.incarnation(),
            position,
        };
        let note = reason.note(consumer.handling.scope, action);
        let skipping = engine
            .skip_position((&self.source, position), (self.class(), note), consumer.max_wait)
            .map_err(|error| consumer.count_error(error))?;
        Ok(match skipping {
            Skipping::Skipped => Outcome::Skipped(()),
            Skipping::Settled(moved) => Outcome::Duplicate(self.claim(moved)),
            Skipping::Blocked { at } => Outcome::Blocked { at },
            Skipping::Fenced { epoch } => Outcome::Fenced { epoch },
        })
    }

    /// Makes this handle the source's owner, and fences those before it: what handles of a lower
    /// epoch deliver from now on is [`Outcome::Fenced`]. Durable when it returns.
    ///
    /// The epoch comes from whoever assigns sources to processes, and grows with each assignment: a
    /// consumer group's generation, an election's term. Without any claim all handles are of epoch 0.
    /// Clones made before keep their own. A new incarnation keeps the owner.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::ordered::Ownership;
    /// # use txinbox::{Inbox, Outcome, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let consumer = inbox.consumer("billing")?;
    /// let mut former = consumer.ordered("orders/0", 1)?;
    /// assert_eq!(former.claim_ownership(7)?, Ownership::Held);
    /// let mut next = consumer.ordered("orders/0", 1)?;
    /// assert_eq!(next.claim_ownership(8)?, Ownership::Held);
    /// assert!(next.process(1, |_| Ok(()))?.is_applied());
    /// assert_eq!(former.process(1, |_| Ok(()))?, Outcome::Fenced { epoch: 8 });
    /// assert_eq!(former.claim_ownership(7)?, Ownership::Fenced { epoch: 8 });
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// A newer incarnation ([`is_stale_source`](Error::is_stale_source)); errors of a commit.
    pub fn claim_ownership(&mut self, epoch: u64) -> Result<Ownership, Error> {
        let engine = self.consumer.inbox.engine();
        let owning = engine
            .own_source(&self.source, (epoch, self.class()), self.consumer.max_wait)
            .map_err(|error| self.consumer.count_error(error))?;
        Ok(match owning {
            Owning::Held => {
                self.source.owner.epoch = epoch;
                Ownership::Held
            }
            Owning::Fenced { epoch } => Ownership::Fenced { epoch },
        })
    }
}

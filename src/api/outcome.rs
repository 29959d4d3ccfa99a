//! What became of a delivery.

use std::time::{Duration, SystemTime};

use super::claim::Claim;

/// What became of a delivery. Reached only once everything it says is durable.
///
/// Exhaustive on purpose: write an arm for each, or ask [`advice`](Self::advice), but no `_ => ack`.
///
/// `InProgress`, `Fenced` and `Dead` are answers of [leases](crate::lease), `Fenced` and `Blocked` of
/// [ordered sources](crate::ordered).
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Advice, Event, EventId, Inbox, Outcome, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let consumer = inbox.consumer("billing")?;
/// let event = Event::new(EventId::text("order-1")?, "10 EUR");
/// let first = consumer.process(&event, |_| Ok("done"))?;
/// assert!(matches!(first, Outcome::Applied("done", _)));
/// let other = Event::new(EventId::text("order-1")?, "99 EUR");
/// let second = consumer.process(&other, |_| Ok("never runs"))?;
/// assert_eq!(second.advice(), Advice::Quarantine);
/// # Ok::<(), txinbox::Error>(())
/// ```
#[must_use = "an outcome says whether the delivery may be acknowledged"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// New, and handled: claim and state are durable.
    Applied(T, Claim),
    /// New, and turned down for good by the handler with [`Tx::refuse`](crate::Tx::refuse): the claim is
    /// durable, the state unchanged.
    Refused(T, Claim),
    /// Settled before, with the same payload. Nothing was changed.
    Duplicate(Claim),
    /// The handler chose to remember nothing, with [`Tx::skip`](crate::Tx::skip).
    Skipped(T),
    /// Settled before under this id, but with another payload. Nothing was changed; the claim is
    /// the first one's.
    Mismatch(Claim),
    /// Not known, but its own time lies at or below the floor: it may have been settled and
    /// forgotten since. Nothing was changed.
    TooLate {
        /// The newest event time that was ever forgotten.
        floor: SystemTime,
    },
    /// Somebody holds a [lease](crate::lease) on it, or its next attempt is not due yet.
    InProgress {
        /// When the lease runs out if it is not renewed, or the next attempt may begin.
        expires_in: Duration,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// Another has taken its place: a newer lease on the event, whose token this is, or a newer owner
    /// of its source.
    Fenced {
        /// The newest lease's token, or the newest owner's epoch.
        epoch: u64,
    },
    /// An earlier position of its source failed and must be settled first.
    Blocked {
        /// That position.
        at: u64,
    },
    /// It failed too often and is given up, until it is
    /// [redriven](crate::Consumer::redrive).
    Dead {
        /// How often it was tried.
        attempts: u32,
    },
}

/// What to do with the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Acknowledge it: it will not be needed again.
    Ack,
    /// Let it be delivered again after this time.
    RetryAfter(Duration),
    /// Put it aside for a person to look at; a repeat will not help.
    Quarantine,
}

/// How soon to ask again where nothing says more.
const RETRY: Duration = Duration::from_secs(1);

impl<T> Outcome<T> {
    /// What a consumer without wishes of its own does with the delivery.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            Self::Applied(..) | Self::Refused(..) | Self::Duplicate(_) | Self::Skipped(_) => {
                Advice::Ack
            }
            Self::Mismatch(_) | Self::TooLate { .. } | Self::Dead { .. } => Advice::Quarantine,
            Self::InProgress { expires_in, .. } => Advice::RetryAfter(*expires_in),
            Self::Fenced { .. } | Self::Blocked { .. } => Advice::RetryAfter(RETRY),
        }
    }

    /// Whether the handler ran in this call and its work was kept.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(..))
    }

    /// Whether the event was settled before, with the same payload.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate(_))
    }

    /// The claim that settles the event, if there is one.
    #[must_use]
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Applied(_, claim)
            | Self::Refused(_, claim)
            | Self::Duplicate(claim)
            | Self::Mismatch(claim) => Some(claim),
            _ => None,
        }
    }
}

//! The record that an event was settled, as users see it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::ids::{Fingerprint, StoreMs, WallMs};
use crate::engine::ResultBytes;

/// The durable record that a consumer settled an event.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Outcome, Retention};
/// let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(3600)))?;
/// let consumer = inbox.consumer("billing")?;
/// let event = Event::new(EventId::text("order-1")?, "10 EUR");
/// consumer.process(&event, |tx| Ok(tx.set_result("invoice 77")?))?;
///
/// let Outcome::Duplicate(claim) = consumer.process(&event, |_| Ok(()))? else { panic!() };
/// assert_eq!(claim.result(), Some(&b"invoice 77"[..]));
/// assert!(claim.kept_for().unwrap() > Duration::from_secs(3500));
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub(crate) wall: WallMs,
    pub(crate) at: StoreMs,
    pub(crate) age: Duration,
    pub(crate) kept_for: Option<Duration>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) result: ResultBytes,
    pub(crate) refused: bool,
}

impl Claim {
    /// When the claim was committed, by the wall clock of that moment.
    #[must_use]
    pub fn committed_at(&self) -> SystemTime {
        let ms = self.wall.0;
        let distance = Duration::from_millis(ms.unsigned_abs());
        let moment = if ms < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        moment.unwrap_or(UNIX_EPOCH)
    }

    /// How long ago that was, in store time: the time that retention counts by.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.age
    }

    /// How long the claim is kept at least from now; `None` is for ever.
    ///
    /// Zero does not mean that it is gone: a claim counts for as long as it is stored.
    #[must_use]
    pub fn kept_for(&self) -> Option<Duration> {
        self.kept_for
    }

    /// The fingerprint of the payload that was settled; `None` for an event without one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<u64> {
        self.fingerprint.map(|f| f.0)
    }

    /// What the handler stored with [`Tx::set_result`](crate::Tx::set_result): `Some` even if of
    /// zero bytes, `None` if it stored nothing or the result has
    /// [expired](Self::is_result_expired).
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        match &self.result {
            ResultBytes::Some(bytes) => Some(bytes),
            ResultBytes::None | ResultBytes::Expired => None,
        }
    }

    /// Whether the handler turned the event down with [`Tx::refuse`](crate::Tx::refuse); the result
    /// says why.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether there was a result that is kept no longer.
    #[must_use]
    pub fn is_result_expired(&self) -> bool {
        self.result == ResultBytes::Expired
    }
}

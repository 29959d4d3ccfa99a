//! What a user says about how late a duplicate can come.

use std::time::Duration;

use super::Policy;
use crate::base::error::Error;
use crate::base::limits::{RETENTION_MAX_MS, RETENTION_MIN_MS};

/// How long an inbox remembers that it settled an event.
///
/// A claim that is forgotten while its event can still be delivered again is the way to handle an
/// event twice, so there is no default: say where late deliveries can come from, and the window
/// follows as `max(broker + retries, replay) + recovery`.
///
/// ```
/// use txinbox::{Retention, days, hours};
///
/// let retention = Retention::covering()
///     .broker(days(7)) // a topic keeps its records for a week
///     .retries(hours(24)) // the producer's own retries before that
///     .replay(days(14)) // operators may rewind this far
///     .recovery(hours(48)); // and may need a weekend before they can
/// assert_eq!(retention.window(), Some(days(16)));
/// ```
///
/// Claims are kept a little longer than the window, by up to 1/31 for a wall clock that lies and by
/// up to 1/8 because they are forgotten together. Time counts while the store is open; one opening
/// adds at most 1/32 of the retention for the time that the store was closed, so a store that is
/// rarely open remembers longer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a retention does nothing until a store is opened with it"]
pub struct Retention {
    broker: Duration,
    retries: Duration,
    recovery: Duration,
    replay: Duration,
    least: Duration,
    forever: bool,
    allow_shorter: bool,
}

impl Retention {
    const NONE: Self = Self {
        broker: Duration::ZERO,
        retries: Duration::ZERO,
        recovery: Duration::ZERO,
        replay: Duration::ZERO,
        least: Duration::ZERO,
        forever: false,
        allow_shorter: false,
    };

    /// Begins a policy that is derived from where duplicates can come from. Opening a store with
    /// none of them given is an error.
    ///
    /// ```
    /// use txinbox::{Retention, hours};
    ///
    /// assert_eq!(Retention::covering().retries(hours(3)).window(), Some(hours(3)));
    /// ```
    pub fn covering() -> Self {
        Self::NONE
    }

    /// A policy by its window alone: each event is remembered for at least this long.
    ///
    /// ```
    /// use txinbox::{Retention, days};
    ///
    /// assert_eq!(Retention::at_least(days(30)).window(), Some(days(30)));
    /// ```
    pub fn at_least(window: Duration) -> Self {
        Self { least: window, ..Self::NONE }
    }

    /// A policy under which nothing is forgotten. The store then grows with every event.
    ///
    /// ```
    /// use txinbox::Retention;
    ///
    /// assert_eq!(Retention::forever().window(), None);
    /// ```
    pub fn forever() -> Self {
        Self { forever: true, ..Self::NONE }
    }

    /// How long after an event was published its broker may deliver it again: the retention of a
    /// topic, queue or stream.
    ///
    /// ```
    /// use txinbox::{Retention, days};
    ///
    /// assert_eq!(Retention::covering().broker(days(4)).window(), Some(days(4)));
    /// ```
    pub fn broker(mut self, longest: Duration) -> Self {
        self.broker = longest;
        self
    }

    /// How long a producer goes on retrying to publish one event; adds to the broker's time.
    ///
    /// ```
    /// use txinbox::{Retention, days};
    ///
    /// let retention = Retention::covering().broker(days(4)).retries(days(1));
    /// assert_eq!(retention.window(), Some(days(5)));
    /// ```
    pub fn retries(mut self, longest: Duration) -> Self {
        self.retries = longest;
        self
    }

    /// How long it may take to bring the consumer back after an outage; adds to everything else.
    ///
    /// ```
    /// use txinbox::{Retention, days};
    ///
    /// let retention = Retention::covering().broker(days(4)).recovery(days(2));
    /// assert_eq!(retention.window(), Some(days(6)));
    /// ```
    pub fn recovery(mut self, longest: Duration) -> Self {
        self.recovery = longest;
        self
    }

    /// How far back events are replayed on purpose, by a rewound offset or a restored backup.
    ///
    /// ```
    /// use txinbox::{Retention, days};
    ///
    /// let retention = Retention::covering().broker(days(4)).replay(days(30));
    /// assert_eq!(retention.window(), Some(days(30)));
    /// ```
    pub fn replay(mut self, farthest: Duration) -> Self {
        self.replay = farthest;
        self
    }

    /// Lets this policy shorten the one that an existing store has.
    ///
    /// Without it, opening a store under a shorter policy keeps the longer one and reports that,
    /// since claims once forgotten do not come back.
    ///
    /// ```
    /// use txinbox::{Retention, days};
    ///
    /// let retention = Retention::at_least(days(1)).allow_shorter();
    /// assert_eq!(retention.window(), Some(days(1)));
    /// ```
    pub fn allow_shorter(mut self) -> Self {
        self.allow_shorter = true;
        self
    }

    /// For how long each event is remembered at least; `None` is for ever.
    ///
    /// ```
    /// use txinbox::{Retention, hours};
    ///
    /// let retention = Retention::covering().broker(hours(2)).replay(hours(1));
    /// assert_eq!(retention.window(), Some(hours(2)));
    /// ```
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        let delivered = self.broker.saturating_add(self.retries);
        let sources = delivered.max(self.replay).saturating_add(self.recovery);
        (!self.forever).then_some(sources.max(self.least))
    }

    pub(crate) fn allows_shorter(&self) -> bool {
        self.allow_shorter
    }

    /// The policy to store, or why there can be none.
    pub(crate) fn policy(&self) -> Result<Policy, Error> {
        let Some(window) = self.window() else {
            return Ok(Policy { retention_ms: None });
        };
        let ms = u64::try_from(window.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        if window.is_zero() {
            return Err(Error::invalid(
                "the retention window is zero, so every redelivery would be handled again; say how \
                 late a duplicate can come, for example Retention::covering().broker(hours(24))",
            ));
        }
        if ms < RETENTION_MIN_MS {
            return Err(Error::invalid(format!(
                "the retention window of {window:?} is below {RETENTION_MIN_MS} ms, which no \
                 redelivery respects; check its unit"
            )));
        }
        if ms > RETENTION_MAX_MS {
            return Err(Error::limit(
                "the retention window in milliseconds (Retention::forever() has no limit)",
                ms,
                RETENTION_MAX_MS,
            ));
        }
        Ok(Policy::of_window(ms))
    }
}

/// So many minutes.
///
/// ```
/// assert_eq!(txinbox::minutes(2).as_secs(), 120);
/// ```
#[must_use]
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(60))
}

/// So many hours.
///
/// ```
/// assert_eq!(txinbox::hours(2), txinbox::minutes(120));
/// ```
#[must_use]
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(3_600))
}

/// So many days of 24 hours.
///
/// ```
/// assert_eq!(txinbox::days(2), txinbox::hours(48));
/// ```
#[must_use]
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(86_400))
}

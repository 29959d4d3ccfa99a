//! What can be said of a source.

use crate::engine::PositionRow;

/// Where an ordered source stands, as of one durable group.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Inbox, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let log = inbox.consumer("billing")?.ordered("orders/0", 1)?;
/// assert_eq!((log.position()?.last, log.position()?.next()), (None, 0));
/// for position in [10, 11, 15] {
///     assert!(log.process(position, |_| Ok(()))?.is_applied());
/// }
/// assert!(log.process(16, |_| Err::<(), _>("no".into())).is_err());
/// let position = log.position()?;
/// assert_eq!((position.last, position.next()), (Some(15), 16));
/// assert_eq!((position.gaps, position.missing, position.newest_gap), (1, 3, Some((12, 14))));
/// assert_eq!(position.failed, [16]);
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// The highest position settled; `None` if none was in this incarnation.
    pub last: Option<u64>,
    /// Positions that failed and must be settled before later ones, lowest first.
    pub failed: Vec<u64>,
    /// How often positions were passed over that never came, or came too late. What lies before the
    /// first position of an incarnation is no gap.
    pub gaps: u64,
    /// Positions in all of these gaps.
    pub missing: u64,
    /// The first and the last position of the newest gap.
    pub newest_gap: Option<(u64, u64)>,
    /// Positions given up by [`Ordered::skip`](super::Ordered::skip).
    pub skipped: u64,
    /// The newest owner's epoch; 0 before anybody claimed the source.
    pub epoch: u64,
}

impl Position {
    pub(super) fn of(row: &PositionRow) -> Self {
        Self {
            last: row.last,
            failed: row.failed.clone(),
            gaps: row.gaps.count,
            missing: row.gaps.positions,
            newest_gap: row.gaps.newest,
            skipped: row.skipped,
            epoch: row.owner,
        }
    }

    /// Where to seek to: the position after the last one, or 0. What failed lies there or behind.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }
}

/// The answer to [`Ordered::claim_ownership`](super::Ordered::claim_ownership).
#[must_use = "a fenced owner must stop delivering"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The handle owns the source.
    Held,
    /// A newer owner does; the handle is as it was.
    Fenced {
        /// The newest owner's epoch.
        epoch: u64,
    },
}

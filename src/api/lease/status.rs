//! Where an event stands that is not settled, for operators.

use std::time::Duration;

use super::super::consumer::Consumer;
use super::super::event_id::EventId;
use crate::base::error::Error;
use crate::engine::lease;

/// Where an event stands that was begun and is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Somebody works on it, for so long if the lease is not renewed.
    Held {
        /// Time that is left.
        expires_in: Duration,
    },
    /// An attempt has failed, or its lease has run out.
    Waiting {
        /// When the next may begin; zero for now.
        due_in: Duration,
    },
    /// It was given up. See [`Consumer::redrive`].
    Dead,
}

/// What is stored of an event that was begun and is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Where it stands.
    pub standing: Standing,
    /// How many attempts have begun.
    pub attempts: u32,
    /// The token of the last.
    pub token: u64,
    /// The last note.
    pub note: Option<Vec<u8>>,
    /// What the last attempt that failed said.
    pub error: Option<String>,
}

/// What is stored of an event under lease, waiting for its next attempt, or given up; `None` for any other.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Outcome, Retention};
/// use txinbox::lease::{self, Begun, Standing};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let consumer = inbox.consumer("c")?.max_attempts(1);
/// let id = EventId::text("order-1")?;
/// let event = Event::unchecked(id.clone());
/// let begin = || consumer.begin(&event, Duration::from_secs(5));
/// let Begun::Lease(mut lease) = begin()? else { panic!() };
/// assert_eq!(lease.fail("no such account", Duration::ZERO)?, Outcome::Dead { attempts: 1 });
///
/// let status = lease::status(&consumer, &id)?.unwrap();
/// assert_eq!(status.standing, Standing::Dead);
/// assert_eq!(status.error.as_deref(), Some("no such account"));
/// assert!(matches!(begin()?, Begun::Settled(Outcome::Dead { attempts: 1 })));
///
/// assert!(consumer.redrive(&id)?);
/// assert!(matches!(begin()?, Begun::Lease(lease) if lease.attempt() == 1));
/// # Ok::<(), txinbox::Error>(())
/// ```
///
/// # Errors
/// As [`Consumer::process`], without a handler's.
pub fn status(consumer: &Consumer, id: &EventId) -> Result<Option<Status>, Error> {
    let delivery = consumer.delivery_of(id);
    let found = consumer.durably(&delivery, |engine, core, case| {
        let id = case.delivery.ids.first().copied().unwrap_or_default();
        engine.lease_row(core, id)
    })?;
    Ok(found.map(|(row, left_ms)| {
        let left = Duration::from_millis(left_ms);
        let standing = match row.head.standing {
            lease::Standing::Dead => Standing::Dead,
            lease::Standing::Held if left_ms > 0 => Standing::Held { expires_in: left },
            _ => Standing::Waiting { due_in: left },
        };
        let (attempts, token) = (row.head.attempt, row.head.token);
        Status { standing, attempts, token, note: row.note, error: row.error }
    }))
}

//! Leases: for work that cannot run inside a transaction, such as an HTTP call of some seconds.
//!
//! [`Consumer::process`](crate::Consumer::process) holds up every other handler while its own runs. For slow
//! work, take the event on with [`begin`](crate::Consumer::begin) instead, do the work, and
//! [`complete`](Lease::complete) it: that commits claim, state and result together.
//!
//! ```
//! # use std::time::Duration;
//! # use txinbox::{Event, EventId, Inbox, Map, Retention};
//! use txinbox::lease::Begun;
//! # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(3600)))?;
//! # fn charge(key: &str, cents: u64) -> Result<String, String> { Ok(format!("charge of {cents}")) }
//! # fn look_up(key: &str) -> Option<String> { None }
//! let charges: Map<str, str> = inbox.map("charges")?;
//! let billing = inbox.consumer("billing")?;
//! let event = Event::new(EventId::text("order-1")?, "10 EUR");
//!
//! let mut lease = match billing.begin(&event, Duration::from_secs(30))? {
//!     Begun::Lease(lease) => lease,
//!     Begun::Settled(outcome) => panic!("acknowledge it, or let it come again: {outcome:?}"),
//! };
//! let key = lease.idempotency_key("charge"); // the same at every attempt
//! // An attempt before this one may have got through: ask first.
//! let known = lease.previous_note().and_then(|_| look_up(&key));
//! lease.note("about to charge")?; // durable before the call
//! let charged = known.map_or_else(|| charge(&key, 1_000), Ok);
//! match charged {
//!     Ok(id) => {
//!         let outcome = lease.complete(|tx| Ok(tx.insert(&charges, "order-1", id.as_str())?))?;
//!         assert!(outcome.is_applied());
//!     }
//!     Err(why) => {
//!         let _tried_again_later = lease.fail(&why, Duration::from_secs(5))?;
//!     }
//! }
//! let Begun::Settled(again) = billing.begin(&event, Duration::from_secs(30))? else { panic!() };
//! assert!(again.is_duplicate());
//! # Ok::<(), txinbox::Error>(())
//! ```
//!
//! # What holds
//!
//! - At most one lease on an event is current, under whichever of its ids it comes. Others get
//!   [`Outcome::InProgress`] with the time that is left, from `begin` and from `process` alike.
//! - Only the current lease can complete. A worker that comes too late changes nothing and is told what the
//!   event's repeat is told, a duplicate with the other's result, or
//!   [`Outcome::Fenced`]. That holds for a lease that has run out: as long as nobody
//!   has taken it over, it can still be completed.
//! - A [token](Lease::token) grows from lease to lease over the whole life of the store, and is given out
//!   only once it is durable: a system that remembers the largest it saw can turn late calls away.
//! - Leases run out by the time for which the store was open, never by the wall clock. After a crash an
//!   event is free again once the rest of its lease has passed, and the next attempt has the note of the last.
//! - Dropping a [`Lease`] does not release it: what it stood for may still be under way.
//!
//! # What does not
//!
//! A lease orders attempts inside this store; the world outside is ordered by tokens and idempotency keys, if
//! it heeds them. A call that was sent just before a crash may arrive after the next attempt's. An event
//! taken on with `begin` may also be handled by [`process`](crate::Consumer::process) once its lease has run out.

mod handle;
mod status;
mod wait;

pub use handle::Lease;
pub use status::{Standing, Status, status};
pub use wait::wait;

use super::outcome::Outcome;

/// What [`Consumer::begin`](crate::Consumer::begin) found.
#[must_use = "either a lease to work under, or an outcome to answer the delivery by"]
#[derive(Debug)]
pub enum Begun {
    /// The event is this worker's.
    Lease(Lease),
    /// It is not: settled, too late, given up, or somebody else's for now.
    Settled(Outcome<()>),
}

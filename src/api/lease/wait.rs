//! Waiting for somebody else's work on an event.

use std::time::Duration;

use super::super::consumer::Consumer;
use super::super::event::Event;
use super::super::outcome::Outcome;
use crate::base::error::Error;

/// The clock is looked at so often, since another than the machine's may have been given.
const SLICE: Duration = Duration::from_millis(20);

/// Waits until nobody works on the event any more, for at most `limit`, and returns what its repeat is told then.
///
/// A duplicate, if the other has completed it. [`Outcome::InProgress`] if it is still at work, or its
/// attempt has failed or run out; [`Outcome::Dead`] if that was the last. `None` if nothing is known of
/// the event: nobody has begun it. Nothing is taken on here; call [`begin`](Consumer::begin) for that.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Outcome, Retention};
/// use txinbox::lease::{self, Begun};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let consumer = inbox.consumer("c")?;
/// let event = Event::unchecked(EventId::text("order-1")?);
/// assert!(lease::wait(&consumer, &event, Duration::ZERO)?.is_none());
/// let Begun::Lease(mut lease) = consumer.begin(&event, Duration::from_secs(5))? else { panic!() };
/// std::thread::scope(|threads| {
///     let waiting = threads.spawn(|| lease::wait(&consumer, &event, Duration::from_secs(5)));
///     let done = lease.complete(|tx| Ok(tx.set_result("its answer")?))?;
///     assert!(done.is_applied());
///     let Some(Outcome::Duplicate(claim)) = waiting.join().unwrap()? else { panic!() };
///     assert_eq!(claim.result(), Some(&b"its answer"[..]));
///     Ok::<(), txinbox::Error>(())
/// })?;
/// # Ok::<(), txinbox::Error>(())
/// ```
///
/// # Errors
/// As [`Consumer::process`], without a handler's.
pub fn wait(
    consumer: &Consumer,
    event: &Event<'_>,
    limit: Duration,
) -> Result<Option<Outcome<()>>, Error> {
    let engine = consumer.engine();
    let started_us = engine.clock.stopwatch_us();
    let mut waited = Duration::ZERO;
    loop {
        let changes = engine.leases.changes();
        let Some((outcome, is_live)) = consumer.watch(event)? else { return Ok(None) };
        let passed_us = engine.clock.stopwatch_us().saturating_sub(started_us);
        let left = limit.saturating_sub(waited.max(Duration::from_micros(passed_us)));
        let Outcome::InProgress { expires_in, .. } = outcome else { return Ok(Some(outcome)) };
        if !is_live || left.is_zero() {
            return Ok(Some(outcome));
        }
        let slice = SLICE.min(left).min(expires_in);
        if !engine.leases.wait(changes, slice) {
            waited = waited.saturating_add(slice);
        }
    }
}

//! Handling history anew, on purpose.

use std::fmt;

use super::super::codec::{Key, Value};
use super::super::map::{Map, codecs_of};
use super::Consumer;
use crate::base::error::Error;

/// The next generation of a consumer, being built beside the one that is served.
///
/// To rebuild a projection, feed the broker's history to [`consumer`](Self::consumer), writing to maps
/// got from [`map`](Self::map). It has claims and positions of its own, so every event is new to it, and
/// none is too late. The generation served goes on untouched meanwhile: feed live events to both. Once the
/// new one has caught up, [`promote`](Self::promote) puts it in the other's place, in one commit.
///
/// It sends no [messages](crate::outbox): those of history were sent by the generation served, under the same
/// ids. Promote it once both have handled the same events, since what only the new one has handled by then is
/// not sent later.
///
/// It lasts over crashes: [`Consumer::next_generation`] gives the one that is under way. Get it from there.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Map, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let history = [("order-1", 10_u32), ("order-2", 5)];
/// let event = |id| Event::unchecked(EventId::text(id).unwrap());
///
/// let billing = inbox.consumer("billing")?;
/// let totals: Map<str, u32> = inbox.map("totals")?;
/// for (id, euros) in history {
///     billing.process(&event(id), |tx| {
///         tx.update(&totals, "sum", |sum| Some(sum.unwrap_or(0) + euros))?;
///         Ok(())
///     })?;
/// }
///
/// // It was to be cents, and wide enough for them.
/// let rebuild = billing.next_generation()?;
/// let cents: Map<str, u64> = rebuild.map("totals")?;
/// for (id, euros) in history {
///     let outcome = rebuild.consumer().process(&event(id), |tx| {
///         tx.update(&cents, "sum", |sum| Some(sum.unwrap_or(0) + u64::from(euros) * 100))?;
///         Ok(())
///     })?;
///     assert!(outcome.is_applied()); // claimed by the old generation, not by this one
/// }
/// assert_eq!(inbox.read(|view| view.get(&totals, "sum"))?, Some(15)); // served till now
///
/// let new = rebuild.promote()?;
/// let totals: Map<str, u64> = inbox.map("totals")?;
/// assert_eq!(inbox.read(|view| view.get(&totals, "sum"))?, Some(1_500));
/// assert!(new.process(&event("order-1"), |_| Ok(()))?.is_duplicate());
/// // Handles of what was replaced say so.
/// assert!(billing.process(&event("order-3"), |_| Ok(())).unwrap_err().is_superseded());
/// # Ok::<(), txinbox::Error>(())
/// ```
pub struct Rebuild {
    consumer: Consumer,
}

impl fmt::Debug for Rebuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebuild")
            .field("consumer", &self.consumer.name)
            .field("generation", &self.consumer.generation())
            .finish()
    }
}

impl Consumer {
    /// The generation that this handle is of; the first is 0.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.handling.scope.generation.0
    }

    /// The consumer's next generation, to be rebuilt from history: the one that is under way, or a new
    /// one. See [`Rebuild`].
    ///
    /// # Errors
    /// Errors of a commit; a call from inside a handler.
    pub fn next_generation(&self) -> Result<Rebuild, Error> {
        let entry = self.inbox.engine().begin_rebuild(&self.name)?;
        Ok(Rebuild { consumer: Self::new(&self.name, self.inbox.clone(), &entry) })
    }
}

impl Rebuild {
    /// The consumer to feed history to. Its settings are the default ones: set them on a clone.
    #[must_use]
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// The rebuild's own keyspace, empty at first, that takes the place of the map of that name when it is
    /// promoted. Its types may be others. Made durably if it is new.
    ///
    /// A map that other consumers write to as well must not be rebuilt by one of them: promoting replaces
    /// it for all.
    ///
    /// # Errors
    /// As [`Inbox::map`](crate::Inbox::map); a rebuild that was promoted or given up
    /// ([`is_superseded`](Error::is_superseded)).
    pub fn map<K, V>(&self, name: &str) -> Result<Map<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let engine = self.consumer.inbox.engine();
        let scope = self.consumer.handling.scope;
        let entry = engine.rebuilt_keyspace(scope, name, &codecs_of::<K, V>())?;
        Ok(Map::new(name, &entry, engine.store_id()))
    }

    /// Puts the new generation in the place of the one served, and its maps in the place of those of
    /// their names, in one durable commit. Returns the consumer, as [`Inbox::consumer`](crate::Inbox::consumer)
    /// gives it from now on.
    ///
    /// Handles of the old generation, and of maps that were replaced, answer
    /// [`is_superseded`](Error::is_superseded) from now on; views that are open show the old state to
    /// their end. The old claims age out, the old maps' space is freed by maintenance, in slices. Maps
    /// without a rebuilt one of their name stay as they are.
    ///
    /// # Errors
    /// A rebuild that was promoted or given up by another handle; errors of a commit: then the rebuild is
    /// as it was, unless the outcome is unknown.
    pub fn promote(self) -> Result<Consumer, Error> {
        let Consumer { name, inbox, handling, .. } = self.consumer;
        let entry = inbox.engine().promote(&name, handling.scope)?;
        Ok(Consumer::new(&name, inbox, &entry))
    }

    /// Gives the rebuild up: its maps are dropped, its claims age out, and the next one begins from nothing.
    ///
    /// # Errors
    /// As [`promote`](Self::promote).
    pub fn abandon(self) -> Result<(), Error> {
        let consumer = self.consumer;
        consumer.inbox.engine().abandon(consumer.handling.scope)
    }
}

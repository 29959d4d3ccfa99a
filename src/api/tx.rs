//! The transaction that a handler works in.

use std::fmt;
use std::ops::RangeBounds;

use super::codec::{Key, Value};
use super::map::{KeyRange, Map, TypedRows, decode_rows, encode_key, encode_value};
use super::outbox::{Destination, Message, MessageId};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::hash::Label;
use crate::engine::Stage;
use crate::engine::outbox::{Origin, Outgoing};

/// The transaction of one event, handed to its handler.
///
/// Everything written here becomes visible and durable together with the event's claim, or not at
/// all: if the handler returns an error or panics, nothing is kept. Reads see the writes of
/// this transaction, then those of events handled before it. Memory holds what is written until
/// the commit; one event may stage at most 256 MiB.
///
/// A storage or decoding error sticks: even if the handler swallows it, the event fails with it.
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Map, Outcome, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let balances: Map<u64, i64> = inbox.map("balances")?;
/// let outcome = inbox.consumer("billing")?.process(
///     &Event::unchecked(EventId::text("order-1")?),
///     |tx| {
///         tx.insert(&balances, &7, &100)?;
///         tx.update(&balances, &7, |b| b.map(|b| b - 30))?;
///         Ok(tx.get(&balances, &7)?)
///     },
/// )?;
/// assert!(matches!(outcome, Outcome::Applied(Some(70), _)));
/// # Ok::<(), txinbox::Error>(())
/// ```
pub struct Tx<'t> {
    pub(crate) stage: Stage<'t>,
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

impl Tx<'_> {
    /// The value under `key`, or `None`.
    ///
    /// # Errors
    /// A failed read; a damaged value ([`is_corrupt`](Error::is_corrupt)); bytes that are no `V`
    /// ([`is_decode`](Error::is_decode)).
    pub fn get<K, V>(&mut self, map: &Map<K, V>, key: &K) -> Result<Option<V::Owned>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let bytes = self.stage.get(&map.space, &encode_key(key))?;
        let value = bytes.map(|b| V::decode(&b)).transpose();
        self.stage.note(value)
    }

    /// Puts `value` under `key`, in place of what was there.
    ///
    /// # Errors
    /// A key above 64 KiB, a value above 64 MiB, or more than 256 MiB in one event
    /// ([`is_limit`](Error::is_limit)).
    pub fn insert<K, V>(&mut self, map: &Map<K, V>, key: &K, value: &V) -> Result<(), Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let value = self.stage.note(encode_value(value))?;
        self.stage.insert(&map.space, encode_key(key), value)
    }

    /// Removes `key`; one that is absent stays so.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove<K, V>(&mut self, map: &Map<K, V>, key: &K) -> Result<(), Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        self.stage.remove(&map.space, encode_key(key))
    }

    /// Replaces the value under `key` by what `change` makes of it; `None` removes the key.
    /// Returns the new value.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`insert`](Self::insert).
    pub fn update<K, V, N>(
        &mut self,
        map: &Map<K, V>,
        key: &K,
        change: impl FnOnce(Option<V::Owned>) -> Option<N>,
    ) -> Result<Option<N>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
        N: std::borrow::Borrow<V>,
    {
        let new = change(self.get(map, key)?);
        match &new {
            Some(value) => self.insert(map, key, value.borrow())?,
            None => self.remove(map, key)?,
        }
        Ok(new)
    }

    /// The first `limit` entries of `range`, in key order.
    ///
    /// To go on, scan again from [`Bound::Excluded`](std::ops::Bound::Excluded) of the last key.
    /// For keys without a size, such as `str`, give the range as a pair of bounds, or `..`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::ops::Bound::{Excluded, Unbounded};
    /// # use txinbox::{Event, EventId, Inbox, Map, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let stock: Map<str, u32> = inbox.map("stock")?;
    /// inbox.consumer("stock")?.process(&Event::unchecked(EventId::text("e")?), |tx| {
    ///     for (name, n) in [("bolt", 1), ("nut", 2), ("pin", 3)] {
    ///         tx.insert(&stock, name, &n)?;
    ///     }
    ///     let page = tx.scan(&stock, .., 2)?;
    ///     assert_eq!(page, [("bolt".to_owned(), 1), ("nut".to_owned(), 2)]);
    ///     let rest = tx.scan(&stock, (Excluded("nut"), Unbounded), 2)?;
    ///     assert_eq!(rest, [("pin".to_owned(), 3)]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan<K, V>(
        &mut self,
        map: &Map<K, V>,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<TypedRows<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        self.scan_either_way(map, &range, limit, false)
    }

    /// As [`scan`](Self::scan), from the end of the range downwards.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan_back<K, V>(
        &mut self,
        map: &Map<K, V>,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<TypedRows<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        self.scan_either_way(map, &range, limit, true)
    }

    fn scan_either_way<K, V>(
        &mut self,
        map: &Map<K, V>,
        range: &impl RangeBounds<K>,
        limit: usize,
        reverse: bool,
    ) -> Result<TypedRows<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let range = KeyRange::new(range);
        let rows = self.stage.scan(&map.space, range.bounds(), limit, reverse)?;
        let rows = decode_rows::<K, V>(rows);
        self.stage.note(rows)
    }

    /// Stores bytes that this delivery and every repeat of the event get back from
    /// [`Claim::result`](crate::Claim::result). The last call counts. Empty bytes are a result too.
    ///
    /// # Errors
    /// More bytes than [`Builder::result_max_bytes`](crate::Builder::result_max_bytes)
    /// ([`is_limit`](Error::is_limit)).
    pub fn set_result(&mut self, result: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.stage.set_result(result.into())
    }

    /// Sends a message to a destination: it becomes durable with the event, or not at all, and is then
    /// handed to whoever relays for that destination. See [`outbox`](crate::outbox).
    ///
    /// Returns its id, which depends on nothing but the store's
    /// [namespace](crate::Builder::namespace), the consumer's name, the event's id, the destination and the
    /// message's [name](Message::named), or its number among those without one. A repeat of the event sends
    /// nothing; neither does one that is refused or skipped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention, outbox::Message};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let mails = inbox.destination("mails")?;
    /// let orders = inbox.consumer("orders")?;
    /// let event = Event::unchecked(EventId::text("order-1")?);
    /// for _delivery in 0..2 {
    ///     orders.process(&event, |tx| {
    ///         tx.enqueue(&mails, Message::new("thank you").key("customer-7"))?;
    ///         Ok(())
    ///     })?;
    /// }
    /// let sent = mails.take(10)?;
    /// assert_eq!((sent.len(), sent[0].payload()), (1, &b"thank you"[..]));
    /// mails.acknowledge(&sent)?;
    /// assert!(mails.take(10)?.is_empty());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// A second message of one name to one destination
    /// ([`is_message_clash`](Error::is_message_clash)); a payload above 16 MiB, a key or name above 1 KiB, more
    /// than 64 headers or 64 KiB of them, more than 4,096 messages of one event ([`is_limit`](Error::is_limit)); a
    /// destination of another store, an empty key or name, a migration instead of an event
    /// ([`is_invalid`](Error::is_invalid)).
    pub fn enqueue(
        &mut self,
        destination: &Destination,
        message: Message,
    ) -> Result<MessageId, Error> {
        let outgoing = self.outgoing(destination, message);
        let outgoing = self.stage.note(outgoing)?;
        let id = MessageId(outgoing.id);
        self.stage.enqueue(outgoing)?;
        Ok(id)
    }

    fn outgoing(&mut self, to: &Destination, message: Message) -> Result<Outgoing, Error> {
        let Some(Origin { engine, scope, .. }) = self.stage.origin() else {
            return Err(Error::invalid("a migration is no event, so it cannot send messages"));
        };
        to.check_store(engine)?;
        message.check()?;
        let root = self.stage.root();
        let sent = || self.stage.messages().iter().filter(|m| m.destination == to.id);
        let label = match &message.name {
            Some(name) => Label::Name(name),
            None => {
                let unnamed = sent().filter(|m| !m.is_named).count();
                Label::Ordinal(u32::try_from(unnamed).unwrap_or(u32::MAX))
            }
        };
        let id = match engine.namespace.message_id(root, to.name(), label) {
            _ if planted("message-id-by-attempt") => u128::from(engine.clock.stopwatch_us()),
            id => id,
        };
        if let Some(name) = message.name.as_ref().filter(|_| sent().any(|m| m.id == id)) {
            return Err(Error::message_clash(name));
        }
        let key_hash = message.key.as_deref().map(|key| engine.hash_key().message_key(key));
        let is_named = message.name.is_some();
        let body = message.body(id, scope, engine.clock.wall_ms()).encode();
        Ok(Outgoing { destination: to.id, id, is_named, key_hash, body })
    }

    /// Turns the event down for good if the handler then returns `Ok`: what it wrote is dropped, its
    /// claim is kept. The outcome is [`Outcome::Refused`](crate::Outcome::Refused), and every repeat is
    /// a duplicate whose claim [is refused](crate::Claim::is_refused) and has these bytes as its
    /// result, whatever has changed since.
    ///
    /// For a "no" of the business, such as a payment without cover. A failure that may pass is an
    /// error of the handler: then nothing is kept and the event may come again. The last call of
    /// `refuse` and [`skip`](Self::skip) counts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Map, Outcome, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let balances: Map<u64, i64> = inbox.map("balances")?;
    /// let billing = inbox.consumer("billing")?;
    /// let event = Event::new(EventId::text("payment-1")?, "7 pays 10");
    /// let pay = |tx: &mut txinbox::Tx<'_>| {
    ///     let left = tx.get(&balances, &7)?.unwrap_or(0) - 10;
    ///     tx.insert(&balances, &7, &left)?;
    ///     if left < 0 {
    ///         tx.refuse("no cover")?; // the write above goes, too
    ///     }
    ///     Ok(())
    /// };
    /// assert!(matches!(billing.process(&event, pay)?, Outcome::Refused((), _)));
    ///
    /// let Outcome::Duplicate(claim) = billing.process(&event, pay)? else { panic!() };
    /// assert!(claim.is_refused());
    /// assert_eq!(claim.result(), Some(&b"no cover"[..]));
    /// assert_eq!(inbox.read(|view| view.get(&balances, &7))?, None);
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// More bytes than [`Builder::result_max_bytes`](crate::Builder::result_max_bytes)
    /// ([`is_limit`](Error::is_limit)).
    pub fn refuse(&mut self, why: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.stage.refuse(why.into())
    }

    /// Keeps nothing of this event if the handler then returns `Ok`, its claim included: the outcome
    /// is [`Outcome::Skipped`](crate::Outcome::Skipped), and the next delivery is handled as new.
    pub fn skip(&mut self) {
        self.stage.skip();
    }
}

//! A message as its sender writes it, and its id.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::error::Error;
use crate::base::ids::{Scope, WallMs};
use crate::base::limits::{
    HEADERS_MAX, HEADERS_MAX_BYTES, MESSAGE_KEY_MAX_BYTES, MESSAGE_MAX_BYTES,
    MESSAGE_NAME_MAX_BYTES,
};
use crate::engine::outbox::MessageBody;

/// A message to send with [`Tx::enqueue`](crate::Tx::enqueue).
///
/// ```
/// use txinbox::outbox::Message;
///
/// let message = Message::new("{\"order\":1}")
///     .key("customer-7") // those of one key go in order
///     .header("content-type", "application/json")
///     .named("receipt"); // its id does not depend on how many others are sent
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a message is sent by `Tx::enqueue`"]
pub struct Message {
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) name: Option<String>,
    pub(crate) due: Option<SystemTime>,
}

impl Message {
    /// A message of these bytes, at most 16 MiB; none are a payload, too.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { payload: payload.into(), key: None, headers: Vec::new(), name: None, due: None }
    }

    /// Messages of one key, 1 to 1,024 bytes, are handed out in the order of their commits, each once the one
    /// before it is settled. Those without a key wait for no other.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header; order and repeats are kept. At most 64, and 64 KiB of names and values.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Tells the message apart from others of its event to the same destination, by 1 to 1,024 bytes. Its id
    /// is then made from this name; without one, from its number among those without a name, so that code
    /// which sends in another order gives other ids.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Not to be handed out before this time of the wall clock. Later messages of its key wait for it.
    pub fn not_before(mut self, due: SystemTime) -> Self {
        self.due = Some(due);
        self
    }

    /// An error unless it is within the limits.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let header_bytes = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        for (what, got, limit) in [
            ("a message, in bytes,", self.payload.len(), MESSAGE_MAX_BYTES),
            ("a message's key, in bytes,", some_len(&self.key), MESSAGE_KEY_MAX_BYTES),
            ("a message's name, in bytes,", some_len(&self.name), MESSAGE_NAME_MAX_BYTES),
            ("the number of headers", self.headers.len(), HEADERS_MAX),
            ("the headers of a message, in bytes,", header_bytes, HEADERS_MAX_BYTES),
        ] {
            if got > limit {
                return Err(Error::limit(what, got as u64, limit as u64));
            }
        }
        if self.key.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid(
                "a message's key is empty, so all that lack one would wait for each other; give it a key, \
                 or none",
            ));
        }
        if self.name.as_ref().is_some_and(String::is_empty) {
            return Err(Error::invalid("a message's name is empty; give it one, or none"));
        }
        Ok(())
    }

    pub(crate) fn body(self, id: u128, scope: Scope, wall_ms: i64) -> MessageBody {
        let Self { payload, key, headers, due, .. } = self;
        let due = due.map(|due| WallMs(ms_of(due)));
        MessageBody { id, scope, wall: WallMs(wall_ms), due, key, headers, payload }
    }
}

fn some_len(text: &Option<impl AsRef<[u8]>>) -> usize {
    text.as_ref().map_or(0, |text| text.as_ref().len())
}

fn ms_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        // The next millisecond, if it lies inside one: not before means not before.
        Ok(since) => i64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |before| -before)
        }
    }
}

/// The id of a message: the same at every hand-out, after every crash, and when its event is handled again in
/// a store made anew under the same [namespace](crate::Builder::namespace). Hand it to the other side as the
/// key by which it knows repeats.
///
/// `Display` gives 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub(crate) u128);

impl MessageId {
    /// The 16 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The value of an `Idempotency-Key` header as the IETF's draft has it: a quoted string.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention, outbox::Message};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// # let hooks = inbox.destination("hooks")?;
    /// # let event = Event::unchecked(EventId::text("order-1")?);
    /// # inbox.consumer("c")?.process(&event, |tx| Ok(tx.enqueue(&hooks, Message::new(""))?))?;
    /// let delivery = &hooks.take(1)?[0];
    /// let value = delivery.id().idempotency_key();
    /// assert_eq!(value, format!("\"{}\"", delivery.id()));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    #[must_use]
    pub fn idempotency_key(self) -> String {
        format!("\"{self}\"")
    }

    /// The value of a `Nats-Msg-Id` header, by which JetStream knows repeats within its duplicate window.
    #[must_use]
    pub fn nats_msg_id(self) -> String {
        self.to_string()
    }

    /// A `MessageDeduplicationId` for an SQS FIFO queue, which knows repeats for five minutes.
    #[must_use]
    pub fn sqs_deduplication_id(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

//! The bytes that name one logical event on every delivery of it.
//!
//! Owns how ids are spelled; what is hashed is [`EventId::as_encoded`]. Called by users and by the
//! engine.
//!
//! What must hold:
//! E1. Spelling is injective over all constructors: a kind byte, then each part behind its length.
//! E2. Spellings never change and kind numbers are never used again: stored claims are hashes of
//!     them, so one changed byte would make every redelivery look new.
//! E3. No part is ever empty, so a missing id cannot merge the events that lack one.
//! E4. Nothing is normalised: two ids are one id only if every byte agrees.

mod show;
mod sources;
mod spelling;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::base::error::Error;

use spelling::{Kind, Spelled};

/// The identity of one logical event: bytes that are the same on every delivery of it.
///
/// A consumer applies each id once. Choose what the *producer* gave the event and repeats
/// unchanged: a message id, an order number with its revision, the id of a webhook. Two
/// different events under one id lose the second; one event under two ids is applied twice.
///
/// - Every constructor makes ids of its own kind. `EventId::text("a")` and `EventId::bytes(b"a")`
///   are two ids: settle on one constructor per source and keep it, for as long as claims are
///   retained.
/// - Bytes count as they are. Letter case, Unicode composition, trailing blanks and leading zeros
///   all make another id; bring ids into one form before, if your producers do not agree on one.
/// - There is no constructor from an integer. A row number or an offset names a place in some
///   store, not an event. Constructors named `…_record` take such a place together with what it is
///   unique in, and say what that costs.
/// - An id holds 1 to 65,535 bytes of your material, summed over its parts. Up to about 60 bytes
///   it needs no allocation.
///
/// `Debug` and `Display` show an id as the call that makes it. The order of ids has no meaning; it
/// is there for sorted collections. The store keeps a keyed 128-bit hash of the id, not the id.
///
/// ```
/// use txinbox::EventId;
///
/// let id = EventId::text("order-17")?;
/// assert_eq!(id, EventId::text("order-17")?);
/// assert_ne!(id, EventId::text("Order-17")?);
/// assert_ne!(id, EventId::bytes(b"order-17")?);
/// assert_eq!(id.to_string(), "text(\"order-17\")");
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone)]
pub struct EventId(Spelled);

impl EventId {
    /// An id that is any bytes, such as a binary UUID or a digest that the producer sent.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if `id` is empty: an empty id is a missing one, and all
    /// events without an id would become duplicates of the first.
    /// [`is_limit`](Error::is_limit) past 65,535 bytes.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::bytes(&[0x01, 0x8f, 0x00, 0xff])?;
    /// assert_eq!(id.to_string(), "bytes(0x018f00ff)");
    /// assert!(EventId::bytes(&[]).unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn bytes(id: &[u8]) -> Result<Self, Error> {
        Self::spell(Kind::Bytes, &[id])
    }

    /// An id that is text, byte for byte as it is.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if `id` is empty; [`is_limit`](Error::is_limit) past
    /// 65,535 bytes of UTF-8.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// assert_eq!(EventId::text("order-17")?, EventId::text("order-17")?);
    /// assert_ne!(EventId::text("caf\u{e9}")?, EventId::text("cafe\u{301}")?); // two spellings of é
    /// assert!(EventId::text("").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn text(id: &str) -> Result<Self, Error> {
        Self::spell(Kind::Text, &[id.as_bytes()])
    }

    /// An id of several parts, such as tenant, order and revision.
    ///
    /// Prefer this to joining strings: with a separator, `("a|b", "c")` and `("a", "b|c")` become
    /// one id and one of two events is lost. Here each part carries its length, and the number and
    /// the order of parts count.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) without parts or with an empty one. A part that may be
    /// absent needs a spelling for that which no present one can have; an empty part would hide
    /// that a field was missing. [`is_limit`](Error::is_limit) past 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::parts(&[b"tenant-7", b"order-17", &3_u32.to_be_bytes()])?;
    /// assert_eq!(id.to_string(), "parts(b\"tenant-7\", b\"order-17\", 0x00000003)");
    /// assert_ne!(EventId::parts(&[b"a|b", b"c"])?, EventId::parts(&[b"a", b"b|c"])?);
    /// assert!(EventId::parts(&[b"tenant-7", b""]).unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn parts(parts: &[&[u8]]) -> Result<Self, Error> {
        Self::spell(Kind::Parts, parts)
    }

    fn spell(kind: Kind, parts: &[&[u8]]) -> Result<Self, Error> {
        Spelled::new(kind, parts).map(Self)
    }

    /// The id that these bytes spell, if they spell one.
    pub(crate) fn from_encoded(bytes: &[u8]) -> Option<Self> {
        let (kind, parts) = spelling::read(bytes)?;
        Spelled::new(kind, &parts).ok().map(Self)
    }

    /// The bytes that identity is hashed from.
    pub(crate) fn as_encoded(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl PartialEq for EventId {
    fn eq(&self, other: &Self) -> bool {
        self.as_encoded() == other.as_encoded()
    }
}

impl Eq for EventId {}

impl Hash for EventId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_encoded().hash(state);
    }
}

impl PartialOrd for EventId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EventId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_encoded().cmp(other.as_encoded())
    }
}

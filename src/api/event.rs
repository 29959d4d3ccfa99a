//! One delivery of an event, as a caller describes it to `process`.
//!
//! Owns nothing but borrowed payload and owned ids. Limits (how many aliases) and clocks (event
//! times too far ahead) are checked by the engine, so that building an event cannot fail.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::event_id::EventId;
use crate::base::hash::HashKey;
use crate::base::ids::{EventMs, Fingerprint};

/// One delivery of an event: its id, what its payload is recognised by, and what else is known.
///
/// The id alone decides whether the event is new. The payload decides nothing but whether a
/// repeat is the same event ([`Outcome::Duplicate`](crate::Outcome)) or another one that was
/// given the same id by mistake ([`Outcome::Mismatch`](crate::Outcome)).
///
/// ```
/// use txinbox::{Event, EventId};
///
/// let body = br#"{"account": 7, "amount": 100}"#;
/// let event = Event::new(EventId::text("order-17")?, body)
///     .at_ms(1_796_083_200_000)
///     .alias(EventId::text("legacy-000017")?);
/// assert!(format!("{event:?}").contains("order-17"));
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "an event does nothing until a consumer processes it"]
pub struct Event<'a> {
    id: EventId,
    aliases: Vec<EventId>,
    recognised_by: Recognised<'a>,
    time: Option<EventMs>,
}

/// What a repeat is compared by.
#[derive(Clone, Copy)]
enum Recognised<'a> {
    Payload(&'a [u8]),
    Fingerprint(Fingerprint),
    Nothing,
}

impl<'a> Event<'a> {
    /// An event whose repeats must carry the same payload, byte for byte.
    ///
    /// The claim keeps a 64-bit keyed hash of the payload, not the payload. A producer that
    /// serialises anew at each attempt (map keys in another order, a fresh timestamp inside)
    /// changes the bytes: its repeats are mismatches. For such a source give an own
    /// [`fingerprint`](Self::fingerprint), or use [`unchecked`](Self::unchecked).
    ///
    /// ```
    /// use txinbox::{Event, EventId};
    ///
    /// let from_text = Event::new(EventId::text("a")?, "payload");
    /// let from_bytes = Event::new(EventId::text("b")?, &[1_u8, 2, 3]);
    /// assert!(format!("{from_text:?}").contains("7 bytes"));
    /// assert!(format!("{from_bytes:?}").contains("3 bytes"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn new(id: EventId, payload: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::recognised_by(id, Recognised::Payload(payload.as_ref()))
    }

    /// An event whose id is trusted: a repeat is a duplicate whatever its payload.
    ///
    /// ```
    /// use txinbox::{Event, EventId};
    ///
    /// let event = Event::unchecked(EventId::github_delivery("72d3162e-cc78-11e3-81ab-4c9367dc0958")?);
    /// assert!(format!("{event:?}").contains("unchecked"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn unchecked(id: EventId) -> Event<'static> {
        Event::recognised_by(id, Recognised::Nothing)
    }

    fn recognised_by(id: EventId, recognised_by: Recognised<'a>) -> Self {
        Self { id, aliases: Vec::new(), recognised_by, time: None }
    }

    /// Recognises repeats by your own number instead of the payload's bytes.
    ///
    /// Compute it from what makes two payloads the same to you: the parsed fields in a fixed
    /// order, a revision number, an ETag. It must be the same on every machine and after every
    /// upgrade, which `std`'s hashers do not promise.
    ///
    /// Own fingerprints and those that the store hashes from payloads share one space of 64 bits
    /// and are compared as plain numbers. An event claimed with one kind and repeated with the
    /// other is a mismatch, so keep to one kind per consumer.
    ///
    /// ```
    /// use txinbox::{Event, EventId};
    ///
    /// let revision = 3;
    /// let event = Event::unchecked(EventId::text("quake-us7000abcd")?).fingerprint(revision);
    /// assert!(format!("{event:?}").contains("fingerprint 3"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn fingerprint(mut self, fingerprint: u64) -> Self {
        self.recognised_by = Recognised::Fingerprint(Fingerprint(fingerprint));
        self
    }

    /// The event's own time, in milliseconds since 1970, as its producer stamped it.
    ///
    /// It must be the same on every delivery: take the event's time, never the attempt's. With
    /// it, an event that comes so late that its claim may have been forgotten is answered with
    /// [`Outcome::TooLate`](crate::Outcome) instead of being applied again; without event times
    /// there is no such answer. A time too far ahead of now is an error when it is processed.
    ///
    /// ```
    /// use txinbox::{Event, EventId};
    ///
    /// let event = Event::new(EventId::text("order-17")?, "payload").at_ms(1_796_083_200_000);
    /// assert!(format!("{event:?}").contains("1796083200000"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn at_ms(mut self, since_1970_ms: i64) -> Self {
        self.time = Some(EventMs(since_1970_ms));
        self
    }

    /// The event's own time; see [`at_ms`](Self::at_ms).
    ///
    /// Rounded down to the millisecond, also before 1970. Times that 64 bits of milliseconds
    /// cannot hold become the nearest that they can.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use txinbox::{Event, EventId};
    ///
    /// let time = UNIX_EPOCH + Duration::from_micros(1_500);
    /// let event = Event::new(EventId::text("order-17")?, "payload").at(time);
    /// assert!(format!("{event:?}").contains("at_ms: Some(1)"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn at(self, time: SystemTime) -> Self {
        self.at_ms(floor_ms(time))
    }

    /// Another id of the same event, under which it may be delivered, or was.
    ///
    /// The event is a duplicate if its id or any alias was claimed before. May be called again for
    /// further ones; an alias that repeats the id or another alias changes nothing. Processing an
    /// event with more than 64 aliases is an error ([`is_limit`](crate::Error::is_limit)).
    ///
    /// ```
    /// use txinbox::{Event, EventId};
    ///
    /// let event = Event::new(EventId::text("us7000abcd")?, "payload")
    ///     .alias(EventId::text("ci40123456")?)
    ///     .alias(EventId::text("nc75012345")?);
    /// assert!(format!("{event:?}").contains("nc75012345"));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn alias(mut self, id: EventId) -> Self {
        self.aliases.push(id);
        self
    }

    pub(crate) fn id(&self) -> &EventId {
        &self.id
    }

    pub(crate) fn aliases(&self) -> &[EventId] {
        &self.aliases
    }

    /// What repeats are compared by, under the store's key; `None` where they are not.
    pub(crate) fn payload_fingerprint(&self, key: &HashKey) -> Option<Fingerprint> {
        match self.recognised_by {
            Recognised::Payload(payload) => Some(key.fingerprint(payload)),
            Recognised::Fingerprint(own) => Some(own),
            Recognised::Nothing => None,
        }
    }

    pub(crate) fn time(&self) -> Option<EventMs> {
        self.time
    }
}

/// Milliseconds since 1970, rounded towards the past, held within 64 bits.
fn floor_ms(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => {
            let up = before.duration().as_nanos().div_ceil(1_000_000);
            i64::try_from(up).map_or(i64::MIN, |ms| -ms)
        }
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recognised_by = match self.recognised_by {
            Recognised::Payload(payload) => format!("payload of {} bytes", payload.len()),
            Recognised::Fingerprint(own) => format!("fingerprint {own}"),
            Recognised::Nothing => "unchecked".to_owned(),
        };
        f.debug_struct("Event")
            .field("id", &self.id)
            .field("aliases", &self.aliases)
            .field("recognised_by", &recognised_by)
            .field("at_ms", &self.time.map(|time| time.0))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const KEY: HashKey = HashKey([7; 16]);

    fn id(text: &str) -> EventId {
        EventId::text(text).unwrap()
    }

    /// Case H3: bytes count, so a producer that reorders its fields needs an own fingerprint.
    #[test]
    fn h3_reordered_payload_differs_unless_an_own_fingerprint_says_the_same() {
        let ab = Event::new(id("order-1"), r#"{"a":1,"b":2}"#);
        let ba = Event::new(id("order-1"), r#"{"b":2,"a":1}"#);
        assert_ne!(ab.payload_fingerprint(&KEY), ba.payload_fingerprint(&KEY));

        let own = |event: Event<'_>| event.fingerprint(12).payload_fingerprint(&KEY);
        assert_eq!(own(ab), own(ba));
        assert_eq!(Event::unchecked(id("order-1")).payload_fingerprint(&KEY), None);
    }

    /// Case H4: a payload's fingerprint is a stored number; it comes from the bytes alone.
    #[test]
    fn h4_fingerprint_is_the_keyed_hash_of_the_payload_bytes() {
        let event = Event::new(id("order-1"), b"payload");
        let fingerprint = event.payload_fingerprint(&KEY);
        assert_eq!(fingerprint, Some(KEY.fingerprint(b"payload")));
        assert_eq!(fingerprint, Some(Fingerprint(0xe60e_69ec_3af0_c0c2)));
        let elsewhere = Event::new(id("order-2"), b"payload").at_ms(5).alias(id("x"));
        assert_eq!(elsewhere.payload_fingerprint(&KEY), fingerprint);
    }

    #[test]
    fn builders_keep_what_they_were_given() {
        let event = Event::new(id("a"), "p").at_ms(-3).alias(id("b")).alias(id("c"));
        assert_eq!(event.id(), &id("a"));
        assert_eq!(event.aliases(), [id("b"), id("c")]);
        assert_eq!(event.time(), Some(EventMs(-3)));
        assert_eq!(Event::new(id("a"), "p").time(), None);
    }

    #[test]
    fn times_round_towards_the_past() {
        let after = |us| floor_ms(UNIX_EPOCH + Duration::from_micros(us));
        let before = |us| floor_ms(UNIX_EPOCH - Duration::from_micros(us));
        assert_eq!([after(0), after(999), after(1_000)], [0, 0, 1]);
        assert_eq!([before(1), before(1_000), before(1_001)], [-1, -1, -2]);
    }
}

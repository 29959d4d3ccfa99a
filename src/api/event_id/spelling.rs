//! How the kinds and parts of an id become bytes, and back into parts for people to read.
//!
//! Layout: `kind: u8`, then for each part `length: varint` and its bytes. The number of parts
//! follows from the end of the bytes. Numbers in parts are big-endian at their full width.

use crate::base::canary::planted;
use crate::base::codec::Reader;
use crate::base::error::Error;
use crate::base::limits::EVENT_ID_MAX_BYTES;

/// How a part of an id is shown to people; its bytes are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Bytes,
    Text,
    Unsigned,
}

macro_rules! kinds {
    ($($variant:ident = $number:literal, $name:literal, [$($shape:ident),*], $what:literal;)*) => {
        /// What an id was made from. The number is its first byte, for ever (E2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kind {
            $($variant = $number,)*
        }

        impl Kind {
            #[cfg(test)]
            pub(super) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(super) fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The constructor's name.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The shapes of the parts; the last one goes on for any further parts.
            pub(super) fn shapes(self) -> &'static [Shape] {
                match self {
                    $(Self::$variant => &[$(Shape::$shape),*],)*
                }
            }

            /// What an error calls an id of this kind.
            fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)*
                }
            }
        }
    };
}

kinds! {
    Bytes = 0x01, "bytes", [Bytes], "the event id";
    Text = 0x02, "text", [Text], "the event id";
    Parts = 0x03, "parts", [Bytes], "a part of the event id";
    KafkaRecord = 0x10, "kafka_record", [Text, Unsigned, Unsigned], "the topic of the Kafka record";
    JetStreamMessageId = 0x11, "jetstream_message_id", [Text, Text],
        "the stream or the Nats-Msg-Id of the JetStream message";
    JetStreamRecord = 0x12, "jetstream_record", [Text, Unsigned], "the stream of the JetStream record";
    MqttPublisherId = 0x13, "mqtt_publisher_id", [Text, Text],
        "the topic or the publisher's id of the MQTT message";
    AmqpMessageId = 0x14, "amqp_message_id", [Text], "the message-id of the AMQP message";
    SqsRecord = 0x15, "sqs_record", [Text], "the MessageId of the SQS message";
    PubSubRecord = 0x16, "pubsub_record", [Text, Text], "the topic or the id of the Pub/Sub message";
    StripeEvent = 0x17, "stripe_event", [Text], "the id of the Stripe event";
    GithubDelivery = 0x18, "github_delivery", [Text], "the X-GitHub-Delivery header";
    StandardWebhook = 0x19, "standard_webhook", [Text, Text], "the sender or the webhook-id header";
    CloudEvent = 0x1a, "cloud_event", [Text, Text], "the source or the id of the CloudEvent";
}

/// Bytes of a spelled id that need no allocation: what fits 64 bytes besides length and variant.
const INLINE_BYTES: usize = 62;

/// A spelled id, kept in place while it is short.
#[derive(Clone)]
pub(super) enum Spelled {
    Inline { len: u8, buf: [u8; INLINE_BYTES] },
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<Spelled>() == 64);

impl Spelled {
    pub(super) fn new(kind: Kind, parts: &[&[u8]]) -> Result<Self, Error> {
        let (mut material, mut prefixes) = (0_usize, 0_usize);
        let mut missing = parts.is_empty();
        for part in parts {
            missing |= part.is_empty();
            material = material.saturating_add(part.len());
            prefixes += length_width(part.len());
        }
        if missing {
            return Err(Error::invalid(format!(
                "{} is empty: events without an id cannot be told apart, so give this event the \
                 id its producer repeats on every delivery, or refuse the event",
                kind.what()
            )));
        }
        if material > EVENT_ID_MAX_BYTES {
            return Err(Error::limit(
                "the number of bytes in an event id",
                material as u64,
                EVENT_ID_MAX_BYTES as u64,
            ));
        }
        Ok(Self::write(kind, parts, 1 + prefixes + material))
    }

    fn write(kind: Kind, parts: &[&[u8]], len: usize) -> Self {
        let mut buf = [0_u8; INLINE_BYTES];
        if len > INLINE_BYTES {
            let mut heap = vec![0_u8; len].into_boxed_slice();
            fill(&mut heap, kind, parts);
            return Self::Heap(heap);
        }
        fill(&mut buf, kind, parts);
        Self::Inline {
            len: len as u8, // at most INLINE_BYTES
            buf,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { len, buf } => buf.get(..usize::from(*len)).unwrap_or_default(),
            Self::Heap(bytes) => bytes,
        }
    }
}

/// Spells the id into the front of `out`, which the caller has measured to be long enough.
fn fill(mut out: &mut [u8], kind: Kind, parts: &[&[u8]]) {
    put(&mut out, &[kind as u8]);
    for part in parts {
        if !planted("ids-joined-without-length-prefix") {
            put_length(&mut out, part.len());
        }
        put(&mut out, part);
    }
}

/// Writes `bytes` to the front of `out` and moves on.
#[inline]
fn put(out: &mut &mut [u8], bytes: &[u8]) {
    debug_assert!(bytes.len() <= out.len(), "an id was measured too short");
    if let Some((head, rest)) = std::mem::take(out).split_at_mut_checked(bytes.len()) {
        head.copy_from_slice(bytes);
        *out = rest;
    }
}

/// Bytes of the varint that holds a part's length; a part is at most 65,535 bytes long.
fn length_width(len: usize) -> usize {
    match len {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    }
}

/// Writes a part's length as a varint: seven bits a byte, least significant first.
fn put_length(out: &mut &mut [u8], len: usize) {
    let [a, b, c] = [len & 0x7f, (len >> 7) & 0x7f, (len >> 14) & 0x7f].map(|bits| bits as u8);
    match length_width(len) {
        1 => put(out, &[a]),
        2 => put(out, &[a | 0x80, b]),
        _ => put(out, &[a | 0x80, b | 0x80, c]),
    }
}

/// The kind and parts of a spelled id, for showing it; `None` if it is not one.
pub(super) fn read(spelled: &[u8]) -> Option<(Kind, Vec<&[u8]>)> {
    let mut reader = Reader::new(spelled);
    let kind = Kind::from_number(reader.u8().ok()?)?;
    let mut parts = Vec::new();
    while !reader.is_empty() {
        parts.push(reader.bytes().ok()?);
    }
    Some((kind, parts))
}

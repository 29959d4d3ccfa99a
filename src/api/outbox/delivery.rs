//! Messages as relays and operators see them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::message::MessageId;
use crate::base::ids::{DestinationId, WallMs};
use crate::engine::outbox::{self, Handed, MessageBody, MessagePlace, Standing};

/// What every kind of message shows.
macro_rules! shows_its_message {
    ($name:ident) => {
        impl $name {
            /// The message's id: the key to hand to the other side.
            #[must_use]
            pub fn id(&self) -> MessageId {
                MessageId(self.body.id)
            }

            /// The bytes that were sent.
            #[must_use]
            pub fn payload(&self) -> &[u8] {
                &self.body.payload
            }

            /// The key whose messages go in order, if it has one.
            #[must_use]
            pub fn key(&self) -> Option<&[u8]> {
                self.body.key.as_deref()
            }

            /// All headers, in the order in which they were added.
            pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
                self.body.headers.iter().map(|(name, value)| (&**name, &**value))
            }

            /// The first header of that name.
            #[must_use]
            pub fn header(&self, name: &str) -> Option<&[u8]> {
                self.headers().find(|(known, _)| *known == name).map(|(_, value)| value)
            }

            /// When it was sent, by the wall clock then.
            #[must_use]
            pub fn enqueued_at(&self) -> SystemTime {
                time_of(self.body.wall)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("id", &self.id())
                    .field("payload_bytes", &self.body.payload.len())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(super) fn time_of(wall: WallMs) -> SystemTime {
    let distance = Duration::from_millis(wall.0.unsigned_abs());
    let time = if wall.0 < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// Whose message something is: a store, a destination, a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) store_id: u128,
    pub(super) destination: DestinationId,
    pub(super) place: MessagePlace,
}

/// A message handed to a relay by [`Destination::take`](super::Destination::take): send it, then acknowledge
/// it, or say that it failed.
///
/// Dropping it says nothing: it is handed out again once its time is over.
#[must_use = "a delivery that is not answered is handed out again"]
#[derive(Clone)]
pub struct Delivery {
    pub(super) address: Address,
    pub(super) token: u64,
    attempt: u32,
    body: MessageBody,
}

shows_its_message!(Delivery);

impl Delivery {
    pub(super) fn new(store_id: u128, destination: DestinationId, handed: Handed) -> Self {
        let Handed { place, token, attempt, body } = handed;
        Self { address: Address { store_id, destination, place }, token, attempt, body }
    }

    /// Which attempt this is, from 1. Hand-outs that ended with their process are not counted.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// Where a message that is not settled stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A relay, or an earlier message of its key.
    Relay,
    /// The answer to a hand-out.
    Answer,
    /// Its next attempt, or the time before which it is not to go.
    Time(Duration),
    /// Somebody's hand: it was given up and [blocks](super::Exhausted::Block) its key.
    Hand,
}

/// A message that is not settled. See [`Destination::waiting`](super::Destination::waiting).
#[derive(Clone)]
pub struct Waiting {
    pub(super) address: Address,
    body: MessageBody,
    failed: u32,
    error: Option<String>,
    standing: Standing,
}

shows_its_message!(Waiting);

impl Waiting {
    pub(super) fn new(store_id: u128, destination: DestinationId, of: outbox::Waiting) -> Self {
        let outbox::Waiting { place, body, failed, error, standing } = of;
        let address = Address { store_id, destination, place };
        Self { address, body, failed, error, standing }
    }

    /// Attempts that have failed.
    #[must_use]
    pub fn failed_attempts(&self) -> u32 {
        self.failed
    }

    /// What the last of them said.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// What it waits for, as of the moment of the call.
    #[must_use]
    pub fn waits_for(&self) -> WaitsFor {
        match self.standing {
            Standing::Waiting => WaitsFor::Relay,
            Standing::HandedOut => WaitsFor::Answer,
            Standing::Later { in_ms } => WaitsFor::Time(Duration::from_millis(in_ms)),
            Standing::Blocks => WaitsFor::Hand,
        }
    }
}

/// A message that was given up. See [`Destination::dead_letters`](super::Destination::dead_letters).
#[derive(Clone)]
pub struct DeadLetter {
    pub(super) address: Address,
    body: MessageBody,
    attempts: u32,
    wall: WallMs,
    error: String,
    blocks: bool,
}

shows_its_message!(DeadLetter);

impl DeadLetter {
    pub(super) fn new(store_id: u128, destination: DestinationId, of: outbox::DeadLetter) -> Self {
        let outbox::DeadLetter { place, body, attempts, wall, error, blocks } = of;
        let address = Address { store_id, destination, place };
        Self { address, body, attempts, wall, error, blocks }
    }

    /// Attempts that have failed.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What the last of them said, up to a kilobyte of it.
    #[must_use]
    pub fn last_error(&self) -> &str {
        &self.error
    }

    /// When it was given up, by the wall clock then.
    #[must_use]
    pub fn died_at(&self) -> SystemTime {
        time_of(self.wall)
    }

    /// Whether those of its key wait until it is put back or thrown away.
    #[must_use]
    pub fn blocks_its_key(&self) -> bool {
        self.blocks
    }
}

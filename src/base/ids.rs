//! Newtypes for everything that is a number on disk, so that no two kinds are ever confused.
//!
//! Owns their meaning and order; the layouts that hold them live beside their encoders.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number! {
    /// The place of a group in the store's history; the first group is 1.
    Seq(u64)
}
number! {
    /// The place of a claim or tombstone inside its group.
    Place(u32)
}
number! {
    /// A registered consumer.
    ConsumerId(u32)
}
number! {
    /// A replay on purpose of a consumer; the first is 0.
    Generation(u32)
}
number! {
    /// A registered keyspace of application state.
    KeyspaceId(u32)
}
number! {
    /// A registered destination of outgoing messages.
    DestinationId(u32)
}
number! {
    /// A retention class: the claims that share one retention and one store time.
    ClassId(u16)
}
number! {
    /// The keyed 128-bit hash that stands for (consumer, generation, event id).
    IdHash(u128)
}
number! {
    /// The keyed 64-bit hash of a payload, or the caller's own.
    Fingerprint(u64)
}
number! {
    /// An event's own time, in milliseconds since 1970.
    EventMs(i64)
}
number! {
    /// Store time: milliseconds that the store has lived, the clock that retention counts by.
    StoreMs(u64)
}
number! {
    /// Wall time in milliseconds since 1970; told to people, never used for retention.
    WallMs(i64)
}
number! {
    /// Drawn at random at each opening and each recovery; names what that opening built.
    Epoch(u64)
}
number! {
    /// A bucket of claims that expire together; drawn from one counter for the whole store.
    BucketId(u64)
}
number! {
    /// An immutable sorted run of claims.
    RunId(u64)
}
number! {
    /// Where a stored result lies: the result bucket in the upper 24 bits, a counter below.
    ResultKey(u64)
}

impl Seq {
    /// Later than every group: who reads up to it sees the open group too.
    pub(crate) const MAX: Self = Self(u64::MAX);

    /// The group after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Where a claim or tombstone stands in history: group, then place inside the group.
pub(crate) type Position = (Seq, Place);

/// A consumer in one of its generations: the scope of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scope {
    pub(crate) consumer: ConsumerId,
    pub(crate) generation: Generation,
}

//! Keyed hashing: identities (128 bits), payload fingerprints (64 bits), and the keys that leave the store.
//!
//! SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) under the store's
//! own key, so that nobody who chooses event ids can make two of them collide. With 128 bits, a
//! billion claims collide with a probability below 1e-20.
//!
//! What must hold:
//! H1. The bytes hashed are injective in (consumer, generation, event id): every part has a fixed
//!     width or comes last. H2. These functions never change: stored claims are these numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24Wide};

use super::ids::{Fingerprint, IdHash, Scope};

/// The store's secret key, drawn when the store is created and kept in its header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HashKey(pub(crate) [u8; 16]);

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl HashKey {
    /// The hash that stands for an event id in a consumer's scope.
    pub(crate) fn identity(&self, scope: Scope, event_id: &[u8]) -> IdHash {
        let mut hasher = SipHasher24Wide::new_with_key(&self.0);
        hasher.write(&scope.consumer.0.to_le_bytes());
        hasher.write(&scope.generation.0.to_le_bytes());
        hasher.write(event_id);
        IdHash(hasher.finish128().as_u128())
    }

    /// What stands for the key of an outgoing message.
    pub(crate) fn message_key(&self, key: &[u8]) -> u128 {
        wide(&self.0, b"txinbox message key 1", &[key])
    }

    /// The fingerprint of a payload.
    pub(crate) fn fingerprint(&self, payload: &[u8]) -> Fingerprint {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(payload);
        Fingerprint(hasher.finish())
    }
}

/// What an outgoing message is told apart by among those of one event to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label<'a> {
    Name(&'a str),
    /// How many without a name were sent there before it.
    Ordinal(u32),
}

/// What the keys that the world outside gets are derived from: neither secret of the store nor bound to its
/// files, so that a store made anew under one name gives the same keys to the same events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(u128);

impl Namespace {
    pub(crate) fn named(name: &str) -> Self {
        Self(wide(&[0; 16], b"txinbox namespace 1", &[name.as_bytes()]))
    }

    /// That of a store that was given none: as good as random, and kept by its backups.
    pub(crate) fn of_store(key: &HashKey, store_id: u128) -> Self {
        Self(wide(&key.0, b"txinbox namespace of a store 1", &[&store_id.to_le_bytes()]))
    }

    /// The number that all keys of one event at one consumer are made from.
    pub(crate) fn event_root(&self, consumer: &str, event_id: &[u8]) -> u128 {
        self.hash(b"txinbox key root 1", &[consumer.as_bytes(), event_id])
    }

    /// The same for a position of an ordered source that comes without an event's id.
    pub(crate) fn position_root(&self, consumer: &str, source: &[u8], at: (u64, u64)) -> u128 {
        let (incarnation, position) = (at.0.to_le_bytes(), at.1.to_le_bytes());
        let parts = [consumer.as_bytes(), source, &incarnation, &position];
        self.hash(b"txinbox position root 1", &parts)
    }

    /// One of an event's idempotency keys.
    pub(crate) fn idempotency_key(&self, root: u128, label: &str) -> u128 {
        self.hash(b"txinbox idempotency key 1", &[&root.to_le_bytes(), label.as_bytes()])
    }

    /// The id of one of an event's messages.
    pub(crate) fn message_id(&self, root: u128, destination: &str, label: Label<'_>) -> u128 {
        let (root, destination) = (root.to_le_bytes(), destination.as_bytes());
        match label {
            Label::Name(name) => {
                self.hash(b"txinbox message name 1", &[&root, destination, name.as_bytes()])
            }
            Label::Ordinal(n) => {
                self.hash(b"txinbox message ordinal 1", &[&root, destination, &n.to_le_bytes()])
            }
        }
    }

    fn hash(&self, purpose: &[u8], parts: &[&[u8]]) -> u128 {
        wide(&self.0.to_le_bytes(), purpose, parts)
    }
}

/// A 128-bit hash of a purpose and some parts, each behind its length.
fn wide(key: &[u8; 16], purpose: &[u8], parts: &[&[u8]]) -> u128 {
    let mut hasher = SipHasher24Wide::new_with_key(key);
    for part in std::iter::once(&purpose).chain(parts) {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish128().as_u128()
}

/// A map by identity. The key is a keyed hash already, so its own bits are the map's hash.
pub(crate) type IdHashMap<V> = HashMap<IdHash, V, BuildHasherDefault<IdHasher>>;

/// Takes the lower half of an identity as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }
}

/// A map by a short name that nobody hostile chooses, such as a table's.
pub(crate) type NameMap<V> = HashMap<Box<str>, V, BuildHasherDefault<NameHasher>>;

/// FNV-1a (Fowler, Noll, Vo) with 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{ConsumerId, Generation};

    const KEY: HashKey = HashKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    fn scope(consumer: u32, generation: u32) -> Scope {
        Scope { consumer: ConsumerId(consumer), generation: Generation(generation) }
    }

    /// Case H4: these numbers are on disk; a change here orphans every stored claim.
    #[test]
    fn h4_golden_hashes_never_change() {
        assert_eq!(KEY.fingerprint(b"").0, 0x726f_db47_dd0e_0e31); // the paper's first vector
        assert_eq!(KEY.fingerprint(&(0..15).collect::<Vec<u8>>()).0, 0xa129_ca61_49be_45e5);
        let a = KEY.identity(scope(1, 0), b"order-1");
        assert_eq!(a, KEY.identity(scope(1, 0), b"order-1"));
        assert_ne!(a, KEY.identity(scope(0, 1), b"order-1"));
        assert_ne!(a, KEY.identity(scope(1, 0), b"order-1\0"));
    }
}

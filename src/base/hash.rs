//! Keyed hashing: identities (128 bits) and payload fingerprints (64 bits).
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

    /// The number that all idempotency keys of one event at one consumer are made from.
    ///
    /// Its prefix is a consumer's number that no store gives out, so it is no identity.
    pub(crate) fn key_root(&self, store_id: u128, consumer: &str, event_id: &[u8]) -> u128 {
        let mut hasher = SipHasher24Wide::new_with_key(&self.0);
        hasher.write(b"txinbox key root 1");
        hasher.write(&store_id.to_le_bytes());
        hasher.write(&(consumer.len() as u64).to_le_bytes());
        hasher.write(consumer.as_bytes());
        hasher.write(event_id);
        hasher.finish128().as_u128()
    }

    /// One of an event's idempotency keys.
    pub(crate) fn idempotency_key(&self, root: u128, label: &str) -> u128 {
        let mut hasher = SipHasher24Wide::new_with_key(&self.0);
        hasher.write(b"txinbox idempotency key 1");
        hasher.write(&root.to_le_bytes());
        hasher.write(label.as_bytes());
        hasher.finish128().as_u128()
    }

    /// The fingerprint of a payload.
    pub(crate) fn fingerprint(&self, payload: &[u8]) -> Fingerprint {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(payload);
        Fingerprint(hasher.finish())
    }
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

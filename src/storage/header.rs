//! The store's header: a small file of its own, read before redb touches anything.
//!
//! What must hold: E1. A header of a newer format, or with an incompatible feature bit that this
//! program does not know, is refused before any file is changed. E2. The header is written once, when
//! the store is created or restored, and never again.

use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::hash::HashKey;
use crate::base::random::Random;

/// The layout version that this program writes; it reads every version up to this one.
pub(crate) const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"txinbox\0";
const HASH_NAME: &[u8] = b"siphash-2-4-128/1";
/// Bits of features whose absence would make a program misread the store: none yet.
const INCOMPATIBLE_KNOWN: u64 = 0;
const PLACE: &str = "the header file";

/// What never changes about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Names this store and its restored copies.
    pub(crate) store_id: u128,
    /// Raised by every restore from a backup, so that copies can be told apart.
    pub(crate) lineage: u32,
    pub(crate) hash_key: HashKey,
    pub(crate) compatible: u64,
}

impl Header {
    pub(crate) fn create(random: &Random) -> Result<Self, Error> {
        let wide = || -> Result<u128, Error> {
            Ok(u128::from(random.next_u64()?) << 64 | u128::from(random.next_u64()?))
        };
        Ok(Self {
            store_id: wide()?,
            lineage: 0,
            hash_key: HashKey(wide()?.to_le_bytes()),
            compatible: 0,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.raw(MAGIC);
        w.u32(FORMAT);
        w.u64(INCOMPATIBLE_KNOWN);
        w.u64(self.compatible);
        w.u128(self.store_id);
        w.u32(self.lineage);
        w.bytes(HASH_NAME);
        w.raw(&self.hash_key.0);
        w.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |m: Malformed| Error::corrupt(PLACE, m.0);
        let mut r = Reader::new(bytes);
        if r.raw(MAGIC.len()).map_err(damaged)? != MAGIC {
            return Err(Error::corrupt(PLACE, "it does not begin as a header does"));
        }
        // Version and features first: a newer layout may well close with another checksum.
        let format = r.u32().map_err(damaged)?;
        if format > FORMAT {
            return Err(Error::newer("the store's format", u64::from(format), u64::from(FORMAT)));
        }
        if format == 0 {
            return Err(Error::corrupt(PLACE, "it claims format 0, which there never was"));
        }
        let incompatible = r.u64().map_err(damaged)?;
        let body = unseal(bytes).map_err(damaged)?;
        if incompatible & !INCOMPATIBLE_KNOWN != 0 {
            return Err(Error::newer("the store's feature bits", incompatible, INCOMPATIBLE_KNOWN));
        }
        let mut r = Reader::new(body);
        r.raw(MAGIC.len() + 4 + 8).map_err(damaged)?;
        Self::decode_body(r).map_err(damaged)
    }

    fn decode_body(mut r: Reader<'_>) -> Result<Self, Malformed> {
        let compatible = r.u64()?;
        let store_id = r.u128()?;
        let lineage = r.u32()?;
        if r.bytes()? != HASH_NAME {
            return Err(Malformed("it names a hash that this program does not know"));
        }
        let key = r.raw(16)?.try_into().map_err(|_| Malformed("cut short"))?;
        r.finish()?;
        Ok(Self { store_id, lineage, hash_key: HashKey(key), compatible })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Header {
        Header {
            store_id: 0x0102,
            lineage: 3,
            hash_key: HashKey(*b"0123456789abcdef"),
            compatible: 0,
        }
    }

    #[test]
    fn golden_bytes_of_format_1() {
        let bytes = example().encode();
        let mut expected = b"txinbox\0\x01\0\0\0".to_vec();
        expected.extend([0; 16]);
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([3, 0, 0, 0, 17]);
        expected.extend(b"siphash-2-4-128/10123456789abcdef");
        assert_eq!(bytes[..bytes.len() - 4], expected);
        assert_eq!(Header::decode(&bytes).unwrap(), example());
    }

    #[test]
    fn every_flip_and_truncation_is_refused() {
        let good = example().encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let error = Header::decode(&bad).unwrap_err();
            assert!(error.is_corrupt() || error.is_newer_format());
        }
        for len in 0..good.len() {
            assert!(Header::decode(&good[..len]).unwrap_err().is_corrupt());
        }
    }

    /// Case Z3: a newer format is refused by name, whatever follows it.
    #[test]
    fn z3_newer_format_is_named() {
        let mut bytes = example().encode();
        bytes[8] = 2;
        let error = Header::decode(&bytes).unwrap_err();
        assert!(error.is_newer_format());
        assert!(error.to_string().contains("version 2"));
    }
}

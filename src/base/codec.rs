//! Little-endian bytes in and out, and the checksum that closes every durable record.
//!
//! What must hold: C1. A reader never panics and never allocates more than its input's length.
//! C2. `seal` and `unseal` are inverse, and `unseal` refuses any other bytes.

use super::canary::planted;

/// What a decoder met where it did not expect it; the caller adds where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Appends numbers and byte strings to a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writer {
    buf: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { buf: Vec::with_capacity(bytes) }
    }

    pub(crate) fn len(&self) -> usize {
        self.buf.len()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.buf
    }

    pub(crate) fn u8(&mut self, v: u8) {
        self.buf.push(v);
    }

    pub(crate) fn u16(&mut self, v: u16) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, v: i64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, v: u128) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    /// Seven bits a byte, least significant first, the high bit set on all but the last.
    pub(crate) fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.buf.push((v & 0x7f) as u8 | 0x80);
            v >>= 7;
        }
        self.buf.push(v as u8);
    }

    /// Bytes as they are; the reader must know their number.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// A varint length, then the bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.buf
    }

    /// The buffer closed by the CRC-32 of all before it.
    pub(crate) fn seal(mut self) -> Vec<u8> {
        let crc = crc32fast::hash(&self.buf);
        self.u32(crc);
        self.buf
    }
}

/// Checks the CRC-32 that closes `record` and returns what stands before it.
pub(crate) fn unseal(record: &[u8]) -> Result<&[u8], Malformed> {
    let (body, crc) =
        record.split_last_chunk::<4>().ok_or(Malformed("too short for a checksum"))?;
    let matches = crc32fast::hash(body) == u32::from_le_bytes(*crc);
    if matches || planted("checksum-not-verified-on-read") {
        Ok(body)
    } else {
        Err(Malformed("checksum does not match"))
    }
}

/// Takes numbers and byte strings off the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// An error unless everything was read: trailing bytes mean a layout we do not know.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("trailing bytes")) }
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed("cut short"))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed("cut short"))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed("varint too large"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(Malformed("varint not in its shortest form"));
                }
                return Ok(value);
            }
        }
        Err(Malformed("varint too long"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| Malformed("length too large"))?;
        self.raw(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_in_golden_bytes() {
        let mut w = Writer::new();
        w.u8(1);
        w.u16(2);
        w.u32(3);
        w.u64(4);
        w.varint(300);
        w.bytes(b"ab");
        let bytes = w.finish();
        assert_eq!(bytes, [1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0xac, 2, 2, b'a', b'b']);
        let mut r = Reader::new(&bytes);
        assert_eq!((r.u8(), r.u16(), r.u32(), r.u64()), (Ok(1), Ok(2), Ok(3), Ok(4)));
        assert_eq!((r.varint(), r.bytes()), (Ok(300), Ok(&b"ab"[..])));
        assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn varints_round_trip_at_every_width_and_refuse_other_spellings() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut w = Writer::new();
                w.varint(value);
                let bytes = w.finish();
                assert_eq!(Reader::new(&bytes).varint(), Ok(value));
                assert!(Reader::new(&bytes[..bytes.len() - 1]).varint().is_err());
            }
        }
        assert!(Reader::new(&[0x80, 0]).varint().is_err());
        assert!(Reader::new(&[0xff; 11]).varint().is_err());
    }

    #[test]
    fn unseal_refuses_every_flipped_bit_and_every_truncation() {
        let mut w = Writer::new();
        w.raw(b"a durable record");
        let sealed = w.seal();
        assert_eq!(unseal(&sealed), Ok(&b"a durable record"[..]));
        for bit in 0..sealed.len() * 8 {
            let mut bad = sealed.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&bad).is_err());
        }
        for len in 0..sealed.len() {
            assert!(unseal(&sealed[..len]).is_err());
        }
    }
}

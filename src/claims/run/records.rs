//! The rows of a table that is yet to be written, in one buffer.
//!
//! What must hold: RC1. Records come out as they went in. RC2. Clearing keeps the memory, so that a
//! building that goes through many partitions takes it once.

/// Keys and values, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

impl Records {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Makes room for so many bytes. What is never filled costs no memory.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Keys and values behind the first `done`; `None` if there are not so many.
    pub(super) fn after(&self, done: usize) -> Option<impl Iterator<Item = (&[u8], &[u8])>> {
        let rest = self.ends.get(done..)?;
        let mut start = match done.checked_sub(1) {
            Some(last) => self.ends.get(last)?.1,
            None => 0,
        };
        Some(rest.iter().map(move |(key_end, end)| {
            let key = self.bytes.get(start..*key_end).unwrap_or_default();
            let value = self.bytes.get(*key_end..*end).unwrap_or_default();
            start = *end;
            (key, value)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rc1_records_come_out_as_they_went_in_from_any_place() {
        let pairs: [(&[u8], &[u8]); 4] =
            [(b"a", b"one"), (b"", b""), (b"key", b""), (b"", b"value")];
        let mut records = Records::default();
        for _ in 0..2 {
            records.clear();
            pairs.iter().for_each(|(k, v)| records.push(k, v));
            assert_eq!(records.len(), pairs.len());
            for done in 0..=pairs.len() {
                assert!(records.after(done).unwrap().eq(pairs[done..].iter().copied()));
            }
            assert!(records.after(pairs.len() + 1).is_none());
        }
    }
}

//! The mark: the one row that every commit rewrites, from which the store resumes.
//!
//! What must hold: M1. It is written in the same transaction as the group whose sequence it bears, so
//! it tells exactly which groups are in the store. M2. Counters in it never go back.

use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::ids::{BucketId, ClassId, Epoch, RunId, Seq};
use crate::claims::store_time::SavedClock;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// The key of the only row.
pub(crate) const KEY: &[u8] = b"mark";
/// The key of the row, in the same table, that says where the journal goes on.
pub(crate) const JOURNAL_KEY: &[u8] = b"journal";
/// Under which the same table says how long the journal's files are at least: a shorter one was cut.
pub(crate) const JOURNAL_BYTES_KEY: &[u8] = b"journal-bytes";

pub(crate) fn encode_journal_bytes(bytes: u64) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(bytes);
    w.seal()
}

pub(crate) fn decode_journal_bytes(row: &[u8]) -> Result<u64, Malformed> {
    let mut r = Reader::new(unseal(row)?);
    let bytes = r.u64()?;
    r.finish()?;
    Ok(bytes)
}
const VERSION: u8 = 1;

/// Where the store stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) seq: Seq,
    /// The opening that wrote it.
    pub(crate) epoch: Epoch,
    pub(crate) next_bucket: BucketId,
    pub(crate) next_run: RunId,
    pub(crate) next_results: u32,
    pub(crate) next_result: u64,
    /// The clock of each retention class.
    pub(crate) clocks: Vec<(ClassId, SavedClock)>,
}

impl Mark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION);
        w.u64(self.seq.0);
        w.u64(self.epoch.0);
        w.u64(self.next_bucket.0);
        w.u64(self.next_run.0);
        w.u32(self.next_results);
        w.u64(self.next_result);
        w.varint(self.clocks.len() as u64);
        for (class, saved) in &self.clocks {
            w.u16(class.0);
            w.bytes(&saved.encode());
        }
        w.seal()
    }

    pub(super) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of the mark"));
        }
        let mut mark = Self {
            seq: Seq(r.u64()?),
            epoch: Epoch(r.u64()?),
            next_bucket: BucketId(r.u64()?),
            next_run: RunId(r.u64()?),
            next_results: r.u32()?,
            next_result: r.u64()?,
            clocks: Vec::new(),
        };
        for _ in 0..r.varint()? {
            mark.clocks.push((ClassId(r.u16()?), SavedClock::decode(r.bytes()?)?));
        }
        r.finish()?;
        Ok(mark)
    }

    /// The stored mark; a store without one has had no commit.
    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self, Error> {
        match snapshot.get(TableId::Mark, KEY)? {
            None => Ok(Self::default()),
            Some(row) => Self::decode(&row).map_err(|m| Error::corrupt("the mark row", m.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{StoreMs, WallMs};

    #[test]
    fn the_mark_round_trips_and_refuses_every_flip() {
        let mark = Mark {
            seq: Seq(1),
            epoch: Epoch(2),
            next_bucket: BucketId(3),
            next_run: RunId(4),
            next_results: 5,
            next_result: 7,
            clocks: vec![(ClassId(6), SavedClock { now: StoreMs(8), wall_at_save: WallMs(-9) })],
        };
        let bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes), Ok(mark));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Mark::decode(&bad).is_err());
        }
    }

    #[test]
    fn golden_length_of_the_journal() {
        let row = encode_journal_bytes(8 << 20);
        assert_eq!(row[..8], [0, 0, 0x80, 0, 0, 0, 0, 0]);
        assert_eq!(row.len(), 12);
        assert_eq!(decode_journal_bytes(&row).unwrap(), 8 << 20);
        assert!(decode_journal_bytes(&row[..11]).is_err());
        assert!(decode_journal_bytes(&[0; 12]).is_err());
    }
}

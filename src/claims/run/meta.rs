//! What the catalogue says of a run.
//!
//! What must hold: M1. Encoding and decoding are inverse; whatever else is refused. M2. What a
//! partition's entry says (rows, blocks, first hash) is checked against the table by whoever reads
//! the table.
//!
//! Layout (little-endian): version u8, id u64, epoch u64, first and last sequence u64, rows u64,
//! partitions u32; per partition rows u32, blocks u32, bytes of the stored filter u32, first hash
//! u128; CRC-32.

use super::name::RunName;
use super::space::range_of;
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::{Epoch, IdHash, RunId, Seq};

const VERSION: u8 = 1;
const PARTITION_BYTES: usize = 4 + 4 + 4 + 16;

/// One partition of a run; without rows it has no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionMeta {
    pub(crate) rows: u32,
    pub(crate) blocks: u32,
    /// Length of the stored filter; 0 if it has none.
    pub(crate) filter_bytes: u32,
    /// The hash of the first row: anything below is certainly not here.
    pub(crate) first: IdHash,
}

/// A run as the catalogue knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunMeta {
    pub(crate) id: RunId,
    /// Of the opening that built it.
    pub(crate) epoch: Epoch,
    /// The groups whose claims it holds.
    pub(crate) first: Seq,
    pub(crate) last: Seq,
    /// Rows in all partitions: claims and aliases.
    pub(crate) claims: u64,
    pub(crate) partitions: Vec<PartitionMeta>,
}

impl RunMeta {
    /// The run made of these partitions, in order.
    pub(crate) fn new(
        name: RunName,
        first: Seq,
        last: Seq,
        partitions: Vec<PartitionMeta>,
    ) -> Self {
        Self {
            id: name.id,
            epoch: name.epoch,
            first,
            last,
            claims: partitions.iter().map(|p| u64::from(p.rows)).sum(),
            partitions,
        }
    }

    pub(crate) fn name(&self) -> RunName {
        RunName { epoch: self.epoch, id: self.id }
    }

    pub(super) fn partition_count(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION);
        w.u64(self.id.0);
        w.u64(self.epoch.0);
        w.u64(self.first.0);
        w.u64(self.last.0);
        w.u64(self.claims);
        w.u32(self.partition_count());
        for partition in &self.partitions {
            w.u32(partition.rows);
            w.u32(partition.blocks);
            w.u32(partition.filter_bytes);
            w.u128(partition.first.0);
        }
        w.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(bytes)?);
        if r.u8()? != VERSION {
            return Err(Malformed("a run of an unknown version"));
        }
        let (id, epoch) = (RunId(r.u64()?), Epoch(r.u64()?));
        let (first, last, claims) = (Seq(r.u64()?), Seq(r.u64()?), r.u64()?);
        let count = r.u32()? as usize;
        if count == 0 || r.remaining() / PARTITION_BYTES != count {
            return Err(Malformed("a run's partitions do not fill its entry"));
        }
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            partitions.push(PartitionMeta {
                rows: r.u32()?,
                blocks: r.u32()?,
                filter_bytes: r.u32()?,
                first: IdHash(r.u128()?),
            });
        }
        r.finish()?;
        let meta = Self { id, epoch, first, last, claims, partitions };
        meta.checked()?;
        Ok(meta)
    }

    fn checked(&self) -> Result<(), Malformed> {
        let count = self.partition_count();
        let sound = (0..count).zip(&self.partitions).all(|(index, p)| {
            let (lowest, highest) = range_of((index, count));
            let empty = p.rows == 0 && p.blocks == 0 && p.filter_bytes == 0;
            let filled = 0 < p.blocks && p.blocks <= p.rows;
            empty || filled && lowest <= p.first && p.first <= highest
        });
        let rows: u64 = self.partitions.iter().map(|p| u64::from(p.rows)).sum();
        if sound && rows == self.claims && self.first <= self.last {
            Ok(())
        } else {
            Err(Malformed("a run's entry contradicts itself"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RunMeta {
        let name = RunName { epoch: Epoch(3), id: RunId(2) };
        let full = PartitionMeta { rows: 5, blocks: 1, filter_bytes: 0x39, first: IdHash(7) };
        let empty = PartitionMeta { rows: 0, blocks: 0, filter_bytes: 0, first: IdHash(0) };
        RunMeta::new(name, Seq(10), Seq(12), vec![full, empty])
    }

    #[test]
    fn m1_entries_round_trip_in_golden_bytes() {
        let bytes = sample().encode();
        let mut golden = vec![1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        golden.extend([10, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend([5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        golden.extend([5, 0, 0, 0, 1, 0, 0, 0, 0x39, 0, 0, 0, 7]);
        golden.extend([0; 15 + PARTITION_BYTES]);
        golden.extend([124, 232, 32, 5]);
        assert_eq!(bytes, golden);
        assert_eq!(RunMeta::decode(&bytes), Ok(sample()));
    }

    #[test]
    fn m1_damaged_entries_are_refused() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(RunMeta::decode(&bad).is_err());
        }
        for len in 0..bytes.len() {
            assert!(RunMeta::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn m1_entries_that_contradict_themselves_are_refused() {
        let refused = |f: &dyn Fn(&mut RunMeta)| {
            let mut meta = sample();
            f(&mut meta);
            RunMeta::decode(&meta.encode()).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|m| m.claims += 1));
        assert!(refused(&|m| m.last = Seq(9)));
        assert!(refused(&|m| m.partitions[0].blocks = 6));
        assert!(refused(&|m| m.partitions[0].blocks = 0));
        assert!(refused(&|m| m.partitions[0].first = IdHash(1 << 127)));
        assert!(refused(&|m| m.partitions[1].filter_bytes = 1));
        assert!(refused(&|m| {
            m.claims = 0;
            m.partitions.clear();
        }));
    }
}

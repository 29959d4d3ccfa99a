//! What sealing takes out of frozen tables: counted first, then a stretch of hashes at a time.
//!
//! What must hold: H1. Every row is in exactly one stretch, and a stretch whose rows are not as many
//! as were counted is an error. H2. Memory holds 24 bytes a row of one stretch, and no copy of
//! the rows.

use super::table::{Hit, Table};
use crate::base::error::Error;
use crate::base::ids::{BucketId, IdHash};
use crate::base::sync::Arc;

/// Where a row lies; sorted by its hash, upper half first.
#[derive(Clone, Copy, Debug)]
struct Spot {
    high: u64,
    low: u64,
    table: u32,
    number: u32,
}

const _: () = assert!(size_of::<Spot>() == 24);

/// The rows of one bucket between two hashes, in the order of their hashes.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    tables: &'a [Arc<Table>],
    spots: Vec<Spot>,
}

/// Calls `row` with the bucket and the hash of every row.
pub(crate) fn count_rows(tables: &[Arc<Table>], mut row: impl FnMut(BucketId, IdHash)) {
    for table in tables {
        table.keys().for_each(|(_, bucket, hash)| row(bucket, hash));
    }
}

impl<'a> Gathered<'a> {
    /// Those rows of `bucket` from `lo` to `hi`, which must be `counted`.
    pub(crate) fn new(
        tables: &'a [Arc<Table>],
        bucket: BucketId,
        (lo, hi): (IdHash, IdHash),
        counted: usize,
    ) -> Result<Self, Error> {
        let mut spots = Vec::with_capacity(counted);
        for (index, table) in (0..).zip(tables) {
            for (number, of, hash) in table.keys() {
                if lo <= hash && hash <= hi && of == bucket {
                    if spots.len() == counted {
                        return Err(miscounted());
                    }
                    let (high, low) = ((hash.0 >> 64) as u64, hash.0 as u64);
                    spots.push(Spot { high, low, table: index, number });
                }
            }
        }
        if spots.len() != counted {
            return Err(miscounted());
        }
        spots.sort_unstable_by_key(|spot| (spot.high, spot.low));
        Ok(Self { tables, spots })
    }

    /// The rows; those of one hash in no particular order.
    pub(crate) fn hits(&self) -> impl Iterator<Item = Hit> + '_ {
        self.spots.iter().filter_map(|spot| {
            let table = self.tables.get(spot.table as usize)?;
            Some(table.row(spot.number))
        })
    }
}

fn miscounted() -> Error {
    Error::invalid("recent claims are not as many as were counted: this is a bug in txinbox")
}

#[cfg(test)]
mod tests {
    use super::super::tests::plain_row;
    use super::super::{Recent, rows_of};
    use super::*;
    use crate::base::ids::Seq;

    const HALVES: [(IdHash, IdHash); 2] =
        [(IdHash(0), IdHash(u128::MAX >> 1)), (IdHash((u128::MAX >> 1) + 1), IdHash(u128::MAX))];

    /// Three tables of two buckets, one hash in all of them.
    fn tables() -> Vec<Arc<Table>> {
        let mut recent = Recent::new(1_000_000);
        for seq in 1..=30 {
            let mut row = plain_row(seq, 40);
            row.bucket = BucketId(seq % 2);
            row.claims[7].hash = IdHash(1 << 120);
            recent.insert_row(Seq(seq), &row);
            if seq % 10 == 0 {
                recent.rotate();
            }
        }
        recent.frozen_tables()
    }

    fn counted(tables: &[Arc<Table>], bucket: BucketId, (lo, hi): (IdHash, IdHash)) -> usize {
        let mut count = 0;
        count_rows(tables, |of, hash| {
            count += usize::from(of == bucket && lo <= hash && hash <= hi);
        });
        count
    }

    #[test]
    fn h1_every_row_is_in_exactly_one_stretch_and_hashes_ascend() {
        let tables = tables();
        let mut all = Vec::new();
        for bucket in [0, 1].map(BucketId) {
            for range in HALVES {
                let count = counted(&tables, bucket, range);
                let gathered = Gathered::new(&tables, bucket, range, count).unwrap();
                let hits: Vec<_> = gathered.hits().collect();
                assert!(hits.iter().all(|hit| hit.bucket == bucket));
                assert!(hits.is_sorted_by_key(|hit| hit.row.hash));
                assert!(hits.iter().all(|h| range.0 <= h.row.hash && h.row.hash <= range.1));
                all.extend(hits);
            }
        }
        let mut naive: Vec<_> = rows_of(&tables).collect();
        assert_eq!(naive.len(), 1200);
        let order = |hit: &Hit| (hit.position, hit.row.hash);
        all.sort_by_key(order);
        naive.sort_by_key(order);
        assert_eq!(all, naive);
    }

    #[test]
    fn h1_more_or_fewer_rows_than_were_counted_are_an_error() {
        let tables = tables();
        let count = counted(&tables, BucketId(1), HALVES[0]);
        assert!(Gathered::new(&tables, BucketId(1), HALVES[0], count).is_ok());
        for wrong in [0, count - 1, count + 1, 2 * count] {
            let gathered = Gathered::new(&tables, BucketId(1), HALVES[0], wrong);
            assert!(gathered.unwrap_err().is_invalid());
        }
        assert!(Gathered::new(&tables, BucketId(9), HALVES[0], 0).is_ok());
    }
}

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

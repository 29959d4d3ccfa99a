//! Reading a block where it lies, without decoding more than is asked for.

use super::kind::{self, Packed, has_extra, has_word};
use super::{MIXED, VERSION, wall};
use crate::base::codec::{Malformed, Reader, unseal};
use crate::base::ids::{IdHash, StoreMs};
use crate::claims::row::ClaimRow;
use crate::claims::run::merge::order;

/// A block whose checksum, owner and lengths were found right.
#[derive(Debug)]
pub(in super::super) struct Block<'a> {
    covers_to: IdHash,
    hashes: &'a [[u8; 16]],
    words: &'a [[u8; 8]],
    ats: Column<'a>,
    lags: Column<'a>,
    common: u8,
    flags: &'a [u8],
    extras: &'a [[u8; 8]],
}

impl<'a> Block<'a> {
    pub(in super::super) fn open(value: &'a [u8], owner: u32) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(value)?);
        if r.u8()? != VERSION {
            return Err(Malformed("a block of an unknown version"));
        }
        if r.u32()? != owner {
            return Err(Malformed("a block of another table"));
        }
        let rows = usize::try_from(r.u32()?).map_err(|_| Malformed("too many rows"))?;
        let covers_to = IdHash(r.u128()?);
        let widths = r.u8()?;
        let common = r.u8()?;
        let (at_low, lag_low) = (r.u64()?, r.i64()?);
        let hashes = chunks(&mut r, rows)?;
        let words = chunks(&mut r, if has_word(common) { rows } else { 0 })?;
        let ats = Column::read(&mut r, rows, at_low, widths & 0xf)?;
        let lags = Column::read(&mut r, rows, lag_low as u64, widths >> 4)?;
        let flags = r.raw(if common == MIXED { rows } else { 0 })?;
        let extras = match r.remaining() {
            bytes if bytes % 8 == 0 => chunks(&mut r, bytes / 8)?,
            _ => return Err(Malformed("half an extra word")),
        };
        let block = Self { covers_to, hashes, words, ats, lags, common, flags, extras };
        block.first()?;
        Ok(block)
    }

    /// The hash of the first row.
    pub(in super::super) fn first(&self) -> Result<IdHash, Malformed> {
        let first = self.hashes.first().ok_or(Malformed("a block of no rows"))?;
        Ok(hash(first))
    }

    /// Up to which hash this block tells what is stored.
    pub(in super::super) fn covers_to(&self) -> IdHash {
        self.covers_to
    }

    /// Appends the rows of one hash.
    pub(in super::super) fn find(
        &self,
        wanted: IdHash,
        out: &mut Vec<ClaimRow>,
    ) -> Result<(), Malformed> {
        let from = self.hashes.partition_point(|h| hash(h) < wanted);
        let same = self.hashes.iter().skip(from);
        let count = same.take_while(|h| hash(h) == wanted).count();
        if count == 0 {
            return Ok(());
        }
        let before = self.flags.iter().take(from);
        let mut extra = match self.common {
            MIXED => before.filter(|f| has_extra(**f)).count(),
            common if has_extra(common) => from,
            _ => 0,
        };
        for index in from..from.saturating_add(count) {
            out.push(self.row(index, &mut extra)?);
        }
        Ok(())
    }

    /// All rows, with every check that a look-up spares itself.
    pub(in super::super) fn rows(&self) -> Result<Vec<ClaimRow>, Malformed> {
        let mut rows = Vec::with_capacity(self.hashes.len());
        let mut extra = 0;
        for index in 0..self.hashes.len() {
            rows.push(self.row(index, &mut extra)?);
        }
        if extra != self.extras.len() {
            return Err(Malformed("more extra words than rows that have one"));
        }
        if !rows.is_sorted_by(|a, b| order(a, b).is_lt()) {
            return Err(Malformed("rows out of order"));
        }
        if rows.last().is_some_and(|last| last.hash > self.covers_to) {
            return Err(Malformed("rows past the block's end"));
        }
        Ok(rows)
    }

    /// One row, taking its extra word, if it has one, off the front of those not yet taken.
    fn row(&self, index: usize, extra: &mut usize) -> Result<ClaimRow, Malformed> {
        const SHORT: Malformed = Malformed("a column ends before its rows");
        let flags = match self.common {
            MIXED => *self.flags.get(index).ok_or(SHORT)?,
            common => common,
        };
        let word = match self.words.get(index) {
            Some(word) => u64::from_le_bytes(*word),
            None if self.words.is_empty() => 0,
            None => return Err(SHORT),
        };
        let mut packed = Packed { flags, word, extra: None };
        if has_extra(flags) {
            packed.extra = Some(u64::from_le_bytes(*self.extras.get(*extra).ok_or(SHORT)?));
            *extra = extra.saturating_add(1);
        }
        let at = StoreMs(self.ats.get(index).ok_or(SHORT)?);
        let lag = self.lags.get(index).ok_or(SHORT)? as i64;
        Ok(ClaimRow {
            hash: hash(self.hashes.get(index).ok_or(SHORT)?),
            at,
            wall: wall(at, lag),
            kind: kind::unpack(packed)?,
        })
    }
}

fn hash(bytes: &[u8; 16]) -> IdHash {
    IdHash(u128::from_le_bytes(*bytes))
}

fn chunks<'a, const N: usize>(
    r: &mut Reader<'a>,
    count: usize,
) -> Result<&'a [[u8; N]], Malformed> {
    let bytes = count.checked_mul(N).ok_or(Malformed("too many rows"))?;
    Ok(r.raw(bytes)?.as_chunks().0)
}

/// Numbers as what they are above the lowest, in as few bytes as the highest needs.
#[derive(Debug)]
struct Column<'a> {
    low: u64,
    width_bytes: usize,
    above: &'a [u8],
}

impl<'a> Column<'a> {
    fn read(r: &mut Reader<'a>, rows: usize, low: u64, width: u8) -> Result<Self, Malformed> {
        let width_bytes = usize::from(width);
        let bytes = rows.checked_mul(width_bytes).filter(|_| width_bytes <= 8);
        let above = r.raw(bytes.ok_or(Malformed("a column of impossible width"))?)?;
        Ok(Self { low, width_bytes, above })
    }

    fn get(&self, index: usize) -> Option<u64> {
        let start = index.checked_mul(self.width_bytes)?;
        let bytes = self.above.get(start..start.checked_add(self.width_bytes)?)?;
        let mut number = [0; 8];
        number.get_mut(..self.width_bytes)?.copy_from_slice(bytes);
        Some(self.low.wrapping_add(u64::from_le_bytes(number)))
    }
}

//! Cutting sorted rows into blocks, and writing one.

use super::kind::{self, has_extra, has_word};
use super::{BLOCK_MAX_BYTES, Block, CRC_BYTES, HEAD_BYTES, MIXED, VERSION, lag};
use crate::base::codec::Writer;
use crate::base::ids::IdHash;
use crate::claims::row::ClaimRow;

/// Which columns rows need, and how wide.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    at_low: u64,
    at_high: u64,
    lag_low: i64,
    lag_high: i64,
    /// The flags of all rows, or [`MIXED`].
    common: u8,
    extras: usize,
}

impl Shape {
    fn of(rows: &[ClaimRow]) -> Option<Self> {
        let (first, rest) = rows.split_first()?;
        let (flags, lag) = (kind::pack(first.kind).flags, lag(first.at, first.wall));
        let one = Self {
            rows: 1,
            at_low: first.at.0,
            at_high: first.at.0,
            lag_low: lag,
            lag_high: lag,
            common: flags,
            extras: usize::from(has_extra(flags)),
        };
        Some(rest.iter().fold(one, Self::with))
    }

    /// The shape with one more row.
    fn with(self, row: &ClaimRow) -> Self {
        let (flags, lag) = (kind::pack(row.kind).flags, lag(row.at, row.wall));
        Self {
            rows: self.rows.saturating_add(1),
            at_low: self.at_low.min(row.at.0),
            at_high: self.at_high.max(row.at.0),
            lag_low: self.lag_low.min(lag),
            lag_high: self.lag_high.max(lag),
            common: if flags == self.common { flags } else { MIXED },
            extras: self.extras.saturating_add(usize::from(has_extra(flags))),
        }
    }

    fn at_width(&self) -> usize {
        width_bytes(self.at_high.wrapping_sub(self.at_low))
    }

    fn lag_width(&self) -> usize {
        width_bytes(self.lag_high.wrapping_sub(self.lag_low) as u64) // wraps to the true distance
    }

    fn bytes(&self) -> usize {
        let word = if has_word(self.common) { 8 } else { 0 };
        let flags = usize::from(self.common == MIXED);
        let row_bytes = 16 + word + self.at_width() + self.lag_width() + flags;
        let columns = self.rows.saturating_mul(row_bytes);
        let extras = self.extras.saturating_mul(8);
        columns.saturating_add(extras).saturating_add(HEAD_BYTES + CRC_BYTES)
    }
}

/// Bytes that a number takes.
fn width_bytes(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// Cuts rows that come in order into blocks, each as large as its page allows.
#[derive(Debug, Default)]
pub(in super::super) struct Cutter {
    rows: Vec<ClaimRow>,
    shape: Option<Shape>,
    /// Where the rows of the last hash begin.
    group: usize,
}

impl Cutter {
    /// Adds a row. If there is no room for it, and for those of its hash before it, `full` gets the
    /// rows before that hash, which make a block, and the last hash that the block covers.
    pub(in super::super) fn push(
        &mut self,
        row: &ClaimRow,
        full: impl FnOnce(&[ClaimRow], IdHash),
    ) {
        if self.rows.last().is_some_and(|last| last.hash != row.hash) {
            self.group = self.rows.len();
        }
        let mut shape = self.shape.map(|shape| shape.with(row));
        if self.group > 0 && shape.is_some_and(|s| s.bytes() > BLOCK_MAX_BYTES) {
            let block = self.rows.get(..self.group).unwrap_or_default();
            full(block, IdHash(row.hash.0.saturating_sub(1)));
            self.rows.drain(..self.group);
            self.group = 0;
            shape = Shape::of(&self.rows).map(|shape| shape.with(row));
        }
        self.shape = shape.or_else(|| Shape::of(std::slice::from_ref(row)));
        self.rows.push(*row);
    }

    /// The rows of the last block; none if none was added. Begins anew behind them.
    pub(in super::super) fn finish(&mut self, last: impl FnOnce(&[ClaimRow])) {
        if !self.rows.is_empty() {
            last(&self.rows);
        }
        self.rows.clear();
        (self.shape, self.group) = (None, 0);
    }
}

/// As a `Cutter` cuts them.
#[cfg(test)]
pub(in super::super) fn cut(rows: &[ClaimRow]) -> Vec<std::ops::Range<usize>> {
    let (mut cutter, mut blocks, mut start) = (Cutter::default(), Vec::new(), 0);
    let mut block = |len| {
        blocks.push(start..start + len);
        start += len;
    };
    rows.iter().for_each(|row| cutter.push(row, |rows, _| block(rows.len())));
    cutter.finish(|rows| block(rows.len()));
    blocks
}

/// The block of `rows`, which are sorted, at least one, and all that is stored between the first
/// of them and `covers_to`.
pub(in super::super) fn encode(rows: &[ClaimRow], covers_to: IdHash, owner: u32) -> Vec<u8> {
    let Some(shape) = Shape::of(rows) else {
        return Vec::new();
    };
    let (at_width, lag_width) = (shape.at_width(), shape.lag_width());
    let mut w = Writer::with_capacity(shape.bytes());
    w.u8(VERSION);
    w.u32(owner);
    w.u32(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    w.u128(covers_to.0);
    w.u8((lag_width << 4 | at_width) as u8); // both at most 8
    w.u8(shape.common);
    w.u64(shape.at_low);
    w.i64(shape.lag_low);
    for row in rows {
        w.u128(row.hash.0);
    }
    if has_word(shape.common) {
        for row in rows {
            w.u64(kind::pack(row.kind).word);
        }
    }
    for row in rows {
        push(&mut w, row.at.0.wrapping_sub(shape.at_low), at_width);
    }
    for row in rows {
        let above = lag(row.at, row.wall).wrapping_sub(shape.lag_low);
        push(&mut w, above as u64, lag_width); // wraps to the true distance
    }
    if shape.common == MIXED {
        for row in rows {
            w.u8(kind::pack(row.kind).flags);
        }
    }
    for extra in rows.iter().filter_map(|row| kind::pack(row.kind).extra) {
        w.u64(extra);
    }
    let bytes = w.seal();
    debug_assert_eq!(bytes.len(), shape.bytes());
    debug_assert_eq!(Block::open(&bytes, owner).and_then(|b| b.rows()).as_deref(), Ok(rows));
    bytes
}

fn push(w: &mut Writer, number: u64, width_bytes: usize) {
    w.raw(number.to_le_bytes().get(..width_bytes).unwrap_or_default());
}

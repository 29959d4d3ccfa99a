//! A block: a hundred-odd rows in one page, column by column.
//!
//! What must hold:
//! K1. A block is closed by a CRC-32, checked on every read, and carries its table's tag.
//! K2. It covers the hashes from its first row's up to and including `covers_to`, which is one
//!     below the next block's first hash, or the partition's last hash.
//! K3. Rows of one hash never straddle two blocks. So a block outgrows its page only when one hash
//!     alone has more rows than a page holds.
//!
//! Layout (all numbers little-endian): the head of [`HEAD_BYTES`]: version u8, owner's tag u32,
//! rows u32, covers_to u128, widths u8 (low half: store times, high half: lags), common flags u8
//! ([`MIXED`] if there is a column of them), lowest store time u64, lowest lag i64. Then, for all
//! rows: hashes u128; words u64, left out if no row can have one; store times and lags as what they
//! are above the lowest; flags u8, if mixed; then the extras u64 of those rows that have one; the
//! CRC. A lag is wall time minus store time; it hardly varies unless the wall clock was set.

mod encode;
mod kind;
mod view;

#[cfg(test)]
pub(super) mod tests;

#[cfg(test)]
pub(super) use encode::cut;
pub(super) use encode::{Cutter, encode};
pub(super) use view::Block;

use super::page::{BLOCK_KEY_BYTES, room_bytes};
use crate::base::ids::{StoreMs, WallMs};

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 1 + 4 + 4 + 16 + 1 + 1 + 8 + 8;
const CRC_BYTES: usize = 4;
/// In place of the common flags: every row has its own.
const MIXED: u8 = 0x80;

/// What fits one page.
pub(super) const BLOCK_MAX_BYTES: usize = room_bytes(BLOCK_KEY_BYTES, 1);

/// Wall time as what it is ahead of store time. Both directions wrap, so any two times round-trip.
fn lag(at: StoreMs, wall: WallMs) -> i64 {
    wall.0.wrapping_sub_unsigned(at.0)
}

fn wall(at: StoreMs, lag: i64) -> WallMs {
    WallMs(lag.wrapping_add_unsigned(at.0))
}

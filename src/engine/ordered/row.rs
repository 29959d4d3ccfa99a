//! Where one ordered source stands, as its row says it.
//!
//! Owns the rules of positions, apart from any storage, and the row's bytes. What must hold:
//! OR1. `last` only grows, but for a new incarnation, which begins at none. OR2. A failed position stays in
//!     the row until it is settled; none above the lowest is open before that. OR3. Each position that was
//!     passed over without being settled is counted, once.

use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::{ClassId, StoreMs, WallMs};
use crate::base::limits::FAILED_POSITIONS_MAX;

const VERSION: u8 = 1;

/// When a source moved last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) wall: WallMs,
    pub(crate) class: ClassId,
    pub(crate) at: StoreMs,
}

/// Positions that were passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    pub(crate) count: u64,
    /// Positions in all of them.
    pub(crate) positions: u64,
    /// The first and the last position of the newest.
    pub(crate) newest: Option<(u64, u64)>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PositionRow {
    pub(crate) incarnation: u64,
    /// The newest owner's epoch; 0 before anybody claimed it.
    pub(crate) owner: u64,
    /// The highest position settled.
    pub(crate) last: Option<u64>,
    /// Positions above it whose handling failed, lowest first.
    pub(crate) failed: Vec<u64>,
    pub(crate) gaps: Gaps,
    /// Positions given up by hand.
    pub(crate) skipped: u64,
    pub(crate) moved: Moment,
}

/// Who delivers: from which life of the source, and as which of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) incarnation: u64,
    pub(crate) epoch: u64,
}

/// What a row says of a position handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may be handled.
    Open,
    /// It lies at or below the last one.
    Settled,
    /// A lower one failed.
    Blocked { at: u64 },
    /// A newer owner exists.
    Fenced { epoch: u64 },
    /// A newer incarnation exists.
    Stale { newest: u64 },
    /// So many failed below each other that one more could not be noted.
    Crowded,
}

impl PositionRow {
    /// The row that a stored one, or none, makes for this incarnation.
    pub(crate) fn of(stored: Option<Self>, incarnation: u64) -> Self {
        match stored {
            Some(row) if row.incarnation >= incarnation => row,
            // An owner's claim holds for the source, whatever became of its positions.
            Some(row) => Self { incarnation, owner: row.owner, ..Self::default() },
            None => Self { incarnation, ..Self::default() },
        }
    }

    pub(crate) fn judge(&self, owner: Owner, position: u64) -> Standing {
        if self.incarnation > owner.incarnation {
            return Standing::Stale { newest: self.incarnation };
        }
        if self.owner > owner.epoch {
            return Standing::Fenced { epoch: self.owner };
        }
        if self.last.is_some_and(|last| position <= last) {
            return Standing::Settled;
        }
        match self.failed.first() {
            Some(at) if *at < position => Standing::Blocked { at: *at },
            Some(at) if *at > position && self.failed.len() >= FAILED_POSITIONS_MAX => {
                Standing::Crowded
            }
            _ => Standing::Open,
        }
    }

    /// Notes that an open position was settled.
    pub(crate) fn settle(&mut self, position: u64, moved: Moment) {
        if let Some(first) = self.last.map(|last| last.saturating_add(1))
            && position > first
        {
            self.gaps.count = self.gaps.count.saturating_add(1);
            self.gaps.positions = self.gaps.positions.saturating_add(position - first);
            self.gaps.newest = Some((first, position - 1));
        }
        self.last = Some(position);
        self.failed.retain(|failed| *failed > position);
        self.moved = moved;
    }

    /// Notes that an open position failed; false if that is known.
    pub(crate) fn fail(&mut self, position: u64) -> bool {
        match self.failed.binary_search(&position) {
            Ok(_) => false,
            Err(place) => {
                self.failed.insert(place, position);
                true
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(64);
        w.u8(VERSION);
        w.varint(self.incarnation);
        w.varint(self.owner);
        w.u8(u8::from(self.last.is_some()));
        if let Some(last) = self.last {
            w.varint(last);
        }
        w.varint(self.failed.len() as u64);
        for failed in &self.failed {
            w.varint(*failed);
        }
        w.varint(self.gaps.count);
        w.varint(self.gaps.positions);
        w.u8(u8::from(self.gaps.newest.is_some()));
        if let Some((first, last)) = self.gaps.newest {
            w.varint(first);
            w.varint(last);
        }
        w.varint(self.skipped);
        w.i64(self.moved.wall.0);
        w.u16(self.moved.class.0);
        w.u64(self.moved.at.0);
        w.seal()
    }

    pub(crate) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a position"));
        }
        let (incarnation, owner) = (r.varint()?, r.varint()?);
        let last = is_there(&mut r)?.then(|| r.varint()).transpose()?;
        let mut failed: Vec<u64> = Vec::new();
        for _ in 0..r.varint()? {
            let position = r.varint()?;
            if failed.last().or(last.as_ref()).is_some_and(|before| position <= *before) {
                return Err(Malformed("failed positions out of order"));
            }
            failed.push(position);
        }
        let (count, positions) = (r.varint()?, r.varint()?);
        let newest = is_there(&mut r)?.then(|| Ok((r.varint()?, r.varint()?))).transpose()?;
        let skipped = r.varint()?;
        let (wall, class, at) = (WallMs(r.i64()?), ClassId(r.u16()?), StoreMs(r.u64()?));
        r.finish()?;
        let gaps = Gaps { count, positions, newest };
        let moved = Moment { wall, class, at };
        Ok(Self { incarnation, owner, last, failed, gaps, skipped, moved })
    }
}

fn is_there(r: &mut Reader<'_>) -> Result<bool, Malformed> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("neither there nor not")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moved() -> Moment {
        Moment { wall: WallMs(-2), class: ClassId(3), at: StoreMs(4) }
    }

    const ME: Owner = Owner { incarnation: 1, epoch: 0 };

    #[test]
    fn golden_bytes() {
        let row = PositionRow {
            incarnation: 300,
            owner: 7,
            last: Some(5),
            failed: vec![6, 9],
            gaps: Gaps { count: 1, positions: 2, newest: Some((3, 4)) },
            skipped: 8,
            moved: moved(),
        };
        let head = [1, 0xac, 2, 7, 1, 5, 2, 6, 9, 1, 2, 1, 3, 4, 8];
        let tail = [0xfe, 255, 255, 255, 255, 255, 255, 255, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        let bytes = row.encode();
        assert_eq!(bytes[..bytes.len() - 4], [&head[..], &tail[..]].concat());
        assert_eq!(PositionRow::decode(&bytes), Ok(row));
        let fresh = PositionRow::of(None, 1);
        assert_eq!(fresh.encode()[..9], [1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(PositionRow::decode(&fresh.encode()), Ok(fresh));
    }

    #[test]
    fn other_bytes_are_refused() {
        let row = PositionRow { last: Some(5), failed: vec![6, 9], ..PositionRow::of(None, 1) };
        let bytes = row.encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(PositionRow::decode(&bad).is_err());
        }
        let sealed = |change: fn(&mut Vec<u8>)| {
            let mut body = bytes[..bytes.len() - 4].to_vec();
            change(&mut body);
            let mut w = Writer::new();
            w.raw(&body);
            w.seal()
        };
        let changes: [fn(&mut Vec<u8>); 5] = [
            |b| b[0] = 2,  // another version
            |b| b[3] = 2,  // neither there nor not
            |b| b[6] = 5,  // failed at the last one settled
            |b| b[7] = 6,  // failed twice
            |b| b.push(0), // more than it knows
        ];
        for change in changes {
            assert!(PositionRow::decode(&sealed(change)).is_err());
        }
        assert_eq!(PositionRow::decode(&sealed(|_| ())), Ok(row));
    }

    #[test]
    fn or2_failures_below_each_other_are_all_kept() {
        let mut row = PositionRow::of(None, 1);
        for position in (10..10 + FAILED_POSITIONS_MAX as u64).rev() {
            assert_eq!(row.judge(ME, position), Standing::Open);
            assert!(row.fail(position));
            assert!(!row.fail(position));
            assert_eq!(row.judge(ME, position + 1), Standing::Blocked { at: position });
        }
        assert_eq!(row.judge(ME, 9), Standing::Crowded);
        assert_eq!(row.judge(ME, 10), Standing::Open); // again
        row.settle(10, moved());
        assert_eq!(row.judge(ME, 12), Standing::Blocked { at: 11 });
        assert_eq!(row.judge(ME, 11), Standing::Open);
    }

    #[test]
    fn a_new_incarnation_begins_anew_and_keeps_the_owner() {
        let mut row = PositionRow { owner: 4, ..PositionRow::of(None, 1) };
        row.settle(7, moved());
        row.fail(9);
        assert_eq!(PositionRow::of(Some(row.clone()), 1), row);
        let next = PositionRow::of(Some(row.clone()), 2);
        assert_eq!(next, PositionRow { owner: 4, ..PositionRow::of(None, 2) });
        assert_eq!(next.judge(ME, 100), Standing::Stale { newest: 2 });
        assert_eq!(PositionRow::of(Some(next.clone()), 1), next);
    }

    proptest! {
        /// Against a set of what was settled, in which nothing is ever summed up.
        #[test]
        fn or1_or3_positions_and_gaps(positions in prop::collection::vec(0..40_u64, 1..40)) {
            let mut row = PositionRow::of(None, 1);
            let mut settled = std::collections::BTreeSet::new();
            for position in positions {
                let is_new = settled.last().is_none_or(|last| position > *last);
                let standing = if is_new { Standing::Open } else { Standing::Settled };
                prop_assert_eq!(row.judge(ME, position), standing);
                if is_new {
                    row.settle(position, moved());
                    settled.insert(position);
                }
                prop_assert_eq!(row.last, settled.last().copied());
            }
            let (first, last) = (settled.first().unwrap(), settled.last().unwrap());
            let missing = last - first + 1 - settled.len() as u64;
            prop_assert_eq!(row.gaps.positions, missing);
            let breaks = settled.iter().zip(settled.iter().skip(1)).filter(|(a, b)| **a + 1 < **b);
            prop_assert_eq!(row.gaps.count, breaks.count() as u64);
            prop_assert_eq!(PositionRow::decode(&row.encode()), Ok(row));
        }
    }
}

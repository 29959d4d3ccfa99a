//! What a power cut leaves of the writes that were never synced.
//!
//! A plan names its operations by their place among the unsynced ones, oldest first, and has a
//! text form, so that a failure's line can be pasted back in.

use std::fmt;
use std::str::FromStr;

use crate::base::random::Random;

/// Which unsynced operations survive a power cut.
///
/// Operations are the writes and length changes of all files, and the making, renaming and removing
/// of names. A write that grows its file counts as a length change followed by a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// That one alone.
    Only(usize),
    /// All but that one.
    AllBut(usize),
    /// The length changes and names, but no written byte.
    Lengths,
    /// The written bytes and names, but no length change.
    Writes,
    /// Each one or not, by the bits of a seeded sequence.
    Subset(u64),
    /// Each 512-byte sector of each write or not, by the bits of a seeded sequence.
    Sectors(u64),
    /// One write torn in two.
    Torn {
        /// The torn one; of an operation that is no write, nothing is kept.
        op: usize,
        /// How many bytes of it lie before the tear.
        at: usize,
        /// Whether what lies before the tear is kept, or what lies behind.
        prefix: bool,
        /// Whether all the others are kept, or none.
        rest: bool,
    },
}

/// What becomes of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Lost,
    Prefix(usize),
    Suffix(usize),
    Sectors(u64),
}

/// The coin of number `index` in the sequence of `seed`.
pub(super) fn coin(seed: u64, index: u64) -> bool {
    bits(seed, index) & 1 == 1
}

/// The number `index` in the sequence of `seed`.
pub(super) fn bits(seed: u64, index: u64) -> u64 {
    let start = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Random::seeded(start).next_u64().unwrap_or_default()
}

impl Keep {
    pub(super) fn fate(self, index: usize, kind: super::Unsynced) -> Fate {
        use super::Unsynced::{Length, Write};
        let kept = match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Only(op) => op == index,
            Self::AllBut(op) => op != index,
            Self::Lengths => !matches!(kind, Write { .. }),
            Self::Writes => !matches!(kind, Length { .. }),
            Self::Subset(seed) => coin(seed, index as u64),
            Self::Sectors(seed) => match kind {
                Write { .. } => return Fate::Sectors(bits(seed, index as u64)),
                _ => coin(seed, index as u64),
            },
            Self::Torn { op, at, prefix, rest } => match (op == index, kind, prefix) {
                (true, Write { .. }, true) => return Fate::Prefix(at),
                (true, Write { .. }, false) => return Fate::Suffix(at),
                (true, ..) => false,
                (false, ..) => rest,
            },
        };
        if kept { Fate::Kept } else { Fate::Lost }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Everything => f.write_str("everything"),
            Self::Only(op) => write!(f, "only {op}"),
            Self::AllBut(op) => write!(f, "allbut {op}"),
            Self::Lengths => f.write_str("lengths"),
            Self::Writes => f.write_str("writes"),
            Self::Subset(seed) => write!(f, "subset {seed}"),
            Self::Sectors(seed) => write!(f, "sectors {seed}"),
            Self::Torn { op, at, prefix, rest } => write!(
                f,
                "torn {op} {at} {} {}",
                if *prefix { "prefix" } else { "suffix" },
                if *rest { "rest" } else { "alone" },
            ),
        }
    }
}

/// A crash plan's text that does not read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlan(pub(super) String);

impl fmt::Display for UnknownPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no crash plan; copy one from a failure", self.0)
    }
}

impl std::error::Error for UnknownPlan {}

impl FromStr for Keep {
    type Err = UnknownPlan;

    fn from_str(text: &str) -> Result<Self, UnknownPlan> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = || UnknownPlan(text.to_owned());
        let number = |word: &str| word.parse::<u64>().map_err(|_| unknown());
        let place = |word: &str| word.parse::<usize>().map_err(|_| unknown());
        Ok(match words[..] {
            ["nothing"] => Self::Nothing,
            ["everything"] => Self::Everything,
            ["lengths"] => Self::Lengths,
            ["writes"] => Self::Writes,
            ["only", op] => Self::Only(place(op)?),
            ["allbut", op] => Self::AllBut(place(op)?),
            ["subset", seed] => Self::Subset(number(seed)?),
            ["sectors", seed] => Self::Sectors(number(seed)?),
            ["torn", op, at, side @ ("prefix" | "suffix"), others @ ("rest" | "alone")] => {
                Self::Torn {
                    op: place(op)?,
                    at: place(at)?,
                    prefix: side == "prefix",
                    rest: others == "rest",
                }
            }
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_reads_back_from_its_text() {
        for keep in [
            Keep::Nothing,
            Keep::Everything,
            Keep::Lengths,
            Keep::Writes,
            Keep::Only(3),
            Keep::AllBut(4),
            Keep::Subset(u64::MAX),
            Keep::Sectors(9),
            Keep::Torn { op: 1, at: 512, prefix: true, rest: false },
            Keep::Torn { op: 1, at: 7, prefix: false, rest: true },
        ] {
            assert_eq!(keep.to_string().parse(), Ok(keep));
        }
        for bad in ["", "only", "only x", "torn 1 2 prefix", "nothing 1"] {
            assert!(bad.parse::<Keep>().is_err());
        }
    }

    #[test]
    fn coins_are_fair_enough_and_depend_on_the_seed() {
        let heads = |seed| (0..1_000).filter(|&i| coin(seed, i)).count();
        for seed in 0..20 {
            assert!((400..600).contains(&heads(seed)), "seed {seed}");
        }
        assert!((0..64).any(|i| coin(1, i) != coin(2, i)));
    }
}

//! The one source of randomness: the store's id, its hash key, and the epoch of each opening.
//!
//! The system's generator in production; a seeded sequence in simulations, so that one printed
//! seed replays a whole run.

use super::error::Error;
use super::sync::{AtomicU64, Ordering};

/// Where random bits come from.
#[derive(Debug)]
pub(crate) enum Random {
    /// The operating system's generator.
    System,
    /// SplitMix64 from a seed (Steele, Lea, Flood: "Fast splittable pseudorandom number
    /// generators", 2014); for simulations, where repeatability is the point, and for bytes that
    /// need only be irregular.
    Seeded(AtomicU64),
}

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(AtomicU64::new(seed))
    }

    /// 64 fresh bits.
    pub(crate) fn next_u64(&self) -> Result<u64, Error> {
        match self {
            Self::System => getrandom::u64().map_err(|e| {
                Error::io("reading the system's random generator", std::io::Error::other(e))
            }),
            Self::Seeded(state) => {
                let step = 0x9E37_79B9_7F4A_7C15_u64;
                let x = state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
                let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                Ok(x ^ (x >> 31))
            }
        }
    }
}

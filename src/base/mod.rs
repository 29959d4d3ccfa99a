//! The ground every other layer stands on: error, limits, ids, hashing, byte codecs, and the seams
//! for clock, randomness and thread synchronisation.
//!
//! Owns no state. May be called by every layer; calls none of them.

pub(crate) mod canary;
pub(crate) mod clock;
pub(crate) mod codec;
pub(crate) mod error;
pub(crate) mod hash;
pub(crate) mod ids;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod random;
#[cfg(any(test, feature = "testkit"))]
pub(crate) mod sim_clock;
pub(crate) mod sync;

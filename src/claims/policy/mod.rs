//! Retention policies: from what the user says about redelivery to when a bucket expires.
//!
//! Owns the public [`Retention`], the arithmetic of retention and buckets, and the layout of a
//! stored policy. Pure; called by the builder and the catalogue.
//!
//! What must hold:
//! P1. A claim's whole window passes before its bucket expires, even if one opening lied by the most
//!     that store time lets through. P2. At most [`BUCKETS_MAX`] buckets made under one policy are
//!     alive at any store time. P3. Arithmetic saturates towards keeping: a bucket whose expiry
//!     cannot be written down never expires. P4. Nobody shortens a stored policy by accident.
//!
//! A bucket takes claims committed in `[start, start + span)` of its class's store time and expires
//! at `start + span + R`, where the span is R/8 rounded up. So those alive at time t began in
//! `(t - R - span, t]`, an interval of at most 9 spans, and begin at least a span apart: P2.

use crate::base::canary::planted;
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::StoreMs;
use crate::base::limits::BUCKETS_MAX;
use crate::claims::store_time::LEAP_DIVISOR;

mod retention;
#[cfg(test)]
mod tests;

pub use retention::{Retention, days, hours, minutes};

const BUCKETS_PER_RETENTION: u64 = 8;
const _: () = assert!(BUCKETS_PER_RETENTION as usize + 1 == BUCKETS_MAX);

const VERSION: u8 = 1;

/// How long the claims of one retention class are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// R: the window and a part of 31 more; `None` keeps them for ever.
    pub(crate) retention_ms: Option<u64>,
}

/// What becomes of a stored policy when the store is opened with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// What holds from now on.
    pub(crate) policy: Policy,
    /// The policy asked for, if it was refused because it is shorter; to be reported.
    pub(crate) refused: Option<Policy>,
    /// Whether `policy` has to be stored.
    pub(crate) changed: bool,
}

impl Policy {
    /// The policy under which a claim is kept for at least this window.
    pub(crate) fn of_window(window_ms: u64) -> Self {
        let (whole, part) = (LEAP_DIVISOR, LEAP_DIVISOR - 1);
        let retention = (u128::from(window_ms) * u128::from(whole)).div_ceil(u128::from(part));
        Self { retention_ms: Some(u64::try_from(retention).unwrap_or(u64::MAX)) }
    }

    /// What is promised: R less the most that one opening may add to store time.
    pub(crate) fn window_ms(self) -> Option<u64> {
        let kept = |r: u64| r - r.div_ceil(LEAP_DIVISOR);
        self.retention_ms.map(kept)
    }

    /// How much store time a bucket takes claims for.
    pub(crate) fn bucket_span_ms(self) -> u64 {
        let span = |r: u64| r.div_ceil(BUCKETS_PER_RETENTION).max(1);
        self.retention_ms.map_or(u64::MAX, span)
    }

    /// The end, not included, of a bucket that began at `start`.
    pub(crate) fn bucket_end(self, start: StoreMs) -> StoreMs {
        StoreMs(start.0.saturating_add(self.bucket_span_ms()))
    }

    /// When a bucket with this end may be forgotten; `None` is never (P3).
    pub(crate) fn expires_at(self, bucket_end: StoreMs) -> Option<StoreMs> {
        bucket_end.0.checked_add(self.retention_ms?).map(StoreMs)
    }

    /// Whether a bucket with this end may be forgotten now.
    pub(crate) fn is_expired(self, bucket_end: StoreMs, now: StoreMs) -> bool {
        self.expires_at(bucket_end).is_some_and(|at| at <= now)
    }

    pub(crate) fn is_shorter_than(self, other: Self) -> bool {
        self.retention_ms.unwrap_or(u64::MAX) < other.retention_ms.unwrap_or(u64::MAX)
    }

    /// Compares this stored policy with the one asked for now (P4).
    pub(crate) fn settle(self, asked: Self, allow_shorter: bool) -> Settled {
        let allow_shorter = allow_shorter || planted("retention-shortened-by-accident");
        let refused = asked.is_shorter_than(self) && !allow_shorter;
        let policy = if refused { self } else { asked };
        Settled { policy, refused: refused.then_some(asked), changed: policy != self }
    }

    /// Version, 0 for ever or 1 and R, checksum.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION);
        match self.retention_ms {
            None => w.u8(0),
            Some(ms) => {
                w.u8(1);
                w.u64(ms);
            }
        }
        w.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(bytes)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a retention policy"));
        }
        let retention_ms = match r.u8()? {
            0 => None,
            1 => match r.u64()? {
                0 => return Err(Malformed("retention policy of zero")),
                ms => Some(ms),
            },
            _ => return Err(Malformed("unknown kind of retention policy")),
        };
        r.finish()?;
        Ok(Self { retention_ms })
    }
}

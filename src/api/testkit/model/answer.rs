//! Answers as the model gives them, and the store's in the same words.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::api::claim::Claim;
use crate::api::outcome::Outcome;
use crate::base::error::Error;

/// What a claim says of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The handler left none.
    None,
    /// The bytes, which may be zero in number.
    Bytes(Vec<u8>),
    /// There was one.
    Expired,
}

/// What is known of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Wall time of its commit, in milliseconds since 1970.
    pub wall_ms: i64,
    /// Its age in store time.
    pub age_ms: u64,
    /// How long it is kept from now at least; `None` for ever.
    pub kept_for_ms: Option<u64>,
    /// Its fingerprint, if the event gave its own.
    pub fingerprint: Option<u64>,
    /// Its result.
    pub result: Stored,
    /// Whether it was turned down.
    pub refused: bool,
}

impl Known {
    /// The same of a claim that a store told.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        let ms = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let result = match (claim.result(), claim.is_result_expired()) {
            (Some(bytes), _) => Stored::Bytes(bytes.to_vec()),
            (None, true) => Stored::Expired,
            (None, false) => Stored::None,
        };
        Self {
            wall_ms: since_1970_ms(claim.committed_at()),
            age_ms: ms(claim.age()),
            kept_for_ms: claim.kept_for().map(ms),
            fingerprint: claim.fingerprint(),
            result,
            refused: claim.is_refused(),
        }
    }
}

/// The answer to one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// New, and handled.
    Applied(Known),
    /// New, and turned down for good.
    Refused(Known),
    /// Settled before.
    Duplicate(Known),
    /// Settled before, with another payload.
    Mismatch(Known),
    /// The handler remembers nothing.
    Skipped,
    /// At or below the floor.
    TooLate {
        /// The floor, in milliseconds since 1970.
        floor_ms: i64,
    },
    /// Its own time lies too far ahead.
    Future,
    /// The handler failed.
    Failed,
    /// The handler panicked.
    Panicked,
    /// The store could not tell: an error of the disk or of the store itself.
    Broken {
        /// Whether the event may have been kept all the same.
        unknown: bool,
        /// Whether the error is one that a failing disk explains.
        typed: bool,
        /// The error's text.
        error: String,
    },
}

impl Answer {
    /// A store's answer in the model's words.
    #[must_use]
    pub fn of<T>(answer: &Result<Outcome<T>, Error>) -> Self {
        let odd =
            |what: &str| Self::Broken { unknown: false, typed: false, error: what.to_owned() };
        match answer {
            Ok(Outcome::Applied(_, claim)) => Self::Applied(Known::of(claim)),
            Ok(Outcome::Refused(_, claim)) => Self::Refused(Known::of(claim)),
            Ok(Outcome::Duplicate(claim)) => Self::Duplicate(Known::of(claim)),
            Ok(Outcome::Mismatch(claim)) => Self::Mismatch(Known::of(claim)),
            Ok(Outcome::Skipped(_)) => Self::Skipped,
            Ok(Outcome::TooLate { floor }) => Self::TooLate { floor_ms: since_1970_ms(*floor) },
            Ok(_) => odd("an outcome that the model does not know"),
            Err(error) if error.is_handler() => Self::Failed,
            Err(error) if error.is_future() => Self::Future,
            Err(error) => Self::Broken {
                unknown: error.is_unknown_outcome(),
                typed: is_typed(error),
                error: error.to_string(),
            },
        }
    }

    /// Whether the store itself failed.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }
}

/// Whether an error is one of those that a disk which fails or lost its power may cause.
pub(in crate::api::testkit) fn is_typed(error: &Error) -> bool {
    let disk = error.is_io() || error.is_full() || error.is_view_ended();
    (disk || error.is_unknown_outcome()) && !error.is_corrupt()
}

fn since_1970_ms(time: SystemTime) -> i64 {
    let ms = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => ms(after),
        Err(before) => -ms(before.duration()),
    }
}

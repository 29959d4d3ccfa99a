//! What one stored claim says, whichever table holds it.
//!
//! What must hold: R1. A hash may have one claim row and any number of alias rows; an alias row
//! counts only while its primary's claim row is stored.

use crate::base::ids::{EventMs, Fingerprint, IdHash, Place, ResultKey, Scope, StoreMs, WallMs};

/// What was stored as the event's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoredResult {
    /// The handler set none.
    None,
    /// The handler set one of zero bytes.
    Empty { refused: bool },
    /// The bytes lie in a result bucket under this key; the bucket may have expired.
    Key { key: ResultKey, refused: bool },
}

impl StoredResult {
    /// Whether the handler turned the event down for good. Told here, where it costs a row no byte of
    /// memory: a refusal always has a result, which says why.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Self::Empty { refused: true } | Self::Key { refused: true, .. })
    }
}

const _: () = assert!(size_of::<RowKind>() == 32);

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKind {
    /// The event was settled.
    Claim { fingerprint: Option<Fingerprint>, result: StoredResult },
    /// Another id of the event whose claim lies under `primary`.
    Alias { primary: IdHash },
}

/// One row of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimRow {
    pub(crate) hash: IdHash,
    /// Store time of its commit, by its retention class.
    pub(crate) at: StoreMs,
    /// Wall time of its commit.
    pub(crate) wall: WallMs,
    pub(crate) kind: RowKind,
}

/// One claim or alias as a group stores it before it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentClaim {
    pub(crate) hash: IdHash,
    /// Its place in the group, shared with the group's tombstones.
    pub(crate) place: Place,
    pub(crate) scope: Scope,
    pub(crate) event_time: Option<EventMs>,
    pub(crate) kind: RowKind,
}

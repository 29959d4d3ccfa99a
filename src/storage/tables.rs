//! The names of all redb tables, in one place.
//!
//! What must hold: T1. Names are injective over [`TableId`] and never change: they are on disk.

use crate::base::canary::planted;
use crate::base::ids::KeyspaceId;

/// A table of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TableId {
    /// One row: the last group's sequence, the epoch, the clocks, the counters.
    Mark,
    /// The catalogue: names, classes, buckets, runs, floors.
    Catalogue,
    /// Packed rows of claims not yet sealed, by sequence.
    Recent,
    /// Tombstones of forgotten ids, by hash.
    Tombstones,
    /// Application state.
    Keyspace(KeyspaceId),
    /// Stored results of one result bucket.
    Results(u32),
    /// Where each ordered source stands.
    Positions,
    /// What was done by hand, when and why.
    Audit,
    /// Events that somebody works on outside a transaction, or gave up, by hash.
    Leases,
    /// Outgoing messages, by destination and place.
    Messages,
    /// The same by destination, key and place, for those that have a key.
    MessageKeys,
    /// Attempts at messages that failed.
    Attempts,
    /// Messages that were given up.
    DeadLetters,
    /// How many messages each destination has.
    Tallies,
}

impl TableId {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Mark => "mark".to_owned(),
            Self::Catalogue => "catalogue".to_owned(),
            Self::Recent => "recent".to_owned(),
            Self::Tombstones => "tombstones".to_owned(),
            Self::Keyspace(id) => format!("state-{id}"),
            Self::Results(bucket) => format!("results-{bucket}"),
            Self::Positions => "positions".to_owned(),
            Self::Audit => "audit".to_owned(),
            Self::Leases => "leases".to_owned(),
            Self::Messages => "outbox-messages".to_owned(),
            Self::MessageKeys => "outbox-keys".to_owned(),
            Self::Attempts => "outbox-attempts".to_owned(),
            Self::DeadLetters => "outbox-dead".to_owned(),
            Self::Tallies => "outbox-tallies".to_owned(),
        }
    }

    /// A number for the journal's and the backup's bytes: kind in the upper half, index below.
    pub(crate) fn code(self) -> u64 {
        let (kind, index) = match self {
            Self::Mark => (0_u64, 0),
            Self::Catalogue => (1, 0),
            Self::Recent => (2, 0),
            Self::Tombstones => (3, 0),
            Self::Keyspace(id) => (4, id.0),
            Self::Results(bucket) => (5, bucket),
            Self::Positions => (6, 0),
            Self::Audit => (12, 0),
            Self::Leases => (7, 0),
            Self::Messages => (8, 0),
            Self::MessageKeys => (9, 0),
            Self::Attempts => (10, 0),
            Self::DeadLetters => (11, 0),
            Self::Tallies => (13, 0),
        };
        kind << 32 | u64::from(index)
    }

    pub(crate) fn from_code(code: u64) -> Option<Self> {
        let index = u32::try_from(code & 0xffff_ffff).ok()?;
        match (code >> 32, index) {
            (0, 0) => Some(Self::Mark),
            (1, 0) => Some(Self::Catalogue),
            (2, 0) => Some(Self::Recent),
            (3, 0) => Some(Self::Tombstones),
            (4, id) => Some(Self::Keyspace(KeyspaceId(id))),
            (5, bucket) => Some(Self::Results(bucket)),
            (6, 0) => Some(Self::Positions),
            (12, 0) => Some(Self::Audit),
            (7, 0) => Some(Self::Leases),
            (8, 0) => Some(Self::Messages),
            (9, 0) => Some(Self::MessageKeys),
            (10, 0) => Some(Self::Attempts),
            (11, 0) => Some(Self::DeadLetters),
            (13, 0) => Some(Self::Tallies),
            _ => None,
        }
    }
}

/// Whether a table holds claims or results that the catalogue must name for it to live.
pub(crate) fn is_reclaimable(name: &str) -> bool {
    name.starts_with("run-")
        || name.starts_with("results-")
        || name.starts_with("state-") && planted("application-state-taken-for-garbage")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_injective() {
        let ids = [
            TableId::Mark,
            TableId::Catalogue,
            TableId::Recent,
            TableId::Tombstones,
            TableId::Keyspace(KeyspaceId(0)),
            TableId::Keyspace(KeyspaceId(u32::MAX)),
            TableId::Results(0),
            TableId::Results(7),
            TableId::Positions,
            TableId::Audit,
            TableId::Leases,
            TableId::Messages,
            TableId::MessageKeys,
            TableId::Attempts,
            TableId::DeadLetters,
            TableId::Tallies,
        ];
        let mut names = std::collections::BTreeSet::new();
        for id in ids {
            assert_eq!(TableId::from_code(id.code()), Some(id));
            assert!(names.insert(id.name()));
        }
        // Application state is nobody's to reclaim, whatever the claims' catalogue names.
        let reclaimable = names.iter().filter(|name| is_reclaimable(name));
        assert_eq!(reclaimable.collect::<Vec<_>>(), ["results-0", "results-7"]);
        assert_eq!(TableId::from_code(14 << 32), None);
        assert_eq!(TableId::from_code(6 << 32 | 1), None);
        assert_eq!(TableId::from_code(1), None);
    }
}

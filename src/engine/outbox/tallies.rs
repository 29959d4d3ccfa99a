//! How many messages each destination has, kept in the groups that change it.
//!
//! What must hold: TL1. A group that changes a tally holds its row. TL2. After opening and healing the tallies
//! are those of the rows that are durable.

use std::collections::{BTreeMap, BTreeSet};

use super::row::Tally;
use crate::base::error::Error;
use crate::base::ids::DestinationId;
use crate::storage::batch::Batch;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// As of the newest group, the open one included.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    all: BTreeMap<DestinationId, Tally>,
    /// Changed by the open group.
    changed: BTreeSet<DestinationId>,
}

impl Tallies {
    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self, Error> {
        let mut all = BTreeMap::new();
        for row in snapshot.whole(TableId::Tallies)? {
            let (key, value) = row?;
            let damaged = |detail| {
                Error::corrupt(format!("table outbox-tallies, key {}", key.escape_ascii()), detail)
            };
            let id = key.as_slice().try_into().map(u32::from_be_bytes);
            let id = id.map_err(|_| damaged("it is not four bytes long"))?;
            let tally = Tally::decode(&key, &value).map_err(|m| damaged(m.0))?;
            all.insert(DestinationId(id), tally);
        }
        Ok(Self { all, changed: BTreeSet::new() })
    }

    pub(super) fn all(&self) -> &BTreeMap<DestinationId, Tally> {
        &self.all
    }

    /// Changes a tally; what it is then.
    pub(super) fn change(
        &mut self,
        destination: DestinationId,
        f: impl FnOnce(&mut Tally),
    ) -> Tally {
        let tally = self.all.entry(destination).or_default();
        f(tally);
        self.changed.insert(destination);
        *tally
    }

    /// Puts the rows of what has changed since the last group.
    pub(crate) fn write(&mut self, batch: &mut Batch) {
        for destination in std::mem::take(&mut self.changed) {
            let key = destination.0.to_be_bytes();
            let tally = self.all.get(&destination).copied().unwrap_or_default();
            batch.put(TableId::Tallies, &key, &tally.encode(&key));
        }
    }
}

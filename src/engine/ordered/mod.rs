//! Ordered sources: one position each, moved in the group of the state that it stands for.
//!
//! Owns the table of positions. What must hold:
//! OS1. A source's row and what was handled for it are rows of one group. OS2. The failure of a position is a
//!     row of a group too, whose callers are told of it only once it is durable; the writes of the handler
//!     that failed are not. OS3. No position is handled while a lower one failed and is not settled. OS4. No
//!     answer rests on a row that is not durable, unless it waits for that row's group.
//!
//! Called by `api`.

mod by_hand;
mod owed;
mod row;
mod turn;

pub(crate) use by_hand::{Owning, Skipping};
pub(crate) use owed::Owed;
pub(crate) use row::{Moment, Owner, PositionRow, Standing};
pub(crate) use turn::Placed;
use turn::Sitting;

use super::Engine;
use crate::base::error::Error;
use crate::base::ids::{ConsumerId, Generation, Scope};
use crate::base::limits::SOURCE_NAME_MAX_BYTES;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// A source as one of its owners delivers from it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Consumer and generation at fixed width, then the name: injective.
    pub(crate) key: Vec<u8>,
    pub(crate) owner: Owner,
}

const NAME_AT: usize = 8;

impl Source {
    pub(crate) fn new(scope: Scope, name: &[u8], incarnation: u64) -> Result<Self, Error> {
        if name.is_empty() {
            return Err(Error::invalid("an ordered source's name is empty; give it one"));
        }
        if name.len() > SOURCE_NAME_MAX_BYTES {
            let (got, limit) = (name.len() as u64, SOURCE_NAME_MAX_BYTES as u64);
            return Err(Error::limit("an ordered source's name, in bytes,", got, limit));
        }
        let key = [&prefix_of(scope)[..], name].concat();
        Ok(Self { key, owner: Owner { incarnation, epoch: 0 } })
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.key.get(NAME_AT..).unwrap_or_default()
    }

    fn scope(&self) -> Scope {
        scope_of(&self.key).unwrap_or_default()
    }

    /// The name as errors and people see it.
    pub(crate) fn shown(&self) -> String {
        self.name().escape_ascii().to_string()
    }

    pub(crate) fn stale(&self, newest: u64) -> Error {
        Error::stale_source(self.shown(), newest, self.owner.incarnation)
    }
}

/// How the keys of a generation's sources begin.
pub(super) fn prefix_of(scope: Scope) -> [u8; NAME_AT] {
    (u64::from(scope.consumer.0) << 32 | u64::from(scope.generation.0)).to_be_bytes()
}

/// Whose source a key is of.
pub(super) fn scope_of(key: &[u8]) -> Option<Scope> {
    let both = u64::from_be_bytes(*key.first_chunk::<NAME_AT>()?);
    let (consumer, generation) = ((both >> 32) as u32, (both & 0xffff_ffff) as u32);
    Some(Scope { consumer: ConsumerId(consumer), generation: Generation(generation) })
}

fn read_row(snapshot: &Snapshot, source: &Source) -> Result<Option<PositionRow>, Error> {
    let row = snapshot.get(TableId::Positions, &source.key)?;
    row.map(|row| PositionRow::decode(&row))
        .transpose()
        .map_err(|m| Error::corrupt(format!("the position of source {}", source.shown()), m.0))
}

impl Engine {
    /// A source's row as it is durable; `None` before its first.
    pub(crate) fn position(&self, source: &Source) -> Result<Option<PositionRow>, Error> {
        match read_row(&self.view()?.snapshot, source) {
            // A recovery came between; the store is on its next snapshot now.
            Err(error) if error.is_view_ended() || error.is_io() => {
                drop(self.turn(None)?);
                read_row(&self.view()?.snapshot, source)
            }
            other => other,
        }
    }

    /// Checks every row of the table.
    pub(super) fn verify_positions(&self, snapshot: &Snapshot) -> Result<(), Error> {
        for row in snapshot.whole(TableId::Positions)? {
            let (key, value) = row?;
            PositionRow::decode(&value).map_err(|m| {
                Error::corrupt(format!("table positions, key {}", key.escape_ascii()), m.0)
            })?;
        }
        Ok(())
    }
}

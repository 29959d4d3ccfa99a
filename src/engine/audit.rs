//! What people did by hand: forgot an event, gave a position up; when, and why.
//!
//! Owns the table of it. What must hold: AU1. A record is a row of the group that does what it tells. AU2.
//! Records are kept for the retention of the store's default class; each new one takes away up to
//! [`PRUNED_AT_ONCE`] that are older, so that they do not pile up.

use std::ops::Bound;

use super::core::Core;
use super::{DEFAULT_CLASS, Engine};
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::ids::{ConsumerId, Generation, Place, Scope, Seq, StoreMs, WallMs};
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

const VERSION: u8 = 1;
const FORGOT: u8 = 1;
const SKIPPED: u8 = 2;
/// More than one, so that what has piled up while nothing was recorded goes.
const PRUNED_AT_ONCE: usize = 4;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An event, by its spelled id.
    Forgot {
        id: Vec<u8>,
    },
    Skipped {
        source: Vec<u8>,
        incarnation: u64,
        position: u64,
    },
}

/// A record as its maker knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) scope: Scope,
    pub(crate) action: Action,
    pub(crate) who: String,
    pub(crate) reason: String,
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Group, and place inside it.
    pub(crate) place: (Seq, Place),
    pub(crate) wall: WallMs,
    /// Store time of the default class.
    pub(crate) at: StoreMs,
    pub(crate) note: Note,
}

impl Entry {
    pub(super) fn key(place: (Seq, Place)) -> [u8; 12] {
        let mut key = [0; 12];
        let (seq, n) = key.split_at_mut(8);
        seq.copy_from_slice(&place.0.0.to_be_bytes());
        n.copy_from_slice(&place.1.0.to_be_bytes());
        key
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Note { scope, action, who, reason } = &self.note;
        let mut w = Writer::with_capacity(64);
        w.u8(VERSION);
        w.i64(self.wall.0);
        w.u64(self.at.0);
        w.u32(scope.consumer.0);
        w.u32(scope.generation.0);
        w.bytes(who.as_bytes());
        w.bytes(reason.as_bytes());
        match action {
            Action::Forgot { id } => {
                w.u8(FORGOT);
                w.bytes(id);
            }
            Action::Skipped { source, incarnation, position } => {
                w.u8(SKIPPED);
                w.bytes(source);
                w.varint(*incarnation);
                w.varint(*position);
            }
        }
        w.seal()
    }

    pub(super) fn decode(key: &[u8], row: &[u8]) -> Result<Self, Malformed> {
        let mut k = Reader::new(key);
        let (seq, n) = (k.raw(8)?, k.raw(4)?);
        k.finish()?;
        let seq = seq.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        let n = n.iter().fold(0_u32, |n, byte| n << 8 | u32::from(*byte));
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a reason is not UTF-8"))
        };
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of an audit record"));
        }
        let (wall, at) = (WallMs(r.i64()?), StoreMs(r.u64()?));
        let (consumer, generation) = (ConsumerId(r.u32()?), Generation(r.u32()?));
        let (who, reason) = (text(r.bytes()?)?, text(r.bytes()?)?);
        let action = match r.u8()? {
            FORGOT => Action::Forgot { id: r.bytes()?.to_vec() },
            SKIPPED => Action::Skipped {
                source: r.bytes()?.to_vec(),
                incarnation: r.varint()?,
                position: r.varint()?,
            },
            _ => return Err(Malformed("unknown kind of audit record")),
        };
        r.finish()?;
        let note = Note { scope: Scope { consumer, generation }, action, who, reason };
        Ok(Self { place: (Seq(seq), Place(n)), wall, at, note })
    }
}

fn read(row: Result<(Vec<u8>, Vec<u8>), Error>) -> Result<Entry, Error> {
    let (key, value) = row?;
    Entry::decode(&key, &value)
        .map_err(|m| Error::corrupt(format!("table audit, key {}", key.escape_ascii()), m.0))
}

impl Engine {
    /// Stages a record in the open group. The caller holds the slot.
    pub(super) fn note_by_hand(&self, core: &mut Core, note: &Note) -> Result<(), Error> {
        if !core.group.has_begun {
            self.begin_group(core);
        }
        let now = self.now(DEFAULT_CLASS);
        let expired = self.expired_records(&core.tip, now)?;
        let seq = core.seq.next();
        let place = (seq, core.group.pending.next_place());
        let wall = WallMs(self.clock.wall_ms());
        let row = Entry { place, wall, at: now, note: note.clone() }.encode();
        let from = core.group.batch.end();
        for place in expired {
            core.group.batch.remove(TableId::Audit, &Entry::key(place));
        }
        core.group.batch.put(TableId::Audit, &Entry::key(place), &row);
        core.group.staged_bytes = core.group.staged_bytes.saturating_add(row.len());
        self.memtable.absorb(seq, core.group.batch.rows_from(from));
        Ok(())
    }

    fn expired_records(&self, tip: &Snapshot, now: StoreMs) -> Result<Vec<(Seq, Place)>, Error> {
        let Some(retention_ms) = self.retention_ms(DEFAULT_CLASS) else { return Ok(Vec::new()) };
        let mut expired = Vec::new();
        for row in tip.whole(TableId::Audit)?.take(PRUNED_AT_ONCE) {
            let entry = read(row)?;
            if now.0.saturating_sub(entry.at.0) < retention_ms {
                break;
            }
            expired.push(entry.place);
        }
        Ok(expired)
    }

    /// Durable records behind a place, oldest first, with the names of their consumers.
    pub(crate) fn audit(
        &self,
        after: Option<(Seq, Place)>,
        limit: usize,
    ) -> Result<Vec<(String, Entry)>, Error> {
        let view = self.view()?;
        let key = after.map(Entry::key);
        let from = key.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
        let rows =
            view.snapshot.scan(TableId::Audit, (from, Bound::Unbounded), false, Vec::new())?;
        let entries: Vec<Entry> = rows.take(limit).map(read).collect::<Result<_, _>>()?;
        let registry = self.registry.read();
        let name_of = |id: ConsumerId| {
            let known = registry.consumers.iter().find(|(_, entry)| entry.id == id);
            known.map(|(name, _)| name.clone()).unwrap_or_default()
        };
        Ok(entries.into_iter().map(|entry| (name_of(entry.note.scope.consumer), entry)).collect())
    }

    /// Checks every record.
    pub(super) fn verify_audit(&self, snapshot: &Snapshot) -> Result<(), Error> {
        snapshot.whole(TableId::Audit)?.try_for_each(|row| read(row).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: Action) -> Entry {
        let scope = Scope { consumer: ConsumerId(5), generation: Generation(6) };
        let note = Note { scope, action, who: "me".to_owned(), reason: "so".to_owned() };
        Entry { place: (Seq(2), Place(3)), wall: WallMs(-1), at: StoreMs(4), note }
    }

    #[test]
    fn golden_bytes() {
        let forgot = entry(Action::Forgot { id: b"id".to_vec() });
        assert_eq!(Entry::key(forgot.place), [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]);
        let head = [
            1, 255, 255, 255, 255, 255, 255, 255, 255, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0,
            0, 2, b'm', b'e', 2, b's', b'o',
        ];
        let bytes = forgot.encode();
        assert_eq!(bytes[..bytes.len() - 4], [&head[..], &[1, 2, b'i', b'd']].concat());
        let source = b"log".to_vec();
        let skipped = entry(Action::Skipped { source, incarnation: 300, position: 7 });
        let bytes = skipped.encode();
        let tail = [2, 3, b'l', b'o', b'g', 0xac, 2, 7];
        assert_eq!(bytes[..bytes.len() - 4], [&head[..], &tail].concat());
        for entry in [forgot, skipped] {
            let (key, row) = (Entry::key(entry.place), entry.encode());
            assert_eq!(Entry::decode(&key, &row), Ok(entry));
            assert!(Entry::decode(&key[1..], &row).is_err());
            assert!(Entry::decode(&key, &row[1..]).is_err());
        }
    }
}

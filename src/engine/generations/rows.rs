//! The rows of rebuilds and of keyspaces that were replaced, and their image.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Life;
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::{ConsumerId, Generation, KeyspaceId, Scope};
use crate::engine::registry::KeyspaceEntry;
use crate::storage::batch::Batch;
use crate::storage::tables::TableId;

const VERSION: u8 = 1;
const REBUILD: u8 = b'g';
const RETIRED: u8 = b'o';

/// The newest rebuild of a consumer.
#[derive(Clone, Debug)]
pub(crate) struct Rebuild {
    pub(crate) generation: Generation,
    /// False once it was promoted or given up.
    pub(crate) is_open: bool,
    /// Its keyspaces, by the names that they are to get.
    pub(crate) spaces: BTreeMap<String, KeyspaceEntry>,
}

/// What the registry knows of generations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generations {
    served: HashMap<ConsumerId, Generation>,
    rebuilds: BTreeMap<ConsumerId, Rebuild>,
    retired: BTreeSet<KeyspaceId>,
    /// Names of the tables of those.
    retired_tables: BTreeSet<String>,
}

impl Generations {
    pub(crate) fn serve(&mut self, scope: Scope) {
        self.served.insert(scope.consumer, scope.generation);
    }

    /// Whether a generation is the one that is served.
    pub(crate) fn serves(&self, scope: Scope) -> bool {
        self.served.get(&scope.consumer) == Some(&scope.generation)
    }

    /// Whether a generation is served, or is being rebuilt.
    pub(super) fn lives(&self, scope: Scope) -> bool {
        self.serves(scope)
            || self
                .rebuilds
                .get(&scope.consumer)
                .is_some_and(|rebuild| rebuild.is_open && rebuild.generation == scope.generation)
    }

    pub(super) fn rebuild(&self, consumer: ConsumerId) -> Option<&Rebuild> {
        self.rebuilds.get(&consumer)
    }

    pub(super) fn put(&mut self, consumer: ConsumerId, rebuild: Rebuild) {
        self.rebuilds.insert(consumer, rebuild);
    }

    pub(super) fn retire(&mut self, id: KeyspaceId) {
        self.retired.insert(id);
        self.retired_tables.insert(TableId::Keyspace(id).name());
    }

    pub(crate) fn is_retired(&self, table: &str) -> bool {
        self.retired_tables.contains(table)
    }

    /// Every keyspace that is named by no map, or is so no longer.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        let rebuilt = self.rebuilds.values().flat_map(|r| r.spaces.values().map(|k| k.id));
        rebuilt.chain(self.retired.iter().copied())
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = KeyspaceEntry> {
        self.rebuilds.into_values().flat_map(|rebuild| rebuild.spaces.into_values())
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut KeyspaceEntry> {
        self.rebuilds.values_mut().flat_map(|rebuild| rebuild.spaces.values_mut())
    }

    /// Takes a row of the catalogue in; false if it is of another kind.
    pub(crate) fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Malformed> {
        match key {
            [REBUILD, id @ ..] if let Ok(id) = <[u8; 4]>::try_from(id) => {
                self.put(ConsumerId(u32::from_be_bytes(id)), decode(value)?);
            }
            [RETIRED, id @ ..] if let Ok(id) = <[u8; 4]>::try_from(id) => {
                if unseal(value)? != [VERSION] {
                    return Err(Malformed("unknown version of a replaced keyspace"));
                }
                self.retire(KeyspaceId(u32::from_be_bytes(id)));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn key(kind: u8, id: u32) -> Vec<u8> {
    [&[kind], &id.to_be_bytes()[..]].concat()
}

pub(super) fn put_rebuild(batch: &mut Batch, consumer: ConsumerId, rebuild: &Rebuild) {
    batch.put(TableId::Catalogue, &key(REBUILD, consumer.0), &encode(rebuild));
}

pub(super) fn put_retired(batch: &mut Batch, id: KeyspaceId) {
    let mut w = Writer::new();
    w.u8(VERSION);
    batch.put(TableId::Catalogue, &key(RETIRED, id.0), &w.seal());
}

fn encode(rebuild: &Rebuild) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(VERSION);
    w.u32(rebuild.generation.0);
    w.u8(u8::from(rebuild.is_open));
    w.varint(rebuild.spaces.len() as u64);
    for (name, entry) in &rebuild.spaces {
        w.bytes(name.as_bytes());
        w.u32(entry.id.0);
        w.bytes(entry.codecs.as_bytes());
    }
    w.seal()
}

fn decode(value: &[u8]) -> Result<Rebuild, Malformed> {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a name is not UTF-8"))
    };
    let mut r = Reader::new(unseal(value)?);
    if r.u8()? != VERSION {
        return Err(Malformed("unknown version of a rebuild"));
    }
    let generation = Generation(r.u32()?);
    let is_open = match r.u8()? {
        0 => false,
        1 => true,
        _ => return Err(Malformed("neither open nor closed")),
    };
    let mut spaces = BTreeMap::new();
    for _ in 0..r.varint()? {
        let name = text(r.bytes()?)?;
        let (id, codecs) = (KeyspaceId(r.u32()?), text(r.bytes()?)?);
        spaces.insert(name, KeyspaceEntry { id, codecs, life: Life::default() });
    }
    r.finish()?;
    Ok(Rebuild { generation, is_open, spaces })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_rows_and_refusals() {
        let entry = |id| KeyspaceEntry {
            id: KeyspaceId(id),
            codecs: "u".to_owned(),
            life: Life::default(),
        };
        let spaces = BTreeMap::from([("a".to_owned(), entry(5))]);
        let rebuild = Rebuild { generation: Generation(2), is_open: true, spaces };
        let mut batch = Batch::default();
        put_rebuild(&mut batch, ConsumerId(3), &rebuild);
        put_retired(&mut batch, KeyspaceId(4));
        let rows: Vec<_> = batch.rows().collect();
        assert_eq!((rows[0].1, rows[1].1), (&b"g\0\0\0\x03"[..], &b"o\0\0\0\x04"[..]));
        let row = rows[0].2.unwrap();
        let golden = [1, 2, 0, 0, 0, 1, 1, 1, b'a', 5, 0, 0, 0, 1, b'u'];
        assert_eq!(row[..row.len() - 4], golden);
        let mut image = Generations::default();
        for (_, key, value) in &rows {
            assert_eq!(image.load_row(key, value.unwrap()), Ok(true));
        }
        assert_eq!(image.load_row(b"c:name", row), Ok(false));
        assert!(image.load_row(b"g\0\0\0\x03", &row[1..]).is_err());
        assert!(image.load_row(b"o\0\0\0\x03", row).is_err());
        assert!(image.is_retired("state-4") && !image.is_retired("state-5"));
        assert_eq!(image.keyspaces().collect::<Vec<_>>(), [KeyspaceId(5), KeyspaceId(4)]);
        let scope = |n| Scope { consumer: ConsumerId(3), generation: Generation(n) };
        assert!(image.lives(scope(2)) && !image.lives(scope(1)));
        image.serve(scope(1));
        image.put(ConsumerId(3), Rebuild { is_open: false, ..rebuild });
        assert!(image.lives(scope(1)) && !image.lives(scope(2)));
    }
}

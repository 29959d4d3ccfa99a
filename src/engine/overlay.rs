//! Staged writes of application state: what one event will write if it succeeds.
//!
//! What must hold: O1. A read meets the event's newest write of a key, a removal included. O2. Dropping it
//! leaves nothing. O3. A scan shows each key once, from its newest layer, in order. O4. An event of many writes costs
//! no more for each than one of few.

use std::collections::BTreeMap;

use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::KeyspaceId;
use crate::storage::batch::{Batch, Put};
use crate::storage::db::Bounds;
use crate::storage::merge::is_empty_range;
use crate::storage::small::SmallBytes;
use crate::storage::tables::TableId;

/// Keys and values, as staged or as opened.
pub(crate) type Scanned = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows kept as a sorted list; an event of more keeps a tree.
const FEW_ROWS: usize = 16;

type SmallPut = Option<SmallBytes>;

/// Keyspaces that a cleared overlay remembers.
const SPACES_KEPT: usize = 8;

/// The rows of one keyspace.
#[derive(Debug)]
enum Rows {
    Few(Vec<(SmallBytes, SmallPut)>),
    Many(BTreeMap<SmallBytes, SmallPut>),
}

impl Rows {
    fn insert(&mut self, key: &[u8], put: SmallPut) {
        match self {
            Self::Few(rows) => match rows.binary_search_by(|(k, _)| (**k).cmp(key)) {
                Ok(i) => {
                    if let Some(row) = rows.get_mut(i) {
                        row.1 = put;
                    }
                }
                Err(i) if rows.len() < FEW_ROWS => rows.insert(i, (SmallBytes::new(key), put)),
                Err(_) => {
                    let mut many: BTreeMap<_, _> = std::mem::take(rows).into_iter().collect();
                    many.insert(SmallBytes::new(key), put);
                    *self = Self::Many(many);
                }
            },
            Self::Many(rows) => {
                rows.insert(SmallBytes::new(key), put);
            }
        }
    }

    /// Lets its rows go, but not the room of a few.
    fn clear(&mut self) {
        match self {
            Self::Few(rows) => rows.clear(),
            Self::Many(_) => *self = Self::Few(Vec::new()),
        }
    }

    fn get(&self, key: &[u8]) -> Option<&SmallPut> {
        match self {
            Self::Few(rows) => rows.iter().find(|(k, _)| **k == *key).map(|(_, put)| put),
            Self::Many(rows) => rows.get(key),
        }
    }

    fn range(&self, bounds: Bounds<'_>) -> Vec<(Vec<u8>, Put)> {
        match self {
            Self::Few(rows) => {
                let inside = |(key, _): &&(SmallBytes, SmallPut)| {
                    std::ops::RangeBounds::contains(&bounds, &**key)
                };
                rows.iter().filter(inside).map(|(key, put)| own(key, put)).collect()
            }
            Self::Many(rows) => {
                rows.range::<[u8], _>(bounds).map(|(key, put)| own(key, put)).collect()
            }
        }
    }

    fn write(&self, table: TableId, batch: &mut Batch) {
        let mut write = |key: &[u8], put: &SmallPut| match put {
            Some(value) => batch.put(table, key, value),
            None => batch.remove(table, key),
        };
        match self {
            Self::Few(rows) => rows.iter().for_each(|(key, put)| write(key, put)),
            Self::Many(rows) => rows.iter().for_each(|(key, put)| write(key, put)),
        }
    }
}

fn own(key: &SmallBytes, put: &SmallPut) -> (Vec<u8>, Put) {
    (key.to_vec(), put.as_ref().map(|value| value.to_vec()))
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Few, so that a list beats a map.
    spaces: Vec<(KeyspaceId, Rows)>,
    bytes: usize,
}

impl Overlay {
    pub(crate) fn stage(&mut self, space: KeyspaceId, key: &[u8], put: Option<&[u8]>) {
        let value_bytes = put.map_or(0, <[u8]>::len);
        self.bytes = self.bytes.saturating_add(key.len()).saturating_add(value_bytes);
        let put = put.map(SmallBytes::new);
        match self.spaces.iter_mut().find(|(id, _)| *id == space) {
            Some((_, rows)) => rows.insert(key, put),
            None => self.spaces.push((space, Rows::Few(vec![(SmallBytes::new(key), put)]))),
        }
    }

    /// Empty again, with room for the next event, which most often writes to the same keyspaces.
    pub(crate) fn cleared(mut self) -> Self {
        self.bytes = 0;
        if self.spaces.len() > SPACES_KEPT {
            return Self::default();
        }
        self.spaces.iter_mut().for_each(|(_, rows)| rows.clear());
        self
    }

    fn rows(&self, space: KeyspaceId) -> Option<&Rows> {
        self.spaces.iter().find(|(id, _)| *id == space).map(|(_, rows)| rows)
    }

    /// The staged write of a key: `Some(None)` is a removal.
    pub(crate) fn get(&self, space: KeyspaceId, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows(space)?.get(key).map(|put| put.as_ref().map(|value| &**value))
    }

    /// The staged writes between the bounds, in the scan's order.
    pub(crate) fn range(
        &self,
        space: KeyspaceId,
        bounds: Bounds<'_>,
        reverse: bool,
    ) -> Vec<(Vec<u8>, Put)> {
        if is_empty_range(bounds) {
            return Vec::new();
        }
        let mut rows = self.rows(space).map(|rows| rows.range(bounds)).unwrap_or_default();
        if reverse {
            rows.reverse();
        }
        rows
    }

    /// Bytes of keys and values ever staged here; overwritten ones count too.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Logs its rows behind those of a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        for (space, rows) in &self.spaces {
            rows.write(TableId::Keyspace(*space), batch);
        }
    }
}

/// A value as it is stored: its bytes closed by a checksum over keyspace, key and value, so that a
/// damaged page never passes for an answer.
pub(crate) fn seal_value(space: KeyspaceId, key: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    let crc = checksum(space, key, &value);
    value.extend_from_slice(&crc.to_le_bytes());
    value
}

fn checksum(space: KeyspaceId, key: &[u8], value: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&space.0.to_le_bytes());
    crc.update(key);
    crc.update(value);
    crc.finalize()
}

/// The value in a stored row.
pub(crate) fn open_value<'v>(
    space: KeyspaceId,
    key: &[u8],
    stored: &'v [u8],
) -> Result<&'v [u8], Error> {
    let (value, crc) = stored.split_last_chunk::<4>().ok_or_else(|| damaged(space, key))?;
    let matches = checksum(space, key, value) == u32::from_le_bytes(*crc);
    if matches || planted("checksum-not-verified-on-read") {
        Ok(value)
    } else {
        Err(damaged(space, key))
    }
}

fn damaged(space: KeyspaceId, key: &[u8]) -> Error {
    Error::corrupt(
        format!("keyspace {space}, key {}", key.escape_ascii()),
        "the value does not match its checksum",
    )
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::*;
    use crate::base::ids::Seq;
    use crate::base::sync::Arc;
    use crate::storage::db::Db;
    use crate::storage::disk::{Disk, MemoryDisk};
    use crate::storage::memtable::Memtable;
    use crate::storage::snapshot::Stored;

    const SPACE: KeyspaceId = KeyspaceId(3);
    const TABLE: TableId = TableId::Keyspace(SPACE);

    #[test]
    fn a_value_is_bound_to_its_place() {
        let sealed = seal_value(SPACE, b"k", b"v".to_vec());
        assert_eq!(open_value(SPACE, b"k", &sealed).unwrap(), b"v");
        assert!(open_value(SPACE, b"j", &sealed).unwrap_err().is_corrupt());
        assert!(open_value(KeyspaceId(4), b"k", &sealed).unwrap_err().is_corrupt());
        assert!(open_value(SPACE, b"k", &sealed[..3]).unwrap_err().is_corrupt());
    }

    #[test]
    fn o4_few_and_many_rows_are_alike() {
        let mut overlay = Overlay::default();
        let mut model = BTreeMap::new();
        for i in 0..200_u32 {
            let key = (i * 37 % 61).to_be_bytes().to_vec();
            let put = (i % 5 != 0).then(|| vec![i as u8]);
            overlay.stage(SPACE, &key, put.as_deref());
            model.insert(key, put);
            let mut batch = Batch::default();
            overlay.write(&mut batch);
            let rows = batch.rows().map(|(_, k, put)| (k.to_vec(), put.map(<[u8]>::to_vec)));
            assert!(rows.eq(model.clone()), "after {i}");
            assert!(model.iter().all(|(k, put)| overlay.get(SPACE, k) == Some(put.as_deref())));
        }
        assert_eq!(overlay.get(KeyspaceId(4), &[0]), None);
    }

    type Layer = BTreeMap<u8, Option<u8>>;

    fn put(memtable: &Memtable, seq: u64, layer: &Layer) {
        for (key, value) in layer {
            memtable.put(Seq(seq), TABLE, &[*key], value.map(|v| [v]).as_ref().map(|v| &v[..]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn o3_a_scan_equals_the_merged_map(
            table in prop::collection::btree_map(0..20_u8, any::<u8>(), 0..12),
            groups in prop::collection::vec(
                prop::collection::btree_map(0..20_u8, any::<Option<u8>>(), 0..12), 0..5),
            frozen in 0..6_usize,
            own in prop::collection::btree_map(0..20_u8, any::<Option<u8>>(), 0..30),
            at in 0..6_u64,
            low in 0..22_u8, high in 0..22_u8, limit in 0..30_usize, reverse: bool,
        ) {
            let disk = MemoryDisk::default();
            let db = Db::open(disk.open("db", true).unwrap(), 1 << 20).unwrap();
            let txn = db.write(true).unwrap();
            {
                let mut open = txn.table(&TABLE.name()).unwrap();
                for (k, v) in &table {
                    open.insert(&[*k], &[*v]).unwrap();
                }
            }
            txn.commit().unwrap();
            let memtable = Memtable::default();
            let mut merged: Layer = table.iter().map(|(k, v)| (*k, Some(*v))).collect();
            for (i, group) in groups.iter().enumerate() {
                if i == frozen {
                    memtable.freeze();
                }
                put(&memtable, i as u64 + 1, group);
                if (i as u64) < at {
                    merged.extend(group.clone());
                }
            }
            let stored = Arc::new(Stored::new(db.read().unwrap()));
            let snapshot = memtable.snapshot(stored, Seq(at));
            let visible = merged.values().flatten().count() as u64;
            prop_assert_eq!(snapshot.len(TABLE).unwrap(), visible);
            for (key, value) in &merged {
                let got = snapshot.get(TABLE, &[*key]).unwrap();
                prop_assert_eq!(got, value.map(|v| vec![v]));
            }
            merged.extend(own.clone());
            let mut overlay = Overlay::default();
            for (key, value) in &own {
                overlay.stage(SPACE, &[*key], value.map(|v| [v]).as_ref().map(|v| &v[..]));
            }
            let inside = merged.iter().filter(|(k, _)| (low..high).contains(k));
            let mut expected: Vec<_> =
                inside.filter_map(|(k, v)| v.map(|v| (vec![*k], vec![v]))).collect();
            if reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            let bounds = (Bound::Included(&[low][..]), Bound::Excluded(&[high][..]));
            let own = overlay.range(SPACE, bounds, reverse);
            let scan = snapshot.scan(TABLE, bounds, reverse, own).unwrap();
            let got: Vec<_> = scan.take(limit).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(got, expected);
        }
    }
}

//! Staged writes of application state: what an event, or its group, will write if it succeeds.
//!
//! What must hold: O1. A read meets the newest layer that has the key, a removal included. O2. Dropping
//! a layer leaves those below as they were. O3. A scan of several layers shows each key once, from its
//! newest layer, in order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::KeyspaceId;
use crate::storage::batch::Put;
use crate::storage::db::{Bounds, ReadTable};

/// The rows of one keyspace in one layer.
pub(crate) type Rows = BTreeMap<Vec<u8>, Put>;

/// Keys and opened values that a scan met.
pub(crate) type Scanned = Vec<(Vec<u8>, Vec<u8>)>;

/// One layer of staged writes.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Few, so that a list beats a map.
    spaces: Vec<(KeyspaceId, Rows)>,
    bytes: usize,
}

impl Overlay {
    pub(crate) fn stage(&mut self, space: KeyspaceId, key: Vec<u8>, put: Put) {
        let value_bytes = put.as_ref().map_or(0, Vec::len);
        self.bytes = self.bytes.saturating_add(key.len()).saturating_add(value_bytes);
        self.rows_mut(space).insert(key, put);
    }

    /// The staged write of a key: `Some(None)` is a removal.
    pub(crate) fn get(&self, space: KeyspaceId, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows(space)?.get(key).map(Option::as_deref)
    }

    pub(crate) fn rows(&self, space: KeyspaceId) -> Option<&Rows> {
        self.spaces.iter().find(|(id, _)| *id == space).map(|(_, rows)| rows)
    }

    fn rows_mut(&mut self, space: KeyspaceId) -> &mut Rows {
        let known = self.spaces.iter().position(|(id, _)| *id == space);
        let index = known.unwrap_or_else(|| {
            self.spaces.push((space, Rows::new()));
            self.spaces.len() - 1
        });
        &mut self.spaces[index].1
    }

    /// Bytes of keys and values ever staged here; overwritten ones count too.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Moves all of `upper` into this layer.
    pub(crate) fn absorb(&mut self, upper: Overlay) {
        self.bytes = self.bytes.saturating_add(upper.bytes);
        for (space, rows) in upper.spaces {
            self.rows_mut(space).extend(rows);
        }
    }

    pub(crate) fn into_spaces(self) -> Vec<(KeyspaceId, Rows)> {
        self.spaces
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

fn misplaced(space: KeyspaceId, key: &[u8]) -> Error {
    Error::corrupt(
        format!("keyspace {space}, key {}", key.escape_ascii()),
        "it is out of order: a page lies in another's place",
    )
}

/// The first `limit` rows between the bounds, as the layers over the table show them.
///
/// `layers` run from the newest to the oldest; the table is the oldest of all. Values come out
/// opened.
pub(crate) fn scan(
    space: KeyspaceId,
    layers: &[&Rows],
    table: Option<&ReadTable>,
    bounds: Bounds<'_>,
    limit: usize,
    reverse: bool,
) -> Result<Scanned, Error> {
    if is_empty_range(bounds) {
        return Ok(Vec::new());
    }
    let mut staged: Vec<_> =
        layers.iter().map(|rows| Peek::new(rows.range::<[u8], _>(bounds), reverse)).collect();
    let mut stored = match table {
        Some(table) if bounds == (Bound::Unbounded, Bound::Unbounded) => Some(table.whole()?),
        Some(table) => Some(table.range(bounds)?),
        None => None,
    };
    let pull = |stored: &mut Option<crate::storage::db::Rows>| {
        let step = stored.as_mut().and_then(|r| if reverse { r.next_back() } else { r.next() });
        step.transpose().map(|row| row.map(|(k, v)| (k.bytes().to_vec(), v)))
    };
    let mut below = pull(&mut stored)?;
    let mut out = Vec::new();
    while out.len() < limit {
        let tops = staged.iter().filter_map(|s| s.head.map(|(k, _)| k.as_slice()));
        let all = tops.chain(below.as_ref().map(|(k, _)| k.as_slice()));
        let Some(key) = (if reverse { all.max() } else { all.min() }).map(<[u8]>::to_vec) else {
            break;
        };
        let mut newest: Option<&Put> = None;
        for layer in &mut staged {
            if let Some((_, put)) = layer.head.filter(|(k, _)| **k == key) {
                newest = newest.or(Some(put));
                layer.step();
            }
        }
        let stored_here = if below.as_ref().is_some_and(|(k, _)| *k == key) {
            let here = below.take();
            below = pull(&mut stored)?;
            let order = if reverse { Ordering::Less } else { Ordering::Greater };
            if let Some((next, _)) = below.as_ref().filter(|(next, _)| next.cmp(&key) != order) {
                return Err(misplaced(space, next));
            }
            here
        } else {
            None
        };
        let value = match (newest, &stored_here) {
            (Some(Some(staged)), _) => open_value(space, &key, staged)?.to_vec(),
            (Some(None), _) | (None, None) => continue,
            (None, Some((_, stored))) => open_value(space, &key, stored.bytes())?.to_vec(),
        };
        out.push((key, value));
    }
    Ok(out)
}

/// Whether the bounds can hold nothing; ordered maps panic on such.
fn is_empty_range(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a), Bound::Excluded(b))
        | (Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        _ => false,
    }
}

/// A layer's scan with its next row in view.
struct Peek<'a> {
    range: std::collections::btree_map::Range<'a, Vec<u8>, Put>,
    reverse: bool,
    head: Option<(&'a Vec<u8>, &'a Put)>,
}

impl<'a> Peek<'a> {
    fn new(range: std::collections::btree_map::Range<'a, Vec<u8>, Put>, reverse: bool) -> Self {
        let mut peek = Self { range, reverse, head: None };
        peek.step();
        peek
    }

    fn step(&mut self) {
        self.head = if self.reverse { self.range.next_back() } else { self.range.next() };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::db::Db;
    use crate::storage::disk::{Disk, MemoryDisk};

    const SPACE: KeyspaceId = KeyspaceId(3);

    #[test]
    fn values_are_checked_against_their_key() {
        let sealed = seal_value(SPACE, b"k", b"v".to_vec());
        assert_eq!(open_value(SPACE, b"k", &sealed).unwrap(), b"v");
        assert!(open_value(SPACE, b"j", &sealed).unwrap_err().is_corrupt());
        assert!(open_value(KeyspaceId(4), b"k", &sealed).unwrap_err().is_corrupt());
        assert!(open_value(SPACE, b"k", &sealed[..3]).unwrap_err().is_corrupt());
    }

    type Layer = BTreeMap<u8, Option<u8>>;

    fn sealed(layer: &Layer) -> Rows {
        let seal = |k: u8, v: u8| seal_value(SPACE, &[k], vec![v]);
        layer.iter().map(|(k, put)| (vec![*k], put.map(|v| seal(*k, v)))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn o3_a_scan_equals_the_merged_map(
            table in prop::collection::btree_map(0..20_u8, any::<u8>(), 0..12),
            older in prop::collection::btree_map(0..20_u8, any::<Option<u8>>(), 0..12),
            newer in prop::collection::btree_map(0..20_u8, any::<Option<u8>>(), 0..12),
            low in 0..22_u8, high in 0..22_u8, limit in 0..30_usize, reverse: bool,
        ) {
            let disk = MemoryDisk::default();
            let db = Db::open(disk.open("db", true).unwrap(), 1 << 20).unwrap();
            let txn = db.write(true).unwrap();
            {
                let mut open = txn.table("t").unwrap();
                for (k, v) in &table {
                    open.insert(&[*k], &seal_value(SPACE, &[*k], vec![*v])).unwrap();
                }
            }
            txn.commit().unwrap();
            let open = db.read().unwrap().table("t").unwrap();
            let mut merged: BTreeMap<u8, Option<u8>> =
                table.iter().map(|(k, v)| (*k, Some(*v))).collect();
            merged.extend(older.clone());
            merged.extend(newer.clone());
            let inside = merged.iter().filter(|(k, _)| (low..high).contains(k));
            let mut expected: Vec<_> =
                inside.filter_map(|(k, v)| v.map(|v| (vec![*k], vec![v]))).collect();
            if reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            let (newer, older) = (sealed(&newer), sealed(&older));
            let bounds = (Bound::Included(&[low][..]), Bound::Excluded(&[high][..]));
            let got = scan(SPACE, &[&newer, &older], open.as_ref(), bounds, limit, reverse);
            prop_assert_eq!(got.unwrap(), expected);
        }
    }
}

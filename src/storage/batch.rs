//! What one commit writes, as rows of tables; describable as bytes and applicable from them.
//!
//! What must hold: B1. `decode(encode(b)) == b`. B2. Applying a decoded batch leaves the very rows
//! that applying the original does: the journal will rest on this. B3. Within a table the last write
//! to a key wins.

use std::collections::BTreeMap;

use super::db::{Db, WriteTxn};
use super::tables::TableId;
use crate::base::canary::{is_within, planted};
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;

/// A value to put, or nothing to remove the key.
pub(crate) type Put = Option<Vec<u8>>;

/// The rows of one commit, by table and key.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    tables: BTreeMap<TableId, BTreeMap<Vec<u8>, Put>>,
}

const VERSION: u8 = 1;

impl Batch {
    pub(crate) fn put(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) {
        self.tables.entry(table).or_default().insert(key, Some(value));
    }

    pub(crate) fn remove(&mut self, table: TableId, key: Vec<u8>) {
        self.tables.entry(table).or_default().insert(key, None);
    }

    /// Adds all rows of one table.
    pub(crate) fn extend(&mut self, table: TableId, rows: BTreeMap<Vec<u8>, Put>) {
        match self.tables.entry(table) {
            std::collections::btree_map::Entry::Vacant(e) => {
                e.insert(rows);
            }
            std::collections::btree_map::Entry::Occupied(mut e) => e.get_mut().extend(rows),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION);
        w.varint(self.tables.len() as u64);
        for (table, rows) in &self.tables {
            w.varint(table.code());
            w.varint(rows.len() as u64);
            for (key, put) in rows {
                w.bytes(key);
                match put {
                    None => w.varint(0),
                    Some(value) => {
                        w.varint(value.len() as u64 + 1);
                        w.raw(value);
                    }
                }
            }
        }
        w.seal()
    }

    pub(crate) fn decode(record: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(record)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a batch"));
        }
        let mut batch = Self::default();
        for _ in 0..r.varint()? {
            let table = TableId::from_code(r.varint()?).ok_or(Malformed("unknown table"))?;
            let mut rows = BTreeMap::new();
            for _ in 0..r.varint()? {
                let key = r.bytes()?.to_vec();
                let put = match r.varint()?.checked_sub(1) {
                    None => None,
                    Some(len) => {
                        let len = usize::try_from(len).map_err(|_| Malformed("value too long"))?;
                        Some(r.raw(len)?.to_vec())
                    }
                };
                if rows.insert(key, put).is_some() {
                    return Err(Malformed("a key stands twice"));
                }
            }
            if batch.tables.insert(table, rows).is_some() {
                return Err(Malformed("a table stands twice"));
            }
        }
        r.finish()?;
        Ok(batch)
    }

    /// Writes the rows into an open transaction.
    pub(crate) fn apply(&self, txn: &WriteTxn) -> Result<(), Error> {
        for (table, rows) in &self.tables {
            let mut open = txn.table(&table.name())?;
            if *table == TableId::Recent && rows.values().all(Option::is_some) {
                // Sequence numbers only ever grow: these rows belong behind all others.
                let rows = rows.iter().filter_map(|(k, v)| Some((k.as_slice(), v.as_deref()?)));
                open.append(rows)?;
                continue;
            }
            for (key, put) in rows {
                match put {
                    Some(value) => open.insert(key, value)?,
                    None => {
                        open.remove(key)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the rows and makes them durable. After an error they may or may not be.
    pub(crate) fn commit(&self, db: &Db) -> Result<(), Error> {
        debug_assert_eq!(Self::decode(&self.encode()).as_ref(), Ok(self), "B1");
        if planted("state-in-a-second-transaction") {
            self.commit_state_apart(db)?;
        }
        let unsynced = planted("acknowledged-before-durable")
            || is_within("view-on-a-group-that-is-not-durable");
        let txn = db.write(!unsynced)?;
        if let Err(e) = self.apply(&txn) {
            // The first error is the one to report; the transaction is gone either way.
            let _ = txn.abort();
            return Err(e);
        }
        txn.commit()
    }

    /// For a canary alone.
    fn commit_state_apart(&self, db: &Db) -> Result<(), Error> {
        let mut state = self.clone();
        state.tables.retain(|table, _| matches!(table, TableId::Keyspace(_)));
        let txn = db.write(true)?;
        state.apply(&txn)?;
        txn.commit()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::ids::KeyspaceId;
    use crate::storage::disk::{Disk, MemoryDisk};

    fn batches() -> impl Strategy<Value = Batch> {
        let table = prop_oneof![
            Just(TableId::Catalogue),
            Just(TableId::Tombstones),
            (0..3_u32).prop_map(|id| TableId::Keyspace(KeyspaceId(id))),
        ];
        let row = (table, prop::collection::vec(any::<u8>(), 1..5), any::<Option<Vec<u8>>>());
        prop::collection::vec(row, 0..20).prop_map(|rows| {
            let mut batch = Batch::default();
            for (table, key, put) in rows {
                match put {
                    Some(value) => batch.put(table, key, value),
                    None => batch.remove(table, key),
                }
            }
            batch
        })
    }

    fn contents(db: &Db) -> Vec<(String, Vec<u8>, Vec<u8>)> {
        let read = db.read().unwrap();
        let mut all = Vec::new();
        for name in read.table_names().unwrap() {
            let bounds = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            for row in read.table(&name).unwrap().unwrap().range(bounds).unwrap() {
                let (key, value) = row.unwrap();
                all.push((name.clone(), key.bytes().to_vec(), value.bytes().to_vec()));
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn b1_b2_a_decoded_batch_equals_and_applies_as_the_original(
            batches in prop::collection::vec(batches(), 1..5),
        ) {
            let disk = MemoryDisk::default();
            let direct = Db::open(disk.open("a", true).unwrap(), 1 << 20).unwrap();
            let replayed = Db::open(disk.open("b", true).unwrap(), 1 << 20).unwrap();
            for batch in &batches {
                let again = Batch::decode(&batch.encode()).unwrap();
                prop_assert_eq!(&again, batch);
                batch.commit(&direct).unwrap();
                again.commit(&replayed).unwrap();
            }
            prop_assert_eq!(contents(&direct), contents(&replayed));
        }
    }

    #[test]
    fn golden_bytes_and_refusals() {
        let mut batch = Batch::default();
        batch.put(TableId::Keyspace(KeyspaceId(1)), b"k".to_vec(), b"v".to_vec());
        batch.remove(TableId::Catalogue, b"gone".to_vec());
        let bytes = batch.encode();
        let body = [
            1, 2, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 4, b'g', b'o', b'n', b'e', 0, 0x81, 0x80, 0x80,
            0x80, 0x40, 1, 1, b'k', 2, b'v',
        ];
        assert_eq!(bytes[..bytes.len() - 4], body);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Batch::decode(&bad).is_err());
        }
    }
}

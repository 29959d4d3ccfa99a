//! What one group writes, as a log of rows: describable as bytes and applicable from them.
//!
//! What must hold: B1. `decode(b.bytes()) == b`. B2. Applying a decoded batch leaves the very rows
//! that applying the original does: the journal rests on this. B3. The last write to a key wins.
//!
//! The log is kept as the bytes that the journal will hold, so that closing a group encodes nothing again.

use super::tables::TableId;
use crate::base::codec::{Malformed, Reader, Writer};

/// A value to put, or nothing to remove the key.
pub(crate) type Put = Option<Vec<u8>>;

/// A row: its table, its key, and what becomes of it.
pub(crate) type Row<'a> = (TableId, &'a [u8], Option<&'a [u8]>);

/// Room that a batch may have before it is filled.
const ROOM_MAX_BYTES: usize = 1 << 20;

const VERSION: u8 = 1;
/// What follows: the table that the next rows belong to.
const TABLE: u8 = 1;
/// What follows: key and value.
const PUT: u8 = 2;
/// What follows: a key.
const REMOVE: u8 = 3;

/// A place in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    offset: usize,
    table: Option<TableId>,
}

/// The rows of one group, in the order in which they were staged.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    log: Writer,
    table: Option<TableId>,
}

impl Batch {
    /// Empty, with room for as many bytes as another had.
    pub(crate) fn with_room_of(other: &Self) -> Self {
        Self { log: Writer::with_capacity(other.log.len().min(ROOM_MAX_BYTES)), table: None }
    }

    pub(crate) fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.begin(table);
        self.log.u8(PUT);
        self.log.bytes(key);
        self.log.bytes(value);
    }

    pub(crate) fn remove(&mut self, table: TableId, key: &[u8]) {
        self.begin(table);
        self.log.u8(REMOVE);
        self.log.bytes(key);
    }

    fn begin(&mut self, table: TableId) {
        if self.table == Some(table) {
            return;
        }
        if self.log.len() == 0 {
            self.log.u8(VERSION);
        }
        self.log.u8(TABLE);
        self.log.varint(table.code());
        self.table = Some(table);
    }

    /// Adds all rows of another batch behind its own.
    pub(crate) fn append(&mut self, other: &Self) {
        for (table, key, put) in other.rows() {
            match put {
                Some(value) => self.put(table, key, value),
                None => self.remove(table, key),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.log.len() == 0
    }

    /// Its bytes, as a record of the journal holds them. They carry no checksum of their own.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.log.as_slice()
    }

    /// The end of what is there so far.
    pub(crate) fn end(&self) -> Place {
        Place { offset: self.log.len(), table: self.table }
    }

    /// All rows, in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows_from(Place { offset: 0, table: None })
    }

    /// The rows behind a place in this batch.
    pub(crate) fn rows_from(&self, place: Place) -> impl Iterator<Item = Row<'_>> {
        let rest = self.bytes().get(place.offset.max(1)..).unwrap_or_default();
        let mut cursor = Cursor { rest: Reader::new(rest), table: place.table };
        // What is in here was written by `put` and `remove`, or checked by `decode`.
        std::iter::from_fn(move || cursor.next().ok().flatten())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(Malformed("unknown version of a batch"));
        }
        let mut cursor = Cursor { rest: reader, table: None };
        let mut log = Self::default();
        while let Some((table, key, put)) = cursor.next()? {
            match put {
                Some(value) => log.put(table, key, value),
                None => log.remove(table, key),
            }
        }
        if log.bytes() == bytes { Ok(log) } else { Err(Malformed("not as a batch is written")) }
    }

    /// Writes the rows in one commit of their own.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn commit(&self, db: &super::db::Db) -> Result<(), crate::base::error::Error> {
        let memtable = super::memtable::Memtable::default();
        memtable.absorb(crate::base::ids::Seq::MAX, self.rows());
        memtable.freeze();
        let txn = db.write(true)?;
        memtable.apply_frozen(&txn, None, usize::MAX, &|_, _| true)?;
        txn.commit()
    }
}

/// Reads a log row by row.
struct Cursor<'a> {
    rest: Reader<'a>,
    table: Option<TableId>,
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Result<Option<Row<'a>>, Malformed> {
        while !self.rest.is_empty() {
            let kind = self.rest.u8()?;
            if kind == TABLE {
                let code = self.rest.varint()?;
                self.table = Some(TableId::from_code(code).ok_or(Malformed("unknown table"))?);
                continue;
            }
            let table = self.table.ok_or(Malformed("a row of no table"))?;
            let key = self.rest.bytes()?;
            let put = match kind {
                PUT => Some(self.rest.bytes()?),
                REMOVE => None,
                _ => return Err(Malformed("unknown kind of row")),
            };
            return Ok(Some((table, key, put)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::ids::KeyspaceId;
    use crate::storage::db::Db;
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
                    Some(value) => batch.put(table, &key, &value),
                    None => batch.remove(table, &key),
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
                let again = Batch::decode(batch.bytes()).unwrap();
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
        batch.put(TableId::Keyspace(KeyspaceId(1)), b"k", b"v");
        batch.put(TableId::Keyspace(KeyspaceId(1)), b"l", b"");
        let place = batch.end();
        batch.remove(TableId::Catalogue, b"gone");
        let state = [1, 1, 0x81, 0x80, 0x80, 0x80, 0x40, 2, 1, b'k', 1, b'v', 2, 1, b'l', 0];
        let gone = [1, 0x80, 0x80, 0x80, 0x80, 0x10, 3, 4, b'g', b'o', b'n', b'e'];
        assert_eq!(batch.bytes(), [&state[..], &gone[..]].concat());
        let rest: Vec<_> = batch.rows_from(place).collect();
        assert_eq!(rest, [(TableId::Catalogue, &b"gone"[..], None)]);
        assert_eq!(batch.rows().count(), 3);
        assert_eq!(Batch::decode(&[]).unwrap(), Batch::default());
        for len in [1, 2, 7, 8, 11, 13, 15, 17, 27] {
            assert!(Batch::decode(&batch.bytes()[..len]).is_err(), "cut to {len}");
        }
        for bad in [&[2][..], &[1], &[1, 2, 0, 0], &[1, 1, 0x80, 0x80, 0x80, 0x80, 0x10]] {
            assert!(Batch::decode(bad).is_err());
        }
        let twice = [1, 1, 0, 2, 0, 0, 1, 0, 2, 0, 0]; // the table named again without need
        assert!(Batch::decode(&twice).is_err());
    }
}

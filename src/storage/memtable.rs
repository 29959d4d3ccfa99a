//! The memtable: rows that belong to history, or to the open group, and that redb does not have yet.
//!
//! Owns two generations: the *active* one, which takes rows, and the *frozen* one, which a checkpoint writes
//! to redb. What must hold:
//! MM1. A reader at `at` sees of each key the newest version whose sequence is at most `at`, the active
//!     generation's before the frozen one's before redb's. MM2. A frozen generation never changes. MM3. Those
//!     who hold a generation keep it: dropping it here takes nothing from them. MM4. Only the holder of the
//!     write slot puts rows, in the order of their sequences.
//!
//! Called by `engine`; `snapshot` reads through it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::db::{Bounds, WriteTxn};
use super::small::SmallBytes;
use super::snapshot::{Snapshot, Stored};
use super::tables::TableId;
use crate::base::error::Error;
use crate::base::ids::Seq;
use crate::base::sync::{Arc, RwLock};

/// A value, or that the key was removed.
type Put = Option<SmallBytes>;

#[derive(Debug)]
struct Version {
    seq: Seq,
    put: Put,
}

/// The versions of one key, the newest apart from the others.
#[derive(Debug)]
struct Versions {
    newest: Version,
    older: Vec<Version>,
}

impl Versions {
    fn at(&self, at: Seq) -> Option<&Put> {
        if self.newest.seq <= at {
            return Some(&self.newest.put);
        }
        self.older.iter().rev().find(|version| version.seq <= at).map(|version| &version.put)
    }
}

type Rows = BTreeMap<SmallBytes, Versions>;

#[derive(Debug, Default)]
struct Tables {
    rows: BTreeMap<TableId, Rows>,
    bytes: usize,
}

/// Rows that are frozen, and written, together.
#[derive(Debug, Default)]
pub(crate) struct Generation(RwLock<Tables>);

/// A row as a chunk of a scan gives it out.
pub(super) type MemRow = (Vec<u8>, Option<Vec<u8>>);

impl Generation {
    fn put(tables: &mut Tables, seq: Seq, table: TableId, key: &[u8], value: Option<&[u8]>) {
        let put = value.map(SmallBytes::new);
        let version = Version { seq, put };
        tables.bytes += key.len() + value.map_or(0, <[u8]>::len);
        let rows = tables.rows.entry(table).or_default();
        match rows.get_mut(key) {
            None => {
                let versions = Versions { newest: version, older: Vec::new() };
                rows.insert(SmallBytes::new(key), versions);
            }
            Some(known) if known.newest.seq == seq => known.newest = version,
            Some(known) => {
                let older = std::mem::replace(&mut known.newest, version);
                known.older.push(older);
            }
        }
    }

    /// What stands under a key at `at`: nothing, a removal, or a value, which `f` gets.
    pub(super) fn get<T>(
        &self,
        table: TableId,
        key: &[u8],
        at: Seq,
        f: impl FnOnce(&[u8]) -> T,
    ) -> Option<Option<T>> {
        let tables = self.0.read();
        let put = tables.rows.get(&table)?.get(key)?.at(at)?;
        Some(put.as_ref().map(|value| f(value)))
    }

    /// The next rows of a scan, at most `most`; so the lock is not kept while redb is read.
    pub(super) fn chunk(
        &self,
        table: TableId,
        bounds: Bounds<'_>,
        at: Seq,
        reverse: bool,
        most: usize,
    ) -> Vec<MemRow> {
        let tables = self.0.read();
        let Some(rows) = tables.rows.get(&table) else { return Vec::new() };
        let range = rows.range::<[u8], _>(bounds);
        let own = |(key, versions): (&SmallBytes, &Versions)| {
            let put = versions.at(at)?;
            Some((key.to_vec(), put.as_ref().map(|value| value.to_vec())))
        };
        if reverse {
            range.rev().filter_map(own).take(most).collect()
        } else {
            range.filter_map(own).take(most).collect()
        }
    }

    fn is_empty(&self) -> bool {
        self.0.read().rows.is_empty()
    }

    /// Writes the newest version of every row.
    fn apply(&self, txn: &WriteTxn, wanted: &dyn Fn(TableId) -> bool) -> Result<(), Error> {
        for (table, rows) in self.0.read().rows.iter().filter(|(table, _)| wanted(**table)) {
            let mut open = txn.table(&table.name())?;
            let newest = rows.iter().map(|(key, versions)| (key, &versions.newest.put));
            if *table == TableId::Recent && newest.clone().all(|(_, put)| put.is_some()) {
                // Sequence numbers only ever grow: these rows belong behind all others.
                let rows = newest.filter_map(|(key, put)| Some((&key[..], &put.as_ref()?[..])));
                open.append(rows)?;
                continue;
            }
            for (key, put) in newest {
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
}

#[derive(Debug, Default)]
struct Generations {
    frozen: Option<Arc<Generation>>,
    active: Arc<Generation>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Memtable(RwLock<Generations>);

impl Memtable {
    fn active(&self) -> Arc<Generation> {
        self.0.read().active.clone()
    }

    /// Puts one row, or removes it.
    pub(crate) fn put(&self, seq: Seq, table: TableId, key: &[u8], value: Option<&[u8]>) {
        Generation::put(&mut self.active().0.write(), seq, table, key, value);
    }

    /// Puts the rows of a batch, the last write to a key winning.
    pub(crate) fn absorb<'r>(
        &self,
        seq: Seq,
        rows: impl Iterator<Item = (TableId, &'r [u8], Option<&'r [u8]>)>,
    ) {
        let active = self.active();
        let mut tables = active.0.write();
        for (table, key, value) in rows {
            Generation::put(&mut tables, seq, table, key, value);
        }
    }

    /// Lets a fresh generation take what comes next; false if one is frozen already.
    pub(crate) fn freeze(&self) -> bool {
        let mut generations = self.0.write();
        if generations.frozen.is_some() {
            return false;
        }
        generations.frozen = Some(std::mem::take(&mut generations.active));
        true
    }

    /// Writes the frozen rows of the tables that are wanted into an open transaction, in the order of
    /// their keys.
    pub(crate) fn apply_frozen(
        &self,
        txn: &WriteTxn,
        wanted: &dyn Fn(TableId) -> bool,
    ) -> Result<(), Error> {
        let frozen = self.0.read().frozen.clone();
        frozen.map_or(Ok(()), |frozen| frozen.apply(txn, wanted))
    }

    /// Lets the frozen rows go: redb has them.
    pub(crate) fn drop_frozen(&self) {
        self.0.write().frozen = None;
    }

    /// Lets everything go, for a recovery.
    pub(crate) fn discard(&self) {
        *self.0.write() = Generations::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        let generations = self.0.read();
        generations.frozen.is_none() && generations.active.is_empty()
    }

    /// Bytes of keys and values in both generations, every version counted.
    pub(crate) fn bytes(&self) -> usize {
        let generations = self.0.read();
        let bytes = |generation: &Arc<Generation>| generation.0.read().bytes;
        bytes(&generations.active) + generations.frozen.as_ref().map_or(0, bytes)
    }

    /// What a reader at `at` sees, over this snapshot of redb.
    pub(crate) fn snapshot(&self, stored: Arc<Stored>, at: Seq) -> Snapshot {
        let generations = self.0.read();
        let newest_first = [Some(generations.active.clone()), generations.frozen.clone()];
        Snapshot::new(stored, newest_first, at)
    }
}

/// The bounds of what is left of a scan whose last key was `last`.
pub(super) fn rest<'a>(bounds: Bounds<'a>, last: &'a [u8], reverse: bool) -> Bounds<'a> {
    if reverse { (bounds.0, Bound::Excluded(last)) } else { (Bound::Excluded(last), bounds.1) }
}

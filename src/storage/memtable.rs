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

use std::collections::{BTreeMap, HashMap};
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

/// The rows of one table. Handlers ask for single keys, which a hash finds at once; scans and checkpoints want
/// the keys in order, which is found out when the first of them asks, and kept from then on.
#[derive(Debug, Default)]
struct Rows {
    /// In the order in which their keys came.
    rows: Vec<(SmallBytes, Versions)>,
    place_of: HashMap<SmallBytes, u32>,
    order: Option<BTreeMap<SmallBytes, u32>>,
}

impl Rows {
    fn get(&self, key: &[u8]) -> Option<&Versions> {
        let place = self.place_of.get(key)?;
        self.rows.get(*place as usize).map(|(_, versions)| versions)
    }

    fn put(&mut self, key: &[u8], version: Version) {
        let known = self.place_of.get(key).and_then(|place| self.rows.get_mut(*place as usize));
        match known {
            Some((_, known)) if known.newest.seq == version.seq => known.newest = version,
            Some((_, known)) => {
                let older = std::mem::replace(&mut known.newest, version);
                known.older.push(older);
            }
            None => {
                let place = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                let key = SmallBytes::new(key);
                if let Some(order) = &mut self.order {
                    order.insert(key.clone(), place);
                }
                self.place_of.insert(key.clone(), place);
                self.rows.push((key, Versions { newest: version, older: Vec::new() }));
            }
        }
    }

    /// The order of the keys that are there by now.
    fn sorted(&self) -> BTreeMap<SmallBytes, u32> {
        (0..).zip(&self.rows).map(|(place, (key, _))| (key.clone(), place)).collect()
    }

    /// Takes over an order that was found out when there were fewer keys.
    fn set_order(&mut self, mut order: BTreeMap<SmallBytes, u32>) {
        let known = order.len();
        order.extend((0..).zip(&self.rows).skip(known).map(|(i, (key, _))| (key.clone(), i)));
        self.order = Some(order);
    }

    /// Rows between the bounds, in order; none before the order was found out.
    fn range<'r>(
        &'r self,
        bounds: Bounds<'r>,
    ) -> impl DoubleEndedIterator<Item = (&'r SmallBytes, &'r Versions)> {
        let places = self.order.iter().flat_map(move |order| order.range::<[u8], _>(bounds));
        places.filter_map(|(key, place)| {
            self.rows.get(*place as usize).map(|(_, versions)| (key, versions))
        })
    }
}

#[derive(Debug, Default)]
struct Tables {
    rows: BTreeMap<TableId, Rows>,
}

/// Rows that are frozen, and written, together.
#[derive(Debug, Default)]
pub(crate) struct Generation(RwLock<Tables>);

/// A row as a chunk of a scan gives it out.
pub(super) type MemRow = (Vec<u8>, Option<Vec<u8>>);

impl Generation {
    fn put(tables: &mut Tables, seq: Seq, table: TableId, key: &[u8], value: Option<&[u8]>) {
        let put = value.map(SmallBytes::new);
        tables.rows.entry(table).or_default().put(key, Version { seq, put });
    }

    /// Finds out the order of a table's keys, without keeping anybody from reading or putting meanwhile.
    fn sort(&self, table: TableId) {
        let order = match self.0.read().rows.get(&table) {
            Some(rows) if rows.order.is_none() => rows.sorted(),
            _ => return,
        };
        if let Some(rows) = self.0.write().rows.get_mut(&table)
            && rows.order.is_none()
        {
            rows.set_order(order);
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
        self.sort(table);
        let tables = self.0.read();
        let Some(rows) = tables.rows.get(&table) else { return Vec::new() };
        let range = rows.range(bounds);
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

    fn len(&self) -> usize {
        self.0.read().rows.values().map(|rows| rows.rows.len()).sum()
    }

    /// Writes the newest versions of the rows behind a place that are wanted, as many as a part may
    /// hold; returns the place to go on from, or nothing at the end.
    fn apply(
        &self,
        txn: &WriteTxn,
        after: Option<&Mark>,
        most: usize,
        wanted: &dyn Fn(TableId, Seq) -> bool,
    ) -> Result<Option<Mark>, Error> {
        let names: Vec<TableId> = self.0.read().rows.keys().copied().collect();
        names.into_iter().for_each(|table| self.sort(table));
        let tables = self.0.read();
        let mut left = most;
        let first = after.map_or(Bound::Unbounded, |(table, _)| Bound::Included(*table));
        for (table, rows) in tables.rows.range((first, Bound::Unbounded)) {
            let from = match after {
                Some((at, key)) if at == table => Bound::Excluded(key.as_slice()),
                _ => Bound::Unbounded,
            };
            let behind = rows.range((from, Bound::Unbounded));
            let mut part: Vec<(&SmallBytes, &Put)> = Vec::new();
            for (key, versions) in behind {
                if left == 0 {
                    write_rows(txn, *table, &part)?;
                    return Ok(part
                        .last()
                        .map(|(key, _)| (*table, key.to_vec()))
                        .or(after.cloned()));
                }
                if wanted(*table, versions.newest.seq) {
                    part.push((key, &versions.newest.put));
                    left -= 1;
                }
            }
            write_rows(txn, *table, &part)?;
        }
        Ok(None)
    }
}

/// A row of a generation, as a place to go on from.
pub(crate) type Mark = (TableId, Vec<u8>);

fn write_rows(txn: &WriteTxn, table: TableId, rows: &[(&SmallBytes, &Put)]) -> Result<(), Error> {
    let Some((first, _)) = rows.first() else { return Ok(()) };
    let mut open = txn.table(&table.name())?;
    if table == TableId::Recent
        && rows.iter().all(|(_, put)| put.is_some())
        && open.last_key()?.is_none_or(|last| last[..] < first[..])
    {
        // Sequence numbers only ever grow: these rows belong behind all others, unless a checkpoint
        // was cut short after them.
        let rows = rows.iter().filter_map(|(key, put)| Some((&key[..], &put.as_ref()?[..])));
        return open.append(rows);
    }
    for (key, put) in rows {
        match put {
            Some(value) => open.insert(key, value)?,
            None => {
                open.remove(key)?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Generations {
    frozen: Option<Arc<Generation>>,
    active: Arc<Generation>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    generations: RwLock<Generations>,
    store_id: u128,
}

impl Memtable {
    pub(crate) fn of_store(store_id: u128) -> Self {
        Self { generations: RwLock::default(), store_id }
    }

    fn active(&self) -> Arc<Generation> {
        self.generations.read().active.clone()
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
        let mut generations = self.generations.write();
        if generations.frozen.is_some() {
            return false;
        }
        generations.frozen = Some(std::mem::take(&mut generations.active));
        true
    }

    /// Writes frozen rows that are wanted into an open transaction, in the order of their keys; see
    /// [`Generation::apply`].
    pub(crate) fn apply_frozen(
        &self,
        txn: &WriteTxn,
        after: Option<&Mark>,
        most: usize,
        wanted: &dyn Fn(TableId, Seq) -> bool,
    ) -> Result<Option<Mark>, Error> {
        let frozen = self.generations.read().frozen.clone();
        frozen.map_or(Ok(None), |frozen| frozen.apply(txn, after, most, wanted))
    }

    /// How many keys are frozen.
    pub(crate) fn frozen_len(&self) -> usize {
        let frozen = self.generations.read().frozen.clone();
        frozen.map_or(0, |frozen| frozen.len())
    }

    /// Lets the frozen rows go: redb has them.
    pub(crate) fn drop_frozen(&self) {
        self.generations.write().frozen = None;
    }

    /// Lets everything go, for a recovery.
    pub(crate) fn discard(&self) {
        *self.generations.write() = Generations::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        let generations = self.generations.read();
        generations.frozen.is_none() && generations.active.is_empty()
    }

    /// What a reader at `at` sees, over this snapshot of redb.
    pub(crate) fn snapshot(&self, stored: Arc<Stored>, at: Seq) -> Snapshot {
        let generations = self.generations.read();
        let newest_first = [Some(generations.active.clone()), generations.frozen.clone()];
        Snapshot::new(stored, newest_first, at, self.store_id)
    }
}

/// The bounds of what is left of a scan whose last key was `last`.
pub(super) fn rest<'a>(bounds: Bounds<'a>, last: &'a [u8], reverse: bool) -> Bounds<'a> {
    if reverse { (bounds.0, Bound::Excluded(last)) } else { (Bound::Excluded(last), bounds.1) }
}

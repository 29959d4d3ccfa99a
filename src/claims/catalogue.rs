//! The catalogue of claims: classes, buckets with their runs, floors, the watermark.
//!
//! Owns the rows that say so and their in-memory image. What must hold:
//! K1. The image equals the rows of the last durable commit; it changes only once that commit is
//!     durable. K2. A floor and the watermark never go back. K3. A bucket's owners count every claim
//!     and event time sealed into it, those forgotten by hand included, so that forgetting is the same
//!     whenever sealing happened.

use std::collections::{BTreeMap, HashMap};

use super::policy::Policy;
use super::recent::Aggregate;
use super::run::RunMeta;
use crate::base::canary::planted;
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::ids::{BucketId, ClassId, ConsumerId, EventMs, Generation, Scope, Seq, StoreMs};
use crate::storage::batch::Batch;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

const VERSION: u8 = 1;
const CLASS: u8 = b'r';
const BUCKET: u8 = b'b';
const FLOOR: u8 = b'f';
const RESULTS: u8 = b'x';
const WATERMARK: &[u8] = b"watermark";

/// Claims of one class that expire together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) id: BucketId,
    pub(crate) class: ClassId,
    /// Store time of its first possible commit.
    pub(crate) start: StoreMs,
    /// Store time that its commits stay below; `u64::MAX` where nothing expires.
    pub(crate) end: StoreMs,
    pub(crate) runs: Vec<RunMeta>,
    /// What was sealed into it, by scope.
    pub(crate) owners: BTreeMap<Scope, Aggregate>,
}

/// Stored results that expire together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultBucket {
    pub(crate) id: u32,
    pub(crate) class: ClassId,
    /// How long its results are kept; `None` for ever.
    pub(crate) retention_ms: Option<u64>,
    pub(crate) end: StoreMs,
    /// A bucket of a consumer with its own result retention, apart from the claims' own.
    pub(crate) own_retention: bool,
}

/// The image of the catalogue rows that concern claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) classes: BTreeMap<ClassId, Policy>,
    pub(crate) buckets: BTreeMap<BucketId, Bucket>,
    pub(crate) results: BTreeMap<u32, ResultBucket>,
    pub(crate) floors: HashMap<Scope, EventMs>,
    /// Rows of the recent table at or below it no longer count.
    pub(crate) watermark: Seq,
}

fn key(prefix: u8, rest: &[u8]) -> Vec<u8> {
    [&[prefix], rest].concat()
}

fn floor_key(scope: Scope) -> Vec<u8> {
    let rest = [scope.consumer.0.to_be_bytes(), scope.generation.0.to_be_bytes()].concat();
    key(FLOOR, &rest)
}

fn put_optional_ms(w: &mut Writer, ms: Option<u64>) {
    match ms {
        None => w.u8(0),
        Some(ms) => {
            w.u8(1);
            w.u64(ms);
        }
    }
}

fn optional_ms(r: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
    match r.u8()? {
        0 => Ok(None),
        1 => Ok(Some(r.u64()?)),
        _ => Err(Malformed("neither absent nor present")),
    }
}

impl Bucket {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION);
        w.u16(self.class.0);
        w.u64(self.start.0);
        w.u64(self.end.0);
        w.varint(self.runs.len() as u64);
        for run in &self.runs {
            w.bytes(&run.encode());
        }
        w.varint(self.owners.len() as u64);
        for (scope, owner) in &self.owners {
            w.varint(u64::from(scope.consumer.0));
            w.varint(u64::from(scope.generation.0));
            w.varint(owner.claims);
            w.varint(owner.aliases);
            put_optional_ms(&mut w, owner.max_event_time.map(|t| t.0 as u64));
        }
        w.seal()
    }

    fn decode(id: BucketId, row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a bucket"));
        }
        let class = ClassId(r.u16()?);
        let (start, end) = (StoreMs(r.u64()?), StoreMs(r.u64()?));
        let mut runs = Vec::new();
        for _ in 0..r.varint()? {
            runs.push(RunMeta::decode(r.bytes()?)?);
        }
        let mut owners = BTreeMap::new();
        for _ in 0..r.varint()? {
            let scope = Scope {
                consumer: ConsumerId(narrow(r.varint()?)?),
                generation: Generation(narrow(r.varint()?)?),
            };
            let owner = Aggregate {
                claims: r.varint()?,
                aliases: r.varint()?,
                max_event_time: optional_ms(&mut r)?.map(|t| EventMs(t as i64)),
            };
            owners.insert(scope, owner);
        }
        r.finish()?;
        Ok(Self { id, class, start, end, runs, owners })
    }
}

fn narrow(v: u64) -> Result<u32, Malformed> {
    u32::try_from(v).map_err(|_| Malformed("number too large"))
}

impl ResultBucket {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION);
        w.u16(self.class.0);
        put_optional_ms(&mut w, self.retention_ms);
        w.u64(self.end.0);
        w.u8(u8::from(self.own_retention));
        w.seal()
    }

    fn decode(id: u32, row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a result bucket"));
        }
        let bucket = Self {
            id,
            class: ClassId(r.u16()?),
            retention_ms: optional_ms(&mut r)?,
            end: StoreMs(r.u64()?),
            own_retention: r.u8()? != 0,
        };
        r.finish()?;
        Ok(bucket)
    }
}

/// A change of the catalogue: the rows for the commit, and what to do to the image once durable.
#[derive(Debug, Default, Clone)]
pub(crate) struct Change {
    pub(crate) classes: Vec<(ClassId, Policy)>,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) buckets_gone: Vec<BucketId>,
    pub(crate) results: Vec<ResultBucket>,
    pub(crate) results_gone: Vec<u32>,
    pub(crate) floors: Vec<(Scope, EventMs)>,
    pub(crate) watermark: Option<Seq>,
}

impl Change {
    pub(crate) fn is_empty(&self) -> bool {
        self.classes.is_empty()
            && self.buckets.is_empty()
            && self.buckets_gone.is_empty()
            && self.results.is_empty()
            && self.results_gone.is_empty()
            && self.floors.is_empty()
            && self.watermark.is_none()
    }

    /// The rows that make it durable.
    pub(crate) fn write(&self, batch: &mut Batch) {
        let table = TableId::Catalogue;
        for (class, policy) in &self.classes {
            batch.put(table, &key(CLASS, &class.0.to_be_bytes()), &policy.encode());
        }
        for bucket in &self.buckets {
            batch.put(table, &key(BUCKET, &bucket.id.0.to_be_bytes()), &bucket.encode());
        }
        for gone in &self.buckets_gone {
            batch.remove(table, &key(BUCKET, &gone.0.to_be_bytes()));
        }
        for bucket in &self.results {
            batch.put(table, &key(RESULTS, &bucket.id.to_be_bytes()), &bucket.encode());
        }
        for gone in &self.results_gone {
            batch.remove(table, &key(RESULTS, &gone.to_be_bytes()));
        }
        for (scope, floor) in self.floors.iter().filter(|_| !planted("floor-only-in-memory")) {
            let mut w = Writer::new();
            w.i64(floor.0);
            batch.put(table, &floor_key(*scope), &w.seal());
        }
        if let Some(seq) = self.watermark {
            let mut w = Writer::new();
            w.u64(seq.0);
            batch.put(table, WATERMARK, &w.seal());
        }
    }
}

impl Catalogue {
    /// Reads the rows; damage names the row.
    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self, Error> {
        let mut image = Self::default();
        for row in snapshot.whole(TableId::Catalogue)? {
            let (key, value) = row?;
            image.load_row(&key, &value).map_err(|m| {
                Error::corrupt(format!("catalogue row {}", key.escape_ascii()), m.0)
            })?;
        }
        Ok(image)
    }

    pub(super) fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if key == WATERMARK {
            self.watermark = Seq(Reader::new(unseal(value)?).u64()?);
            return Ok(());
        }
        let (Some(prefix), mut rest) = (key.first(), Reader::new(key.get(1..).unwrap_or_default()))
        else {
            return Err(Malformed("an empty key"));
        };
        match (*prefix, rest.remaining()) {
            (CLASS, 2) => {
                let class = ClassId(rest.u16()?.swap_bytes());
                self.classes.insert(class, Policy::decode(value)?);
            }
            (BUCKET, 8) => {
                let id = BucketId(rest.u64()?.swap_bytes());
                self.buckets.insert(id, Bucket::decode(id, value)?);
            }
            (RESULTS, 4) => {
                let id = rest.u32()?.swap_bytes();
                self.results.insert(id, ResultBucket::decode(id, value)?);
            }
            (FLOOR, 8) => {
                let scope = Scope {
                    consumer: ConsumerId(rest.u32()?.swap_bytes()),
                    generation: Generation(rest.u32()?.swap_bytes()),
                };
                self.floors.insert(scope, EventMs(Reader::new(unseal(value)?).i64()?));
            }
            // Names of consumers and keyspaces belong to the engine.
            _ => {}
        }
        Ok(())
    }

    /// Carries a durable change into the image.
    pub(crate) fn accept(&mut self, change: &Change) {
        self.classes.extend(change.classes.iter().copied());
        self.buckets.extend(change.buckets.iter().map(|b| (b.id, b.clone())));
        for gone in &change.buckets_gone {
            self.buckets.remove(gone);
        }
        self.results.extend(change.results.iter().map(|b| (b.id, *b)));
        for gone in &change.results_gone {
            self.results.remove(gone);
        }
        for (scope, floor) in &change.floors {
            let stored = self.floors.entry(*scope).or_insert(*floor);
            *stored = (*stored).max(*floor);
        }
        self.watermark = self.watermark.max(change.watermark.unwrap_or_default());
    }

    /// The bucket that takes a commit of `class` at store time `now`, if there is one yet.
    pub(crate) fn open_bucket(&self, class: ClassId, now: StoreMs) -> Option<&Bucket> {
        self.buckets.values().rev().find(|b| b.class == class).filter(|b| now < b.end)
    }

    /// The policy of a class; one that is not known keeps for ever.
    pub(crate) fn policy(&self, class: ClassId) -> Policy {
        self.classes.get(&class).copied().unwrap_or(Policy { retention_ms: None })
    }

    /// When a result bucket may be forgotten; `None` for never. Results without a retention of
    /// their own go by their class's policy of today, as its claims do.
    pub(crate) fn results_expire_at(&self, bucket: &ResultBucket) -> Option<StoreMs> {
        let own = Policy { retention_ms: bucket.retention_ms };
        let policy = if bucket.own_retention { own } else { self.policy(bucket.class) };
        policy.expires_at(bucket.end)
    }

    /// When a bucket may be forgotten; `None` for never.
    pub(crate) fn expires_at(&self, bucket: &Bucket) -> Option<StoreMs> {
        self.policy(bucket.class).expires_at(bucket.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::db::Db;
    use crate::storage::disk::{Disk, MemoryDisk};

    #[test]
    fn k1_the_image_of_the_rows_is_the_image_of_the_changes() {
        let scope = Scope { consumer: ConsumerId(7), generation: Generation(1) };
        let owner = Aggregate { claims: 3, aliases: 1, max_event_time: Some(EventMs(-5)) };
        let bucket = Bucket {
            id: BucketId(258),
            class: ClassId(1),
            start: StoreMs(10),
            end: StoreMs(20),
            runs: Vec::new(),
            owners: BTreeMap::from([(scope, owner)]),
        };
        let change = Change {
            classes: vec![
                (ClassId(0), Policy { retention_ms: None }),
                (ClassId(1), Policy { retention_ms: Some(160) }),
            ],
            buckets: vec![bucket.clone()],
            results: vec![ResultBucket {
                id: 9,
                class: ClassId(1),
                retention_ms: Some(16),
                end: StoreMs(30),
                own_retention: true,
            }],
            floors: vec![(scope, EventMs(44))],
            watermark: Some(Seq(99)),
            ..Change::default()
        };
        let mut image = Catalogue::default();
        image.accept(&change);

        let disk = MemoryDisk::default();
        let db = Db::open(disk.open("db", true).unwrap(), 1 << 20).unwrap();
        let mut batch = Batch::default();
        change.write(&mut batch);
        batch.commit(&db).unwrap();
        let loaded = Catalogue::load(&Snapshot::of(db.read().unwrap())).unwrap();
        assert_eq!(format!("{loaded:?}"), format!("{image:?}"));
        assert_eq!(loaded.expires_at(&bucket), Some(StoreMs(180)));
        assert_eq!(loaded.open_bucket(ClassId(1), StoreMs(19)), Some(&bucket));
        assert_eq!(loaded.open_bucket(ClassId(1), StoreMs(20)), None);
    }
}

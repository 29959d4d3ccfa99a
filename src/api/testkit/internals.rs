//! Inner parts for this crate's own benchmarks. No promise of any kind goes with them.

use crate::base::error::Error;
use crate::base::hash::HashKey;
use crate::base::ids::{
    BucketId, ClassId, ConsumerId, Epoch, Fingerprint, Generation, IdHash, KeyspaceId, Place,
    RunId, Scope, Seq, StoreMs, WallMs,
};
use crate::claims::packed::{self, PackedRow};
use crate::claims::recent::Recent;
use crate::claims::row::{ClaimRow, RecentClaim, RowKind, StoredResult};
use crate::claims::run::{PreparedPartition, Progress, Run, RunMeta, RunName, split_rows};
use crate::storage::batch::Batch;
use crate::storage::db::Db;
use crate::storage::disk::{Disk, MemoryDisk};
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

const SCOPE: Scope = Scope { consumer: ConsumerId(1), generation: Generation(0) };
const KEY: HashKey = HashKey(*b"a benchmarks key");
const SLICE_BYTES: usize = 1 << 20;

fn database() -> Result<Db, Error> {
    let file = MemoryDisk::default().open("db", true);
    Db::open(file.map_err(|e| Error::io("making a database in memory", e))?, 64 << 20)
}

/// The hash of an event id, lower half only.
#[must_use]
pub fn identity(event_id: &[u8]) -> u64 {
    KEY.identity(SCOPE, event_id).0 as u64
}

/// The fingerprint of a payload.
#[must_use]
pub fn fingerprint(payload: &[u8]) -> u64 {
    KEY.fingerprint(payload).0
}

fn hash(n: u64) -> IdHash {
    KEY.identity(SCOPE, &n.to_le_bytes())
}

fn kind(n: u64) -> RowKind {
    RowKind::Claim { fingerprint: Some(Fingerprint(n)), result: StoredResult::None }
}

/// The hashes of numbered events, taken before the clock runs.
#[derive(Debug, Clone, Copy)]
pub struct Hashed(IdHash);

impl Hashed {
    /// Of event `n`.
    #[must_use]
    pub fn new(n: u64) -> Self {
        Self(hash(n))
    }
}

/// A group's claims.
#[derive(Debug)]
pub struct Group(PackedRow);

impl Group {
    /// Events `first` to `first + claims`, not included.
    #[must_use]
    pub fn new(first: u64, claims: u32) -> Self {
        let claim = |place: u32| {
            let n = first + u64::from(place);
            let (place, event_time) = (Place(place), None);
            RecentClaim { hash: hash(n), place, scope: SCOPE, event_time, kind: kind(n) }
        };
        Self(PackedRow {
            bucket: BucketId(1),
            class: ClassId(0),
            at: StoreMs(1_000_000),
            wall: WallMs(1_800_000_000_000),
            claims: (0..claims).map(claim).collect(),
        })
    }

    /// Its chunks, as they lie on disk.
    #[must_use]
    pub fn encode(&self) -> Vec<Vec<u8>> {
        packed::encode_chunks(&self.0).collect()
    }

    /// How many claims the chunks hold.
    #[must_use]
    pub fn decode(chunks: &[Vec<u8>]) -> usize {
        chunks
            .iter()
            .filter_map(|chunk| packed::decode(chunk).ok())
            .map(|row| row.claims.len())
            .sum()
    }
}

/// The table of claims that are not sealed yet.
#[derive(Debug)]
pub struct Table(Recent);

impl Table {
    /// For so many claims.
    #[must_use]
    pub fn new(claims: usize) -> Self {
        Self(Recent::with_expected(claims.saturating_mul(2), claims))
    }

    /// Adds a group.
    pub fn insert(&mut self, seq: u64, group: &Group) {
        self.0.insert_row(Seq(seq), &group.0);
    }

    /// Whether the event is in it.
    #[must_use]
    pub fn has(&self, event: Hashed) -> bool {
        let mut found = false;
        self.0.find(event.0, &mut |_| found = true);
        found
    }
}

/// A run of claims in a database in memory.
pub struct Sealed {
    snapshot: Snapshot,
    run: Run,
    _db: Db,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.run.fmt(f)
    }
}

impl Sealed {
    /// Of events 0 to `claims`, not included, in one partition.
    ///
    /// # Errors
    /// More than a partition holds.
    pub fn build(claims: u64) -> Result<Self, Error> {
        let (at, wall) = (StoreMs(1_000), WallMs(1_800_000_000_000));
        let row = |n| ClaimRow { hash: hash(n), at, wall, kind: kind(n) };
        let rows: Vec<ClaimRow> = (0..claims).map(row).collect();
        let name = RunName { epoch: Epoch(1), id: RunId(1) };
        let db = database()?;
        let (mut metas, mut filters) = (Vec::new(), Vec::new());
        for rows in split_rows(&rows, 1) {
            let part = PreparedPartition::new(name, 0, 1, &rows)?;
            let txn = db.write(true)?;
            while part.write_slice(&txn, SLICE_BYTES)? == Progress::More {}
            txn.commit()?;
            let (meta, filter) = part.finish();
            metas.push(meta);
            filters.push(filter);
        }
        let run = Run::built(RunMeta::new(name, Seq(1), Seq(1), metas), filters);
        Ok(Self { snapshot: Snapshot::of(db.read()?), run, _db: db })
    }

    /// What the filter says.
    #[must_use]
    pub fn maybe(&self, event: Hashed) -> bool {
        self.run.maybe(event.0)
    }

    /// What the run says, whatever its filter would.
    #[must_use]
    pub fn has(&self, event: Hashed) -> bool {
        let mut rows = Vec::new();
        self.run.find(&self.snapshot, event.0, &mut rows).is_ok() && !rows.is_empty()
    }
}

/// A database in memory that groups are applied to.
#[derive(Debug)]
pub struct Target(Db);

impl Target {
    /// An empty one.
    ///
    /// # Errors
    /// None that memory has.
    pub fn new() -> Result<Self, Error> {
        database().map(Self)
    }

    /// Applies a group with one counter a claim, `counters` of them in turn, as one commit.
    ///
    /// # Errors
    /// None that memory has.
    pub fn apply(&self, seq: u64, group: &Group, counters: u64) -> Result<(), Error> {
        let mut batch = Batch::default();
        for (n, chunk) in (0..).zip(group.encode()) {
            batch.put(TableId::Recent, &packed::chunk_key(Seq(seq), n), &chunk);
        }
        let state = TableId::Keyspace(KeyspaceId(1));
        for claim in &group.0.claims {
            let counter = (claim.hash.0 as u64) % counters.max(1);
            batch.put(state, &counter.to_be_bytes(), &seq.to_le_bytes());
        }
        batch.commit(&self.0)
    }
}

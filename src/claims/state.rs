//! What is known of durable claims: the recent table, the runs, the catalogue, the tombstones.
//!
//! Owns the image that look-ups read. What must hold:
//! L1. Everything here is durable: a group's claims enter only once its commit is. L2. A reader takes
//!     the recent table, the runs and the snapshot under one lock, so that a claim on its way from the
//!     one to the other is never missed. L3. A tombstone hides rows that stand before it, until no
//!     stored row does.

use std::collections::{BTreeMap, HashMap};

use super::catalogue::{Catalogue, Change};
use super::packed::{self, PackedRow};
use super::recent::Recent;
use super::row::{ClaimRow, RowKind};
use super::run::Run;
use crate::base::codec::{Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::hash::IdHashMap;
use crate::base::ids::{ClassId, EventMs, IdHash, Place, Position, Scope, Seq};
use crate::base::sync::Arc;
use crate::storage::batch::Batch;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// The live runs of each class, newest first.
pub(crate) type RunSet = BTreeMap<ClassId, Vec<Arc<Run>>>;
/// Where each forgotten id was forgotten.
pub(crate) type Tombstones = IdHashMap<Position>;

/// Where a stored row stands, as far as it is still known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    At(Position),
    /// In a run whose last group this is.
    InRunThrough(Seq),
}

impl Standing {
    /// Whether a tombstone at `position` hides a row that stands here.
    pub(crate) fn is_before(self, position: Position) -> bool {
        match self {
            Self::At(own) => own < position,
            Self::InRunThrough(last) => last < position.0,
        }
    }
}

/// A stored row and its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) row: ClaimRow,
    pub(crate) class: ClassId,
}

/// The durable claims.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) recent: Recent,
    pub(crate) runs: Arc<RunSet>,
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) catalogue: Catalogue,
}

impl State {
    /// Reads the state from a snapshot that is durable.
    pub(crate) fn load(snapshot: Arc<Snapshot>, recent_max_claims: usize) -> Result<Self, Error> {
        let catalogue = Catalogue::load(&snapshot)?;
        let recent = load_recent(&snapshot, catalogue.watermark, recent_max_claims)?;
        let tombstones = Arc::new(load_tombstones(&snapshot)?);
        let mut state = Self { recent, runs: Arc::default(), tombstones, snapshot, catalogue };
        state.refresh_runs();
        Ok(state)
    }

    /// Rebuilds the set of runs from the catalogue, keeping the filters of those that stay.
    pub(crate) fn refresh_runs(&mut self) {
        let known: HashMap<_, _> =
            self.runs.values().flatten().map(|run| (run.meta().name(), run.clone())).collect();
        let mut runs = RunSet::new();
        for bucket in self.catalogue.buckets.values() {
            let of_class = runs.entry(bucket.class).or_default();
            for meta in &bucket.runs {
                let run = known.get(&meta.name()).cloned();
                of_class.push(run.unwrap_or_else(|| Arc::new(Run::open(meta.clone()))));
            }
        }
        for of_class in runs.values_mut() {
            of_class.sort_by_key(|run| std::cmp::Reverse(run.meta().last));
        }
        self.runs = Arc::new(runs);
    }

    /// Carries a durable change of the catalogue into the image.
    pub(crate) fn accept(&mut self, change: &Change) {
        self.catalogue.accept(change);
        if !(change.buckets.is_empty() && change.buckets_gone.is_empty()) {
            self.refresh_runs();
        }
    }

    /// Puts runs just built, with their filters, in place of those that the catalogue named.
    pub(crate) fn adopt_built(&mut self, built: &[Arc<Run>]) {
        let mut runs = (*self.runs).clone();
        for slot in runs.values_mut().flatten() {
            let same = built.iter().find(|run| run.meta().name() == slot.meta().name());
            if let Some(run) = same {
                *slot = run.clone();
            }
        }
        self.runs = Arc::new(runs);
    }

    /// The newest event time that the scope had accepted, as far as that is still known.
    pub(crate) fn newest_event_time(&self, scope: Scope) -> Option<EventMs> {
        let sealed = self.catalogue.buckets.values().filter_map(|b| b.owners.get(&scope));
        sealed
            .filter_map(|owner| owner.max_event_time)
            .chain(self.catalogue.floors.get(&scope).copied())
            .chain(self.recent.newest_event_time(scope))
            .max()
    }
}

/// Whether a tombstone hides a row: its own, or its primary's.
pub(crate) fn hidden_by(tombstones: &Tombstones, row: &ClaimRow, standing: Standing) -> bool {
    if tombstones.is_empty() {
        return false;
    }
    let own = tombstones.get(&row.hash);
    let primary = match row.kind {
        RowKind::Alias { primary } => tombstones.get(&primary),
        RowKind::Claim { .. } => None,
    };
    own.into_iter().chain(primary).any(|position| standing.is_before(*position))
}

fn load_recent(
    snapshot: &Snapshot,
    watermark: Seq,
    recent_max_claims: usize,
) -> Result<Recent, Error> {
    let mut recent = Recent::new(recent_max_claims);
    let mut packed_row = PackedRow::default();
    // All rows, those below the watermark that wait to be freed too: only then can one that is
    // missing be missed.
    for row in snapshot.whole(TableId::Recent)? {
        let (key, value) = row?;
        let damaged =
            |detail: &str| Error::corrupt(format!("recent row {}", key.escape_ascii()), detail);
        let (seq, _) = packed::read_chunk_key(&key).map_err(|m| damaged(m.0))?;
        if seq <= watermark {
            continue;
        }
        packed::decode_into(&value, &mut packed_row).map_err(|m| damaged(m.0))?;
        recent.insert_row(seq, &packed_row);
    }
    Ok(recent)
}

fn load_tombstones(snapshot: &Snapshot) -> Result<Tombstones, Error> {
    let mut tombstones = Tombstones::default();
    for row in snapshot.whole(TableId::Tombstones)? {
        let (key, value) = row?;
        let (hash, position) = decode_tombstone(&key, &value).ok_or_else(|| {
            Error::corrupt(format!("tombstone {}", key.escape_ascii()), "it does not decode")
        })?;
        tombstones.insert(hash, position);
    }
    Ok(tombstones)
}

/// Stores that all before `position` under `hash` was forgotten.
pub(crate) fn put_tombstone(batch: &mut Batch, hash: IdHash, position: Position) {
    let mut w = Writer::new();
    w.u64(position.0.0);
    w.u32(position.1.0);
    batch.put(TableId::Tombstones, &hash.0.to_be_bytes(), &w.seal());
}

pub(crate) fn remove_tombstone(batch: &mut Batch, hash: IdHash) {
    batch.remove(TableId::Tombstones, &hash.0.to_be_bytes());
}

pub(super) fn decode_tombstone(key: &[u8], value: &[u8]) -> Option<(IdHash, Position)> {
    let hash = IdHash(u128::from_be_bytes(key.try_into().ok()?));
    let mut r = Reader::new(unseal(value).ok()?);
    let position = (Seq(r.u64().ok()?), Place(r.u32().ok()?));
    r.finish().ok()?;
    Some((hash, position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::packed::tests::cpu_ns;
    use crate::claims::recent::tests::plain_row;
    use crate::storage::db::Db;
    use crate::storage::disk::{Disk, MemoryDisk};

    /// `cargo test --release measure_loading -- --ignored --nocapture`
    #[cfg(unix)]
    #[test]
    #[ignore = "a measurement"]
    fn measure_loading() {
        for (claims, group) in [(1_u64 << 20, 1_000), (1 << 19, 1_000), (1 << 19, 1)] {
            let db = Db::open(MemoryDisk::default().open("db", true).unwrap(), 64 << 20).unwrap();
            let txn = db.write(true).unwrap();
            for seq in 1..=claims / group {
                let row = plain_row(seq, group as usize);
                let chunks: Vec<_> = packed::encode_group(Seq(seq), &[row]).collect();
                let mut table = txn.table(&TableId::Recent.name()).unwrap();
                table.append(chunks.iter().map(|(k, v)| (&k[..], &v[..]))).unwrap();
            }
            txn.commit().unwrap();
            let snapshot = Snapshot::of(db.read().unwrap());
            for _ in 0..3 {
                let start = cpu_ns();
                let recent = load_recent(&snapshot, Seq(0), 1 << 20).unwrap();
                let ms = (cpu_ns() - start) as f64 / 1e6;
                println!("{} claims in groups of {group}: {ms:.1} ms", recent.len());
            }
        }
    }
}

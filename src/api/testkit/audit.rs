//! Looking behind the interface: where a store stands, and whether its indexes equal full scans.
//!
//! Owns no state. What must hold of a store: I8 every index equals a full scan; the limits on buckets
//! and runs; and, once it is swept and has committed, that no table is left which nothing names (I12).

use std::collections::BTreeMap;

use super::model::{Class, LiveBucket, LiveResults};
use crate::api::inbox::Inbox;
use crate::base::error::Error;
use crate::base::ids::ClassId;
use crate::base::limits::{BUCKETS_MAX, RUNS_MAX};
use crate::claims::catalogue::Catalogue;
use crate::claims::recent::rows_of;
use crate::claims::row::{ClaimRow, RowKind, StoredResult};
use crate::claims::state::{RunSet, State};
use crate::engine::{DEFAULT_CLASS, Mark};
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::{TableId, is_reclaimable};

/// Where a store stands, as far as its users cannot see.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Probe {
    /// The sequence of the last durable group.
    pub seq: u64,
    /// Store time of each retention class.
    pub times: BTreeMap<Class, u64>,
    /// The buckets of claims.
    pub buckets: Vec<LiveBucket>,
    /// The buckets of results.
    pub results: Vec<LiveResults>,
    /// The floor of each consumer that has one, in milliseconds since 1970.
    pub floors: BTreeMap<String, i64>,
    /// The newest event time of each consumer that is stored, or was and raised the floor.
    pub newest: BTreeMap<String, i64>,
    /// Runs of sealed claims.
    pub runs: usize,
    /// Ids forgotten by hand that still hide stored rows.
    pub tombstones: usize,
}

fn class_of(catalogue: &Catalogue, id: ClassId) -> Class {
    let retention_ms = catalogue.policy(id).retention_ms;
    if id == DEFAULT_CLASS { Class::Default(retention_ms) } else { Class::Own(retention_ms) }
}

impl Probe {
    /// Looks at an open store.
    ///
    /// # Errors
    /// A store that is closed or cannot recover; a damaged row.
    pub fn of(inbox: &Inbox) -> Result<Self, Error> {
        let engine = inbox.engine();
        let snapshot = engine.view()?.snapshot;
        let seq = Mark::load(&snapshot)?.seq.0;
        let catalogue = engine.state.read().catalogue.clone();
        let class = |id| class_of(&catalogue, id);
        let times = catalogue.classes.keys().map(|id| (class(*id), engine.now(*id).0)).collect();
        let buckets = catalogue.buckets.values().map(|b| LiveBucket {
            class: class(b.class),
            start_ms: b.start.0,
            end_ms: b.end.0,
        });
        let results = catalogue.results.values().map(|b| LiveResults {
            class: class(b.class),
            own_ms: b.retention_ms.filter(|_| b.own_retention),
            end_ms: b.end.0,
        });
        let consumers = engine.registry.read().consumers.clone();
        let floors = consumers.iter().filter_map(|(name, entry)| {
            Some((name.clone(), catalogue.floors.get(&entry.scope())?.0))
        });
        let state = engine.state.read();
        let newest = consumers.iter().filter_map(|(name, entry)| {
            Some((name.clone(), state.newest_event_time(entry.scope())?.0))
        });
        Ok(Self {
            seq,
            times,
            buckets: buckets.collect(),
            results: results.collect(),
            floors: floors.collect(),
            newest: newest.collect(),
            runs: state.runs.values().map(Vec::len).sum(),
            tombstones: state.tombstones.len(),
        })
    }
}

/// Compares everything the store keeps in memory with what its tables say. `settled` is after a
/// sweep that found nothing more to do, followed by a commit, with which its freeing is seen.
///
/// # Errors
/// The first difference, in words.
pub fn audit(inbox: &Inbox, settled: bool) -> Result<(), String> {
    let engine = inbox.engine();
    let say = |e: Error| format!("I8: the audit cannot read: {e}");
    let snapshot = engine.view().map_err(say)?.snapshot;
    let (runs, catalogue, recent_rows) = {
        let state = engine.state.read();
        let fresh = State::load(snapshot.clone(), 1 << 20).map_err(say)?;
        same_catalogue(&state.catalogue, &fresh.catalogue)?;
        if state.tombstones != fresh.tombstones {
            return Err("I8: tombstones differ from their table".to_owned());
        }
        (state.runs.clone(), state.catalogue.clone(), same_recent(&state, fresh)?)
    };
    let mut rows = recent_rows;
    for of_class in runs.values() {
        for run in of_class {
            rows.extend(same_run(&snapshot, run)?);
        }
    }
    for row in rows {
        if let RowKind::Claim { result: result @ StoredResult::Key { .. }, .. } = row.kind {
            engine.read_result(&snapshot, result).map_err(say)?;
        }
    }
    if !engine.leases_equal_their_table().map_err(say)? {
        return Err("I8: the leases differ from their table".to_owned());
    }
    same_limits(&runs, &catalogue)?;
    if settled { nothing_left(&snapshot, &runs, &catalogue) } else { Ok(()) }
}

fn same_catalogue(memory: &Catalogue, table: &Catalogue) -> Result<(), String> {
    let same = memory.classes == table.classes
        && memory.buckets == table.buckets
        && memory.results == table.results
        && memory.floors == table.floors
        && memory.watermark == table.watermark;
    if same { Ok(()) } else { Err(format!("I8: catalogue {memory:?} is stored as {table:?}")) }
}

/// Recent rows in memory against those of the table; returns the latter.
fn same_recent(state: &State, mut fresh: State) -> Result<Vec<ClaimRow>, String> {
    let (memory, table) = (&state.recent, &mut fresh.recent);
    if memory.len() != table.len() || memory.aggregates() != table.aggregates() {
        return Err(format!("I8: {} recent rows, {} stored", memory.len(), table.len()));
    }
    table.rotate();
    let mut rows = Vec::new();
    for hit in rows_of(&table.frozen_tables()) {
        let mut found = false;
        memory.find(hit.row.hash, &mut |other| found |= other == hit);
        if !found {
            return Err(format!("I8: recent row {hit:?} is not found"));
        }
        rows.push(hit.row);
    }
    Ok(rows)
}

/// A run's filter and index against its rows, which are returned.
fn same_run(snapshot: &Snapshot, run: &crate::claims::run::Run) -> Result<Vec<ClaimRow>, String> {
    let name = run.meta().name();
    let say = |e: Error| format!("I8: run {name:?}: {e}");
    let rows: Vec<ClaimRow> = run.scan(snapshot).collect::<Result<_, _>>().map_err(say)?;
    if rows.len() as u64 != run.meta().claims {
        return Err(format!("I8: run {name:?} has {} rows of {:?}", rows.len(), run.meta()));
    }
    for row in &rows {
        let mut found = Vec::new();
        run.find(snapshot, row.hash, &mut found).map_err(say)?;
        if !run.maybe(row.hash) || !found.contains(row) {
            return Err(format!("I8: run {name:?} does not find {row:?}"));
        }
    }
    Ok(rows)
}

fn same_limits(runs: &RunSet, catalogue: &Catalogue) -> Result<(), String> {
    for bucket in catalogue.buckets.values() {
        let stored: u64 = bucket.runs.iter().map(|meta| meta.claims).sum();
        let owned: u64 = bucket.owners.values().map(|o| o.claims + o.aliases).sum();
        if stored > owned {
            return Err(format!("I8: bucket {:?} holds more than its owners have", bucket.id));
        }
    }
    for (class, of_class) in runs {
        let buckets = catalogue.buckets.values().filter(|b| b.class == *class).count();
        if of_class.len() > RUNS_MAX {
            return Err(format!("class {class} has {} runs", of_class.len()));
        }
        // One more may be expired and wait for the next sweep, and one may have begun since.
        if buckets > BUCKETS_MAX + 2 {
            return Err(format!("class {class} has {buckets} buckets"));
        }
    }
    Ok(())
}

/// I12: every table that the catalogue must name is named.
fn nothing_left(snapshot: &Snapshot, runs: &RunSet, catalogue: &Catalogue) -> Result<(), String> {
    let live = runs.values().flatten().flat_map(|run| run.table_names().map(str::to_owned));
    let results = catalogue.results.keys().map(|id| TableId::Results(*id).name());
    let live: Vec<String> = live.chain(results).collect();
    for table in snapshot.table_names().map_err(|e| e.to_string())? {
        if is_reclaimable(&table) && !live.contains(&table) {
            return Err(format!("I12: table {table} is left, and nothing names it"));
        }
    }
    Ok(())
}

//! Runs in a database, against a plain ordered map.

mod damage;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::block::tests::any_row;
use super::*;
use crate::base::error::Error;
use crate::base::ids::{Epoch, Fingerprint, IdHash, RunId, Seq, StoreMs, WallMs};
use crate::base::sync::Arc;
use crate::claims::row::{ClaimRow, RowKind, StoredResult};
use crate::storage::db::Db;
use crate::storage::disk::{Disk, MemoryDisk};
use crate::storage::snapshot::Snapshot;

fn database() -> Db {
    Db::open(MemoryDisk::default().open("db", true).unwrap(), 8 << 20).unwrap()
}

fn snapshot(db: &Db) -> Snapshot {
    Snapshot::of(db.read().unwrap())
}

fn name(id: u64) -> RunName {
    RunName { epoch: Epoch(0xe0), id: RunId(id) }
}

/// Spreads a small number over the hash space, in no order.
fn spread(i: u64) -> IdHash {
    let half = |x: u64| u128::from(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    IdHash(half(i).wrapping_mul(0xc4ce_b9fe_1a85_ec53) << 64 | half(!i))
}

fn plain(i: u64) -> ClaimRow {
    ClaimRow {
        hash: spread(i),
        at: StoreMs(i),
        wall: WallMs(1_700_000_000_000 + i as i64),
        kind: RowKind::Claim { fingerprint: Some(Fingerprint(i)), result: StoredResult::None },
    }
}

/// Builds a run of these partitions' rows, one slice a transaction.
fn build_parts(db: &Db, id: u64, parts: &[Vec<ClaimRow>], slice_bytes: usize) -> Run {
    let (mut metas, mut filters) = (Vec::new(), Vec::new());
    for (index, rows) in (0..).zip(parts) {
        let part = PreparedPartition::new(name(id), index, parts.len() as u32, rows).unwrap();
        loop {
            let txn = db.write(false).unwrap();
            let progress = part.write_slice(&txn, slice_bytes).unwrap();
            txn.commit().unwrap();
            if progress == Progress::Finished {
                break;
            }
        }
        let (meta, filter) = part.finish();
        metas.push(meta);
        filters.push(filter);
    }
    Run::built(RunMeta::new(name(id), Seq(id), Seq(id), metas), filters)
}

fn build(db: &Db, id: u64, rows: &[ClaimRow], partitions: u32) -> Run {
    build_parts(db, id, &split_rows(rows, partitions), 20_000)
}

fn reopened(run: &Run) -> Run {
    Run::open(RunMeta::decode(&run.meta().encode()).unwrap())
}

fn find(run: &Run, snap: &Snapshot, hash: IdHash) -> Result<Vec<ClaimRow>, Error> {
    let mut out = Vec::new();
    run.find(snap, hash, &mut out)?;
    Ok(out)
}

/// The plain reference: a map from hash to rows.
fn reference<'a>(rows: impl IntoIterator<Item = &'a ClaimRow>) -> BTreeMap<IdHash, Vec<ClaimRow>> {
    let mut map = BTreeMap::<IdHash, Vec<ClaimRow>>::new();
    for row in rows {
        let same = map.entry(row.hash).or_default();
        if !same.contains(row) {
            same.push(*row);
            same.sort_by_key(|r| (r.kind, r.at, r.wall));
        }
    }
    map
}

fn assert_equals(run: &Run, snap: &Snapshot, map: &BTreeMap<IdHash, Vec<ClaimRow>>) {
    let scanned: Vec<_> = run.scan(snap).map(Result::unwrap).collect();
    let naive: Vec<_> = map.values().flatten().copied().collect();
    assert_eq!(scanned, naive);
    assert_eq!(run.meta().claims, naive.len() as u64);
    for (hash, rows) in map {
        assert!(run.maybe(*hash));
        assert_eq!(&find(run, snap, *hash).unwrap(), rows);
        for near in [hash.0.wrapping_sub(1), hash.0.wrapping_add(1)].map(IdHash) {
            let expected = map.get(&near).cloned().unwrap_or_default();
            assert_eq!(find(run, snap, near).unwrap(), expected);
        }
    }
    for edge in [0, u128::MAX, 1 << 127, (1 << 127) - 1].map(IdHash) {
        let expected = map.get(&edge).cloned().unwrap_or_default();
        assert_eq!(find(run, snap, edge).unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn runs_and_merges_equal_a_plain_map(
        spread_rows in prop::collection::vec(any_row(0..=u128::MAX), 0..500),
        dense_rows in prop::collection::vec(any_row(0..=60), 0..200),
        (p, q, out) in (1..6_u32, 1..6_u32, 1..6_u32),
        slice_bytes in 1..60_000_usize,
    ) {
        let db = database();
        let all: Vec<_> = spread_rows.iter().chain(&dense_rows).copied().collect();
        let overlapping = &all[all.len() / 3..];
        let a = build_parts(&db, 1, &split_rows(&all[..all.len() / 2], p), slice_bytes);
        let b = build_parts(&db, 2, &split_rows(overlapping, q), slice_bytes);
        let snap = snapshot(&db);
        assert_equals(&a, &snap, &reference(&all[..all.len() / 2]));
        assert_equals(&b, &snap, &reference(overlapping));

        let inputs = [Arc::new(a), Arc::new(b)];
        let dropped = |row: &ClaimRow, last: Seq| row.at.0.is_multiple_of(3) && last == Seq(1);
        let parts: Vec<_> = (0..out)
            .map(|i| merge_rows(&snap, &inputs, i, out, &dropped).unwrap())
            .collect();
        let merged = build_parts(&db, 3, &parts, slice_bytes);
        let kept = all[..all.len() / 2].iter().filter(|r| !dropped(r, Seq(1)));
        assert_equals(&reopened(&merged), &snapshot(&db), &reference(kept.chain(overlapping)));
    }
}

#[test]
fn u4_filters_load_one_by_one_and_equal_those_built() {
    let db = database();
    let rows: Vec<_> = (0..3000).map(plain).collect();
    let built = build(&db, 1, &rows, 4);
    let run = reopened(&built);
    let snap = snapshot(&db);
    let others = || (1_000_000..1_001_000).map(spread);
    assert!(others().all(|h| run.maybe(h)));
    for _ in 0..4 {
        assert!(run.load_next_filter(&snap).unwrap());
    }
    assert!(!run.load_next_filter(&snap).unwrap());
    assert_eq!(run.filter_memory_bytes(), built.filter_memory_bytes());
    assert!(others().all(|h| run.maybe(h) == built.maybe(h)));
    assert!(others().filter(|h| run.maybe(*h)).count() < 20);
    assert!(rows.iter().all(|r| run.maybe(r.hash)));
}

#[test]
fn p1_a_slice_whose_transaction_was_dropped_is_written_again() {
    let db = database();
    let mut rows = split_rows(&(0..2000).map(plain).collect::<Vec<_>>(), 1);
    let rows = rows.remove(0);
    let part = PreparedPartition::new(name(1), 0, 1, &rows).unwrap();
    let mut turn = 0;
    loop {
        let txn = db.write(false).unwrap();
        let progress = part.write_slice(&txn, 10_000).unwrap();
        turn += 1;
        if turn % 2 == 0 {
            txn.abort().unwrap();
            continue;
        }
        txn.commit().unwrap();
        if progress == Progress::Finished {
            break;
        }
    }
    assert!(turn > 5);
    let meta = RunMeta::new(name(1), Seq(1), Seq(1), vec![part.finish().0]);
    assert_equals(&Run::open(meta), &snapshot(&db), &reference(&rows));
}

#[test]
fn p3_rows_out_of_order_or_range_or_bound_are_refused() {
    let (a, b) = (plain(1), plain(2));
    let sorted = if a.hash < b.hash { [a, b] } else { [b, a] };
    let new = |part, of, rows: &[ClaimRow]| PreparedPartition::new(name(1), part, of, rows);
    assert!(new(0, 1, &sorted).is_ok());
    assert!(new(0, 1, &[sorted[1], sorted[0]]).unwrap_err().is_invalid());
    assert!(new(0, 1, &[a, a]).unwrap_err().is_invalid());
    assert!(new(0, 1 << 20, &sorted).unwrap_err().is_invalid());
    let many = |n: usize| vec![a; n];
    let bound = super::space::PARTITION_BOUND_CLAIMS;
    assert!(new(0, 1, &many(bound + 1)).unwrap_err().is_limit());
    assert!(new(0, 1, &many(bound)).unwrap_err().is_invalid()); // not the bound, but the order
}

#[test]
fn an_empty_partition_has_no_table_and_an_empty_run_none_at_all() {
    let db = database();
    let run = build(&db, 1, &[plain(1)], 3);
    assert_eq!(run.table_names().count(), 1);
    assert_eq!(db.read().unwrap().table_names().unwrap().len(), 1);
    let empty = build(&db, 2, &[], 2);
    assert_eq!(empty.table_names().count(), 0);
    assert!(!empty.maybe(spread(1)));
    assert_equals(&empty, &snapshot(&db), &BTreeMap::new());
}

#[test]
fn prefetch_reads_any_table_and_shrugs_at_none() {
    let db = database();
    let run = build(&db, 1, &(0..1000).map(plain).collect::<Vec<_>>(), 1);
    let snap = snapshot(&db);
    for table in run.table_names() {
        prefetch(&snap, table).unwrap();
        let txn = db.write(true).unwrap();
        assert!(txn.delete_table(table).unwrap());
        txn.commit().unwrap();
    }
    prefetch(&snapshot(&db), "run-gone").unwrap();
}

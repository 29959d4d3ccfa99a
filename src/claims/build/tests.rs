//! Sealing and merging as a whole: what is built, and that it is built of all there was.

use super::*;
use crate::base::ids::Place;
use crate::claims::recent::tests::plain_row;
use crate::claims::recent::{Recent, rows_of};
use crate::storage::db::Db;
use crate::storage::disk::{Disk, MemoryDisk};

fn database() -> Db {
    Db::open(MemoryDisk::default().open("db", true).unwrap(), 32 << 20).unwrap()
}

fn snapshot(db: &Db) -> Snapshot {
    Snapshot::of(db.read().unwrap())
}

/// Frozen tables of two buckets, the first with so many groups of 1000 and the second with one.
fn tables(groups: u64) -> Vec<Arc<Table>> {
    let mut recent = Recent::new(1 << 20);
    for seq in 1..=groups + 1 {
        let mut row = plain_row(seq, 1000);
        row.bucket = BucketId(1 + seq / (groups + 1));
        recent.insert_row(Seq(seq), &row);
    }
    recent.rotate();
    recent.frozen_tables()
}

fn seal(tables: &[Arc<Table>], through: u64) -> Build {
    let mut next = 0;
    let next_run = || {
        next += 1;
        RunId(next)
    };
    Build::seal(tables.to_vec(), Seq(through), Epoch(1), next_run)
}

/// Builds to the end; the runs, one for each output.
fn built(db: &Db, mut build: Build, tombstones: &Tombstones) -> Vec<Arc<Run>> {
    let mut bench = Workbench::default();
    while build.prepare(&snapshot(db), tombstones, &mut bench).unwrap() {
        let txn = db.write(false).unwrap();
        assert!(build.write(&txn, || true).unwrap());
        txn.commit().unwrap();
        build.written(&mut bench);
    }
    assert!(build.is_whole());
    let run = |output: Output| {
        let (metas, filters) = output.done.into_iter().unzip();
        let meta = RunMeta::new(output.name, output.first, output.last, metas);
        Arc::new(Run::built(meta, filters))
    };
    build.outputs.into_iter().map(run).collect()
}

fn rows(db: &Db, run: &Run) -> Vec<ClaimRow> {
    run.scan(&snapshot(db)).map(Result::unwrap).collect()
}

/// Two partitions in one bucket and one in the other; a merge of both runs, in two partitions again.
#[test]
fn bd4_a_seal_and_a_merge_hold_every_row_that_no_tombstone_hides() {
    let (db, tables) = (database(), tables(140));
    let mut naive: Vec<_> = rows_of(&tables).collect();
    naive.sort_by_key(|hit| hit.row.hash);
    let at = |n: usize| (naive[n].row.hash, naive[n].position);
    let (hidden, (kept, (seq, place))) = (at(5), at(77));
    let mut tombstones = Tombstones::default();
    tombstones.insert(hidden.0, (hidden.1.0, Place(hidden.1.1.0 + 1)));
    tombstones.insert(kept, (seq, place));
    let runs = built(&db, seal(&tables, 141), &tombstones);
    for (run, (bucket, partitions)) in runs.iter().zip([(1, 2), (2, 1)]) {
        let of_bucket = naive.iter().filter(|hit| hit.bucket == BucketId(bucket));
        let stored = of_bucket.map(|hit| hit.row).filter(|row| row.hash != hidden.0);
        assert!(rows(&db, run).into_iter().eq(stored));
        assert_eq!(run.meta().partitions.len(), partitions);
    }
    let (forgotten, mut later) = (naive[900].row.hash, Tombstones::default());
    later.insert(forgotten, (Seq(262), Place(0)));
    let name = RunName { epoch: Epoch(1), id: RunId(9) };
    let merged = built(&db, Build::merge(BucketId(1), runs, name), &later);
    let gone = [hidden.0, forgotten];
    let left = naive.iter().map(|hit| hit.row).filter(|row| !gone.contains(&row.hash));
    assert!(rows(&db, &merged[0]).into_iter().eq(left));
    assert!(naive.iter().all(|h| gone.contains(&h.row.hash) || merged[0].maybe(h.row.hash)));
}

/// A seal that found other rows than it had counted would publish a watermark above claims that no
/// run holds; it must fail, and not as a panic.
#[test]
fn bd4_a_partition_that_is_not_what_was_counted_is_an_error() {
    let (db, tables) = (database(), tables(3));
    for change in [-1, 1] {
        let mut build = seal(&tables, 4);
        let part = build.parts.front_mut().unwrap();
        let none = Tombstones::default();
        assert_eq!(part.rows, 3000);
        part.rows = part.rows.checked_add_signed(change).unwrap();
        let error = build.prepare(&snapshot(&db), &none, &mut Workbench::default()).unwrap_err();
        assert!(error.is_invalid(), "{error}");
        assert!(!build.is_whole());
    }
}

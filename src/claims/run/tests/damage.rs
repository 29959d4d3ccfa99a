//! Runs damaged in every way that matters: each is told, and never taken for absence.

use std::ops::Bound;

use super::super::block;
use super::super::name::owner_tag;
use super::super::page::{block_key, filter_key};
use super::*;

/// Rewrites a run's only table, record by record.
fn rewrite(db: &Db, run: &Run, change: impl Fn(usize, &mut Vec<u8>, &mut Vec<u8>) -> bool) {
    let table = run.table_names().next().unwrap();
    let snap = snapshot(db);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let rows = snap.table(table).unwrap().unwrap().range(all).unwrap();
    let mut records: Vec<_> =
        rows.map(|r| r.map(|(k, v)| (k.bytes().to_vec(), v.bytes().to_vec())).unwrap()).collect();
    let mut index = 0;
    records.retain_mut(|(key, value)| {
        index += 1;
        change(index - 1, key, value)
    });
    let txn = db.write(true).unwrap();
    txn.delete_table(table).unwrap();
    let mut out = txn.table(table).unwrap();
    for (key, value) in &records {
        out.insert(key, value).unwrap();
    }
    drop(out);
    txn.commit().unwrap();
}

/// Every hash is found as it was, or the look-up says that the store is damaged; the scan and the
/// merge say so too.
fn assert_damage_is_told(db: &Db, run: Run, rows: &[ClaimRow], expected: usize) {
    let snap = snapshot(db);
    let mut told = 0;
    for row in rows {
        match find(&run, &snap, row.hash) {
            Ok(found) => assert_eq!(found, [*row]),
            Err(e) => {
                assert!(e.is_corrupt());
                told += 1;
            }
        }
    }
    assert_eq!(told, expected);
    let scanned = run.scan(&snap).find_map(Result::err);
    assert!(scanned.is_some_and(|e| e.is_corrupt()));
    let merged = merged(&snap, &[Arc::new(run)], (0, 1), &|_, _| false);
    assert!(merged.unwrap_err().is_corrupt());
}

fn damaged_run(id: u64) -> (Db, Run, Vec<ClaimRow>, Vec<usize>) {
    let db = database();
    let rows = split_rows(&(0..1000).map(plain).collect::<Vec<_>>(), 1).remove(0);
    let run = build(&db, id, &rows, 1);
    let sizes: Vec<_> = block::cut(&rows).into_iter().map(|r| r.len()).collect();
    assert!(sizes.len() > 5);
    (db, run, rows, sizes)
}

/// What a branch page that leads left looks like from above: the block is not where it should be.
#[test]
fn u3_a_look_up_led_to_the_wrong_block_is_damage_and_never_absence() {
    for lost in [0, 1, 3] {
        let (db, run, rows, sizes) = damaged_run(1);
        rewrite(&db, &run, |index, _, _| index != lost);
        assert_damage_is_told(&db, run, &rows, sizes[lost]);
    }
    let (db, run, rows, sizes) = damaged_run(1);
    rewrite(&db, &run, |index, _, _| index + 1 != sizes.len());
    assert_damage_is_told(&db, run, &rows, sizes[sizes.len() - 1]);
}

#[test]
fn u3_a_block_under_a_wrong_key_is_damage() {
    let (db, run, rows, sizes) = damaged_run(1);
    let moved = rows[sizes[0]].hash.0 + 1;
    rewrite(&db, &run, |index, key, _| {
        if index == 1 {
            *key = block_key(IdHash(moved)).to_vec();
        }
        true
    });
    assert_damage_is_told(&db, run, &rows, sizes[1]);
}

#[test]
fn k1_a_flipped_bit_is_damage_to_its_block_alone() {
    let (db, run, rows, sizes) = damaged_run(1);
    rewrite(&db, &run, |index, _, value| {
        if index == 2 {
            value[1000] ^= 4;
        }
        true
    });
    assert_damage_is_told(&db, run, &rows, sizes[2]);
}

#[test]
fn n2_the_table_of_another_run_is_damage_even_with_the_same_hashes() {
    let (db, run, rows, _) = damaged_run(1);
    let other = build(&db, 2, &rows, 1);
    assert_ne!(
        owner_tag(run.table_names().next().unwrap()),
        owner_tag(other.table_names().next().unwrap())
    );
    let snap = snapshot(&db);
    let table = snap.table(other.table_names().next().unwrap()).unwrap().unwrap();
    let block = table.get(&block_key(rows[0].hash)).unwrap().unwrap().bytes().to_vec();
    rewrite(&db, &run, |index, _, value| {
        if index == 0 {
            *value = block.clone();
        }
        true
    });
    assert!(find(&run, &snapshot(&db), rows[0].hash).unwrap_err().is_corrupt());
}

#[test]
fn m2_a_missing_table_and_counts_that_do_not_add_up_are_damage() {
    let (db, run, rows, _) = damaged_run(1);
    let snap = snapshot(&db);
    let mut meta = run.meta().clone();
    meta.partitions[0].rows += 1;
    assert!(Run::open(meta).scan(&snap).any(|r| r.is_err_and(|e| e.is_corrupt())));
    let txn = db.write(true).unwrap();
    txn.delete_table(run.table_names().next().unwrap()).unwrap();
    txn.commit().unwrap();
    assert!(find(&run, &snapshot(&db), rows[0].hash).unwrap_err().is_corrupt());
}

#[test]
fn u4_a_damaged_filter_is_told_once_and_then_done_without() {
    for damage in [0, 1, 2] {
        let (db, run, rows, _) = damaged_run(1);
        rewrite(&db, &run, |_, key, value| {
            let chunk = key[..] == filter_key(0);
            match damage {
                0 if chunk => value[30] ^= 1,
                1 if chunk => value.truncate(40),
                2 => return !chunk,
                _ => {}
            }
            true
        });
        let run = reopened(&run);
        let snap = snapshot(&db);
        assert!(run.load_next_filter(&snap).unwrap_err().is_corrupt());
        assert!(!run.load_next_filter(&snap).unwrap());
        assert!(rows.iter().all(|r| run.maybe(r.hash)));
        assert_equals(&run, &snap, &reference(&rows));
    }
}

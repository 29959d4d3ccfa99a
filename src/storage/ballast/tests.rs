//! The ballast on a disk that is full at any write, and on one that fails.

mod crash;

use std::ops::Bound;

use super::*;
use crate::storage::db::Db;
use crate::storage::directory::{Directory, OpenMode};
use crate::storage::disk::RealDisk;
use crate::storage::disk::sim::{Call, Capacity, Fault, Loss, SimDisk};

/// Twice what a commit of these tests grows the file by, and not a whole number of pages.
const BYTES: u64 = (4 << 20) + 100;
const ROW_BYTES: usize = 20_000;

fn open(disk: &SimDisk, bytes: u64) -> Result<Directory, Error> {
    let random = Random::seeded(1);
    Directory::open(Arc::new(disk.clone()), OpenMode::CreateIfEmpty, &random, bytes)
}

fn row(n: u64) -> Vec<u8> {
    vec![n as u8; ROW_BYTES]
}

fn commit(db: &Db, n: u64) -> Result<(), Error> {
    let txn = db.write(true)?;
    txn.table("t")?.insert(&n.to_be_bytes(), &row(n))?;
    txn.commit()
}

/// How many rows there are; they must be the first ones, and whole.
fn rows(db: &Db) -> Result<u64, Error> {
    let mut count = 0_u64;
    if let Some(table) = db.read()?.table("t")? {
        for found in table.range((Bound::Unbounded, Bound::Unbounded))? {
            let (key, value) = found?;
            assert_eq!((key.bytes(), value.bytes()), (&count.to_be_bytes()[..], &row(count)[..]));
            count += 1;
        }
    }
    Ok(count)
}

/// Every byte of a whole ballast.
fn whole(bytes: u64) -> Vec<u8> {
    let last = (bytes - 1) / PAGE_BYTES * PAGE_BYTES;
    let chunks = (0..last).step_by(CHUNK_BYTES as usize);
    let mut out: Vec<u8> =
        chunks.flat_map(|at| noise(bytes, at, CHUNK_BYTES.min(last - at))).collect();
    out.extend(noise(bytes, last, bytes - last));
    out
}

fn contents(disk: &SimDisk) -> Option<Vec<u8>> {
    disk.contents(BALLAST)
}

/// The length of all files together.
fn used(disk: &SimDisk) -> u64 {
    let names = disk.list().unwrap();
    names.iter().map(|name| disk.contents(name).unwrap().len() as u64).sum()
}

/// The calls a workload made, by kind and file.
fn traced(disk: &SimDisk, call: Call, name: &str) -> Vec<u64> {
    let trace = disk.trace().into_iter();
    trace.filter(|t| t.call == call && &*t.name == name).map(|t| t.len).collect()
}

#[test]
fn ba1_ba3_a_full_disk_costs_the_ballast_and_no_commit() -> Result<(), Error> {
    for limit in [Capacity::Lengths, Capacity::Written] {
        let disk = SimDisk::new();
        let directory = open(&disk, BYTES)?;
        let db = directory.open_db(1 << 20)?;
        commit(&db, 0)?;
        assert_eq!(contents(&disk), Some(whole(BYTES)));
        disk.set_capacity(limit(used(&disk)));
        let mut n = 0;
        while !directory.ballast().is_missing() {
            n += 1;
            commit(&db, n)?;
            assert!(n < 1_000, "the disk never fills up");
        }
        assert_eq!(contents(&disk).map(|c| c.len()), Some(0));
        assert!(!db.has_failed());
        commit(&db, n + 1)?; // the space outlasts the commit that met the full disk
        db.close();
        assert_eq!(rows(&directory.open_db(1 << 20)?)?, n + 2);
    }
    Ok(())
}

#[test]
fn ba3_one_full_call_of_each_kind() -> Result<(), Error> {
    for call in [Call::Write, Call::SetLen] {
        let disk = SimDisk::new();
        let directory = open(&disk, BYTES)?;
        let db = directory.open_db(1 << 20)?;
        disk.record(true);
        disk.inject(Fault::full(1, &[call]));
        let mut n = 0;
        while !directory.ballast().is_missing() {
            commit(&db, n)?;
            n += 1;
        }
        let tries = traced(&disk, call, "txinbox.redb");
        assert!(tries.windows(2).any(|two| two[0] == two[1]), "{call:?} was not tried again");
        assert_eq!(traced(&disk, Call::SetLen, BALLAST), [0]);
        assert_eq!(rows(&db)?, n);
        assert!(!db.has_failed());
    }
    Ok(())
}

#[test]
fn ba3_too_little_ballast_leaves_the_error_as_it_is() -> Result<(), Error> {
    for (bytes, limit) in [(8 << 10, Capacity::Lengths as fn(u64) -> _), (1, Capacity::Written)] {
        let disk = SimDisk::new();
        let directory = open(&disk, bytes)?;
        let db = directory.open_db(1 << 20)?;
        commit(&db, 0)?;
        disk.set_capacity(limit(used(&disk)));
        let (error, n) = (1..).find_map(|n| Some((commit(&db, n).err()?, n))).unwrap();
        assert!(error.is_full(), "{error}");
        assert!(directory.ballast().is_missing() && db.has_failed());
        drop(db);
        assert_eq!(rows(&directory.open_db(1 << 20)?)?, n);
    }
    Ok(())
}

#[test]
fn ba3_a_failing_sync_leaves_the_ballast_alone() -> Result<(), Error> {
    for fault in [
        Fault::full(1, &[Call::Sync]),
        Fault::error(1, &[Call::Sync]),
        Fault::lost_sync(1, Loss::All),
        Fault::error(1, &[Call::Write, Call::SetLen]),
        Fault::short_write(1, 100),
    ] {
        let disk = SimDisk::new();
        let directory = open(&disk, BYTES)?;
        let db = directory.open_db(1 << 20)?;
        disk.inject(fault.clone());
        assert!(commit(&db, 0).is_err(), "{fault:?}");
        assert!(!directory.ballast().is_missing(), "{fault:?}");
        assert_eq!(contents(&disk), Some(whole(BYTES)), "{fault:?}");
    }
    Ok(())
}

#[test]
fn ba4_it_is_laid_again_once_there_is_room_and_not_before() -> Result<(), Error> {
    for limit in [Capacity::Lengths, Capacity::Written] {
        let disk = SimDisk::new();
        let ballast = Ballast::open(Arc::new(disk.clone()), BYTES)?;
        ballast.release();
        ballast.release();
        assert!(ballast.is_missing());
        for room in [0, 100, PAGE_BYTES, BYTES / 2, BYTES - 1] {
            disk.set_capacity(limit(room));
            assert!(!ballast.lay()?, "with room for {room}");
            assert!(ballast.is_missing());
            assert_eq!(contents(&disk), Some(Vec::new()));
        }
        disk.set_capacity(limit(BYTES.next_multiple_of(PAGE_BYTES)));
        assert!(ballast.lay()? && ballast.lay()?);
        assert!(!ballast.is_missing());
        assert_eq!(contents(&disk), Some(whole(BYTES)));
    }
    Ok(())
}

#[test]
fn ba4_a_sync_that_finds_the_disk_full_or_fails_leaves_none() -> Result<(), Error> {
    let disk = SimDisk::new();
    let directory = open(&disk, BYTES)?;
    let ballast = directory.ballast();
    ballast.release();
    disk.inject(Fault::full(1, &[Call::Sync]));
    assert!(!ballast.lay()?);
    disk.inject(Fault::error(1, &[Call::Sync]));
    assert!(ballast.lay().unwrap_err().is_io());
    assert!(ballast.is_missing());
    assert_eq!(contents(&disk), Some(Vec::new()));
    assert!(ballast.lay()?);
    // Given up for good even if the cut fails: who needed the space meets the full disk again.
    disk.inject(Fault::error(1, &[Call::SetLen]));
    ballast.release();
    assert!(ballast.is_missing());
    assert!(ballast.lay()?, "what is still there is whole");
    Ok(())
}

#[test]
fn a_store_is_made_and_opened_without_room_for_its_ballast() -> Result<(), Error> {
    let disk = SimDisk::new();
    drop(open(&disk, 0)?.open_db(1 << 20)?);
    assert_eq!(contents(&disk), None);
    let bare = used(&disk);
    for bytes in [0, BYTES] {
        let disk = SimDisk::new();
        disk.set_capacity(Capacity::Lengths(bare + (1 << 20)));
        let directory = open(&disk, bytes)?;
        assert_eq!(directory.ballast().is_missing(), bytes > 0);
        let db = directory.open_db(1 << 20)?;
        commit(&db, 0)?;
        disk.set_capacity(Capacity::Unlimited);
        assert!(directory.ballast().lay()?);
        assert_eq!(contents(&disk).map(|c| c.len() as u64), (bytes > 0).then_some(bytes));
    }
    // Not even the name can be made.
    let disk = SimDisk::new();
    drop(open(&disk, 0)?);
    disk.reset_calls();
    drop(open(&disk, 0)?);
    let removing = disk.calls(); // the opening's last call; the next one's makes the file instead
    disk.inject(Fault::full(2 * removing, &[Call::Open]));
    assert!(open(&disk, BYTES)?.ballast().is_missing());
    Ok(())
}

#[test]
fn its_size_follows_the_setting() -> Result<(), Error> {
    let disk = SimDisk::new();
    for bytes in [BYTES, 1, PAGE_BYTES, PAGE_BYTES + 1, 3 << 20, 1 << 20, BYTES] {
        let directory = open(&disk, bytes)?;
        assert!(!directory.ballast().is_missing());
        assert_eq!(contents(&disk), Some(whole(bytes)), "{bytes}");
    }
    drop(open(&disk, 0)?);
    assert_eq!(contents(&disk), None);
    Ok(())
}

#[test]
fn ba2_half_of_it_is_completed_and_a_whole_one_not_written_again() -> Result<(), Error> {
    let disk = SimDisk::new();
    drop(open(&disk, BYTES)?);
    disk.record(true);
    drop(open(&disk, BYTES)?);
    assert!(traced(&disk, Call::Write, BALLAST).is_empty());
    for damage in [0, 1, BYTES / 2, BYTES - 1] {
        disk.truncate(BALLAST, damage).unwrap();
        drop(open(&disk, BYTES)?);
        assert_eq!(contents(&disk), Some(whole(BYTES)));
    }
    disk.truncate(BALLAST, BYTES - 1).unwrap();
    disk.overwrite(BALLAST, BYTES - 1, &[0]).unwrap();
    disk.overwrite(BALLAST, 0, &[0; 9000]).unwrap(); // the length alone, as a crash can leave it
    drop(open(&disk, BYTES)?);
    assert_eq!(contents(&disk), Some(whole(BYTES)));
    Ok(())
}

#[test]
fn ba5_nothing_touches_it_once_the_directory_is_let_go() -> Result<(), Error> {
    let disk = SimDisk::new();
    let (first, second) = (open(&disk, BYTES)?, open(&disk, BYTES));
    assert!(second.unwrap_err().is_locked());
    first.release();
    let second = open(&disk, BYTES)?;
    first.ballast().release();
    assert!(!first.ballast().lay()?);
    assert!(!second.ballast().is_missing());
    assert_eq!(contents(&disk), Some(whole(BYTES)));
    Ok(())
}

#[test]
fn alone_in_a_directory_it_is_an_unfinished_creation() -> Result<(), Error> {
    let disk = SimDisk::new();
    disk.open(BALLAST, true).unwrap().write_at(0, &[7; 100]).unwrap();
    let directory = open(&disk, BYTES)?;
    assert_eq!(rows(&directory.open_db(1 << 20)?)?, 0);
    assert_eq!(contents(&disk), Some(whole(BYTES)));
    Ok(())
}

#[cfg(unix)]
#[test]
fn ba1_a_real_one_takes_blocks_and_gives_them_back() -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let ballast = Ballast::open(Arc::new(RealDisk::new(dir.path())), BYTES)?;
    let taken = || std::fs::metadata(dir.path().join(BALLAST)).unwrap().blocks() * 512;
    assert!(!ballast.is_missing());
    assert!(taken() >= BYTES);
    ballast.release();
    assert_eq!(taken(), 0);
    assert!(ballast.lay()?);
    assert!(taken() >= BYTES);
    Ok(())
}

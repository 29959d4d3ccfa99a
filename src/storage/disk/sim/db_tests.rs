//! The database over the simulated disk: no power cut at any call may lose or mix commits.
//!
//! An image shows the last acknowledged commit or the one that was being committed, and always
//! opens. A debug build tries a sample, a release build far more.

use std::cell::Cell;

use super::script::{Book, commit, judge, open, read_back, run, scaled, whole};
use super::{Call, Fault, Keep, Loss, PowerLoss, Report, SimDisk};
use crate::storage::db::Db;
use crate::storage::disk::Disk;

/// Runs the script under the driver; every `go_on`-th image is used further.
fn drive(driver: &PowerLoss, commits: u64, go_on: u64) -> Report {
    let book = Cell::new(Book::default());
    let images = Cell::new(0_u64);
    let report = driver.run(
        |disk| {
            let mut pages = Book::default();
            let _ = run(disk, commits, &mut pages);
            book.set(pages);
        },
        |image, _| {
            images.set(images.get() + 1);
            if !images.get().is_multiple_of(go_on) {
                return judge(read_back(image)?, book.get());
            }
            judge(read_back(&image.kill())?, book.get())?;
            one_more(image)
        },
    );
    report.unwrap()
}

/// Opens an image, commits once more, and cuts the power again.
fn one_more(image: &SimDisk) -> Result<(), String> {
    let db = open(image).map_err(|e| e.to_string())?;
    let next = whole(&db)? + 1;
    commit(&db, next, true, &mut Book::default()).map_err(|e| e.to_string())?;
    match read_back(&image.power_cut(Keep::Nothing))? {
        Some(found) if found == next => Ok(()),
        other => Err(format!("committed {next}, found {other:?}")),
    }
}

#[test]
fn a_power_cut_at_any_call_shows_the_last_acknowledged_commit_or_the_next() {
    let driver = PowerLoss::new("two-phase commits").budget(scaled(4, 64), scaled(1, 4));
    let report = drive(&driver, scaled(8, 30), 8);
    eprintln!("{report:?}");
    assert!(report.ordinals > scaled(50, 300) && report.images > scaled(200, 15_000));
}

/// redb writes its magic number last, and refuses a file that has bytes but not that. So a store is
/// made under another name, and anything found under that name is thrown away.
#[test]
fn a_database_made_under_its_own_name_can_be_left_unopenable() {
    let make = |disk: &SimDisk| {
        let file = disk.open("db", true);
        let _ = disk.sync_dir();
        let _ = file.map(|file| Db::open(file, 1 << 20));
    };
    let result = PowerLoss::new("making").run(make, |image, _| read_back(image).map(drop));
    assert!(result.unwrap_err().reason.contains("magic number"));
}

/// The disk after a crash at that call of the script, and what the script was told.
fn crashed_at(ordinal: u64, commits: u64) -> (SimDisk, Book) {
    let disk = SimDisk::new();
    disk.inject(Fault::crash(ordinal));
    let mut book = Book::default();
    let _ = run(&disk, commits, &mut book);
    (disk, book)
}

/// The ordinals of the script's calls that change the disk.
fn changing_calls(commits: u64) -> Vec<u64> {
    let disk = SimDisk::new();
    disk.record(true);
    run(&disk, commits, &mut Book::default()).unwrap();
    let changing = disk.trace().into_iter().filter(|t| t.call.changes());
    changing.map(|t| t.ordinal).collect()
}

#[test]
fn what_is_shown_after_a_kill_survives_a_power_cut() {
    let commits = scaled(8, 30);
    for ordinal in changing_calls(commits).into_iter().step_by(scaled(2, 1)) {
        let (disk, book) = crashed_at(ordinal, commits);
        let disk = disk.kill();
        let db = open(&disk).unwrap();
        let shown = whole(&db).unwrap();
        if book.made {
            judge(Some(shown), book).unwrap();
        }
        for keep in [Keep::Nothing, Keep::Subset(ordinal)] {
            let left = read_back(&disk.power_cut(keep)).unwrap();
            assert_eq!(left, Some(shown), "ordinal {ordinal}, {keep}");
        }
    }
}

#[test]
fn a_power_cut_during_recovery_is_recovered_from() {
    let commits = 8;
    let ordinals = changing_calls(commits);
    let late = ordinals.into_iter().rev().step_by(scaled(11, 2));
    for ordinal in late.take(scaled(4, 40)) {
        let (disk, book) = crashed_at(ordinal, commits);
        for keep in [Keep::Subset(ordinal), Keep::Sectors(ordinal)] {
            let image = disk.power_cut(keep);
            let driver = PowerLoss::new(format!("recovery of {ordinal} {keep}"))
                .start(&image)
                .budget(scaled(3, 24), 1);
            let recover = |disk: &SimDisk| drop(open(disk));
            let report = driver.run(recover, |image, _| judge(read_back(image)?, book));
            assert!(report.unwrap().images > 5);
        }
    }
}

#[test]
fn an_error_at_any_call_is_returned_and_what_was_acknowledged_stays() {
    let commits = scaled(5, 16);
    let kinds = [Call::Read, Call::Write, Call::SetLen, Call::Len];
    let rename = [Call::Rename, Call::SyncDir, Call::Open];
    let clean = SimDisk::new();
    run(&clean, commits, &mut Book::default()).unwrap();
    for ordinal in (1..=clean.calls()).step_by(scaled(5, 1)) {
        for fault in [
            Fault::error(ordinal, &kinds),
            Fault::error(ordinal, &kinds).lasting(),
            Fault::error(ordinal, &rename),
            Fault::full(ordinal, &[Call::Write, Call::SetLen]),
            Fault::short_read(ordinal, 100),
            Fault::short_write(ordinal, 100),
            Fault::lost_sync(ordinal, Loss::Part(ordinal)).lasting(),
        ] {
            let disk = SimDisk::new();
            disk.inject(fault.clone());
            let mut book = Book::default();
            let _ = run(&disk, commits, &mut book);
            for after in [disk.kill(), disk.power_cut(Keep::Subset(ordinal))] {
                let found = read_back(&after);
                let judged = found.and_then(|found| judge(found, book));
                assert_eq!(judged, Ok(()), "{fault:?}");
            }
        }
    }
}

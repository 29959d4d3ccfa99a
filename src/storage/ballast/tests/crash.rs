//! A full disk met and left behind, with the power cut, or an error, at every call of it.

use std::cell::Cell;

use super::*;
use crate::storage::disk::sim::{Keep, PowerLoss};

/// Small enough for hundreds of images, and more than one chunk.
const SMALL: u64 = CHUNK_BYTES + 3 * PAGE_BYTES + 5;

/// Opens a store, commits, meets a full disk, lays the ballast again, commits. `known` counts the rows
/// that were reported as durable, and `met` whether the ballast was given up and laid again.
fn full_and_back(disk: &SimDisk, known: &Cell<u64>, met: &Cell<bool>) -> Result<(), Error> {
    let directory = open(disk, SMALL)?;
    let db = directory.open_db(1 << 20)?;
    for n in rows(&db)?..known.get() + 3 {
        if n % 3 == 1 {
            disk.inject(Fault::full(disk.calls() + 1, &[Call::Write, Call::SetLen]));
        }
        commit(&db, n)?;
        known.set(n + 1);
        if n % 3 == 1 {
            met.set(directory.ballast().is_missing() && directory.ballast().lay()?);
        }
    }
    Ok(())
}

/// The store opens with all its rows, with a whole ballast, or none where there is no room.
fn judge(image: &SimDisk, known: u64) -> Result<(), String> {
    let say = |e: Error| e.to_string();
    for room in [None, Some(0), Some(SMALL / 2)] {
        let image = image.power_cut(Keep::Everything);
        let found = contents(&image);
        if let Some(room) = room {
            image.set_capacity(Capacity::Lengths(used(&image) + room));
        }
        let directory = open(&image, SMALL).map_err(say)?;
        let now = contents(&image).unwrap_or_default();
        if directory.ballast().is_missing() {
            if room.is_none() || !now.is_empty() {
                return Err(format!("missing, {} bytes, room {room:?}", now.len()));
            }
        } else if now != whole(SMALL) {
            let before = found.map(|f| f.len());
            return Err(format!(
                "called whole, but is not; room {room:?}, {before:?} bytes before"
            ));
        }
        // Opening may need the rows' head-room, which a judge of the ballast is to grant.
        image.set_capacity(Capacity::Unlimited);
        let rows = directory.open_db(1 << 20).and_then(|db| rows(&db)).map_err(say)?;
        if rows != known && rows != known + 1 {
            return Err(format!("{rows} rows, {known} known"));
        }
    }
    Ok(())
}

#[test]
fn ba2_a_power_cut_at_any_call_leaves_it_whole_or_missing() {
    let budget = if cfg!(debug_assertions) { 10 } else { 64 };
    let start = SimDisk::new();
    drop(open(&start, 0).unwrap());
    for begin in [None, Some(0), Some(SMALL), Some(2 * SMALL)] {
        if let Some(bytes) = begin {
            drop(open(&start, bytes).unwrap());
        }
        let disk = start.power_cut(Keep::Everything);
        let (known, met) = (Cell::new(0), Cell::new(false));
        let driver = PowerLoss::new(format!("a full disk after {begin:?}")).start(&disk);
        let report = driver.budget(budget, 2).run(
            |disk| {
                known.set(0);
                let done = full_and_back(disk, &known, &met);
                assert!(done.is_err() || met.get(), "the disk was never full");
            },
            |image, _| judge(image, known.get()),
        );
        let report = report.unwrap();
        assert!(report.ordinals > 20 && report.images > 200, "{report:?}");
    }
}

#[test]
fn an_error_at_any_call_leaves_it_whole_or_missing() {
    let start = SimDisk::new();
    drop(open(&start, SMALL).unwrap());
    let (known, met) = (Cell::new(0), Cell::new(false));
    let clean = start.kill();
    full_and_back(&clean, &known, &met).unwrap();
    for ordinal in (1..=clean.calls()).step_by(if cfg!(debug_assertions) { 3 } else { 1 }) {
        for fault in [
            Fault::error(ordinal, &[Call::Write, Call::SetLen, Call::Len, Call::Open]),
            Fault::full(ordinal, &[Call::Write, Call::SetLen]).lasting(),
            Fault::full(ordinal, &[Call::Sync]),
            Fault::short_write(ordinal, 100),
            Fault::lost_sync(ordinal, Loss::All),
            Fault::lost_sync(ordinal, Loss::Part(ordinal)).lasting(),
        ] {
            let disk = start.kill();
            disk.inject(fault.clone());
            known.set(0);
            let _ = full_and_back(&disk, &known, &met);
            for image in [disk.kill(), disk.power_cut(Keep::Nothing), disk.power_cut(Keep::Lengths)]
            {
                let judged = judge(&image, known.get());
                assert_eq!(judged, Ok(()), "{fault:?}");
            }
        }
    }
}

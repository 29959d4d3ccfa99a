//! The power fails at every write, resize and sync of scripted workloads.
//!
//! Each image must open without an operator, show what was answered (or that and the call that was
//! not), pass the audit, and then take the whole trace again: exactly once. A failure prints the line
//! that replays it. A debug build tries a sample of the images; set `TXINBOX_IMAGES` for more a call.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test fails as the test does

mod scripts;

use std::cell::RefCell;

use txinbox::testkit::{Fault, Keep, Op, PowerLoss, Report, Runner, SimDisk};

const SEED: u64 = 7;

/// The first in a debug build, and the second in a release build.
fn scaled<T>(debug: T, release: T) -> T {
    if cfg!(debug_assertions) { debug } else { release }
}

fn images_a_call(release: usize) -> usize {
    let asked = std::env::var("TXINBOX_IMAGES").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(scaled(3, release))
}

fn until_dark(disk: &SimDisk, ops: &[Op]) -> Runner {
    let mut runner = Runner::unopened(disk.clone(), SEED).unwrap();
    runner.steps_until_dark(ops).unwrap();
    runner
}

/// Cuts the power everywhere in a workload and examines every image.
fn drive(name: &str, ops: &[Op], images: usize, stride: u64) -> Report {
    let machine = RefCell::new(None);
    let driver =
        PowerLoss::new(name).seed(SEED).budget(images_a_call(images), scaled(1, 6)).stride(stride);
    let report = driver.run(
        |disk| *machine.borrow_mut() = Some(until_dark(disk, ops)),
        |image, _| match &*machine.borrow() {
            Some(runner) => runner.examine(image).map(drop),
            None => Err("no workload has run".to_owned()),
        },
    );
    let report = report.unwrap();
    println!("{name}: {report:?}");
    report
}

/// Runs a workload to its end without a cut, so that a script that does nothing is found out.
fn covers(ops: &[Op], wanted: &[&str]) {
    let mut runner = Runner::new(SEED).unwrap();
    runner.steps(ops).unwrap();
    assert_eq!(runner.coverage().missing(wanted), [""; 0], "{:?}", runner.coverage());
}

#[test]
fn while_events_are_processed_singly_and_in_batches() {
    let ops = scripts::mixed();
    covers(
        &ops,
        &[
            "applied",
            "duplicate",
            "mismatch",
            "refused",
            "skipped",
            "failed",
            "duplicate with a result",
        ],
    );
    let report = drive("mixed", &ops, 30, scaled(3, 1));
    assert!(report.images >= scaled(150, 7_500), "{report:?}");
}

#[test]
fn while_claims_are_sealed_merged_and_forgotten() {
    let ops = scripts::ageing();
    covers(
        &ops,
        &["claims sealed", "claims merged", "buckets forgotten", "tables freed", "too late"],
    );
    let report = drive("ageing", &ops, 16, scaled(20, 1));
    assert!(report.images >= scaled(60, 6_000), "{report:?}");
}

#[test]
fn while_aliases_results_and_forgetting_are_at_work() {
    let ops = scripts::aliases();
    covers(&ops, &["applied", "forgot", "duplicate with a result", "result expired"]);
    let report = drive("aliases", &ops, 30, scaled(4, 1));
    assert!(report.images >= scaled(100, 9_000), "{report:?}");
}

#[test]
fn while_a_store_is_made_and_opened_for_the_first_time() {
    let report = drive("making", &[], 60, scaled(1, 1));
    assert!(report.images >= scaled(100, 4_000), "{report:?}");
}

#[test]
fn after_failing_io_that_the_store_healed_from() {
    let ops = scripts::troubled();
    covers(&ops, &["failed by trouble", "healed"]);
    let report = drive("troubled", &ops, 30, scaled(5, 1));
    assert!(report.images >= scaled(100, 3_500), "{report:?}");
}

/// A process killed at any call, and the power cut while the next one is at work.
#[test]
fn after_a_kill_at_any_call() {
    let mut images = 0;
    let ops = scripts::short();
    let calls = until_dark(&SimDisk::new(), &ops).disk().calls();
    for ordinal in (1..=calls).step_by(scaled(31, 9)) {
        let disk = SimDisk::new();
        disk.inject(Fault::crash(ordinal));
        let runner = until_dark(&disk, &ops);
        let killed = disk.kill();
        let machine = RefCell::new(None);
        let driver = PowerLoss::new(format!("recovery after a kill at {ordinal}"))
            .start(&killed)
            .seed(ordinal)
            .budget(scaled(2, 4), 1)
            .stride(scaled(5, 1));
        let report = driver.run(
            |disk| {
                let mut next = runner.fork(disk.clone());
                next.steps_until_dark(&scripts::after()).unwrap();
                *machine.borrow_mut() = Some(next);
            },
            |image, _| match &*machine.borrow() {
                Some(next) => next.examine(image).map(drop),
                None => Err("no workload has run".to_owned()),
            },
        );
        images += report.unwrap().images;
    }
    println!("kill, then power cut: {images} images");
    assert!(images >= scaled(50, 9_000), "{images}");
}

/// The power goes during the recovery of an image, and again during that of what this leaves.
#[test]
fn twice_during_recovery() {
    let mut images = 0;
    let ops = scripts::short();
    let calls = until_dark(&SimDisk::new(), &ops).disk().calls();
    for (n, ordinal) in (1..=calls).step_by(scaled(41, 10)).enumerate() {
        let disk = SimDisk::new();
        disk.inject(Fault::crash(ordinal));
        let runner = until_dark(&disk, &ops);
        let keep = [Keep::Subset(ordinal), Keep::Everything, Keep::Sectors(ordinal)][n % 3];
        let first = disk.power_cut(keep);
        let second = RefCell::new(None);
        let driver = PowerLoss::new(format!("recovery of {ordinal} {keep}"))
            .start(&first)
            .seed(ordinal)
            .budget(scaled(2, 6), 1)
            .stride(scaled(4, 1));
        let report = driver.run(
            |disk| {
                let mut next = runner.fork(disk.clone());
                next.steps_until_dark(&[]).unwrap();
                *second.borrow_mut() = Some(next);
            },
            |image, crash| {
                let again = image.kill();
                let step = 1 + crash.ordinal % 11;
                again.inject(Fault::crash(step));
                let Some(next) = &*second.borrow() else { return Err("not run".to_owned()) };
                let mut third = next.fork(again.clone());
                third.steps_until_dark(&[])?;
                third.examine(&again.power_cut(Keep::Subset(step))).map(drop)
            },
        );
        images += report.unwrap().images;
    }
    println!("crash during recovery, twice: {images} images");
    assert!(images >= scaled(50, 6_000), "{images}");
}

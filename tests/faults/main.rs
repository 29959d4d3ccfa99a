//! Every call of a workload fails in every way: once, from then on, short, full, with a lost sync.
//!
//! After each: a typed error or none, nothing answered is lost, the store heals by itself as soon as
//! the disk is well, redelivery tells the truth, and nothing hangs. A debug build tries a sample.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test fails as the test does

use txinbox::testkit::{Call, Fault, Item, Keep, Loss, Op, Runner, SimDisk, Trouble};

/// The first in a debug build, and the second in a release build.
fn scaled<T>(debug: T, release: T) -> T {
    if cfg!(debug_assertions) { debug } else { release }
}

fn item(id: u16) -> Item {
    let aliases = if id.is_multiple_of(3) { vec![id + 20] } else { Vec::new() };
    let writes = vec![((id % 4) as u8, Some(u64::from(id)))];
    Item { id, aliases, writes, result_bytes: Some(10), ..Item::default() }
}

/// The steps of which every call is made to fail.
fn asked() -> Vec<Op> {
    vec![
        Op::Process(0, item(0)),
        Op::Process(0, Item { aliases: vec![30], ..item(0) }),
        Op::Batch(1, (1..6).map(item).collect()),
        Op::Forget(1, 3),
        Op::Fill(1, 270),
        Op::Fill(1, 270),
        Op::Sweep,
        Op::Process(1, item(1)),
        Op::Retain(0, 75),
        Op::Batch(2, (6..12).map(item).collect()),
        Op::Fill(0, 600),
        Op::Process(2, item(6)),
        Op::Sweep,
    ]
}

fn troubles(n: u64) -> [Trouble; 8] {
    [
        Trouble::Error,
        Trouble::Errors,
        Trouble::ShortRead(n as u16 % 4_096),
        Trouble::ShortWrite(n as u16 % 4_096),
        Trouble::Full,
        Trouble::Fulls,
        Trouble::LostSync(Loss::All),
        Trouble::LostSync(Loss::Part(n)),
    ]
}

/// How many calls a step makes at that place of the workload.
fn calls_of(before: &[Op], op: &Op) -> u64 {
    let mut runner = Runner::new(3).unwrap();
    runner.steps(before).unwrap();
    let calls = runner.disk().calls();
    runner.step(op).unwrap();
    runner.disk().calls() - calls
}

#[test]
fn a_step_that_fails_at_any_call_in_any_way_leaves_the_truth() {
    let ops = asked();
    let mut tried = 0;
    for (place, op) in ops.iter().enumerate() {
        let before = &ops[..place];
        let calls = calls_of(before, op);
        let step = scaled((calls / 4).max(1), 1) as usize;
        for n in (1..=calls).step_by(step) {
            for trouble in troubles(n) {
                let mut runner = Runner::new(3).unwrap();
                runner.steps(before).unwrap();
                let failing = Op::TroubleIn(n, trouble, Box::new(op.clone()));
                let done = runner.step(&failing).and_then(|()| runner.feed_again());
                let done = done.and_then(|()| runner.power_cut(Keep::Subset(n)));
                assert_eq!(done, Ok(()), "{failing:?}");
                tried += 1;
            }
        }
    }
    println!("{tried} faults");
    assert!(tried >= scaled(200, 1_200), "{tried}");
}

#[test]
fn opening_that_fails_at_any_call_says_so_and_can_be_tried_again() {
    let made = {
        let mut runner = Runner::new(3).unwrap();
        runner.steps(&asked()).unwrap();
        runner
    };
    let mut tried = 0;
    for (fresh, start) in [(true, SimDisk::new()), (false, made.disk().power_cut(Keep::Everything))]
    {
        let calls = {
            let disk = start.kill();
            let runner = if fresh {
                Runner::on(disk.clone(), 3).unwrap()
            } else {
                let mut runner = made.fork(disk.clone());
                runner.steps_until_dark(&[]).unwrap();
                runner
            };
            drop(runner);
            disk.calls()
        };
        let all = [
            Call::CreateDir,
            Call::List,
            Call::Open,
            Call::Rename,
            Call::Remove,
            Call::SyncDir,
            Call::Lock,
            Call::Len,
            Call::Read,
            Call::Write,
            Call::SetLen,
            Call::Sync,
        ];
        for n in (1..=calls).step_by(scaled(5, 1)) {
            for fault in [
                Fault::error(n, &all),
                Fault::error(n, &all).lasting(),
                Fault::full(n, &[Call::Write, Call::SetLen, Call::Open]).lasting(),
                Fault::short_read(n, 7),
                Fault::short_write(n, 7),
                Fault::lost_sync(n, Loss::Part(n)),
            ] {
                let disk = start.kill();
                disk.inject(fault.clone());
                let runner = if fresh {
                    Runner::unopened(disk.clone(), 3).unwrap()
                } else {
                    made.fork(disk.clone())
                };
                if let Err(error) = runner.open_once() {
                    let typed = error.is_io() || error.is_full() || error.is_unknown_outcome();
                    assert!(typed && !error.is_corrupt(), "{fault:?}: {error}");
                }
                disk.clear_faults();
                for after in [disk.kill(), disk.power_cut(Keep::Subset(n))] {
                    runner.examine(&after).map_err(|e| format!("{fault:?}: {e}")).unwrap();
                }
                tried += 1;
            }
        }
    }
    println!("{tried} faults");
    assert!(tried >= scaled(100, 500), "{tried}");
}

/// The disk is full for as long as it likes: what was answered is there, repeats are told, and once
/// there is space again the store goes on by itself.
#[test]
fn a_full_disk_refuses_new_events_and_tells_repeats() {
    let mut runner = Runner::new(5).unwrap();
    let ops: Vec<Op> = (0..3).map(|id| Op::Process(0, item(id))).collect();
    runner.steps(&ops).unwrap();
    for round in 0..scaled(4, 40) {
        let new = Op::Process(0, item(10 + round));
        runner.step(&Op::TroubleIn(1, Trouble::Fulls, Box::new(new.clone()))).unwrap();
        let known = Op::Process(0, item(0));
        runner.step(&Op::TroubleIn(1, Trouble::Fulls, Box::new(known))).unwrap();
        runner.step(&new).unwrap();
    }
}

//! The power fails at every write, resize and sync of a scripted workload.
//!
//! Each image must open and show the state and the source of one moment: what was answered, or that and
//! the call that was not. A failure prints the line that replays it.

use std::cell::RefCell;

use txinbox::testkit::{PowerLoss, SimDisk};
use txinbox::{Error, Inbox};

use crate::machine::{Machine, count, done, event, handled, source};

/// A step of the script.
#[derive(Clone, Copy)]
enum Step {
    Good(u64),
    WithId(u64),
    Bad(u64),
    /// Three positions from this one on; the second fails if so.
    Batch(u64, bool),
    Skip(u64),
}

const SCRIPT: [Step; 10] = [
    Step::Good(1),
    Step::Bad(2),
    Step::Good(2),
    Step::Batch(3, true),
    Step::Skip(4),
    Step::WithId(5),
    Step::Batch(6, false),
    Step::Bad(10),
    Step::Skip(10),
    Step::Good(12),
];

/// What the source and the state may look like after so many steps: last position, failed ones, and the
/// positions handled.
type Look = (Option<u64>, Vec<u64>, Vec<u64>);

fn looks() -> Vec<Look> {
    let (mut last, mut failed, mut handled) = (None, Vec::new(), Vec::new());
    let mut looks = vec![(None, Vec::new(), Vec::new())];
    for step in SCRIPT {
        failed.clear();
        match step {
            Step::Good(p) | Step::WithId(p) => {
                handled.push(p);
                last = Some(p);
            }
            Step::Bad(p) => failed.push(p),
            Step::Batch(p, true) => {
                handled.push(p);
                last = Some(p);
                failed.push(p + 1);
            }
            Step::Batch(p, false) => {
                handled.extend([p, p + 1, p + 2]);
                last = Some(p + 2);
            }
            Step::Skip(p) => last = Some(p),
        }
        looks.push((last, failed.clone(), handled.clone()));
    }
    looks
}

fn run(inbox: &Inbox, step: Step) -> Result<(), Error> {
    let done = done(inbox);
    let log = source(inbox);
    match step {
        Step::Good(p) => drop(log.process(p, |tx| count(tx, &done, (0, 1), p))?),
        Step::WithId(p) => {
            drop(log.process_event(p, &event(p), |tx| count(tx, &done, (0, 1), p))?);
        }
        Step::Bad(p) => {
            let failed = log.process(p, |tx| {
                count(tx, &done, (0, 1), p)?;
                Err::<(), _>("no".into())
            });
            failed.map(drop).or_else(|e| if e.is_handler() { Ok(()) } else { Err(e) })?;
        }
        Step::Batch(p, is_bad) => {
            let batch = log.process_batch(
                &[p, p + 1, p + 2],
                |p| (*p, None),
                |tx, at| {
                    count(tx, &done, (0, 1), *at)?;
                    if is_bad && *at == p + 1 { Err("no".into()) } else { Ok(()) }
                },
            );
            for answer in batch {
                answer.map(drop).or_else(|e| if e.is_handler() { Ok(()) } else { Err(e) })?;
            }
        }
        Step::Skip(p) => drop(log.skip(p, "no")?),
    }
    Ok(())
}

fn look(inbox: &Inbox) -> Look {
    let at = source(inbox).position().unwrap();
    let handled = handled(inbox).into_iter().map(|(position, n)| {
        assert_eq!(n, 1, "position {position} was handled {n} times");
        position
    });
    (at.last, at.failed, handled.collect())
}

#[test]
fn at_every_call_source_and_state_are_of_one_moment() {
    let made = Machine::new();
    let inbox = made.open();
    let _names = (source(&inbox), done(&inbox));
    inbox.close().unwrap();
    let looks = looks();
    let answered = RefCell::new(0);
    let workload = |disk: &SimDisk| {
        *answered.borrow_mut() = 0;
        let Ok(inbox) = Machine::with(disk.clone()).try_open() else { return };
        for step in SCRIPT {
            if run(&inbox, step).is_err() {
                return;
            }
            *answered.borrow_mut() += 1;
        }
    };
    let check = |image: &SimDisk| -> Result<(), String> {
        let inbox = Machine::with(image.clone()).try_open().map_err(|e| e.to_string())?;
        let (now, least) = (look(&inbox), *answered.borrow());
        let allowed = &looks[least..(least + 2).min(looks.len())];
        if !allowed.contains(&now) {
            return Err(format!("after {least} answers: {now:?} is none of {allowed:?}"));
        }
        // And it goes on from there to the same end.
        let from = least + allowed.iter().position(|look| *look == now).unwrap_or(0);
        for step in &SCRIPT[from..] {
            run(&inbox, *step).map_err(|e| e.to_string())?;
        }
        let end = look(&inbox);
        if Some(&end) == looks.last() { Ok(()) } else { Err(format!("it ended as {end:?}")) }
    };
    let budget = if cfg!(debug_assertions) { 6 } else { 40 };
    let driver = PowerLoss::new("ordered").start(&made.disk).seed(3).budget(budget, 2);
    let report = driver.run(workload, |image, _| check(image)).unwrap();
    println!("{report:?}");
    assert!(report.images > 100, "{report:?}");
}

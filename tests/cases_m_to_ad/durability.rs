//! Case T4: what each level of durability loses. There is one level now, a durable commit per group: an
//! acknowledged event is never lost, to a kill or a power cut, and what was not acknowledged is lost
//! from some point on, never in the middle.

use std::cell::RefCell;

use txinbox::testkit::{PowerLoss, SimDisk};
use txinbox::{Error, Map, Retention, Ticket, hours};

use crate::child;
use crate::kit::{Lab, event, id, sized};

/// What the callers of one run were told.
#[derive(Default)]
struct Told {
    acked: Vec<u64>,
    submitted: u64,
}

/// Calls that wait, batches, and tickets that are waited for late or never.
fn workload(lab: &Lab, disk: &SimDisk, told: &RefCell<Told>) -> Result<(), Error> {
    *told.borrow_mut() = Told::default();
    let inbox = lab.builder().seed(3).open_on(disk)?;
    let counts: Map<u64, u64> = inbox.map("counts")?;
    let consumer = inbox.consumer("c")?;
    let submit = |n: u64| -> Result<Ticket<()>, Error> {
        let ticket = consumer.submit(&event(n), |tx| Ok(tx.insert(&counts, &n, &n)?))?;
        told.borrow_mut().submitted = n + 1;
        Ok(ticket)
    };
    let mut n = 0;
    for round in 0..4 {
        if submit(n)?.wait()?.claim().is_some() {
            told.borrow_mut().acked.push(n)
        }
        let tickets: Vec<Ticket<()>> = (n + 1..n + 6).map(&submit).collect::<Result<_, _>>()?;
        if round % 2 == 0 {
            for (n, ticket) in (n + 1..).zip(tickets) {
                if ticket.wait()?.claim().is_some() {
                    told.borrow_mut().acked.push(n)
                }
            }
        }
        n += 6;
    }
    inbox.close()
}

/// What is there after the crash: all that was acknowledged, and a prefix of what was submitted.
fn check(lab: &Lab, image: &SimDisk, told: &Told) -> Result<(), String> {
    let inbox = lab.builder().open_on(image).map_err(|e| format!("opening: {e}"))?;
    let consumer = inbox.consumer("c").map_err(|e| e.to_string())?;
    let counts: Map<u64, u64> = inbox.map("counts").map_err(|e| e.to_string())?;
    let mut there = Vec::new();
    for n in 0..40 {
        let claim = consumer.lookup(&id(n)).map_err(|e| e.to_string())?.is_some();
        let state: Result<Option<u64>, Error> = inbox.read(|view| view.get(&counts, &n));
        if state.map_err(|e| e.to_string())?.is_some() != claim {
            return Err(format!("claim and state of {n} disagree"));
        }
        there.push(claim);
    }
    let prefix = there.iter().take_while(|t| **t).count() as u64;
    if there.iter().filter(|t| **t).count() as u64 != prefix {
        return Err(format!("a hole: {there:?}"));
    }
    let acked = told.acked.iter().max().map_or(0, |n| n + 1);
    // One more than was submitted may be there: the call that was in flight.
    if prefix < acked || prefix > told.submitted + 1 {
        return Err(format!("{prefix} events of {acked} acknowledged, {} begun", told.submitted));
    }
    Ok(())
}

/// T4: the power goes at every call of the workload.
#[test]
fn t4_a_power_cut_loses_only_a_tail_that_nobody_was_told_of() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let told = RefCell::new(Told::default());
    let report = PowerLoss::new("tickets")
        .budget(usize::try_from(sized(12, 48)).unwrap(), 3)
        .run(
            |disk| drop(workload(&lab, disk, &told)),
            |image, _| check(&lab, image, &told.borrow()),
        )
        .unwrap();
    println!("{report:?}");
    assert!(report.images > 1_000, "{report:?}");
}

/// T4: kill -9 of a real process, at a moment of its own each time.
#[test]
fn t4_a_kill_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for kill in 0..sized(10, 50) {
        let mut feeder = child::start("feed", dir.path(), next, &[]);
        feeder.expect("opened");
        let mut acked = next;
        for _ in 0..60 + 13 * kill % 50 {
            acked = feeder.expect("acked");
        }
        let rest = feeder.kill();
        let last = rest.iter().filter_map(|line| line.strip_prefix("acked ")).next_back();
        let acked = last.map_or(acked, |n| n.parse().unwrap());
        let inbox = child::open(dir.path());
        let consumer = inbox.consumer("c").unwrap();
        for n in next..=acked {
            assert!(consumer.lookup(&id(n)).unwrap().is_some(), "{n} was acknowledged");
        }
        // Of each burst of tickets that nobody waited for, what is lost is the end.
        for burst in (next..=acked + 1).filter(|n| n % 64 == 63) {
            let known =
                |t: &u64| consumer.lookup(&id(1 << 40 | burst << 8 | *t)).unwrap().is_some();
            let prefix = (0..60).take_while(known).count();
            assert_eq!((0..60).filter(known).count(), prefix, "a hole in the burst of {burst}");
        }
        next = acked + 1;
        inbox.close().unwrap();
    }
}

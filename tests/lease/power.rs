//! The power, or a call, fails at every call of the disk while leases are at work.
//!
//! Each image, and each store that healed, must hold exactly what the calls that had returned have done, or that and the call under way;
//! then every event is carried on to its end, and was applied once.

use std::cell::RefCell;

use txinbox::lease::{Begun, Lease, Standing, status};
use txinbox::testkit::{Call, Fault, PowerLoss, SimClock, SimDisk, audit};
use txinbox::{Consumer, Error, Inbox, Map, Outcome, Retention, hours};

use crate::kit::{event, id, secs};

const EVENTS: [&str; 5] = ["completed", "failed", "dead", "held", "refused"];

fn open(disk: &SimDisk) -> Result<(Inbox, SimClock), Error> {
    let clock = SimClock::new(1_800_000_000_000);
    let builder = Inbox::builder(Retention::at_least(hours(31)))
        .clock(clock.clone())
        .seed(1)
        .no_threads()
        .recent_max_claims(1_024)
        .journal_segment_bytes(16 << 10)
        .ballast_bytes(0);
    builder.open_on(disk).map(|inbox| (inbox, clock))
}

/// Standing, attempts, token, note and error.
type Row = (u8, u32, u64, Option<Vec<u8>>, Option<String>);

/// What a store says of one event.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    stored: Option<Row>,
    settled: Option<(bool, Option<Vec<u8>>)>,
    count: Option<u64>,
}

fn seen(inbox: &Inbox) -> Result<Vec<Seen>, Error> {
    let consumer = inbox.consumer("c")?;
    let counts: Map<str, u64> = inbox.map("counts")?;
    let of = |text: &&str| {
        let stored = status(&consumer, &id(text))?.map(|s| {
            let standing = match s.standing {
                Standing::Held { .. } => 0,
                Standing::Waiting { .. } => 1,
                Standing::Dead => 2,
            };
            (standing, s.attempts, s.token, s.note, s.error)
        });
        let claim = consumer.lookup(&id(text))?;
        let settled = claim.map(|c| (c.is_refused(), c.result().map(<[u8]>::to_vec)));
        let count = inbox.read(|view| view.get(&counts, *text))?;
        Ok(Seen { stored, settled, count })
    };
    EVENTS.iter().map(of).collect()
}

/// What had been answered when the power went.
#[derive(Default)]
struct Log {
    calls: usize,
    newest_token: u64,
    after_each: Vec<Vec<Seen>>,
}

impl Log {
    /// An error unless what is found is what the calls that returned have done, or that and one more.
    fn explains(&self, steps: &[Vec<Seen>], found: &Vec<Seen>) -> Result<(), String> {
        let before = self.calls.checked_sub(1).and_then(|n| steps.get(n));
        let nothing = found.iter().all(|s| s.stored.is_none() && s.settled.is_none());
        let is_known = before == Some(found)
            || steps.get(self.calls) == Some(found)
            || self.calls == 0 && nothing;
        if is_known { Ok(()) } else { Err(format!("after {} calls: {found:?}", self.calls)) }
    }
}

struct Script<'a> {
    inbox: Inbox,
    consumer: Consumer,
    counts: Map<str, u64>,
    log: &'a RefCell<Log>,
    looks: bool,
}

impl Script<'_> {
    fn done(&self) -> Result<(), Error> {
        let mut log = self.log.borrow_mut();
        log.calls += 1;
        if self.looks {
            log.after_each.push(seen(&self.inbox)?);
        }
        Ok(())
    }

    fn begin(&self, text: &str) -> Result<Lease, Error> {
        let Begun::Lease(lease) = self.consumer.begin(&event(text), secs(30))? else { panic!() };
        self.log.borrow_mut().newest_token = lease.token();
        self.done()?;
        Ok(lease)
    }

    fn run(&self) -> Result<(), Error> {
        self.done()?; // opened, and registered
        let mut completed = self.begin("completed")?;
        completed.note("first")?;
        self.done()?;
        let mut failed = self.begin("failed")?;
        completed.renew(secs(60))?;
        self.done()?;
        let _waits = failed.fail("once", secs(0))?;
        self.done()?;
        let _held = self.begin("held")?;
        let mut failed = self.begin("failed")?;
        failed.note("second")?;
        self.done()?;
        let outcome = completed.complete(|tx| {
            tx.insert(&self.counts, "completed", &1)?;
            Ok(tx.set_result("done")?)
        })?;
        assert!(outcome.is_applied());
        self.done()?;
        let _waits = failed.fail("twice", secs(0))?;
        self.done()?;
        let mut refused = self.begin("refused")?;
        assert!(matches!(refused.complete(|tx| Ok(tx.refuse("no")?))?, Outcome::Refused(..)));
        self.done()?;
        for _ in 0..2 {
            let _waits = self.begin("dead")?.fail("again", secs(0))?;
            self.done()?;
        }
        assert!(self.consumer.redrive(&id("dead"))?);
        self.done()
    }
}

fn workload(disk: &SimDisk, log: &RefCell<Log>, looks: bool) -> Result<(), Error> {
    *log.borrow_mut() = Log::default();
    let (inbox, _clock) = open(disk)?;
    scripted(inbox, log, looks)
}

fn scripted(inbox: Inbox, log: &RefCell<Log>, looks: bool) -> Result<(), Error> {
    *log.borrow_mut() = Log::default();
    let consumer = inbox.consumer("c")?.max_attempts(2);
    let counts = inbox.map("counts")?;
    Script { inbox, consumer, counts, log, looks }.run()
}

/// Settles every event that is not, and looks whether each was applied once.
fn carry_on(inbox: &Inbox, clock: &SimClock, newest: u64) -> Result<(), String> {
    let say = |e: Error| e.to_string();
    let consumer = inbox.consumer("c").map_err(say)?.max_attempts(9);
    let counts: Map<str, u64> = inbox.map("counts").map_err(say)?;
    clock.advance(secs(60));
    let mut newest = newest;
    for text in EVENTS {
        consumer.redrive(&id(text)).map_err(say)?;
        match consumer.begin(&event(text), secs(30)).map_err(say)? {
            Begun::Settled(Outcome::Duplicate(_)) => {}
            Begun::Settled(other) => return Err(format!("{text}: {other:?}")),
            Begun::Lease(mut lease) => {
                if lease.token() <= newest {
                    return Err(format!("{text}: token {} after {newest}", lease.token()));
                }
                newest = lease.token();
                let bump = lease.complete(|tx| {
                    tx.update(&counts, text, |old| Some(old.unwrap_or(0) + 1))?;
                    Ok(())
                });
                if !bump.map_err(say)?.is_applied() {
                    return Err(format!("{text} was not applied"));
                }
            }
        }
        let count = inbox.read(|view| view.get(&counts, text)).map_err(say)?;
        let claim = consumer.lookup(&id(text)).map_err(say)?;
        let expected = (!claim.is_some_and(|c| c.is_refused())).then_some(1);
        if count != expected {
            return Err(format!("{text} was applied {count:?} times"));
        }
    }
    audit(inbox, false)
}

#[test]
fn no_power_cut_loses_or_repeats_a_step_of_a_lease() {
    let log = RefCell::new(Log::default());
    workload(&SimDisk::new(), &log, true).unwrap();
    let steps = log.borrow().after_each.clone();
    assert!(steps.len() > 15);
    let images = if cfg!(debug_assertions) { 3 } else { 30 };
    let driver = PowerLoss::new("leases").seed(7).budget(images, 1).stride(1);
    let report = driver.run(
        |disk| drop(workload(disk, &log, false)),
        |image, _| {
            let say = |e: Error| e.to_string();
            let (inbox, clock) = open(image).map_err(say)?;
            let log = log.borrow();
            log.explains(&steps, &seen(&inbox).map_err(say)?)?;
            carry_on(&inbox, &clock, log.newest_token)
        },
    );
    let report = report.unwrap();
    println!("{report:?}");
    assert!(report.images > 100, "{report:?}");
}

/// Each call fails once, or from then on until the script has ended. The store heals in the same process
/// and shows the truth; so does one that is opened after a kill.
#[test]
fn no_failing_call_loses_or_repeats_a_step_of_a_lease() {
    let log = RefCell::new(Log::default());
    let probe = SimDisk::new();
    workload(&probe, &log, true).unwrap();
    let steps = log.borrow().after_each.clone();
    let all = [Call::Write, Call::Sync, Call::SetLen, Call::Read];
    let mut failed = 0;
    for lasts in [false, true] {
        for ordinal in 1..probe.calls() {
            let disk = SimDisk::new();
            let (inbox, clock) = open(&disk).unwrap();
            disk.reset_calls();
            let fault = Fault::error(ordinal, &all);
            disk.inject(if lasts { fault.lasting() } else { fault });
            let ended = scripted(inbox.clone(), &log, false);
            disk.clear_faults();
            clock.advance(secs(1)); // past the rest that a store which is down takes
            let Err(error) = ended else { break };
            failed += 1;
            let place = format!("call {ordinal}, lasting {lasts}: {error}");
            assert!(error.is_io() || error.is_unknown_outcome(), "{place}");
            let killed = disk.kill();
            for (inbox, clock) in [(inbox, clock), open(&killed).unwrap()] {
                let log = log.borrow();
                log.explains(&steps, &seen(&inbox).unwrap())
                    .unwrap_or_else(|e| panic!("{place}: {e}"));
                carry_on(&inbox, &clock, log.newest_token)
                    .unwrap_or_else(|e| panic!("{place}: {e}"));
            }
        }
    }
    assert!(failed > 40, "{failed}");
}

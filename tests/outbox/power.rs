//! The power, or a call, fails at every call of the disk while messages are sent and settled.
//!
//! Each image, and each store that healed, must hold exactly what the calls that had returned have done, or
//! that and the call under way; then a relay carries on, and every message of a claimed event was sent, always under one id.

use std::cell::RefCell;
use std::collections::BTreeMap;

use txinbox::outbox::{Delivery, Destination, Failed, Message, MessageId};
use txinbox::testkit::{Call, Fault, PowerLoss, SimClock, SimDisk, audit};
use txinbox::{Consumer, Durability, Error, EventId, Inbox, Retention, hours};

use crate::kit::{event, payload, secs};

const EVENTS: usize = 5;

fn open(disk: &SimDisk, durability: Durability) -> Result<(Inbox, SimClock), Error> {
    let clock = SimClock::new(1_800_000_000_000);
    let builder = Inbox::builder(Retention::at_least(hours(31)))
        .clock(clock.clone())
        .seed(1)
        .no_threads()
        .durability(durability)
        .recent_max_claims(1_024)
        .journal_segment_bytes(16 << 10)
        .ballast_bytes(0);
    builder.open_on(disk).map(|inbox| (inbox, clock))
}

/// What a store says: claimed events, waiting messages with their failed attempts, dead letters.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    claimed: Vec<bool>,
    waiting: Vec<(String, u32)>,
    dead: Vec<String>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn seen(inbox: &Inbox) -> Result<Seen, Error> {
    let (consumer, to) = (inbox.consumer("c")?, inbox.destination("to")?);
    let claimed = (0..EVENTS)
        .map(|n| Ok(consumer.lookup(&EventId::text(&format!("e{n}"))?)?.is_some()))
        .collect::<Result<_, Error>>()?;
    let waiting = to.waiting(None, 99)?;
    let waiting = waiting.iter().map(|w| (text(w.payload()), w.failed_attempts())).collect();
    let dead = to.dead_letters(None, 99)?.iter().map(|d| text(d.payload())).collect();
    Ok(Seen { claimed, waiting, dead })
}

/// What had been answered, and sent, when the power went.
#[derive(Default)]
struct Log {
    calls: usize,
    after_each: Vec<Seen>,
    sent: BTreeMap<String, MessageId>,
}

impl Log {
    fn explains(&self, steps: &[Seen], found: &Seen) -> Result<(), String> {
        let before = self.calls.checked_sub(1).and_then(|n| steps.get(n));
        let nothing = found.waiting.is_empty() && !found.claimed.contains(&true);
        let is_known = before == Some(found)
            || steps.get(self.calls) == Some(found)
            || self.calls == 0 && nothing;
        if is_known { Ok(()) } else { Err(format!("after {} calls: {found:?}", self.calls)) }
    }

    /// A relay sends these.
    fn send(&mut self, deliveries: &[Delivery]) -> Result<(), String> {
        for delivery in deliveries {
            let known = self.sent.insert(payload(delivery).to_owned(), delivery.id());
            if known.is_some_and(|id| id != delivery.id()) {
                return Err(format!("{} has two ids", payload(delivery)));
            }
        }
        Ok(())
    }
}

struct Script<'a> {
    inbox: Inbox,
    consumer: Consumer,
    to: Destination,
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

    /// An event that sends one message with a key and one without.
    fn event(&self, n: usize) -> Result<(), Error> {
        let outcome = self.consumer.process(&event(&format!("e{n}")), |tx| {
            tx.enqueue(&self.to, Message::new(format!("{n}k")).key("k"))?;
            tx.enqueue(&self.to, Message::new(format!("{n}")))?;
            Ok(())
        })?;
        assert!(outcome.is_applied());
        self.done()
    }

    fn take(&self, most: usize) -> Result<Vec<Delivery>, Error> {
        let taken = self.to.take(most)?;
        self.log.borrow_mut().send(&taken).unwrap();
        Ok(taken)
    }

    fn run(&self) -> Result<(), Error> {
        self.done()?; // opened, and registered
        self.event(0)?;
        self.event(1)?;
        let first = self.take(2)?;
        self.event(2)?;
        self.to.acknowledge(&first)?;
        self.done()?;
        let second = self.take(3)?;
        let _again = self.to.fail(&second[0], "once")?;
        self.done()?;
        self.to.acknowledge(&second[1..])?;
        self.done()?;
        self.event(3)?;
        let third = self.take(9)?;
        for delivery in &third {
            let failed = self.to.fail(delivery, "twice")?;
            assert!(matches!(failed, Failed::Dead | Failed::Again(_)));
            self.done()?;
        }
        let dead = self.to.dead_letters(None, 9)?;
        assert!(!dead.is_empty());
        self.to.requeue(&dead[0])?;
        self.done()?;
        self.event(4)
    }
}

fn scripted(inbox: Inbox, log: &RefCell<Log>, looks: bool) -> Result<(), Error> {
    *log.borrow_mut() = Log::default();
    let consumer = inbox.consumer("c")?;
    let to = inbox.destination("to")?.attempts(2).backoff(secs(0), secs(0));
    Script { inbox, consumer, to, log, looks }.run()
}

/// Every message that is left is sent and settled; then each of a claimed event was sent.
fn carry_on(inbox: &Inbox, clock: &SimClock, log: &mut Log) -> Result<(), String> {
    let say = |e: Error| e.to_string();
    clock.advance(secs(60));
    let to = inbox.destination("to").map_err(say)?;
    for dead in to.dead_letters(None, 99).map_err(say)? {
        to.requeue(&dead).map_err(say)?;
    }
    loop {
        let taken = to.take(99).map_err(say)?;
        log.send(&taken)?;
        if taken.is_empty() {
            break;
        }
        if to.acknowledge(&taken).map_err(say)? != taken.len() as u64 {
            return Err("something handed out was not there".to_owned());
        }
    }
    let found = seen(inbox).map_err(say)?;
    if !found.waiting.is_empty() || !found.dead.is_empty() {
        return Err(format!("left behind: {found:?}"));
    }
    for (n, claimed) in found.claimed.iter().enumerate() {
        let sent = [format!("{n}k"), format!("{n}")].map(|name| log.sent.contains_key(&name));
        if sent != [*claimed; 2] {
            return Err(format!("event {n}, claimed {claimed}: sent {sent:?}"));
        }
    }
    inbox.verify().map_err(say)?;
    audit(inbox, false)
}

fn every_power_cut(durability: Durability) {
    let log = RefCell::new(Log::default());
    scripted(open(&SimDisk::new(), durability).unwrap().0, &log, true).unwrap();
    let steps = log.borrow().after_each.clone();
    assert!(steps.len() > 10);
    let images = if cfg!(debug_assertions) { 3 } else { 30 };
    let driver = PowerLoss::new("messages").seed(7).budget(images, 1).stride(1);
    let report = driver.run(
        |disk| {
            *log.borrow_mut() = Log::default();
            drop(open(disk, durability).and_then(|(inbox, _)| scripted(inbox, &log, false)));
        },
        |image, _| {
            let say = |e: Error| e.to_string();
            let (inbox, clock) = open(image, durability).map_err(say)?;
            let mut log = Log {
                sent: log.borrow().sent.clone(),
                calls: log.borrow().calls,
                ..Log::default()
            };
            log.explains(&steps, &seen(&inbox).map_err(say)?)?;
            carry_on(&inbox, &clock, &mut log)
        },
    );
    let report = report.unwrap();
    println!("{report:?}");
    assert!(report.images > 100, "{report:?}");
}

#[test]
fn no_power_cut_loses_a_message_or_gives_it_another_id() {
    every_power_cut(Durability::Journal);
}

#[test]
fn no_power_cut_loses_a_message_without_a_journal() {
    every_power_cut(Durability::EveryCommit);
}

/// Each call fails once, or from then on until the script has ended. The store heals in the same process
/// and shows the truth; so does one that is opened after a kill.
#[test]
fn no_failing_call_loses_a_message() {
    let log = RefCell::new(Log::default());
    let probe = SimDisk::new();
    let durability = Durability::Journal;
    scripted(open(&probe, durability).unwrap().0, &log, true).unwrap();
    let steps = log.borrow().after_each.clone();
    let all = [Call::Write, Call::Sync, Call::SetLen, Call::Read];
    let mut failed = 0;
    for lasts in [false, true] {
        for ordinal in 1..probe.calls() {
            let disk = SimDisk::new();
            let (inbox, clock) = open(&disk, durability).unwrap();
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
            let (calls, sent) = (log.borrow().calls, log.borrow().sent.clone());
            for (inbox, clock) in [(inbox, clock), open(&killed, durability).unwrap()] {
                let mut log = Log { calls, sent: sent.clone(), ..Log::default() };
                log.explains(&steps, &seen(&inbox).unwrap())
                    .unwrap_or_else(|e| panic!("{place}: {e}"));
                carry_on(&inbox, &clock, &mut log).unwrap_or_else(|e| panic!("{place}: {e}"));
            }
        }
    }
    assert!(failed > 40, "{failed}");
}

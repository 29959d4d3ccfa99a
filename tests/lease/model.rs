//! Random runs against the reference.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use txinbox::lease::{Begun, Lease};
use txinbox::testkit::{Keep, audit};
use txinbox::{Consumer, Event, Inbox, Map, Outcome};

use crate::kit::{Lab, id, secs};
use crate::reference::{Answer, End, MAX_ATTEMPTS, Named, Reference, Row, State, said};

const WORKERS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Begin(usize, Named, u64),
    Note(usize, u8),
    Renew(usize, u64),
    Complete(usize, End),
    Fail(usize, u64),
    Process(Named, End),
    Redrive(u8),
    Advance(u64),
    Wall(i64),
    Sweep,
    Reopen,
    Kill,
    PowerCut,
}

fn named() -> impl Strategy<Value = Named> {
    let payload = prop_oneof![7 => Just(0_u8), 1 => Just(1)];
    (0..4_u8, any::<bool>(), payload).prop_map(|(n, second, payload)| Named { n, second, payload })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Ok),
        1 => Just(End::Refuse),
        1 => Just(End::Skip),
        2 => Just(End::Fail),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let worker = || 0..WORKERS;
    prop_oneof![
        10 => (worker(), named(), 1..20_u64).prop_map(|(w, e, d)| Op::Begin(w, e, d)),
        3 => (worker(), any::<u8>()).prop_map(|(w, n)| Op::Note(w, n)),
        2 => (worker(), 1..20_u64).prop_map(|(w, d)| Op::Renew(w, d)),
        4 => (worker(), end()).prop_map(|(w, end)| Op::Complete(w, end)),
        5 => (worker(), 0..20_u64).prop_map(|(w, d)| Op::Fail(w, d)),
        3 => (named(), end()).prop_map(|(e, end)| Op::Process(e, end)),
        1 => (0..4_u8).prop_map(Op::Redrive),
        8 => (1..25_u64).prop_map(Op::Advance),
        1 => (-1_000_000..1_000_000_i64).prop_map(Op::Wall),
        1 => Just(Op::Sweep),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
        1 => Just(Op::PowerCut),
    ]
}

struct Driver {
    lab: Lab,
    inbox: Inbox,
    consumer: Consumer,
    counts: Map<u64, u64>,
    workers: Vec<Option<(Lease, Named)>>,
    reference: Reference,
    newest_token: u64,
    settled_by_hand: u64,
}

fn event(named: Named) -> Event<'static> {
    let (own, other) = (format!("first {}", named.n), format!("second {}", named.n));
    let payload = if named.payload == 0 { "payload" } else { "another" };
    if named.second {
        Event::new(id(&other), payload).alias(id(&own))
    } else {
        Event::new(id(&own), payload).alias(id(&other))
    }
}

fn handler(
    counts: &Map<u64, u64>,
    event: Named,
    end: End,
) -> impl FnOnce(&mut txinbox::Tx<'_>) -> Result<(), txinbox::BoxError> {
    move |tx| {
        tx.update(counts, &u64::from(event.n), |old| Some(old.unwrap_or(0) + 1))?;
        match end {
            End::Ok => Ok(()),
            End::Refuse => Ok(tx.refuse("no")?),
            End::Skip => {
                tx.skip();
                Ok(())
            }
            End::Fail => Err("as planned".into()),
        }
    }
}

fn answer(outcome: Result<Outcome<()>, txinbox::Error>) -> Answer {
    match outcome {
        Ok(outcome) => said(outcome),
        Err(error) if error.is_handler() => Answer::HandlerError,
        Err(error) if error.is_lease_lost() => Answer::Lost,
        Err(error) => panic!("{error}"),
    }
}

impl Driver {
    fn new() -> Self {
        let lab = Lab::new();
        let inbox = lab.open();
        let consumer = inbox.consumer("c").unwrap().max_attempts(MAX_ATTEMPTS);
        let counts = inbox.map("counts").unwrap();
        let workers = (0..WORKERS).map(|_| None).collect();
        let reference = Reference::default();
        let (newest_token, settled_by_hand) = (0, 0);
        Self { lab, inbox, consumer, counts, workers, reference, newest_token, settled_by_hand }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Begin(worker, event, duration) => self.begin(worker, event, duration),
            Op::Complete(worker, end) => self.complete(worker, end),
            Op::Note(worker, byte) => {
                let Some((lease, named)) = &mut self.workers[worker] else { return };
                let row = self.reference.current(named.n, lease.token());
                let expected = if row.is_some() { Answer::Done(true) } else { Answer::Lost };
                if let Some(row) = row {
                    row.note = Some(byte);
                }
                let got = lease.note([byte]).map(|()| Answer::Done(true));
                assert_eq!(got.unwrap_or_else(|e| answer(Err(e))), expected);
            }
            Op::Renew(worker, duration) => {
                let Some((lease, named)) = &mut self.workers[worker] else { return };
                let until = self.reference.now + duration;
                let row = self.reference.current(named.n, lease.token());
                let expected = if row.is_some() { Answer::Done(true) } else { Answer::Lost };
                if let Some(row) = row {
                    row.until = until;
                }
                let got = lease.renew(secs(duration)).map(|()| Answer::Done(true));
                assert_eq!(got.unwrap_or_else(|e| answer(Err(e))), expected);
            }
            Op::Fail(worker, backoff) => self.fail(worker, backoff),
            Op::Process(named, end) => {
                let expected = match self.reference.judge(named) {
                    Some(answer) => answer,
                    None => self.reference.handle(named, end),
                };
                let handler = handler(&self.counts, named, end);
                assert_eq!(answer(self.consumer.process(&event(named), handler)), expected);
            }
            Op::Redrive(n) => {
                let now = self.reference.now;
                let expected = match self.reference.events.get_mut(&n) {
                    Some(State::Open(row)) if row.dead => {
                        *row = Row { dead: false, attempt: 0, until: now, ..row.clone() };
                        true
                    }
                    _ => false,
                };
                let got = self.consumer.redrive(&id(&format!("second {n}"))).unwrap();
                assert_eq!(got, expected);
            }
            Op::Advance(n) => {
                self.lab.clock.advance(secs(n));
                self.reference.now += n;
            }
            Op::Wall(s) => self.lab.clock.step_wall_ms(s * 1_000),
            Op::Sweep => drop(self.inbox.sweep().unwrap()),
            Op::Reopen | Op::Kill | Op::PowerCut => self.reopen(op),
        }
    }

    fn begin(&mut self, worker: usize, named: Named, duration: u64) {
        let begun = self.consumer.begin(&event(named), secs(duration)).unwrap();
        let token = if let Begun::Lease(lease) = &begun { lease.token() } else { 0 };
        let expected = self.reference.begin(named, duration, token);
        let got = match begun {
            Begun::Settled(outcome) => said(outcome),
            Begun::Lease(lease) => {
                assert!(token > self.newest_token, "tokens grow");
                self.newest_token = token;
                let note = lease.previous_note().map(|note| note[0]);
                let attempt = lease.attempt();
                self.workers[worker] = Some((lease, named));
                Answer::Lease { attempt, note }
            }
        };
        assert_eq!(got, expected);
    }

    fn complete(&mut self, worker: usize, end: End) {
        let Some((lease, named)) = &mut self.workers[worker] else { return };
        let (named, token) = (*named, lease.token());
        let expected = match self.reference.late(named, token) {
            Some(answer) => answer,
            None => {
                let answer = self.reference.handle(named, end);
                if answer == Answer::Skipped {
                    self.reference.events.remove(&named.n);
                }
                answer
            }
        };
        assert_eq!(answer(lease.complete(handler(&self.counts, named, end))), expected);
    }

    fn fail(&mut self, worker: usize, backoff: u64) {
        let Some((lease, named)) = &mut self.workers[worker] else { return };
        let now = self.reference.now;
        let expected = match self.reference.late(*named, lease.token()) {
            Some(answer) => answer,
            None => {
                let row = self.reference.current(named.n, lease.token()).unwrap();
                let dead = row.attempt >= MAX_ATTEMPTS;
                *row = Row { held: false, dead, until: now + backoff, ..row.clone() };
                match dead {
                    true => Answer::Dead { attempts: row.attempt },
                    false => Answer::InProgress { left: backoff, attempt: row.attempt },
                }
            }
        };
        assert_eq!(answer(lease.fail("as planned", secs(backoff))), expected);
    }

    fn reopen(&mut self, op: &Op) {
        // Commits the time that has passed: a crash takes back what no commit holds.
        self.settled_by_hand += 1;
        let other = Event::unchecked(id(&format!("by hand {}", self.settled_by_hand)));
        assert!(self.consumer.process(&other, |_| Ok(())).unwrap().is_applied());
        self.workers.fill_with(|| None); // their process is gone
        match op {
            Op::Kill => self.lab.disk = self.lab.disk.kill(),
            Op::PowerCut => self.lab.disk = self.lab.disk.power_cut(Keep::Nothing),
            _ => self.inbox.clone().close().unwrap(),
        }
        self.lab.clock.advance(Duration::from_secs(100)); // closed, so it counts for nothing
        self.inbox = self.lab.open();
        self.consumer = self.inbox.consumer("c").unwrap().max_attempts(MAX_ATTEMPTS);
        self.counts = self.inbox.map("counts").unwrap();
    }

    fn finish(&self) {
        let rows = self.inbox.read(|view| view.scan(&self.counts, .., 100)).unwrap();
        assert_eq!(rows, self.reference.counts.clone().into_iter().collect::<Vec<_>>());
        assert!(rows.iter().all(|(_, count)| *count == 1), "{rows:?}");
        let open = |state: &&State| matches!(state, State::Open(_));
        let stats = self.inbox.stats().unwrap();
        let stored = usize::try_from(stats.leases + stats.dead_events).unwrap();
        assert_eq!(stored, self.reference.events.values().filter(open).count());
        audit(&self.inbox, false).unwrap();
    }
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]
    #[test]
    fn leases_are_as_the_reference_says(ops in prop::collection::vec(op(), 1..120)) {
        let mut driver = Driver::new();
        for op in &ops {
            driver.step(op);
        }
        driver.finish();
    }
}

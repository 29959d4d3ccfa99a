//! Random histories of one destination against the plain reference, with reopenings and kills.

use std::time::Duration;

use proptest::prelude::*;
use txinbox::outbox::{DeadLetter, Delivery, Exhausted, Failed, Message, Waiting};
use txinbox::testkit::audit;

use crate::kit::{Desk, Lab, event, payload};
use crate::reference::{ANSWER_MS, At, BACKOFF, Msg, Reference};

#[derive(Clone, Debug)]
enum Step {
    /// Events of one batch, each with the keys of its messages.
    Send(Vec<Vec<Option<u8>>>),
    Take(usize),
    Acknowledge(Vec<usize>),
    Fail(usize),
    Requeue(usize),
    Discard(usize),
    Drop(usize),
    Pass(u64),
    Checkpoint,
    Reopen,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![Just(None), (0..3_u8).prop_map(Some)];
    let event = prop::collection::vec(key, 0..3);
    prop_oneof![
        4 => prop::collection::vec(event, 1..4).prop_map(Step::Send),
        5 => prop_oneof![Just(1), Just(2), Just(100)].prop_map(Step::Take),
        4 => prop::collection::vec(any::<usize>(), 1..4).prop_map(Step::Acknowledge),
        4 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::Requeue),
        1 => any::<usize>().prop_map(Step::Discard),
        1 => any::<usize>().prop_map(Step::Drop),
        2 => prop_oneof![Just(1), Just(3_000), Just(8_000), Just(60_000)].prop_map(Step::Pass),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
    ]
}

struct World {
    lab: Lab,
    desk: Option<Desk>,
    policy: Exhausted,
    model: Reference,
    /// Every delivery ever handed out in this process, with its number in the model.
    hands: Vec<(Delivery, usize, u64)>,
    now_ms: u64,
    events: usize,
}

impl World {
    fn open(lab: &Lab, policy: Exhausted) -> Desk {
        lab.desk().with(|to| to.attempts(3).backoff(BACKOFF, BACKOFF * 2).when_exhausted(policy))
    }

    fn desk(&self) -> &Desk {
        self.desk.as_ref().unwrap()
    }

    fn send(&mut self, events: &[Vec<Option<u8>>]) {
        let first = self.events;
        self.events += events.len();
        let items: Vec<_> = (first..).zip(events).collect();
        let desk = self.desk();
        let batch = desk.consumer.process_batch(
            &items,
            |(n, _)| event(&format!("e{n}")),
            |tx, (n, keys)| {
                for (i, key) in keys.iter().enumerate() {
                    let message = Message::new(format!("{n}.{i}"));
                    let message = match key {
                        Some(key) => message.key([*key]),
                        None => message,
                    };
                    tx.enqueue(&desk.to, message)?;
                }
                Ok(())
            },
        );
        assert_eq!(batch.settled_prefix(), items.len());
        for (n, keys) in items {
            for (i, key) in keys.iter().enumerate() {
                let (name, at) = (format!("{n}.{i}"), At::Waits(0));
                self.model.all.push(Msg { name, key: *key, at, failed: 0, vague_ms: 0 });
            }
        }
    }

    fn take(&mut self, most: usize) {
        let now_ms = self.now_ms;
        self.model.take_back(most, now_ms, self.policy);
        let taken = self.desk().to.take(most).unwrap();
        for delivery in taken.iter().cloned() {
            let index = self.model.find(payload(&delivery));
            assert!(self.model.may_go(index, now_ms), "{}: {:?}", payload(&delivery), self.model);
            assert_eq!(delivery.attempt(), self.model.all[index].failed + 1);
            self.model.tokens += 1;
            let token = self.model.tokens;
            self.model.all[index].at = At::Out { token, until_ms: now_ms + ANSWER_MS };
            self.hands.push((delivery, index, token));
        }
        if taken.len() < most {
            let missed = (0..self.model.all.len()).find(|i| self.model.must_go(*i, now_ms));
            assert_eq!(missed, None, "not handed out: {:?}", self.model);
        }
    }

    fn acknowledge(&mut self, picks: &[usize]) {
        if self.hands.is_empty() {
            return;
        }
        let picks: Vec<usize> = picks.iter().map(|pick| pick % self.hands.len()).collect();
        let deliveries: Vec<&Delivery> = picks.iter().map(|pick| &self.hands[*pick].0).collect();
        let gone = self.desk().to.acknowledge(deliveries).unwrap();
        let mut expected = 0;
        for pick in picks {
            let msg = &mut self.model.all[self.hands[pick].1];
            if matches!(msg.at, At::Waits(_) | At::Out { .. } | At::Blocks) {
                msg.at = At::Gone;
                expected += 1;
            }
        }
        assert_eq!(gone, expected);
    }

    fn fail(&mut self, pick: usize) {
        if self.hands.is_empty() {
            return;
        }
        let (delivery, index, token) = self.hands[pick % self.hands.len()].clone();
        let answer = self.desk().to.fail(&delivery, "no").unwrap();
        let is_newest = matches!(self.model.all[index].at, At::Out { token: t, .. } if t == token);
        if !is_newest {
            assert_eq!(answer, Failed::Late);
            return;
        }
        assert!(self.model.explains(index, self.policy, answer), "{answer:?}: {:?}", self.model);
        let wait = if let Failed::Again(wait) = answer { wait } else { Duration::ZERO };
        self.model.fail(index, self.now_ms, self.policy, wait);
    }

    fn by_hand(&mut self, pick: usize, puts_back: bool) {
        let letters = self.desk().to.dead_letters(None, 1_000).unwrap();
        let Some(letter) = letters.get(pick % letters.len().max(1)) else { return };
        let index = self.model.find(std::str::from_utf8(letter.payload()).unwrap());
        let to = &self.desk().to;
        assert!(if puts_back { to.requeue(letter) } else { to.discard(letter) }.unwrap());
        let msg = &mut self.model.all[index];
        msg.failed = 0;
        msg.at = if puts_back { At::Waits(0) } else { At::Gone };
    }

    fn drop_one(&mut self, pick: usize) {
        let waiting = self.desk().to.waiting(None, 1_000).unwrap();
        let Some(one) = waiting.get(pick % waiting.len().max(1)) else { return };
        let index = self.model.find(std::str::from_utf8(one.payload()).unwrap());
        let is_blocking = self.model.all[index].at == At::Blocks;
        assert_eq!(self.desk().to.drop_waiting(one).unwrap(), !is_blocking);
        if !is_blocking {
            self.model.all[index].at = At::Gone;
        }
    }

    fn reopen(&mut self, kill: bool) {
        if kill {
            self.lab = self.lab.killed();
        }
        self.desk = None;
        self.desk = Some(Self::open(&self.lab, self.policy));
        self.hands.clear();
        self.model.reopen();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Send(events) => self.send(events),
            Step::Take(most) => self.take(*most),
            Step::Acknowledge(picks) => self.acknowledge(picks),
            Step::Fail(pick) => self.fail(*pick),
            Step::Requeue(pick) => self.by_hand(*pick, true),
            Step::Discard(pick) => self.by_hand(*pick, false),
            Step::Drop(pick) => self.drop_one(*pick),
            Step::Pass(ms) => {
                self.lab.clock.advance(Duration::from_millis(*ms));
                self.now_ms += ms;
            }
            Step::Checkpoint => self.desk().inbox.verify().unwrap(),
            Step::Reopen => self.reopen(false),
            Step::Kill => self.reopen(true),
        }
    }

    /// Lists and numbers are those of the reference.
    fn compare(&self) {
        let to = &self.desk().to;
        let waiting = to.waiting(None, 1_000).unwrap();
        let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let names: Vec<String> = waiting.iter().map(|w: &Waiting| name(w.payload())).collect();
        let unsettled = |at| matches!(at, At::Waits(_) | At::Out { .. } | At::Blocks);
        assert_eq!(names, self.model.names(unsettled));
        for waiting in &waiting {
            let msg = &self.model.all[self.model.find(&name(waiting.payload()))];
            assert_eq!(waiting.failed_attempts(), msg.failed, "{msg:?}");
        }
        let letters = to.dead_letters(None, 1_000).unwrap();
        let names: Vec<String> = letters.iter().map(|d: &DeadLetter| name(d.payload())).collect();
        assert_eq!(names, self.model.names(|at| matches!(at, At::Dead | At::Blocks)));
        let stats = self.desk().inbox.stats().unwrap().destinations["to"].clone();
        let count = |which: fn(At) -> bool| self.model.names(which).len() as u64;
        assert_eq!(stats.waiting, count(|at| matches!(at, At::Waits(_) | At::Out { .. })));
        assert_eq!(stats.dead_letters, letters.len() as u64);
        assert_eq!(stats.handed_out, count(|at| matches!(at, At::Out { .. })));
    }

    /// Everything that is left goes, each once, in the order of its key.
    fn carry_on(&mut self) {
        for _ in 0..1_000 {
            self.by_hand(0, true);
            self.take(100);
            let picks: Vec<usize> = (0..self.hands.len()).collect();
            self.acknowledge(&picks);
            self.lab.clock.advance(Duration::from_millis(ANSWER_MS));
            self.now_ms += ANSWER_MS;
            if self.model.all.iter().all(|msg| msg.at == At::Gone) {
                return;
            }
        }
        panic!("never ends: {:?}", self.model);
    }
}

fn cases() -> u32 {
    if cfg!(debug_assertions) { 48 } else { 512 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]
    #[test]
    fn i7_every_history_is_one_of_the_reference(
        steps in prop::collection::vec(step(), 1..60),
        policy in prop_oneof![Just(Exhausted::Park), Just(Exhausted::Skip), Just(Exhausted::Block)],
    ) {
        let lab = Lab::new();
        let desk = Some(World::open(&lab, policy));
        let (model, hands) = (Reference::default(), Vec::new());
        let mut world = World { lab, desk, policy, model, hands, now_ms: 0, events: 0 };
        for step in &steps {
            world.step(step);
            world.compare();
        }
        audit(&world.desk().inbox, false).unwrap();
        world.carry_on();
        audit(&world.desk().inbox, false).unwrap();
    }
}

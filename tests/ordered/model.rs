//! Random calls against the plainest rules that could be right, with crashes among them.
//!
//! The reference keeps for each source the set of positions settled, and the set that failed; nothing is
//! summed up, and nothing is ever dropped from either.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use txinbox::ordered::{Ordered, Ownership};
use txinbox::testkit::Keep;
use txinbox::{BoxError, Error, Event, EventId, Inbox, Outcome, Tx};

use crate::machine::{Done, Machine, count, done};

const SOURCES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good,
    Fail,
    Panic,
    Skip,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    position: u64,
    /// Its event's id and payload, if it has one.
    id: Option<(u8, u8)>,
    end: End,
}

#[derive(Clone, Debug)]
enum Op {
    One(usize, Item),
    Batch(usize, Vec<Item>),
    Skip(usize, u64),
    Incarnation(usize),
    Own(usize, u64),
    Crash(u64),
    Kill,
    Close,
    Sweep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Applied,
    Duplicate,
    Skipped,
    Mismatch,
    Failed,
    Panicked,
    Blocked(u64),
    Fenced(u64),
}

#[derive(Clone, Debug, Default)]
struct Source {
    incarnation: u64,
    owner: u64,
    settled: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    skipped: u64,
}

#[derive(Clone, Debug, Default)]
struct Reference {
    sources: [Source; SOURCES],
    /// The payload that each id was settled with.
    claims: BTreeMap<u8, u8>,
    handled: BTreeMap<(u8, u64, u64), u64>,
}

impl Source {
    /// The answer that needs no handler.
    fn judge(&self, epoch: u64, position: u64) -> Option<Answer> {
        if self.owner > epoch {
            return Some(Answer::Fenced(self.owner));
        }
        if self.settled.last().is_some_and(|last| position <= *last) {
            return Some(Answer::Duplicate);
        }
        let at = self.open_failures().first().copied()?;
        (at < position).then_some(Answer::Blocked(at))
    }

    fn open_failures(&self) -> Vec<u64> {
        let last = self.settled.last().copied();
        self.failed.iter().copied().filter(|f| last.is_none_or(|last| *f > last)).collect()
    }
}

impl Reference {
    fn one(&mut self, s: usize, epoch: u64, item: Item) -> Answer {
        let Item { position, id, end } = item;
        let known = id.and_then(|(id, payload)| {
            self.claims
                .get(&id)
                .map(|then| if *then == payload { Answer::Duplicate } else { Answer::Mismatch })
        });
        let source = &mut self.sources[s];
        match source.judge(epoch, position) {
            Some(Answer::Duplicate) => return known.unwrap_or(Answer::Duplicate),
            Some(other) => return other,
            None => {}
        }
        let answer = known.unwrap_or(match end {
            End::Good => Answer::Applied,
            End::Fail => Answer::Failed,
            End::Panic => Answer::Panicked,
            End::Skip => Answer::Skipped,
        });
        match answer {
            Answer::Applied => {
                let key = (s as u8, source.incarnation, position);
                *self.handled.entry(key).or_default() += 1;
                self.claims.extend(id);
                source.settled.insert(position);
            }
            Answer::Duplicate | Answer::Skipped => drop(source.settled.insert(position)),
            _ => drop(source.failed.insert(position)),
        }
        answer
    }
}

/// One opening of the store, and its handles.
struct Opening {
    inbox: Inbox,
    logs: Vec<Ordered>,
    done: Done,
}

impl Opening {
    fn new(machine: &Machine, reference: &Reference) -> Self {
        let inbox = machine.open();
        let consumer = inbox.consumer("c").unwrap();
        let log = |s: usize| {
            consumer.ordered(&format!("s{s}"), reference.sources[s].incarnation).unwrap()
        };
        let logs = (0..SOURCES).map(log).collect();
        let done = done(&inbox);
        Self { inbox, logs, done }
    }

    fn handle(&self, tx: &mut Tx<'_>, s: usize, item: &Item) -> Result<(), BoxError> {
        count(tx, &self.done, (s as u8, self.logs[s].incarnation()), item.position)?;
        match item.end {
            End::Good => Ok(()),
            End::Fail => Err("no".into()),
            End::Panic => panic!("boom"),
            End::Skip => {
                tx.skip();
                Ok(())
            }
        }
    }
}

const PAYLOADS: [&str; 2] = ["a", "b"];

fn event(item: &Item) -> Option<Event<'static>> {
    let (id, payload) = item.id?;
    let id = EventId::bytes(&[id]).unwrap();
    Some(Event::new(id, PAYLOADS[usize::from(payload) % 2]))
}

fn answer_of(answer: &Result<Outcome<()>, Error>) -> Answer {
    match answer {
        Ok(Outcome::Applied(..)) => Answer::Applied,
        Ok(Outcome::Duplicate(_)) => Answer::Duplicate,
        Ok(Outcome::Skipped(())) => Answer::Skipped,
        Ok(Outcome::Mismatch(_)) => Answer::Mismatch,
        Ok(Outcome::Blocked { at }) => Answer::Blocked(*at),
        Ok(Outcome::Fenced { epoch }) => Answer::Fenced(*epoch),
        Ok(other) => panic!("{other:?}"),
        Err(error) if error.is_handler() => Answer::Failed,
        Err(error) => panic!("{error}"),
    }
}

fn one(opening: &Opening, s: usize, item: &Item) -> Answer {
    let log = &opening.logs[s];
    let handler = |tx: &mut Tx<'_>| opening.handle(tx, s, item);
    let call = || match event(item) {
        Some(event) => log.process_event(item.position, &event, handler),
        None => log.process(item.position, handler),
    };
    catch_unwind(AssertUnwindSafe(call)).map_or(Answer::Panicked, |answer| answer_of(&answer))
}

/// The answers of a batch; `None` if it panicked.
fn batch(opening: &Opening, s: usize, items: &[Item]) -> Option<Vec<Answer>> {
    let call = || {
        opening.logs[s].process_batch(
            items,
            |item| (item.position, event(item)),
            |tx, item| opening.handle(tx, s, item),
        )
    };
    let batch = catch_unwind(AssertUnwindSafe(call)).ok()?;
    Some(batch.iter().map(answer_of).collect())
}

fn check(opening: &Opening, reference: &Reference) {
    txinbox::testkit::audit(&opening.inbox, false).unwrap();
    let rows = opening.inbox.read(|view| view.scan(&opening.done, .., 10_000)).unwrap();
    let handled: Vec<_> = reference.handled.clone().into_iter().collect();
    assert_eq!(rows, handled);
    for (log, source) in opening.logs.iter().zip(&reference.sources) {
        let at = log.position().unwrap();
        assert_eq!(at.last, source.settled.last().copied());
        assert_eq!(at.failed, source.open_failures());
        assert_eq!((at.epoch, at.skipped), (source.owner, source.skipped));
        let settled = &source.settled;
        let breaks = settled.iter().zip(settled.iter().skip(1)).filter(|(a, b)| **a + 1 < **b);
        assert_eq!(at.gaps, breaks.count() as u64);
    }
}

fn step(machine: &mut Machine, opening: &mut Opening, reference: &mut Reference, op: &Op) {
    let epochs: Vec<u64> = opening.logs.iter().map(epoch_of).collect();
    match op {
        Op::One(s, item) => {
            assert_eq!(one(opening, *s, item), reference.one(*s, epochs[*s], *item));
        }
        Op::Batch(s, items) => {
            let mut expected = Vec::new();
            for item in items {
                expected.push(reference.one(*s, epochs[*s], *item));
                if expected.last() == Some(&Answer::Panicked) {
                    break;
                }
            }
            let panics = expected.last() == Some(&Answer::Panicked);
            assert_eq!(batch(opening, *s, items), (!panics).then_some(expected));
        }
        Op::Skip(s, position) => {
            let answer = opening.logs[*s].skip(*position, "so");
            let source = &mut reference.sources[*s];
            let expected = source.judge(epochs[*s], *position).unwrap_or(Answer::Skipped);
            if expected == Answer::Skipped {
                source.settled.insert(*position);
                source.skipped += 1;
            }
            assert_eq!(answer_of(&answer), expected);
        }
        Op::Incarnation(s) => {
            let source = &mut reference.sources[*s];
            let (incarnation, owner) = (source.incarnation + 1, source.owner);
            *source = Source { incarnation, owner, ..Source::default() };
            let consumer = opening.inbox.consumer("c").unwrap();
            let new = consumer.ordered(&format!("s{s}"), incarnation).unwrap();
            let old = std::mem::replace(&mut opening.logs[*s], new);
            assert!(old.process(99, |_| Ok(())).unwrap_err().is_stale_source());
        }
        Op::Own(s, epoch) => {
            let source = &mut reference.sources[*s];
            let expected = if source.owner > *epoch {
                Ownership::Fenced { epoch: source.owner }
            } else {
                source.owner = *epoch;
                Ownership::Held
            };
            assert_eq!(opening.logs[*s].claim_ownership(*epoch).unwrap(), expected);
        }
        Op::Crash(_) | Op::Kill | Op::Close => {
            *machine = match op {
                Op::Crash(0) => machine.cut(Keep::Nothing),
                Op::Crash(1) => machine.cut(Keep::Everything),
                Op::Crash(seed) => machine.cut(Keep::Subset(*seed)),
                Op::Kill => machine.kill(),
                _ => {
                    opening.inbox.clone().close().unwrap();
                    machine.kill()
                }
            };
            *opening = Opening::new(machine, reference);
        }
        Op::Sweep => {
            machine.clock.advance(std::time::Duration::from_secs(100));
            opening.inbox.sweep().unwrap();
        }
    }
}

/// A handle's epoch, as its debug form tells it.
fn epoch_of(log: &Ordered) -> u64 {
    let text = format!("{log:?}");
    let epoch = text.split("epoch: ").nth(1).unwrap_or("0");
    epoch.trim_end_matches(" }").parse().unwrap()
}

fn items() -> impl Strategy<Value = Item> {
    let end = prop_oneof![
        8 => Just(End::Good),
        3 => Just(End::Fail),
        1 => Just(End::Panic),
        1 => Just(End::Skip),
    ];
    let id = prop::option::weighted(0.4, (0..6_u8, 0..2_u8));
    (0..24_u64, id, end).prop_map(|(position, id, end)| Item { position, id, end })
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..SOURCES, items()).prop_map(|(s, item)| Op::One(s, item)),
        6 => (0..SOURCES, prop::collection::vec(items(), 0..9), any::<bool>()).prop_map(
            |(s, mut items, sorted)| {
                if sorted {
                    items.sort_by_key(|item| item.position);
                }
                Op::Batch(s, items)
            }
        ),
        3 => (0..SOURCES, 0..24_u64).prop_map(|(s, position)| Op::Skip(s, position)),
        1 => (0..SOURCES).prop_map(Op::Incarnation),
        1 => (0..SOURCES, 0..4_u64).prop_map(|(s, epoch)| Op::Own(s, epoch)),
        2 => (0..9_u64).prop_map(Op::Crash),
        1 => Just(Op::Kill),
        1 => Just(Op::Close),
        1 => Just(Op::Sweep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 3_000 }))]
    #[test]
    fn calls_and_crashes_are_answered_as_the_reference_says(
        ops in prop::collection::vec(ops(), 1..40),
    ) {
        let mut reference = Reference::default();
        reference.sources.iter_mut().for_each(|source| source.incarnation = 1);
        let mut machine = Machine::new();
        let mut opening = Opening::new(&machine, &reference);
        for op in &ops {
            step(&mut machine, &mut opening, &mut reference, op);
            check(&opening, &reference);
        }
    }
}

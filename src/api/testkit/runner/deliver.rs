//! The steps that ask something of the store: what was answered, held against the model.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{CONSUMERS, COUNTERS, Open, Runner, event_of, fresh_id, id_of, say, through};
use crate::api::event::Event;
use crate::api::map::Map;
use crate::api::testkit::model::{Answer, Model, ModelState, Stored, Verdict, is_typed};
use crate::api::testkit::op::{End, Item, Op};
use crate::api::tx::Tx;
use crate::base::error::{BoxError, Error};
use crate::claims::policy::Retention;

/// An event with what its handler does.
pub(super) struct Delivery {
    event: Event<'static>,
    item: Item,
}

fn counter(consumer: u8) -> u64 {
    COUNTERS + u64::from(consumer) % CONSUMERS.len() as u64
}

fn result_of(item: &Item) -> Option<Vec<u8>> {
    item.result_bytes.map(|n| vec![item.id as u8; usize::from(n)])
}

/// What the handler does, said for the model.
fn handle_model(consumer: u8, item: &Item, state: &mut ModelState) -> Verdict {
    *state.entry(counter(consumer)).or_default() += 1;
    for (key, value) in &item.writes {
        match value {
            Some(value) => state.insert(u64::from(*key), *value),
            None => state.remove(&u64::from(*key)),
        };
    }
    match item.end {
        End::Ok => Verdict::Keep(result_of(item)),
        End::Refuse => Verdict::Refuse(result_of(item).unwrap_or_default()),
        End::Skip => Verdict::Skip,
        End::Fail => Verdict::Fail,
        End::Panic => Verdict::Panic,
    }
}

/// The same, done in a store.
fn handle(consumer: u8, item: &Item, map: &Map<u64, u64>, tx: &mut Tx<'_>) -> Result<(), BoxError> {
    tx.update(map, &counter(consumer), |n| Some(n.unwrap_or(0) + 1))?;
    for (key, value) in &item.writes {
        match value {
            Some(value) => tx.insert(map, &u64::from(*key), value)?,
            None => tx.remove(map, &u64::from(*key))?,
        }
    }
    if let Some(bytes) = result_of(item) {
        tx.set_result(bytes)?;
    }
    match item.end {
        End::Ok => {}
        End::Refuse => tx.refuse(result_of(item).unwrap_or_default())?,
        End::Skip => tx.skip(),
        End::Fail => return Err("as planned".into()),
        End::Panic => resume_unwind(Box::new("as planned")), // without the hook's message
    }
    Ok(())
}

fn expect(model: &mut Model, consumer: u8, delivery: &Delivery) -> Answer {
    let Delivery { event, item } = delivery;
    model.process(&through(consumer), event, |state| handle_model(consumer, item, state))
}

impl Open {
    /// The answers to a batch; `None` if a handler panicked.
    fn batch(&self, consumer: u8, deliveries: &[Delivery]) -> Option<Vec<Answer>> {
        let handle_of = self.consumers.get(usize::from(consumer) % CONSUMERS.len())?;
        let run = || match deliveries {
            [one] => {
                let handler = |tx: &mut Tx<'_>| handle(consumer, &one.item, &self.map, tx);
                vec![Answer::of(&handle_of.process(&one.event, handler))]
            }
            many => {
                let handler =
                    |tx: &mut Tx<'_>, d: &Delivery| handle(consumer, &d.item, &self.map, tx);
                let batch = handle_of.process_batch(many, |d| d.event.clone(), handler);
                batch.iter().map(Answer::of).collect()
            }
        };
        catch_unwind(AssertUnwindSafe(run)).ok()
    }
}

impl Runner {
    /// Runs a step that asks the store. If the store failed, says how, and leaves in `maybe` what may
    /// be true now; the model then is what certainly is.
    pub(super) fn attempt(&mut self, op: &Op) -> Result<Option<String>, String> {
        match op {
            Op::Process(consumer, item) => self.deliver(*consumer, std::slice::from_ref(item)),
            Op::Batch(consumer, items) => self.deliver(*consumer, items),
            Op::Fill(consumer, count) => self.fill(*consumer, *count),
            Op::Forget(consumer, id) => self.forget(*consumer, *id),
            Op::Sweep => self.sweep(),
            Op::Retain(consumer, secs) => self.retain(*consumer, *secs),
            other => Err(format!("{other:?} asks nothing of the store")),
        }
    }

    fn deliver(&mut self, consumer: u8, items: &[Item]) -> Result<Option<String>, String> {
        let mut deliveries = Vec::new();
        let mut ahead = self.model.clone();
        for item in items {
            let delivery = Delivery { event: event_of(item)?, item: item.clone() };
            // Where several answers are right, the model cannot follow.
            if ahead.is_ambiguous(&through(consumer).consumer, &delivery.event) {
                self.coverage.hit("ambiguous");
                continue;
            }
            let _ = expect(&mut ahead, consumer, &delivery);
            deliveries.push(delivery);
        }
        let delivered = deliveries.iter().map(|d| (consumer, d.item.clone()));
        self.fed.extend(delivered);
        self.compare(consumer, &deliveries)
    }

    fn fill(&mut self, consumer: u8, count: u16) -> Result<Option<String>, String> {
        let mut deliveries = Vec::new();
        for _ in 0..count {
            self.fresh += 1;
            let event = Event::unchecked(fresh_id(self.fresh)?);
            deliveries.push(Delivery { event, item: Item::default() });
        }
        self.compare(consumer, &deliveries)
    }

    fn compare(&mut self, consumer: u8, deliveries: &[Delivery]) -> Result<Option<String>, String> {
        if deliveries.is_empty() {
            return Ok(None);
        }
        let mut after = self.model.clone();
        let mut expected: Vec<Answer> = Vec::new();
        for delivery in deliveries {
            expected.push(expect(&mut after, consumer, delivery));
            if expected.last() == Some(&Answer::Panicked) {
                break; // what follows in its batch does not run
            }
        }
        expected.iter().for_each(|answer| self.coverage.hit(name_of(answer)));
        let panics = expected.last() == Some(&Answer::Panicked);
        let Some(answers) = self.store()?.batch(consumer, deliveries) else {
            if !panics {
                return Err("I10: a call panicked by itself".to_owned());
            }
            // What came before the panic was committed, or not, without anybody being told.
            return self.untold(after);
        };
        if panics && !answers.iter().any(Answer::is_broken) {
            return Err("I13: a handler's panic was swallowed".to_owned());
        }
        for (answer, expected) in answers.iter().zip(&expected) {
            if !answer.is_broken() && answer != expected {
                return Err(format!("answered {answer:?} instead of {expected:?}"));
            }
        }
        let untyped = |a: &&Answer| matches!(a, Answer::Broken { typed: false, .. });
        if let Some(answer) = answers.iter().find(untyped) {
            return Err(format!("I10: no fault explains {answer:?}"));
        }
        self.settle(after, &answers, &expected)
    }

    /// Takes in what was answered, or notes what may be true.
    fn settle(
        &mut self,
        after: Model,
        answers: &[Answer],
        expected: &[Answer],
    ) -> Result<Option<String>, String> {
        let broken = answers.iter().find_map(|answer| match answer {
            Answer::Broken { unknown, error, .. } => Some((*unknown, error.clone())),
            _ => None,
        });
        let Some((unknown, error)) = broken else {
            let commits = expected.iter().any(is_new);
            self.take(after, commits);
            return Ok(None);
        };
        if answers.iter().any(is_new) {
            // Its group is durable, and with it all of the batch; the others' answers could not be
            // read any more.
            self.take(after, true);
            return Ok(Some(error));
        }
        let repeat = |e: &Answer| matches!(e, Answer::Duplicate(_) | Answer::Mismatch(_));
        // The group may be durable although reading a repeat's result failed then.
        if unknown || expected.iter().any(repeat) {
            self.coverage.hit("unknown");
            self.maybe.push(after);
        }
        Ok(Some(error))
    }

    /// An answered call counts. A commit saves the store's clocks.
    fn take(&mut self, after: Model, commits: bool) {
        self.model = after;
        if commits {
            self.saved = self.model.times();
        }
    }

    /// A panic: the events before it count if their commit succeeded, which the store must show.
    fn untold(&mut self, after: Model) -> Result<Option<String>, String> {
        if !self.under_trouble && !self.disk.has_crashed() {
            self.take(after, false);
            return Ok(None);
        }
        self.maybe.push(after);
        Ok(None)
    }

    fn forget(&mut self, consumer: u8, id: u16) -> Result<Option<String>, String> {
        let name = through(consumer).consumer;
        let id = id_of(id)?;
        let mut after = self.model.clone();
        let expected = after.forget(&name, &id);
        let place = usize::from(consumer) % CONSUMERS.len();
        let Some(handle) = self.store()?.consumers.get(place) else { return Ok(None) };
        match handle.forget(&id) {
            Ok(any) if any == expected => {
                self.coverage.hit(if any { "forgot" } else { "nothing to forget" });
                self.take(after, any);
                Ok(None)
            }
            Ok(any) => Err(format!("forget answered {any}, not {expected}")),
            Err(error) => {
                if error.is_unknown_outcome() {
                    self.maybe.push(after);
                }
                broken(&error)
            }
        }
    }

    fn sweep(&mut self) -> Result<Option<String>, String> {
        match self.store()?.inbox.sweep() {
            Ok(done) => {
                self.coverage.add("claims sealed", done.claims_sealed);
                self.coverage.add("claims merged", done.claims_merged);
                self.coverage.add("buckets forgotten", done.buckets_forgotten);
                self.coverage.add("claims forgotten", done.claims_forgotten);
                self.coverage.add("tables freed", done.tables_freed);
                self.model.sweep();
                Ok(None)
            }
            Err(error) => broken(&error),
        }
    }

    fn retain(&mut self, consumer: u8, secs: u16) -> Result<Option<String>, String> {
        let name = through(consumer).consumer;
        let retention = Retention::at_least(std::time::Duration::from_secs(u64::from(secs.max(1))));
        let mut after = self.model.clone();
        after.register(&name, Some(&retention)).map_err(say("the model"))?;
        match self.store()?.inbox.consumer_with(&name, retention) {
            Ok(_) => {
                self.coverage.hit("retained");
                self.take(after, false);
                Ok(None)
            }
            Err(error) => {
                self.maybe.push(after);
                broken(&error)
            }
        }
    }

    /// Feeds the whole trace again: whatever is still promised must be a repeat.
    pub(super) fn feed(&mut self) -> Result<(), String> {
        for (consumer, item) in std::mem::take(&mut self.fed) {
            if let Some(error) = self.deliver(consumer, &[item])? {
                return Err(format!("feeding again: {error}"));
            }
        }
        Ok(())
    }
}

/// Whether the call claimed the event.
fn is_new(answer: &Answer) -> bool {
    matches!(answer, Answer::Applied(_) | Answer::Refused(_))
}

fn name_of(answer: &Answer) -> &'static str {
    match answer {
        Answer::Applied(_) => "applied",
        Answer::Refused(_) => "refused",
        Answer::Duplicate(known) if known.refused => "duplicate of a refusal",
        Answer::Duplicate(known) => match known.result {
            Stored::Expired => "result expired",
            Stored::Bytes(_) => "duplicate with a result",
            Stored::None => "duplicate",
        },
        Answer::Mismatch(_) => "mismatch",
        Answer::Skipped => "skipped",
        Answer::TooLate { .. } => "too late",
        Answer::Future => "future",
        Answer::Failed => "failed",
        Answer::Panicked => "panicked",
        Answer::Broken { .. } => "broken",
    }
}

/// How a call failed, if a failing disk explains it.
fn broken(error: &Error) -> Result<Option<String>, String> {
    if is_typed(error) {
        Ok(Some(error.to_string()))
    } else {
        Err(format!("I10: no fault explains {error:?}"))
    }
}

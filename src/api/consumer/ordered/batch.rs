//! Many positions in one call.
//!
//! What must hold: OB1. Answers come in the order of the items, one for each. OB2. Behind an item that got
//! an error no later position of the call is handled, whatever the error. OB3. A recovery in the middle of
//! the call is noticed before the next item runs: what ran before it may be gone.

use std::panic::resume_unwind;

use super::super::super::batch::Batch;
use super::super::super::event::Event;
use super::super::super::tx::Tx;
use super::{Ordered, PlacedItem, in_tx_of};
use crate::base::error::{BoxError, Error};
use crate::base::ids::Epoch;
use crate::base::limits::GROUP_MAX_EVENTS;
use crate::base::sync::Arc;
use crate::engine::{Case, Delivery, Done, Moment, Placed, Ran};

/// An item: its position, and its delivery or why it cannot be one.
type Item = (u64, Result<Delivery, Error>);

/// How far a batch has come.
struct Run<T> {
    ran: Vec<PlacedItem<T>>,
    /// The opening, or recovery, in which the last turn was taken.
    epoch: Option<Epoch>,
    panic: Option<Panicked>,
}

/// A handler's panic, and what must be durable before it goes on.
struct Panicked {
    position: u64,
    payload: Box<dyn std::any::Any + Send>,
    done: Option<Arc<Done>>,
}

impl Ordered {
    /// Handles many positions, in order, sharing commits: one answer per item. Durable when it returns.
    ///
    /// `arrival` gives an item's position, and its event where it has an id. An item that fails leaves those
    /// before it as they are, and blocks those behind it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Outcome, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let log = inbox.consumer("billing")?.ordered("orders/0", 1)?;
    /// let poll = [(1, "a"), (2, "b"), (3, "bad"), (4, "c")];
    /// let batch = log.process_batch(
    ///     &poll,
    ///     |record| (record.0, None),
    ///     |_, record| if record.1 == "bad" { Err("no".into()) } else { Ok(()) },
    /// );
    /// assert_eq!(batch.settled_prefix(), 2); // commit the offset behind these
    /// assert!(batch[2].as_ref().unwrap_err().is_handler());
    /// assert_eq!(batch[3].as_ref().unwrap(), &Outcome::Blocked { at: 3 });
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Panics
    /// If a handler panics, the panic goes on to the caller once the items before it are durable, and
    /// that this position failed; those after it have not run.
    pub fn process_batch<M, T>(
        &self,
        items: &[M],
        arrival: impl for<'m> Fn(&'m M) -> (u64, Option<Event<'m>>),
        mut handler: impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
    ) -> Batch<T> {
        let engine = self.consumer.inbox.engine();
        let of = |item| {
            let (position, event) = arrival(item);
            (position, self.delivery(event.as_ref()))
        };
        // Hashing needs no lock, so it is done before the slot is asked for.
        let arrivals: Vec<Item> = items.iter().map(of).collect();
        let ran = Vec::with_capacity(items.len());
        let mut run = Run { ran, epoch: None, panic: None };
        while run.panic.is_none() && run.ran.len() < items.len() {
            let next = run.ran.len();
            let rest = arrivals.get(next..).unwrap_or_default();
            if let Err(error) =
                self.run_group(items.iter().skip(next), rest, (&arrival, &mut handler), &mut run)
            {
                run.ran.extend(rest_of_failed(arrivals.get(run.ran.len()..), &error));
            }
        }
        let finisher = self.consumer.finisher();
        let settle = |item| self.settle(&finisher, item);
        let answers = run.ran.into_iter().map(settle).collect();
        let panic = run.panic.map(|panic| self.settle_panic(panic));
        engine.work_a_little();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        Batch { answers }
    }

    /// Waits until it is durable that the position failed; if that is not to be, later ones wait for it in
    /// this process.
    fn settle_panic(&self, panic: Panicked) -> Box<dyn std::any::Any + Send> {
        self.consumer.counters.panics.add(1);
        let done = panic.done.map(|done| self.consumer.inbox.engine().wait(&done));
        if let Some(Err(error)) = done {
            drop(self.owe(panic.position, error)); // the panic goes on either way
        }
        panic.payload
    }

    /// Runs items until the group is full, one panics, or none is left.
    fn run_group<'m, M: 'm, T>(
        &self,
        items: impl Iterator<Item = &'m M>,
        arrivals: &[Item],
        (arrival, handler): (
            &impl for<'e> Fn(&'e M) -> (u64, Option<Event<'e>>),
            &mut impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
        ),
        run: &mut Run<T>,
    ) -> Result<(), Error> {
        let consumer = &self.consumer;
        let engine = consumer.inbox.engine();
        engine.check_open()?;
        if arrivals.iter().any(|(_, delivery)| delivery.as_ref().is_ok_and(|d| !d.ids.is_empty())) {
            engine.throttle()?;
        }
        let mut turn = engine.turn(consumer.max_wait)?;
        engine.check_generation(consumer.handling.scope)?;
        let epoch = turn.core().epoch;
        if run.epoch.replace(epoch).is_some_and(|before| before != epoch) {
            drop(turn);
            self.note_what_was_lost(run);
            return Ok(()); // and takes another turn
        }
        let classes = engine.classes_of(&consumer.handling);
        let mut sitting = engine.sit(turn.core(), &self.source, self.class())?;
        let first = run.ran.len();
        for (item, (position, delivery)) in items.zip(arrivals) {
            let core = turn.core();
            let is_bare = delivery.as_ref().is_ok_and(|delivery| delivery.ids.is_empty());
            let placed = match delivery {
                Err(error) => Placed::Ran(Ran::Failed(error.clone()), Moment::default()),
                Ok(delivery) => {
                    let handling = &consumer.handling;
                    let id = || {
                        let event = arrival(item).1;
                        event.map_or_else(Vec::new, |event| event.id().as_encoded().to_vec())
                    };
                    let sender = self.sender(*position, is_bare, &id);
                    let case = Case { handling, classes: &classes, delivery, sender, missed: None };
                    let at = (&self.source, *position);
                    let handler = in_tx_of(delivery, |tx: &mut Tx<'_>| handler(tx, item));
                    engine.place(core, &mut sitting, at, case, handler)
                }
            };
            let placed = match placed {
                Placed::Ran(Ran::Panicked(payload), _) => {
                    run.panic = Some(Panicked { position: *position, payload, done: None });
                    break;
                }
                Placed::Ran(Ran::Failed(error), moved) => {
                    // In time for the next item.
                    Placed::Ran(Ran::Failed(self.note_owed(*position, error)), moved)
                }
                other => other,
            };
            run.ran.push(PlacedItem { position: *position, is_bare, placed, done: None });
            if core.group.is_full() || core.group.events >= GROUP_MAX_EVENTS {
                break;
            }
        }
        engine.rise(turn.core(), &self.source, &mut sitting);
        let done = turn.attach_waiting();
        for item in run.ran.iter_mut().skip(first) {
            item.done.clone_from(&done);
        }
        if let Some(panic) = &mut run.panic {
            panic.done = done;
        }
        Ok(())
    }

    /// After a recovery: what ran before it and is not durable blocks what comes.
    fn note_what_was_lost<T>(&self, run: &Run<T>) {
        let engine = self.consumer.inbox.engine();
        for item in &run.ran {
            if let Some(done) = &item.done
                && engine.wait(done).is_err()
            {
                return engine.owed.add(&self.source, item.position);
            }
        }
    }
}

/// Answers for items that no turn could be had for: the first gets the error, and so do those that it does
/// not block.
fn rest_of_failed<T>(rest: Option<&[Item]>, error: &Error) -> impl Iterator<Item = PlacedItem<T>> {
    let rest = rest.unwrap_or_default();
    let first = rest.first().map(|(position, _)| *position);
    rest.iter().map(move |(position, delivery)| {
        let placed = match first {
            Some(at) if at < *position => Placed::Blocked { at },
            _ => Placed::Ran(Ran::Failed(error.clone()), Moment::default()),
        };
        let is_bare = delivery.as_ref().is_ok_and(|delivery| delivery.ids.is_empty());
        PlacedItem { position: *position, is_bare, placed, done: None }
    })
}

//! Calls with many deliveries.
//!
//! What must hold: BT1. Answers come in the order of the items, one for each. BT2. A batch takes the write
//! slot once a group, not once an item.

use std::panic::resume_unwind;

use super::super::batch::{Batch, BatchTicket};
use super::super::event::Event;
use super::super::finish::Finisher;
use super::super::outcome::Outcome;
use super::super::tx::Tx;
use super::{Consumer, RanItem, in_tx};
use crate::base::error::{BoxError, Error};
use crate::base::sync::Arc;
use crate::engine::outbox::Sender;
use crate::engine::{Ahead, Case, Committed, Delivery, Done, Ran};

/// For how many deliveries the filters are asked at once.
const ASKED_AT_ONCE: usize = 1_024;

/// What everybody who waits for a group is told.
type GroupAnswer = Result<Arc<Committed>, Error>;

/// How far a batch has come.
struct BatchRun<T> {
    ran: Vec<RanItem<T>>,
    /// Whether the caller waits for the answers himself.
    waits: bool,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

impl Consumer {
    /// Handles many deliveries, sharing commits: one answer per item, in order.
    ///
    /// `event` names the event of an item; `handler` runs for each new one. Not atomic as a whole:
    /// an item that fails leaves the others as they are. Durable when it returns. A repeat inside
    /// the batch is a duplicate. A call that cannot write at all gives every item that error.
    ///
    /// See [`Batch`] for an example.
    ///
    /// # Panics
    /// If a handler panics, the panic goes on to the caller once the items before it are durable;
    /// those after it have not run.
    pub fn process_batch<M, T>(
        &self,
        items: &[M],
        event: impl for<'m> Fn(&'m M) -> Event<'m>,
        handler: impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
    ) -> Batch<T> {
        let engine = self.inbox.engine();
        let run = self.run_batch(items, event, handler, true);
        let answers = self.settle_all(&self.finisher(), run.ran);
        engine.work_a_little();
        if let Some(panic) = run.panic {
            resume_unwind(panic);
        }
        Batch { answers }
    }

    /// As [`process_batch`](Self::process_batch), but returns once the handlers have run; the ticket
    /// tells when the answers are durable. With one or two tickets waiting while the next batch is
    /// handled, a single caller keeps both the processor and the disk busy.
    ///
    /// Threads are as for [`submit`](Self::submit).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Event, EventId, Inbox, Retention};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let consumer = inbox.consumer("c")?;
    /// let polls = [["a", "b"], ["b", "c"], ["c", "d"]];
    /// let (mut waiting, mut applied) = (std::collections::VecDeque::new(), 0);
    /// for poll in &polls {
    ///     let ticket = consumer.submit_batch(
    ///         poll,
    ///         |id| Event::unchecked(EventId::text(id).unwrap()),
    ///         |_, _| Ok(()),
    ///     );
    ///     waiting.push_back(ticket);
    ///     if waiting.len() > 1 {
    ///         let batch = waiting.pop_front().unwrap().wait(); // acknowledge only now
    ///         applied += batch.iter().filter(|a| a.as_ref().unwrap().is_applied()).count();
    ///     }
    /// }
    /// for batch in waiting {
    ///     applied += batch.wait().iter().filter(|a| a.as_ref().unwrap().is_applied()).count();
    /// }
    /// assert_eq!(applied, 4);
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Panics
    /// If a handler panics, the panic goes on to the caller at once. The items before it are committed,
    /// but nobody is left to be told.
    pub fn submit_batch<M, T>(
        &self,
        items: &[M],
        event: impl for<'m> Fn(&'m M) -> Event<'m>,
        handler: impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
    ) -> BatchTicket<T> {
        let engine = self.inbox.engine();
        engine.start_sync_thread();
        let run = self.run_batch(items, event, handler, false);
        engine.work_a_little();
        let ticket = BatchTicket::new(run.ran, self.clone());
        if let Some(panic) = run.panic {
            resume_unwind(panic);
        }
        ticket
    }

    /// Waits for the groups of a batch, each once: items of one group stand together.
    pub(crate) fn settle_all<T>(
        &self,
        finisher: &Finisher,
        ran: Vec<RanItem<T>>,
    ) -> Vec<Result<Outcome<T>, Error>> {
        let engine = self.inbox.engine();
        let mut last: Option<(Arc<Done>, GroupAnswer)> = None;
        let mut answers = Vec::with_capacity(ran.len());
        for (ran, done) in ran {
            if let Some(done) = &done
                && last.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, done))
            {
                last = Some((done.clone(), engine.wait(done)));
            }
            let committed = match (&done, &last) {
                (Some(_), Some((_, answer))) => answer.as_deref().map(Some).map_err(Error::clone),
                _ => Ok(None),
            };
            answers.push(self.answer(finisher, ran, committed));
        }
        answers
    }

    fn run_batch<M, T>(
        &self,
        items: &[M],
        event: impl for<'m> Fn(&'m M) -> Event<'m>,
        mut handler: impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
        waits: bool,
    ) -> BatchRun<T> {
        let engine = self.inbox.engine();
        // Hashing needs no lock, so it is done before the slot is asked for.
        let deliveries: Vec<_> =
            items.iter().map(|item| self.delivery(engine, &event(item))).collect();
        let mut run = BatchRun { ran: Vec::with_capacity(items.len()), panic: None, waits };
        while run.panic.is_none() && run.ran.len() < items.len() {
            let next = run.ran.len();
            let soon = deliveries.iter().skip(next).take(ASKED_AT_ONCE);
            let ahead = engine.look_ahead(&self.handling, soon);
            let (items, deliveries) = (items.iter().skip(next), &deliveries);
            let rest = items.zip(deliveries.get(next..).unwrap_or_default());
            if let Err(error) = self.run_group(rest, &ahead, (&event, &mut handler), &mut run) {
                run.ran.resize_with(deliveries.len(), || (Ran::Failed(error.clone()), None));
            }
        }
        run
    }

    /// Runs items until the group is full, one panics, or none is left.
    fn run_group<'m, M: 'm, T>(
        &self,
        rest: impl Iterator<Item = (&'m M, &'m Result<Delivery, Error>)>,
        ahead: &Ahead,
        (event, handler): (
            &impl for<'e> Fn(&'e M) -> Event<'e>,
            &mut impl FnMut(&mut Tx<'_>, &M) -> Result<T, BoxError>,
        ),
        run: &mut BatchRun<T>,
    ) -> Result<(), Error> {
        let engine = self.inbox.engine();
        engine.check_open()?;
        let throttled = engine.throttle().err();
        let mut turn = engine.turn(self.max_wait)?;
        engine.check_generation(self.handling.scope)?;
        let classes = engine.classes_of(&self.handling);
        for (index, (item, delivery)) in rest.enumerate() {
            let ran = match delivery {
                Err(error) => Ran::Failed(error.clone()),
                // Too much in memory, and it could not be sealed: repeats are answered all the same.
                Ok(delivery) if let Some(error) = &throttled => {
                    match engine.peek(&self.handling, delivery)? {
                        Ok(draft) => Ran::Draft(draft),
                        Err(_) => Ran::Failed(error.clone()),
                    }
                }
                Ok(delivery) => {
                    let (handling, missed) = (&self.handling, ahead.missed(index, &classes));
                    let id = || event(item).id().as_encoded().to_vec();
                    let sender = Sender::Event { consumer: &self.name, id: &id };
                    let case = Case { handling, classes: &classes, delivery, sender, missed };
                    engine.handle(turn.core(), case, in_tx(|tx: &mut Tx<'_>| handler(tx, item)))
                }
            };
            self.note(&ran);
            if let Ran::Panicked(payload) = ran {
                run.panic = Some(payload);
                break;
            }
            run.ran.push((ran, turn.attach()));
            if turn.core().group.is_full() {
                break;
            }
        }
        if let (true, Some((_, Some(done)))) = (run.waits, run.ran.last()) {
            done.promise();
        }
        Ok(())
    }
}

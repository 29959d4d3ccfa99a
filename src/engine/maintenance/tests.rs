//! Maintenance, a step at a time, with what can come between two steps.

use super::*;
use crate::api::consumer::Consumer;
use crate::api::event::Event;
use crate::api::event_id::EventId;
use crate::api::inbox::Inbox;
use crate::base::sync::Arc;
use crate::claims::policy::{Retention, hours};

fn event(n: &u64) -> Event<'_> {
    Event::unchecked(EventId::bytes(&n.to_be_bytes()).unwrap())
}

fn deliver(consumer: &Consumer, numbers: std::ops::Range<u64>) -> (usize, usize) {
    let numbers: Vec<u64> = numbers.collect();
    let batch = consumer.process_batch(&numbers, event, |_, _| Ok(()));
    let outcomes: Vec<_> = batch.into_iter().map(Result::unwrap).collect();
    let applied = outcomes.iter().filter(|o| o.is_applied()).count();
    (applied, outcomes.iter().filter(|o| o.is_duplicate()).count())
}

fn is_merging(engine: &Engine) -> bool {
    engine.maintenance.lock().build.as_ref().is_some_and(Build::is_merge)
}

/// Delivers new events until a merge has begun and nothing of it is read yet; returns how many.
fn deliver_until_merging(engine: &Engine, consumer: &Consumer) -> u64 {
    for n in 0..1_000 {
        assert_eq!(deliver(consumer, n * 100..(n + 1) * 100), (100, 0));
        while !is_merging(engine) && engine.maintain_step().unwrap().is_some() {}
        if is_merging(engine) {
            return (n + 1) * 100;
        }
    }
    panic!("no merge was ever due");
}

/// A view that pins too much is ended, and maintenance reads through such a view. A merge that was
/// reading then must not be published with the claims that it had read by then: the build is given
/// up, its tables are freed, and the next one goes through.
#[test]
fn mt3_a_view_ended_under_a_merge_gives_the_build_up_and_the_next_one_succeeds() {
    let inbox = Inbox::builder(Retention::at_least(hours(31)))
        .no_threads()
        .recent_max_claims(1_024)
        .open_in_memory()
        .unwrap();
    let (engine, consumer) = (inbox.engine().clone(), inbox.consumer("c").unwrap());
    let delivered = deliver_until_merging(&engine, &consumer);
    let runs = |engine: &Engine| engine.state.read().runs.values().flatten().count();
    let runs_before = runs(&engine);

    let old = engine.state.read().snapshot.clone();
    engine.checkpoint_soon().unwrap();
    old.stored().end();
    let newest = std::mem::replace(&mut engine.state.write().snapshot, old);
    let error = engine.maintain_step().unwrap_err();
    assert!(error.is_view_ended(), "{error}");
    engine.state.write().snapshot = newest;
    {
        let work = engine.maintenance.lock();
        assert_eq!(work.epoch, None, "what is under way is begun anew");
    }
    assert_eq!(runs(&engine), runs_before, "nothing was published");

    let mut merged = 0;
    while let Some(step) = engine.maintain_step().unwrap() {
        merged += step.claims_merged;
    }
    assert!(merged > 0 && runs(&engine) < runs_before);
    let sealed: u64 = engine.state.read().runs.values().flatten().map(|r| r.meta().claims).sum();
    assert_eq!(sealed + engine.state.read().recent.len() as u64, delivered);
    assert_eq!(deliver(&consumer, 0..delivered), (0, delivered as usize));
    engine.checkpoint_soon().unwrap();
    let fresh = Maintenance::new(&engine.state.read()).unwrap();
    assert!(
        fresh.garbage.iter().all(|g| matches!(g, Garbage::Recent { .. })),
        "nothing is left over"
    );
    drop::<Arc<Engine>>(engine);
}

//! Maintenance, a step at a time, with what can come between two steps.

use super::*;
use crate::api::consumer::Consumer;
use crate::api::event::Event;
use crate::api::event_id::EventId;
use crate::api::inbox::Inbox;
use crate::claims::policy::{Retention, hours};
use crate::claims::state::Tombstones;

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
        let nobody_else_works = engine.maintenance.lock();
        assert_eq!(deliver(consumer, n * 100..(n + 1) * 100), (100, 0));
        drop(nobody_else_works);
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
    {
        let mut work = engine.maintenance.lock();
        assert_eq!(deliver(&consumer, delivered..delivered + 1), (1, 0));
        engine.checkpoint_soon().unwrap();
        old.stored().end();
        let none = Tombstones::default();
        let build = work.build.as_mut().unwrap();
        let error = build.prepare(&old, &none, &mut Workbench::default()).unwrap_err();
        assert!(error.is_view_ended(), "{error}");
    }
    // Even by whoever did not notice: the partition that failed is missing.
    let error = engine.maintain_step().unwrap_err();
    assert!(error.is_view_ended(), "{error}");
    assert_eq!(engine.maintenance.lock().epoch, None, "what is under way is begun anew");
    assert_eq!(runs(&engine), runs_before, "nothing was published");

    let mut merged = 0;
    while let Some(step) = engine.maintain_step().unwrap() {
        merged += step.claims_merged;
    }
    assert!(merged > 0 && runs(&engine) < runs_before);
    let sealed: u64 = engine.state.read().runs.values().flatten().map(|r| r.meta().claims).sum();
    assert_eq!(sealed + engine.state.read().recent.len() as u64, delivered + 1);
    assert_eq!(deliver(&consumer, 0..delivered), (0, delivered as usize));
    let nobody_else_works = engine.maintenance.lock();
    assert_eq!(deliver(&consumer, delivered + 1..delivered + 2), (1, 0));
    engine.checkpoint_soon().unwrap(); // of which the freed tables are gone
    drop(nobody_else_works);
    let fresh = Maintenance::new(&engine.state.read(), &engine.registry.read()).unwrap();
    assert!(
        fresh.garbage.iter().all(|g| matches!(g, Garbage::Recent { .. })),
        "nothing is left over"
    );
}

/// MT4. A long merge must not let recent claims pile up: once they are due they are sealed first, and
/// the merge then goes on where it was.
#[test]
fn mt4_a_merge_gives_way_to_a_seal_and_goes_on_after_it() {
    let inbox = Inbox::builder(Retention::at_least(hours(31)))
        .no_threads()
        .recent_max_claims(1_024)
        .open_in_memory()
        .unwrap();
    let (engine, consumer) = (inbox.engine().clone(), inbox.consumer("c").unwrap());
    let mut delivered = deliver_until_merging(&engine, &consumer);
    let nobody_else_works = engine.maintenance.lock();
    let more = delivered + 900;
    for n in (delivered..more).step_by(100) {
        assert_eq!(deliver(&consumer, n..n + 100), (100, 0));
    }
    drop(nobody_else_works);
    delivered = more;
    let mut did = Vec::new();
    while let Some(step) = engine.maintain_step().unwrap() {
        did.extend((step.claims_sealed > 0).then_some("sealed"));
        did.extend((step.claims_merged > 0).then_some("merged"));
    }
    assert_eq!(did.first(), Some(&"sealed"));
    assert!(did.contains(&"merged"));
    assert!(engine.maintenance.lock().paused.is_none());
    assert_eq!(deliver(&consumer, 0..delivered), (0, delivered as usize));
}

//! D4: a call of a commit fails. What is seen before reopening, and after.

use txinbox::testkit::{Call, Fault};

use crate::d_faults::{Base, Run, faults, restarts, traced};
use crate::support::Way;

/// One fault in the commit of `e1`: checks every reading and writing around it.
fn case(base: &Base, way: Way, fault: Fault, seed: u64) {
    let context = format!("{way:?}, {fault:?}");
    let run = base.start();
    run.disk.inject(fault);
    let answer = run.deliver(way, "e1");
    let definite = answer.as_ref().is_err_and(|e| !e.is_unknown_outcome());

    // Before reopening, no reading shows a claim without its effect, nor one that was denied.
    if let (Some(claimed), Some(effects)) = (run.is_claimed("e1"), run.effects("e1")) {
        assert_eq!(effects, u64::from(claimed), "{context}: seen in part");
        assert!(!(claimed && definite), "{context}: a failed claim is seen");
        assert!(claimed || answer.is_err(), "{context}: a claim that was told is not seen");
    }
    // Another event is refused, or handled in truth.
    let next = run.deliver(way, "e2");
    if let Err(error) = &next {
        assert!(error.is_retryable(), "{context}: {error}");
    }
    run.recover();
    let healed = run.deliver(way, "e3");
    if run.disk.has_crashed() {
        assert!(healed.is_err(), "{context}");
    } else {
        assert!(healed.unwrap().is_applied(), "{context}: it does not recover");
    }

    for (how, disk) in restarts(&run.disk, seed) {
        let context = format!("{context}, then {how}");
        let again = Run::open(&disk);
        assert!(again.kept("e0", &context), "{context}: an old claim is gone");
        let kept = again.kept("e1", &context);
        assert!(kept || answer.is_err(), "{context}: acknowledged and lost");
        assert!(!(kept && definite), "{context}: denied and kept");
        let kept = again.kept("e2", &context);
        assert!(kept || next.is_err(), "{context}: acknowledged and lost");
        assert!(again.kept("e3", &context) || run.disk.has_crashed(), "{context}");
        again.inbox.verify().unwrap();
    }
}

/// Every call of a commit fails in every way that its kind can, once and from then on.
#[test]
fn d4_every_call_of_a_commit_fails_and_nothing_is_seen_or_kept_in_part() {
    let base = Base::new();
    let mut cases = 0;
    for way in Way::ALL {
        let trace = traced(&base, way);
        assert!(trace.iter().any(|t| t.call == Call::Write), "{trace:?}");
        assert!(trace.iter().any(|t| t.call == Call::Sync), "{trace:?}");
        for at in &trace {
            for fault in faults(at) {
                case(&base, way, fault, at.ordinal);
                cases += 1;
            }
            case(&base, way, Fault::crash(at.ordinal), at.ordinal);
            cases += 1;
        }
    }
    println!("{cases} faults");
    assert!(cases >= 200, "{cases}");
}

/// A view that was opened before the failed commit shows its own state or says that it has ended.
#[test]
fn d4_a_view_held_over_a_failed_commit_shows_its_own_state_or_ends() {
    let base = Base::new();
    for at in traced(&base, Way::Process) {
        for fault in faults(&at) {
            let run = base.start();
            run.inbox
                .read(|view| {
                    let seen = |name: &str| view.get(&run.counts, name);
                    assert_eq!((seen("e0")?, seen("e1")?), (Some(1), None));
                    run.disk.inject(fault.clone());
                    let answer = run.deliver(Way::Process, "e1");
                    run.disk.clear_faults();
                    for (name, before) in [("e0", Some(1)), ("e1", None)] {
                        match seen(name) {
                            Ok(n) => assert_eq!(n, before, "{fault:?}, {answer:?}"),
                            Err(error) => assert!(
                                error.is_view_ended() || error.is_io(),
                                "{fault:?}: {error}"
                            ),
                        }
                    }
                    Ok::<(), txinbox::Error>(())
                })
                .unwrap();
        }
    }
}

/// Of the events that shared the failed group, all are there or none is.
#[test]
fn d4_a_failed_group_of_several_events_is_whole_or_absent() {
    let base = Base::new();
    let names = ["e1", "e2", "e3", "e4", "e5"];
    let deliver = |run: &Run| {
        run.consumer.process_batch(
            &names,
            |name| crate::support::event(name),
            |tx, name| {
                crate::support::bump(tx, &run.counts, name)?;
                Ok(tx.set_result(*name)?)
            },
        )
    };
    let run = base.start();
    run.disk.record(true);
    assert_eq!(deliver(&run).settled_prefix(), names.len());
    for at in run.disk.trace() {
        for fault in faults(&at).into_iter().chain([Fault::crash(at.ordinal)]) {
            let context = format!("{fault:?}");
            let run = base.start();
            run.disk.inject(fault);
            let batch = deliver(&run);
            let told = batch.iter().filter(|answer| answer.is_ok()).count();
            assert!(told == 0 || told == names.len(), "{context}: {batch:?}");
            for (how, disk) in restarts(&run.disk, at.ordinal) {
                let context = format!("{context}, then {how}");
                let again = Run::open(&disk);
                let kept = names.iter().filter(|name| again.kept(name, &context)).count();
                assert!(kept == names.len() || (kept == 0 && told == 0), "{context}: {kept}");
            }
        }
    }
}

//! D3: whatever became of a commit, its error says so, and the next delivery tells the truth.

use txinbox::testkit::{Call, Fault, Keep, Loss};
use txinbox::{Error, Outcome};

use crate::d_faults::{Base, Run, faults, restarts, traced};
use crate::support::{Way, never};

/// Delivers `e1` again, and checks the answer against what was kept.
fn redeliver(run: &Run, way: Way, first: &Result<Outcome<()>, Error>, context: &str) {
    let kept = run.kept("e1", context);
    let definite = first.as_ref().is_err_and(|e| !e.is_unknown_outcome());
    assert!(!(kept && definite), "{context}: told that nothing was kept, and it was");
    assert!(kept || first.is_err(), "{context}: acknowledged and lost");
    let second = run.deliver(way, "e1").unwrap_or_else(|e| panic!("{context}: stuck: {e}"));
    assert_eq!(second.is_duplicate(), kept, "{context}: {second:?}");
    assert_eq!(second.is_applied(), !kept, "{context}: {second:?}");
    assert_eq!(run.effects("e1"), Some(1), "{context}: not exactly once");
    assert!(run.deliver(way, "e1").unwrap().is_duplicate(), "{context}");
}

fn check_message(error: &Error, context: &str) {
    let text = error.to_string();
    assert!(error.is_retryable(), "{context}: {text}");
    assert_eq!(error.is_unknown_outcome(), text.contains("is unknown"), "{context}: {text}");
    assert!(text.contains("deliver the event again"), "{context}: {text}");
}

/// Every call fails in every way; the event is delivered again in the same process, by a new
/// process, and after power cuts that lose none or all of what was not synced.
#[test]
fn d3_after_a_fault_at_every_call_the_next_delivery_tells_the_truth() {
    let base = Base::new();
    let (mut unknown, mut definite) = (0, 0);
    for way in Way::ALL {
        for at in traced(&base, way) {
            for fault in faults(&at) {
                let context = format!("{way:?}, {fault:?}");
                let run = base.start();
                run.disk.inject(fault);
                let first = run.deliver(way, "e1");
                if let Err(error) = &first {
                    check_message(error, &context);
                    *if error.is_unknown_outcome() { &mut unknown } else { &mut definite } += 1;
                }
                for (how, disk) in restarts(&run.disk, at.ordinal) {
                    let context = format!("{context}, then {how}");
                    redeliver(&Run::open(&disk), way, &first, &context);
                }
                run.recover();
                redeliver(&run, way, &first, &context);
            }
        }
    }
    println!("{unknown} unknown, {definite} definite");
    assert!(unknown > 0 && definite > 0, "{unknown} unknown, {definite} definite");
}

/// The power goes at every call, and any part of what was not synced survives.
#[test]
fn d3_after_a_power_cut_at_every_call_the_next_delivery_tells_the_truth() {
    let base = Base::new();
    for at in traced(&base, Way::Process) {
        let run = base.start();
        run.disk.inject(Fault::crash(at.ordinal));
        let first = run.deliver(Way::Process, "e1");
        let context = format!("power cut at {at}");
        assert!(first.as_ref().is_err_and(Error::is_unknown_outcome) || !at.call.changes());
        let subsets = (0..8).flat_map(|seed| [Keep::Subset(seed), Keep::Sectors(seed)]);
        let singles = (0..run.disk.unsynced().len()).map(Keep::Only);
        for keep in [Keep::Nothing, Keep::Everything].into_iter().chain(subsets).chain(singles) {
            let disk = run.disk.power_cut(keep);
            redeliver(&Run::open(&disk), Way::Process, &first, &format!("{context}, {keep}"));
        }
    }
}

/// The last sync reports a failure although all it was to make durable is on the disk: the caller
/// hears that the outcome is unknown, and the next delivery is a duplicate.
#[test]
fn d3_a_commit_that_became_durable_unnoticed_is_a_duplicate_afterwards() {
    let base = Base::new();
    let syncs = traced(&base, Way::Process).into_iter().filter(|t| t.call == Call::Sync);
    let last = syncs.last().unwrap().ordinal;
    for (fault, must_be_kept) in
        [(Fault::error(last, &[Call::Sync]), true), (Fault::lost_sync(last, Loss::All), false)]
    {
        let run = base.start();
        run.disk.inject(fault);
        let error = run.deliver(Way::Process, "e1").unwrap_err();
        assert!(error.is_unknown_outcome() || !must_be_kept, "{error}");
        let again = Run::open(&run.disk.power_cut(Keep::Nothing));
        let kept = again.kept("e1", "the last sync failed");
        assert_eq!(kept, error.is_unknown_outcome());
        let stats = run.inbox.stats().unwrap();
        assert_eq!((stats.failed_commits, stats.consumers["c"].applied), (1, 0));
        if kept {
            let event = txinbox::Event::new(crate::support::id("e1"), "payload");
            let answer = again.consumer.process(&event, never::<()>).unwrap();
            assert_eq!(answer.claim().unwrap().result(), Some(&b"e1"[..]));
        }
    }
}

/// The store meets a second fault while it recovers from the first: at every call after it.
#[test]
fn d3_after_a_second_fault_while_recovering_the_next_delivery_tells_the_truth() {
    let base = Base::new();
    let trace = traced(&base, Way::Process);
    let syncs = trace.iter().filter(|t| t.call == Call::Sync).map(|t| t.ordinal);
    let firsts =
        syncs.flat_map(|n| [Fault::error(n, &[Call::Sync]), Fault::lost_sync(n, Loss::All)]);
    let mut cases = 0;
    for first_fault in firsts {
        let run = base.start();
        run.disk.record(true);
        run.disk.inject(first_fault.clone());
        assert!(run.deliver(Way::Process, "e1").is_err());
        let after = run.disk.trace().into_iter().skip(trace.len());
        for at in after {
            let seconds = faults(&at).into_iter().chain([Fault::crash(at.ordinal)]);
            for second in seconds {
                let context = format!("{first_fault:?}, then {second:?}");
                let run = base.start();
                run.disk.inject(first_fault.clone());
                run.disk.inject(second);
                let first = run.deliver(Way::Process, "e1");
                check_message(first.as_ref().unwrap_err(), &context);
                for (how, disk) in restarts(&run.disk, at.ordinal) {
                    let context = format!("{context}, then {how}");
                    redeliver(&Run::open(&disk), Way::Process, &first, &context);
                }
                if !run.disk.has_crashed() {
                    run.recover();
                    redeliver(&run, Way::Process, &first, &context);
                }
                cases += 1;
            }
        }
    }
    println!("{cases} pairs of faults");
    assert!(cases >= 200, "{cases}");
}

//! Case Q: memory an id costs, and space that failed events give back.

use txinbox::{BoxError, Map, Retention, hours};

use crate::kit::{Lab, deliver, event, sized};

/// The documented bounds: 32 bytes a claim in memory before it is sealed, about 1.2 bytes after.
const RECENT_BYTES: u64 = 32;
const SEALED_MILLIBYTES: u64 = 1_400;
/// The fixed part of each: first tables, and fuse filters of few claims, which need more.
const FIXED_BYTES: u64 = 160 << 10;

/// Q6: bytes of memory an id, while there are more and more, after reopening and after expiry.
fn q6_memory_an_id(ids: u64, recent_max_claims: usize) {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let builder = || lab.builder().recent_max_claims(recent_max_claims);
    let inbox = builder().open_on(&lab.disk).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let within_bounds = |inbox: &txinbox::Inbox, when: &str| {
        inbox.sweep().unwrap();
        let stats = inbox.stats().unwrap();
        let recent_max = recent_max_claims as u64 * 5 / 4 + 4_096;
        assert!(stats.recent_claims <= recent_max, "{when}: {stats:?}");
        let limit = RECENT_BYTES * 2 * recent_max + FIXED_BYTES;
        assert!(stats.recent_memory_bytes <= limit, "{when}: {stats:?}");
        let limit = stats.sealed_claims * SEALED_MILLIBYTES / 1_000 + FIXED_BYTES;
        assert!(stats.filter_memory_bytes <= limit, "{when}: {stats:?}");
        stats
    };
    for tenth in 0..10 {
        let own = tenth * (ids / 10)..(tenth + 1) * (ids / 10);
        assert_eq!(deliver(&consumer, own), (ids / 10, 0));
        lab.clock.advance(hours(2));
        within_bounds(&inbox, "growing");
    }
    let stats = within_bounds(&inbox, "full");
    assert_eq!(stats.recent_claims + stats.sealed_claims, ids);
    assert!(stats.sealed_claims > ids / 2);
    let per_claim = stats.sealed_bytes / stats.sealed_claims;
    assert!(per_claim <= 34, "{per_claim} bytes of pages a sealed claim");
    drop((consumer, inbox));

    let inbox = builder().open_on(&lab.disk).unwrap();
    let stats = within_bounds(&inbox, "reopened");
    assert!(stats.filter_memory_bytes >= stats.sealed_claims, "the filters are in memory again");
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(deliver(&consumer, 0..ids.min(10_000)), (0, ids.min(10_000)));
    lab.clock.advance(hours(60));
    inbox.sweep().unwrap();
    let stats = within_bounds(&inbox, "expired");
    assert_eq!((stats.recent_claims, stats.sealed_claims, stats.filter_memory_bytes), (0, 0, 0));
    assert!(stats.recent_memory_bytes <= FIXED_BYTES, "{stats:?}");
}

#[test]
fn q6_bytes_of_memory_an_id_stay_bounded() {
    q6_memory_an_id(sized(60_000, 300_000), 4_096);
}

#[test]
#[ignore = "ten million ids; run by the deep suite: cargo test --release -- --ignored"]
fn q6_bytes_of_memory_an_id_stay_bounded_at_ten_million() {
    q6_memory_an_id(10_000_000, 1 << 18);
}

#[test]
#[ignore = "fifty million ids; run by the deep suite: cargo test --release -- --ignored"]
fn q6_bytes_of_memory_an_id_stay_bounded_at_fifty_million() {
    q6_memory_an_id(50_000_000, 1 << 20);
}

/// Q7: a hundred thousand handlers that wrote, set results, and returned an error. Not one byte reaches
/// the disk for them, alone or in batches.
#[test]
fn q7_failing_handlers_cost_no_space() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let state: Map<u64, [u8]> = inbox.map("state").unwrap();
    let consumer = inbox.consumer("c").unwrap();
    deliver(&consumer, 0..100);
    let before = inbox.stats().unwrap();
    let fail = |tx: &mut txinbox::Tx<'_>, n: u64| -> Result<(), BoxError> {
        tx.insert(&state, &n, &[7; 200])?;
        tx.set_result(vec![1; 50])?;
        Err("not today".into())
    };
    let each = 50_000;
    for n in 0..each {
        let error = consumer.process(&event(1_000 + n), |tx| fail(tx, n)).unwrap_err();
        assert!(error.is_handler());
    }
    let numbers: Vec<u64> = (0..each).collect();
    for chunk in numbers.chunks(1_000) {
        let batch = consumer.process_batch(chunk, |n| event(1_000 + *n), |tx, n| fail(tx, *n));
        assert!(batch.iter().all(Result::is_err));
    }
    let after = inbox.stats().unwrap();
    assert_eq!(after.consumers["c"].handler_errors, 2 * each);
    assert_eq!(after.file_bytes, before.file_bytes);
    assert_eq!(after.written_bytes, before.written_bytes);
    assert_eq!(after.groups, before.groups);
    assert_eq!(after.consumers["c"].claims, 100);
    inbox
        .read(|view| view.len(&state))
        .map(|rows| assert_eq!(rows, 0))
        .unwrap_or_else(|error: txinbox::Error| panic!("{error}"));
}

/// Q7: failures between successes: a group keeps the bytes of those that succeed, and no others.
#[test]
fn q7_failures_among_successes_leave_nothing() {
    let written = |failures: u64| {
        let lab = Lab::new(Retention::at_least(hours(31)));
        let inbox = lab.open();
        let state: Map<u64, [u8]> = inbox.map("state").unwrap();
        let consumer = inbox.consumer("c").unwrap();
        for round in 0..20 {
            let numbers: Vec<u64> = (0..20 + failures).map(|i| round * 10_000 + i).collect();
            let batch = consumer.process_batch(
                &numbers,
                |n| event(*n),
                |tx, n| {
                    tx.insert(&state, n, &[7; 200])?;
                    if n % 10_000 < 20 { Ok(()) } else { Err("no".into()) }
                },
            );
            assert_eq!(batch.iter().filter(|answer| answer.is_ok()).count(), 20);
        }
        let rows: Result<u64, txinbox::Error> = inbox.read(|view| view.len(&state));
        assert_eq!(rows.unwrap(), 400);
        inbox.stats().unwrap().file_bytes
    };
    assert_eq!(written(0), written(200));
}

//! Groups by events and bytes, recent claims, buckets and runs.

use std::time::Duration;

use txinbox::{Inbox, Map};

use super::{builder, clock, event, inbox};

fn groups(inbox: &Inbox) -> u64 {
    inbox.stats().unwrap().groups
}

#[test]
fn a_group_takes_4_096_events() {
    for (events, expected) in [(0, 0), (1, 1), (4_095, 1), (4_096, 1), (4_097, 2), (8_193, 3)] {
        let inbox = inbox();
        let consumer = inbox.consumer("c").unwrap();
        let items: Vec<usize> = (0..events).collect();
        let batch = consumer.process_batch(&items, |n| event(*n), |_, _| Ok(()));
        assert!(batch.iter().all(|answer| answer.as_ref().unwrap().is_applied()));
        assert_eq!(batch.settled_prefix(), events);
        assert_eq!(groups(&inbox), expected, "{events} events");
        assert_eq!(inbox.stats().unwrap().grouped_events, events as u64);
    }
}

/// Repeats are no reason to commit, however many there are.
#[test]
fn a_group_of_repeats_alone_is_none() {
    let inbox = inbox();
    let consumer = inbox.consumer("c").unwrap();
    let items = vec![0; 10_000];
    let batch = consumer.process_batch(&items, |n| event(*n), |_, _| Ok(()));
    assert_eq!(batch.iter().filter(|a| a.as_ref().unwrap().is_applied()).count(), 1);
    let before = groups(&inbox);
    let batch = consumer.process_batch(&items, |n| event(*n), |_, _| Ok(()));
    assert_eq!(batch.settled_prefix(), items.len());
    assert_eq!(groups(&inbox), before);
}

#[test]
fn a_group_takes_8_mib_of_staged_bytes() {
    const GROUP_MAX: usize = 8 << 20;
    // A key of one byte and a checksum of four.
    for (bytes, expected) in [(GROUP_MAX - 1, 1), (GROUP_MAX, 2), (GROUP_MAX + 1, 2)] {
        let inbox = inbox();
        let map: Map<u8, [u8]> = inbox.map("m").unwrap();
        let consumer = inbox.consumer("c").unwrap();
        let value = vec![7; bytes - 5];
        let batch = consumer.process_batch(
            &[0_u8, 1],
            |n| event((*n).into()),
            |tx, n| if *n == 0 { Ok(tx.insert(&map, n, &value)?) } else { Ok(()) },
        );
        assert_eq!(batch.settled_prefix(), 2);
        assert_eq!(groups(&inbox), expected, "{bytes} bytes");
    }
    // Results count among them.
    let inbox = inbox();
    let consumer = inbox.consumer("c").unwrap();
    let result = vec![7; GROUP_MAX];
    let set = |tx: &mut txinbox::Tx<'_>, _: &usize| Ok(tx.set_result(&result[..])?);
    let batch = consumer.process_batch(&[0, 1], |n| event(*n), set);
    assert_eq!(batch.settled_prefix(), 2);
    assert_eq!(groups(&inbox), 2);
}

/// Claims past the limit wait for sealing; nothing is refused or dropped (case M5).
#[test]
fn m5_more_claims_than_the_memory_for_them_are_all_kept() {
    const RECENT_MAX: usize = 1_024;
    let inbox = builder().recent_max_claims(RECENT_MAX).open_in_memory().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let items: Vec<usize> = (0..4 * RECENT_MAX).collect();
    for some in items.chunks(RECENT_MAX / 2 + 1) {
        let batch = consumer.process_batch(some, |n| event(*n), |_, _| Ok(()));
        assert_eq!(batch.settled_prefix(), some.len());
        let stats = inbox.stats().unwrap();
        let most = RECENT_MAX + RECENT_MAX / 4 + some.len();
        assert!(stats.recent_claims <= most as u64, "{stats:?}");
    }
    assert!(inbox.stats().unwrap().throttled > 0);
    let again = consumer.process_batch(&items, |n| event(*n), |_, _| Ok(()));
    assert!(again.iter().all(|answer| answer.as_ref().unwrap().is_duplicate()));
}

/// At most 9 buckets and 16 runs of a class, at every moment of three retentions.
#[test]
fn buckets_and_runs_of_a_class_are_bounded() {
    let clock = clock();
    let inbox = builder().clock(clock.clone()).recent_max_claims(1_024).open_in_memory().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    let mut most = (0, 0);
    let mut next = 0;
    for step in 0..120 {
        // Some spans are quiet, in others many runs are sealed.
        let events = if step % 7 == 0 { 1_200 } else { 20 };
        let items: Vec<usize> = (next..next + events).collect();
        next += events;
        let batch = consumer.process_batch(&items, |n| event(*n), |_, _| Ok(()));
        assert_eq!(batch.settled_prefix(), items.len());
        clock.advance(Duration::from_secs(80)); // five steps a bucket
        inbox.sweep().unwrap();
        let stats = inbox.stats().unwrap();
        most = (most.0.max(stats.buckets), most.1.max(stats.runs));
        assert!(stats.buckets <= 9 && stats.runs <= 16, "{stats:?}");
    }
    assert_eq!(most.0, 9, "the bound is reached");
    assert!(inbox.stats().unwrap().claims_expired > 0);
}

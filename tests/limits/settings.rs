//! The builder's settings and the retention's range.

use std::time::Duration;

use txinbox::{Builder, Durability, Inbox, Map, Retention};

use super::{builder, deliver, event, inbox};

/// Opens with the setting at each value and says which were refused as out of range.
fn refused<T: Copy>(set: impl Fn(Builder, T) -> Builder, values: &[T]) -> Vec<bool> {
    let refused = values.iter().map(|value| match set(builder(), *value).open_in_memory() {
        Ok(inbox) => {
            assert!(deliver(&inbox.consumer("c").unwrap(), &event(1)).unwrap().is_applied());
            assert!(inbox.sweep().is_ok());
            false
        }
        Err(error) => {
            assert!(error.is_invalid(), "{error}");
            true
        }
    });
    refused.collect()
}

#[test]
fn settings_have_a_least_value() {
    let expected = [true, true, false, false];
    assert_eq!(refused(Builder::sweep_budget_us, &[0, 99, 100, 101]), expected);
    assert_eq!(refused(Builder::recent_max_claims, &[0, 1_023, 1_024, 1_025]), expected);
    let mib = 1 << 20;
    assert_eq!(refused(Builder::cache_bytes, &[0, mib - 1, mib, mib + 1]), expected);
    assert_eq!(refused(Builder::sweep_budget_us, &[u64::MAX]), [false]);
    assert_eq!(refused(Builder::view_max_pinned_bytes, &[0, 1, u64::MAX]), [false; 3]);
}

/// Case P4: a retention of 0, of the largest size, and around both ends of its range.
#[test]
fn p4_retentions_are_refused_outside_their_range() {
    let open = |ms| Inbox::in_memory(Retention::at_least(Duration::from_millis(ms)));
    assert!(open(0).unwrap_err().is_invalid());
    assert!(open(999).unwrap_err().is_invalid());
    let thousand_years_ms = 1_000 * 365 * 24 * 3_600_000;
    for ms in [1_000, 1_001, thousand_years_ms - 1, thousand_years_ms] {
        let inbox = open(ms).unwrap();
        assert!(inbox.retention().unwrap() >= Duration::from_millis(ms));
        let consumer = inbox.consumer("c").unwrap();
        assert!(deliver(&consumer, &event(1)).unwrap().is_applied());
        assert!(deliver(&consumer, &event(1)).unwrap().is_duplicate());
    }
    assert!(open(thousand_years_ms + 1).unwrap_err().is_limit());
    assert!(Inbox::in_memory(Retention::at_least(Duration::MAX)).unwrap_err().is_limit());
    assert!(Inbox::in_memory(Retention::covering()).unwrap_err().is_invalid());
    let sum = Retention::covering().broker(Duration::MAX).retries(Duration::MAX);
    assert!(Inbox::in_memory(sum.recovery(Duration::MAX)).unwrap_err().is_limit());
    assert_eq!(Inbox::in_memory(Retention::forever()).unwrap().retention(), None);
    // A part of a millisecond is rounded up, never down.
    let above = Retention::at_least(Duration::from_nanos(999_000_001));
    assert!(Inbox::in_memory(above).is_ok());
}

/// 64 retentions: the store's own and 63 of consumers.
#[test]
fn a_store_has_at_most_64_different_retentions() {
    let inbox = inbox();
    let of = |n: u64| Retention::at_least(Duration::from_secs(10_000 + n));
    for n in 0..63 {
        inbox.consumer_with(&format!("c{n}"), of(n)).unwrap();
    }
    assert!(inbox.consumer_with("c63", of(63)).unwrap_err().is_limit());
    // Nothing was kept of it, and what exists may be shared.
    inbox.consumer_with("c63", of(62)).unwrap();
    inbox.consumer("c64").unwrap();
}

/// Case E2: zero is zero, never for ever by accident.
#[test]
fn e2_times_of_zero_mean_zero() {
    let inbox = inbox();
    let patient = inbox.consumer("c").unwrap();
    let hasty = patient.clone().max_wait(Duration::ZERO);
    assert!(deliver(&hasty, &event(1)).unwrap().is_applied());
    let nested = patient.process(&event(2), |_| {
        std::thread::scope(|scope| {
            let busy = scope.spawn(|| deliver(&hasty, &event(3)).unwrap_err().is_timeout());
            assert!(busy.join().unwrap());
        });
        Ok(())
    });
    assert!(nested.unwrap().is_applied());

    let brief = inbox.consumer("brief").unwrap().result_retention(Duration::ZERO);
    let set = brief.process(&event(1), |tx| Ok(tx.set_result("gone soon")?));
    assert!(set.unwrap().is_applied());
    assert!(deliver(&brief, &event(1)).unwrap().is_duplicate());
}

/// A view that may pin nothing ends with the next commit; one that may pin all goes on.
#[test]
fn views_end_when_they_pin_more_than_they_may() {
    for (limit, ends) in [(0, true), (1, true), (u64::MAX, false)] {
        let builder = builder().durability(Durability::EveryCommit);
        let inbox = builder.view_max_pinned_bytes(limit).open_in_memory().unwrap();
        let map: Map<u8, u8> = inbox.map("m").unwrap();
        let consumer = inbox.consumer("c").unwrap();
        let put = |n: u8| {
            consumer
                .process(&event(n.into()), |tx| Ok(tx.insert(&map, &0, &n)?))
                .unwrap()
                .is_applied()
        };
        assert!(put(1));
        let read = inbox.read(|view| {
            for n in 2..5 {
                assert!(put(n));
            }
            view.get(&map, &0)
        });
        match ends {
            true => assert!(read.unwrap_err().is_view_ended()),
            false => assert_eq!(read.unwrap(), Some(1)),
        }
    }
}

//! Case P: cleaning that never runs, cannot keep up, or is set wrongly.

use std::time::Duration;

use txinbox::{Inbox, Retention, days, hours, minutes};

use crate::kit::{Lab, deliver, event, id, secs, within};

/// P3: nobody sweeps. The backlog is visible as the age of the oldest expired bucket, and the
/// events that come in work it off by themselves.
#[test]
fn p3_a_backlog_is_visible_and_callers_work_it_off() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    for hour in 0..40 {
        deliver(&consumer, hour * 300..(hour + 1) * 300);
        lab.clock.advance(hours(1));
    }
    let overdue = |inbox: &Inbox| inbox.stats().unwrap().oldest_expired;
    assert!(overdue(&inbox) < hours(5), "callers keep up while there are any");
    lab.clock.advance(hours(100));
    // The newest bucket began in the last hours: it has been waiting for all but its retention.
    assert!(overdue(&inbox) > hours(90), "{:?}", overdue(&inbox));

    let mut calls = 0;
    while overdue(&inbox) > Duration::ZERO {
        assert!(consumer.process(&event(1 << 40 | calls), |_| Ok(())).unwrap().is_applied());
        calls += 1;
        assert!(calls < 2_000, "one step a call never catches up");
    }
    let stats = inbox.stats().unwrap();
    assert_eq!(stats.claims_expired, 40 * 300);
    assert_eq!(stats.consumers["c"].claims, calls);
}

/// P3: intake far above what the smallest budget can seal. It is slowed, memory stays bounded, and
/// nothing is dropped.
#[test]
fn p3_intake_waits_when_maintenance_is_behind() {
    let lab = Lab::new(Retention::at_least(days(7)));
    let inbox = lab.builder().sweep_budget_us(100).open_on(&lab.disk).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    for n in 0..20 {
        assert_eq!(deliver(&consumer, n * 1_000..(n + 1) * 1_000), (1_000, 0));
        let recent = inbox.stats().unwrap().recent_claims;
        assert!(recent <= 1_280 + 1_000, "{recent} claims in memory");
    }
    assert!(inbox.stats().unwrap().throttled > 0);
    assert_eq!(deliver(&consumer, 0..20_000), (0, 20_000));
}

/// P4: settings that make no sense are typed errors when the store is opened, before any file is made.
#[test]
fn p4_bad_settings_are_refused_by_name() {
    let lab = Lab::new(Retention::at_least(hours(1)));
    for (what, builder) in [
        ("sweep_budget_us", lab.builder().sweep_budget_us(0)),
        ("cache_bytes", lab.builder().cache_bytes(0)),
        ("recent_max_claims", lab.builder().recent_max_claims(0)),
    ] {
        let error = builder.open_on(&lab.disk).unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(what), "{error}");
    }
    let error = lab.builder().result_max_bytes(usize::MAX).open_on(&lab.disk).unwrap_err();
    assert!(error.is_limit(), "{error}");
    for (retention, is_limit) in [
        (Retention::covering(), false),
        (Retention::at_least(Duration::ZERO), false),
        (Retention::at_least(Duration::from_nanos(1)), false),
        (Retention::at_least(Duration::MAX), true),
        (Retention::covering().broker(Duration::MAX).recovery(Duration::MAX), true),
    ] {
        let error = Inbox::builder(retention).open_on(&lab.disk).unwrap_err();
        assert_eq!((error.is_limit(), error.is_invalid()), (is_limit, !is_limit), "{error}");
    }
    assert!(lab.disk.contents("txinbox.redb").is_none(), "nothing was made");
}

/// P4: retentions at the ends of the range, at a store time from which they reach past the largest number:
/// sweeping ends, and no live id goes.
#[test]
fn p4_extreme_retentions_neither_loop_nor_forget() {
    within(secs(60), || {
        let longest = Retention::at_least(days(365 * 1_000));
        for retention in [longest, Retention::forever(), Retention::at_least(secs(1))] {
            let is_short = retention.window() == Some(secs(1));
            let lab = Lab::new(retention);
            let inbox = lab.open();
            let consumer = inbox.consumer("c").unwrap();
            deliver(&consumer, [1]);
            lab.clock.set_boot_ms(u64::MAX - 600);
            deliver(&consumer, [2]);
            inbox.sweep().unwrap();
            assert!(consumer.lookup(&id(2)).unwrap().is_some());
            lab.clock.advance(Duration::MAX);
            inbox.sweep().unwrap();
            // Expiry that cannot be written down never comes: id 2 is kept under every policy.
            assert_eq!(deliver(&consumer, [2]), (0, 1), "{:?}", lab.retention);
            let first = consumer.lookup(&id(1)).unwrap();
            let forever = lab.retention.window().is_none();
            assert_eq!(first.is_some(), forever, "short: {is_short}");
        }
    });
}

/// P4: the shortest retention there is, swept after every event: an id inside it is never removed.
#[test]
fn p4_the_shortest_retention_keeps_its_window() {
    let lab = Lab::new(Retention::at_least(secs(1)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    for n in 0..200 {
        assert_eq!(deliver(&consumer, [n]), (1, 0));
        inbox.sweep().unwrap();
        let inside = n.saturating_sub(9)..=n;
        assert_eq!(deliver(&consumer, inside.clone()), (0, inside.count() as u64));
        lab.clock.advance(Duration::from_millis(100));
    }
    assert!(inbox.stats().unwrap().consumers["c"].claims < 20);
    lab.clock.advance(minutes(1));
    inbox.sweep().unwrap();
    assert_eq!(inbox.stats().unwrap().consumers["c"].claims, 0);
}

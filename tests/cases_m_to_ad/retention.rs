//! Case M: how long a claim is kept, and what shortens that.

use std::time::Duration;

use txinbox::{Event, Inbox, Map, Outcome, Retention, days, hours, minutes};

use crate::kit::{Lab, deliver, event, id, secs};

const DAY_MS: i64 = 86_400_000;

/// M1: a thousand ids, three retentions of downtime, a sweep, every id again. The opening counts at
/// most 1/32 of the retention for the time that the store was closed.
#[test]
fn m1_downtime_costs_at_most_a_thirty_second() {
    let lab = Lab::new(Retention::at_least(days(31)));
    let inbox = lab.open();
    deliver(&inbox.consumer("c").unwrap(), 0..1_000);
    inbox.close().unwrap();

    lab.clock.advance(days(3 * 32));
    lab.clock.set_boot_ms(5); // and the machine was restarted
    let inbox = lab.open();
    inbox.sweep().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(deliver(&consumer, 0..1_000), (0, 1_000));

    let claim = consumer.lookup(&id(7)).unwrap().unwrap();
    assert_eq!(claim.age(), days(1), "R is 32 days, a 32nd of it is one");
    assert_eq!(claim.kept_for(), Some(days(31)), "the whole window is still to come");
}

/// M1: the same for every number of openings. Each lies by years; ids are kept for 32 of them, and
/// are gone within an eighth more.
#[test]
fn m1_each_lying_opening_costs_one_thirty_second() {
    let lab = Lab::new(Retention::at_least(days(31)));
    deliver(&lab.open().consumer("c").unwrap(), 0..100);
    let mut kept_through = 0;
    for opening in 1..=40 {
        lab.clock.step_wall_ms(400 * DAY_MS);
        let inbox = lab.open();
        inbox.sweep().unwrap();
        match inbox.consumer("c").unwrap().lookup(&id(5)).unwrap() {
            Some(claim) => {
                assert_eq!(claim.age(), days(opening));
                kept_through = opening;
            }
            None => break,
        }
    }
    assert_eq!(kept_through, 35, "R is 32 days, its buckets span 4");
}

/// M1: a backward wall clock at the opening takes nothing either, and frees nothing.
#[test]
fn m1_a_backward_clock_at_opening_keeps_all() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    deliver(&lab.open().consumer("c").unwrap(), 0..100);
    lab.clock.step_wall_ms(-30 * DAY_MS);
    let inbox = lab.open();
    inbox.sweep().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    assert_eq!(consumer.lookup(&id(1)).unwrap().unwrap().age(), Duration::ZERO);
    assert_eq!(deliver(&consumer, 0..100), (0, 100));
}

/// M3: two consumers of one store, a quarter of an hour and a week. Each keeps its own time.
#[test]
fn m3_each_consumer_keeps_its_own_retention() {
    let lab = Lab::new(Retention::at_least(hours(1)));
    let inbox = lab.open();
    let short = inbox.consumer_with("short", Retention::at_least(minutes(15))).unwrap();
    let long = inbox.consumer_with("long", Retention::at_least(days(7))).unwrap();
    let plain = inbox.consumer("plain").unwrap();
    for consumer in [&short, &long, &plain] {
        assert_eq!(deliver(consumer, 0..500), (500, 0));
    }
    let counts = |after: Duration| {
        lab.clock.advance(after);
        let swept = inbox.sweep().unwrap();
        let stats = inbox.stats().unwrap();
        let claims = |name: &str| stats.consumers[name].claims;
        (swept.claims_forgotten, claims("short"), claims("long"), claims("plain"))
    };
    assert_eq!(counts(minutes(15)), (0, 500, 500, 500), "inside every window");
    assert_eq!(counts(minutes(5)), (500, 0, 500, 500));
    assert_eq!(counts(minutes(60)), (500, 0, 500, 0));
    assert_eq!(counts(days(6)), (0, 0, 500, 0));
    assert_eq!(deliver(&long, 0..500), (0, 500));
    assert_eq!(deliver(&short, 0..500), (500, 0));
    assert_eq!(counts(days(3)), (1_000, 0, 0, 0));
}

/// M3: which retention holds for an existing consumer: the longer, unless the shorter is allowed.
/// Claims made before keep what they were made with.
#[test]
fn m3_a_retention_is_not_shortened_by_accident() {
    let lab = Lab::new(Retention::at_least(hours(1)));
    let inbox = lab.open();
    let with = |retention| inbox.consumer_with("c", retention).unwrap();
    let kept = |consumer: &txinbox::Consumer, n| {
        consumer.lookup(&id(n)).unwrap().unwrap().kept_for().unwrap()
    };
    let consumer = with(Retention::at_least(hours(31)));
    deliver(&consumer, [1]);
    let consumer = with(Retention::at_least(minutes(31)));
    deliver(&consumer, [2]);
    assert_eq!((kept(&consumer, 1), kept(&consumer, 2)), (hours(32), hours(32)));
    let consumer = with(Retention::at_least(minutes(31)).allow_shorter());
    deliver(&consumer, [3]);
    assert_eq!((kept(&consumer, 1), kept(&consumer, 3)), (hours(32), minutes(32)));
    lab.clock.advance(hours(2));
    inbox.sweep().unwrap();
    assert!(consumer.lookup(&id(3)).unwrap().is_none());
    assert_eq!(deliver(&consumer, [1, 2, 3]), (1, 2));
}

/// M5: fifty times more ids than fit in memory, all inside retention. None is removed early, with
/// or without the store's own thread; intake waits where maintenance is behind.
#[test]
fn m5_more_ids_than_any_cap_are_all_kept() {
    for threads in [false, true] {
        let lab = Lab::new(Retention::at_least(days(7)));
        let builder = Inbox::builder(lab.retention.clone())
            .clock(lab.clock.clone())
            .recent_max_claims(1_024)
            .cache_bytes(1 << 20);
        let builder = if threads { builder } else { builder.no_threads() };
        let inbox = builder.open_on(&lab.disk).unwrap();
        let consumer = inbox.consumer("c").unwrap();
        for tenth in 0..10 {
            let own = tenth * 5_120..(tenth + 1) * 5_120;
            assert_eq!(deliver(&consumer, own), (5_120, 0));
            lab.clock.advance(hours(16)); // 6.7 of 7 days in all
            let recent = inbox.stats().unwrap().recent_claims;
            assert!(recent <= 1_280 + 1_000, "{recent} claims in memory");
        }
        assert_eq!(deliver(&consumer, 0..51_200), (0, 51_200));
        let stats = inbox.stats().unwrap();
        assert_eq!((stats.claims_expired, stats.consumers["c"].claims), (0, 51_200));
        assert!(threads || stats.throttled > 0, "the cap never held intake up");
    }
}

/// M5: the number of retentions is capped, and the cap is told.
#[test]
fn m5_the_cap_on_retentions_is_a_typed_error() {
    let lab = Lab::new(Retention::forever());
    let inbox = lab.open();
    let with = |n: u64| inbox.consumer_with(&format!("c{n}"), Retention::at_least(secs(n + 10)));
    let made = (0..70).map_while(|n| with(n).ok()).count();
    assert_eq!(made, 63);
    let error = with(64).unwrap_err();
    assert!(error.is_limit(), "{error}");
    assert!(with(5).is_ok(), "those that exist go on");
}

/// M7: e1 creates an entity, e2 deletes it, e1 comes again inside retention: nothing is re-created.
/// So at every stage of e1's claim: in its own batch, recent, sealed, and after reopening.
#[test]
fn m7_a_repeat_does_not_recreate_what_was_deleted_since() {
    let lab = Lab::new(Retention::at_least(days(1)));
    let mut inbox = lab.open();
    let create = Event::new(id(1), "create account 7");
    let delete = Event::new(id(2), "delete account 7");
    for stage in ["in one batch", "recent", "sealed", "reopened"] {
        if stage == "sealed" {
            lab.clock.advance(hours(4)); // past the end of its bucket
            assert!(inbox.sweep().unwrap().claims_sealed >= 2);
        }
        if stage == "reopened" {
            inbox.close().unwrap();
            inbox = lab.open();
        }
        let accounts: Map<u64, str> = inbox.map("accounts").unwrap();
        let consumer = inbox.consumer("accounts").unwrap();
        let batch = consumer.process_batch(
            &[&create, &delete, &create],
            |e| (*e).clone(),
            |tx, e| {
                if std::ptr::eq(*e, &raw const create) {
                    tx.insert(&accounts, &7, "anna")?;
                } else {
                    tx.remove(&accounts, &7)?;
                }
                Ok(())
            },
        );
        let fresh = batch.iter().filter(|a| a.as_ref().unwrap().is_applied()).count();
        assert_eq!(fresh, if stage == "in one batch" { 2 } else { 0 }, "{stage}");
        assert!(matches!(batch[2], Ok(Outcome::Duplicate(_))), "{stage}");
        assert_eq!(inbox.read(|v| v.get(&accounts, &7)).unwrap(), None, "{stage}");
        assert!(consumer.process(&event(9), |_| Ok(())).is_ok());
    }
}

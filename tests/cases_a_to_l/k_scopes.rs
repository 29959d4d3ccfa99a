//! K: a claim belongs to one consumer.

use std::time::Duration;

use txinbox::{Builder, Consumer, Event, Inbox, Retention, days};

use crate::support::{
    Counts, Place, Way, bump, claim_of, count, event, everywhere, id, is_mismatch, never,
};

/// Three subscribers handle one event: each once, whichever way it comes.
#[test]
fn k2_three_subscribers_each_handle_the_event_once() {
    everywhere(|place, set| {
        for round in 0..2 {
            let inbox = place.open_with(set);
            let counts: Counts = inbox.map("n").unwrap();
            for way in Way::ALL {
                for name in ["billing", "mail", "search"] {
                    let consumer = inbox.consumer(name).unwrap();
                    let key = format!("{name}/{way:?}");
                    let event = Event::new(id(&format!("{way:?}")), "payload");
                    for delivery in 0..2 {
                        let outcome = way.deliver(&consumer, &event, |tx| bump(tx, &counts, &key));
                        let applied = outcome.unwrap().is_applied();
                        assert_eq!(applied, round == 0 && delivery == 0, "{key}");
                    }
                    assert_eq!(count(&inbox, &counts, &key), 1, "{key}");
                }
            }
        }
    });
}

/// The same inside one commit.
#[test]
fn k2_three_subscribers_in_one_commit() {
    let builder = Inbox::builder(Retention::at_least(days(1))).no_threads();
    let inbox = builder.open_in_memory().unwrap();
    let counts: Counts = inbox.map("n").unwrap();
    let consumers = ["billing", "mail", "search"].map(|name| inbox.consumer(name).unwrap());
    let before = inbox.stats().unwrap().groups;
    let tickets: Vec<_> = (0..2)
        .flat_map(|_| &consumers)
        .map(|c| c.submit(&event("x"), |tx| bump(tx, &counts, c.name())).unwrap())
        .collect();
    let applied: Vec<_> = tickets.into_iter().map(|t| t.wait().unwrap().is_applied()).collect();
    assert_eq!(applied, [true, true, true, false, false, false]);
    assert_eq!(inbox.stats().unwrap().groups, before + 1);
    for consumer in &consumers {
        assert_eq!(count(&inbox, &counts, consumer.name()), 1);
        assert!(consumer.process(&event("x"), never::<()>).unwrap().is_duplicate());
    }
}

/// Every entry point with one id in two scopes: none crosses.
#[test]
fn k4_no_entry_point_crosses_from_one_consumer_to_another() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let [a, b] = ["a", "b"].map(|name| inbox.consumer(name).unwrap());
        for way in Way::ALL {
            let name = format!("{way:?}");
            let of = |payload: &'static str| Event::new(id(&name), payload);
            let alias = id(&format!("{name}-alias"));
            let result =
                |text: &'static str| move |tx: &mut txinbox::Tx<'_>| Ok(tx.set_result(text)?);
            // Claims, aliases, payloads and results are each consumer's own.
            let of_a = of("of a").alias(alias.clone());
            assert!(way.deliver(&a, &of_a, result("result a")).unwrap().is_applied());
            assert!(b.lookup(&id(&name)).unwrap().is_none());
            assert!(b.lookup(&alias).unwrap().is_none());
            assert!(!b.forget(&id(&name)).unwrap());
            assert!(way.deliver(&b, &of("of b"), result("result b")).unwrap().is_applied());
            let aliased = way.deliver(&b, &Event::unchecked(alias.clone()), |_| Ok(()));
            assert!(aliased.unwrap().is_applied(), "an alias in one scope is nothing in another");
            for (consumer, own, other, expected) in
                [(&a, "of a", "of b", "result a"), (&b, "of b", "of a", "result b")]
            {
                let repeat = way.deliver(consumer, &of(own), never::<()>).unwrap();
                assert!(repeat.is_duplicate());
                assert_eq!(claim_of(&repeat).result(), Some(expected.as_bytes()));
                assert!(is_mismatch(&way.deliver(consumer, &of(other), never::<()>).unwrap()));
                let seen = consumer.lookup(&id(&name)).unwrap().unwrap();
                assert_eq!(seen.result(), Some(expected.as_bytes()));
            }
            assert!(a.forget(&id(&name)).unwrap());
            assert!(a.lookup(&id(&name)).unwrap().is_none());
            assert!(b.lookup(&id(&name)).unwrap().is_some());
        }
        let stats = inbox.stats().unwrap().consumers;
        let of = |name: &str| {
            let c = &stats[name];
            (c.applied, c.duplicates, c.mismatches, c.forgotten)
        };
        assert_eq!((of("a"), of("b")), ((3, 3, 3, 3), (6, 3, 3, 0)));
    });
}

/// Two consumers with retentions of their own: sweeping the one leaves the other, and a floor that
/// rises over the one's events says nothing of the other's.
#[cfg(feature = "testkit")]
#[test]
fn k4_sweeping_one_consumers_claims_leaves_the_others() {
    let clock = crate::support::sim_clock();
    let place = Place::Sim(txinbox::testkit::SimDisk::new());
    let set = |builder: Builder| builder.clock(clock.clone()).no_threads();
    let inbox = place.open_with(set);
    let retention = |keep| Retention::at_least(keep);
    let short = inbox.consumer_with("short", retention(days(1))).unwrap();
    let long = inbox.consumer_with("long", retention(days(30))).unwrap();
    let other = inbox.consumer("default").unwrap();
    let timed = |name: &str| event(name).at_ms(1_800_000_000_000);
    let all = [&short, &long, &other];
    for (consumer, name) in all.into_iter().flat_map(|c| ["x", "y"].map(|n| (c, n))) {
        assert!(consumer.process(&timed(name), |_| Ok(())).unwrap().is_applied());
    }
    clock.advance(days(2));
    assert_eq!(inbox.sweep().unwrap().claims_forgotten, 2);
    let answers = |consumer: &Consumer, name| consumer.process(&timed(name), |_| Ok(())).unwrap();
    for name in ["x", "y"] {
        assert!(matches!(answers(&short, name), txinbox::Outcome::TooLate { .. }));
        assert!(answers(&long, name).is_duplicate());
        assert!(answers(&other, name).is_duplicate());
    }
    // Never seen, and of a time that only the first consumer may have forgotten.
    assert!(matches!(answers(&short, "z"), txinbox::Outcome::TooLate { .. }));
    assert!(answers(&long, "z").is_applied());
    assert!(answers(&other, "z").is_applied());
    clock.advance(days(7) + Duration::from_secs(3600 * 24 * 2));
    assert_eq!(inbox.sweep().unwrap().claims_forgotten, 3, "those of the default retention");
    assert!(answers(&long, "x").is_duplicate());
    assert!(matches!(answers(&other, "x"), txinbox::Outcome::TooLate { .. }));
}

//! J: ids that look alike stay different events.

use txinbox::{Builder, Event, EventId};

use crate::support::{Place, Way, bump, count, everywhere, id, never};

/// One payload for all: it never decides identity.
const PAYLOAD: &str = "the same payload";

/// Delivers each id once and again, in every way and in one batch, before and after reopening: each
/// is new the first time and a duplicate ever after.
fn all_distinct(place: &Place, set: fn(Builder) -> Builder, ids: &[EventId]) {
    let inbox = place.open_with(set);
    let counts = inbox.map("n").unwrap();
    let singly = Way::ALL.map(|way| (way, inbox.consumer(&format!("{way:?}")).unwrap()));
    for (way, consumer) in &singly {
        for id in ids {
            let event = Event::new(id.clone(), PAYLOAD);
            let outcome = way.deliver(consumer, &event, |tx| bump(tx, &counts, consumer.name()));
            assert!(outcome.unwrap().is_applied(), "{way:?}, {id}: taken for another");
        }
        assert_eq!(count(&inbox, &counts, consumer.name()), ids.len() as u64);
    }
    let together = inbox.consumer("together").unwrap();
    let batch = together.process_batch(
        ids,
        |id| Event::new(id.clone(), PAYLOAD),
        |tx, _| bump(tx, &counts, "together"),
    );
    assert!(batch.iter().all(|answer| answer.as_ref().unwrap().is_applied()));
    drop((singly, together));
    inbox.close().unwrap();

    let inbox = place.open_with(set);
    for name in ["Process", "Batch", "Submit", "together"] {
        let consumer = inbox.consumer(name).unwrap();
        for id in ids {
            assert!(
                consumer
                    .process(&Event::new(id.clone(), PAYLOAD), never::<()>)
                    .unwrap()
                    .is_duplicate(),
                "{id}"
            );
            assert!(consumer.lookup(id).unwrap().is_some());
        }
    }
}

#[test]
fn j1_ids_that_contain_each_other_are_distinct() {
    everywhere(|place, set| {
        all_distinct(place, set, &["a", "ab", "abc", "x", "Orig-x", "x-Orig"].map(id));
    });
}

/// Forgetting one leaves those that contain it, or are contained.
#[test]
fn j1_forgetting_an_id_leaves_its_extensions() {
    everywhere(|place, set| {
        let consumer = place.open_with(set).consumer("c").unwrap();
        let names = ["a", "ab", "abc", "b", "ba", "A", "a\0"];
        for name in names {
            assert!(
                consumer.process(&Event::unchecked(id(name)), |_| Ok(())).unwrap().is_applied()
            );
        }
        for (i, forgotten) in names.iter().enumerate() {
            assert!(consumer.forget(&id(forgotten)).unwrap());
            for (j, name) in names.iter().enumerate() {
                assert_eq!(consumer.lookup(&id(name)).unwrap().is_some(), j > i, "{name:?}");
            }
        }
    });
}

/// Sweeping the older of two leaves the younger, whose id extends it.
#[cfg(feature = "testkit")]
#[test]
fn j1_sweeping_an_id_leaves_its_extensions() {
    use std::time::Duration;
    use txinbox::{Inbox, Retention, days};

    let clock = crate::support::sim_clock();
    let builder = Inbox::builder(Retention::at_least(days(8))).clock(clock.clone());
    let inbox = builder.no_threads().open_in_memory().unwrap();
    let consumer = inbox.consumer("c").unwrap();
    for names in [["a", "x", "Orig-"], ["ab", "Orig-x", "x-Orig"]] {
        for name in names {
            assert!(
                consumer.process(&Event::unchecked(id(name)), |_| Ok(())).unwrap().is_applied()
            );
        }
        clock.advance(days(4));
    }
    clock.advance(days(2) - Duration::from_secs(3600));
    assert_eq!(inbox.sweep().unwrap().claims_forgotten, 3);
    for name in ["ab", "Orig-x", "x-Orig"] {
        assert!(consumer.process(&Event::unchecked(id(name)), never::<()>).unwrap().is_duplicate());
    }
    for name in ["a", "x", "Orig-"] {
        assert!(consumer.process(&Event::unchecked(id(name)), |_| Ok(())).unwrap().is_applied());
    }
}

/// `EventId`: bytes count as they are; nothing is composed, folded or trimmed.
#[test]
fn j3_ids_are_byte_exact() {
    let texts = [
        "caf\u{e9}",
        "cafe\u{301}",
        "x",
        "x ",
        " x",
        "x\t",
        "x\0",
        "X",
        "x\u{200d}",
        "x\u{200b}",
        "x\u{feff}",
        "stra\u{df}e",
        "strasse",
        "STRASSE",
        "\u{212a}",
        "K",
        "k",
        "\u{130}",
        "i",
        "I",
        "\u{131}",
        "\u{fb01}",
        "fi",
        "7",
        "07",
        "+7",
        "7.0",
        "\u{ff17}",
    ];
    let bytes: [&[u8]; 6] = [b"\xff", b"\xfe", b"\xc3\x28", b"\xef\xbf\xbd", b"\xc0\x80", b"\0"];
    let ids: Vec<EventId> = texts
        .map(id)
        .into_iter()
        .chain(bytes.map(|bytes| EventId::bytes(bytes).unwrap()))
        // The same bytes by another constructor are another id.
        .chain([EventId::bytes(b"x").unwrap(), EventId::parts(&[b"x"]).unwrap()])
        .collect();
    everywhere(|place, set| all_distinct(place, set, &ids));
}

/// `EventId::parts`: each part carries its length, so no byte in a part is taken for a border.
#[test]
fn j5_parts_keep_their_borders() {
    let parts: [&[&[u8]]; 19] = [
        &[b"a|b", b"c"],
        &[b"a", b"b|c"],
        &[b"a|b|c"],
        &[b"a", b"b", b"c"],
        &[b"c", b"b", b"a"],
        &[b"abc"],
        &[b"ab", b"c"],
        &[b"a", b"bc"],
        &[b"a\0", b"bc"],
        &[b"a", b"\0bc"],
        &[b"a\0bc"],
        &[b"a", b"b", b"c", b"\0"],
        &[b"\x01a\x02bc"],
        &[b"a\x02bc"],
        &[b"\x01", b"a\x02bc"],
        &[b"\x03abc"],
        &[b"a\x01b\x01c"],
        &[&[0x80; 128]],
        &[&[0x80; 127], &[0x80]],
    ];
    let mut ids: Vec<EventId> = parts.iter().map(|p| EventId::parts(p).unwrap()).collect();
    let tenants = [("1", "11"), ("11", "1")];
    ids.extend(tenants.map(|(a, b)| EventId::cloud_event(a, b).unwrap()));
    ids.extend(tenants.map(|(a, b)| EventId::standard_webhook(a, b).unwrap()));
    ids.extend(tenants.map(|(a, b)| EventId::parts(&[a.as_bytes(), b.as_bytes()]).unwrap()));
    everywhere(|place, set| all_distinct(place, set, &ids));
}

//! Ids, aliases, names, event times.

use std::time::Duration;

use txinbox::{Event, EventId, Map, Retention};

use super::{RELEASE_MS, builder, clock, deliver, event, id, inbox};

const ID_MAX: usize = 65_535;
const ALIASES_MAX: usize = 64;
const NAME_MAX: usize = 255;

#[test]
fn event_ids_hold_1_to_65_535_bytes() {
    let bytes = vec![b'x'; ID_MAX + 1];
    let consumer = inbox().consumer("c").unwrap();
    for len in [1, ID_MAX - 1, ID_MAX] {
        for id in [EventId::bytes(&bytes[..len]), EventId::text(&"x".repeat(len))] {
            let event = Event::unchecked(id.unwrap());
            assert!(deliver(&consumer, &event).unwrap().is_applied());
            assert!(deliver(&consumer, &event).unwrap().is_duplicate());
        }
    }
    assert!(EventId::bytes(&bytes).unwrap_err().is_limit());
    assert!(EventId::text(&"x".repeat(ID_MAX + 1)).unwrap_err().is_limit());
    assert!(EventId::bytes(&[]).unwrap_err().is_invalid());
    assert!(EventId::text("").unwrap_err().is_invalid());
}

#[test]
fn the_parts_of_an_id_count_together() {
    let bytes = vec![b'x'; ID_MAX];
    assert!(EventId::parts(&[&bytes[..ID_MAX - 2], b"y"]).is_ok());
    assert!(EventId::parts(&[&bytes[..ID_MAX - 1], b"y"]).is_ok());
    assert!(EventId::parts(&[&bytes, b"y"]).unwrap_err().is_limit());
    assert!(EventId::parts(&[]).unwrap_err().is_invalid());
    // The topic shares the limit with the twelve bytes of partition and offset.
    assert!(EventId::kafka_record(&"t".repeat(ID_MAX - 12), 0, 0).is_ok());
    assert!(EventId::kafka_record(&"t".repeat(ID_MAX - 11), 0, 0).unwrap_err().is_limit());
}

#[test]
fn an_event_has_at_most_64_aliases() {
    let consumer = inbox().consumer("c").unwrap();
    for (first, aliases) in [(0, 0), (100, 1), (200, ALIASES_MAX - 1), (300, ALIASES_MAX)] {
        let with = (1..=aliases).fold(event(first), |event, n| event.alias(id(first + n)));
        assert!(deliver(&consumer, &with).unwrap().is_applied());
        for n in 0..=aliases {
            assert!(deliver(&consumer, &event(first + n)).unwrap().is_duplicate());
        }
    }
    let with = (1..=ALIASES_MAX + 1).fold(event(400), |event, n| event.alias(id(400 + n)));
    assert!(deliver(&consumer, &with).unwrap_err().is_limit());
    let batch = consumer.process_batch(&[()], |()| with.clone(), |_, ()| Ok(()));
    assert!(batch[0].as_ref().unwrap_err().is_limit());
    assert!(deliver(&consumer, &event(400)).unwrap().is_applied()); // nothing was kept
}

#[test]
fn names_hold_1_to_255_bytes() {
    let inbox = inbox();
    let map = |name: &str| inbox.map::<u8, u8>(name);
    for len in [1, NAME_MAX - 1, NAME_MAX] {
        assert_eq!(inbox.consumer(&"n".repeat(len)).unwrap().name().len(), len);
        assert_eq!(map(&"n".repeat(len)).unwrap().name().len(), len);
    }
    for long in ["n".repeat(NAME_MAX + 1), "é".repeat(NAME_MAX / 2 + 1)] {
        assert!(inbox.consumer(&long).unwrap_err().is_limit());
        assert!(map(&long).unwrap_err().is_limit());
    }
    assert!(inbox.consumer("").unwrap_err().is_invalid());
    assert!(map("").unwrap_err().is_invalid());
    let _bytes_count: Map<u8, u8> = map(&"é".repeat(NAME_MAX / 2)).unwrap();
}

/// R is the window times 32/31, and an event time may lie R/4 ahead, but at most a day.
#[test]
fn event_times_lie_at_most_a_quarter_of_the_retention_ahead() {
    let inbox = builder().clock(clock()).open_in_memory().unwrap();
    let short = inbox.consumer("short").unwrap();
    let long = Retention::at_least(Duration::from_secs(3_100_000));
    let long = inbox.consumer_with("long", long).unwrap();
    for (consumer, limit_ms) in [(short, 800_000), (long, 24 * 3_600_000)] {
        for (n, ahead_ms) in [0, limit_ms - 1, limit_ms].into_iter().enumerate() {
            let ahead = event(n).at_ms(RELEASE_MS + ahead_ms);
            assert!(deliver(&consumer, &ahead).unwrap().is_applied());
        }
        for ahead_ms in [limit_ms + 1, i64::MAX - RELEASE_MS] {
            let ahead = event(9).at_ms(RELEASE_MS + ahead_ms);
            assert!(deliver(&consumer, &ahead).unwrap_err().is_future());
        }
        assert!(deliver(&consumer, &event(9).at_ms(i64::MIN)).unwrap().is_applied());
    }
}

/// Before its release the crate goes by the events themselves.
#[test]
fn the_wall_clock_is_believed_from_the_release_on() {
    for (wall_ms, believed) in
        [(0, false), (RELEASE_MS - 1, false), (RELEASE_MS, true), (RELEASE_MS + 1, true)]
    {
        let clock = clock();
        clock.set_wall_ms(wall_ms);
        let inbox = builder().clock(clock).open_in_memory().unwrap();
        let consumer = inbox.consumer("c").unwrap();
        let first = deliver(&consumer, &event(1).at_ms(wall_ms + 900_000));
        assert_eq!(first.is_err_and(|e| e.is_future()), believed, "at {wall_ms}");
        if !believed {
            let newest_ms = wall_ms + 900_000;
            let next = |n, ahead_ms| deliver(&consumer, &event(n).at_ms(newest_ms + ahead_ms));
            assert!(next(2, 800_001).unwrap_err().is_future());
            assert!(next(2, 800_000).unwrap().is_applied());
        }
    }
}

//! What must hold of ids, against a naive spelling that cannot be wrong.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::EventId;
use super::spelling::{Kind, Spelled, read};
use crate::base::codec::Writer;
use crate::base::hash::HashKey;
use crate::base::ids::{ConsumerId, Generation, Scope};
use crate::base::limits::EVENT_ID_MAX_BYTES;

const KEY: HashKey = HashKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

fn hash(id: &EventId) -> u128 {
    let scope = Scope { consumer: ConsumerId(1), generation: Generation(0) };
    KEY.identity(scope, id.as_encoded()).0
}

fn all_distinct(ids: &[EventId]) {
    let spelled: BTreeSet<_> = ids.iter().map(EventId::as_encoded).collect();
    assert_eq!(spelled.len(), ids.len(), "{ids:?}");
    let hashes: BTreeSet<_> = ids.iter().map(hash).collect();
    assert_eq!(hashes.len(), ids.len(), "{ids:?}");
}

fn text(id: &str) -> EventId {
    EventId::text(id).unwrap()
}

/// One id of every constructor, with the bytes it has had since the first release.
fn golden() -> Vec<(EventId, &'static [u8])> {
    let made = [
        (EventId::bytes(&[0, 255]), &b"\x01\x02\x00\xff"[..]),
        (EventId::text("order-1"), b"\x02\x07order-1"),
        (EventId::parts(&[b"a|b", b"c"]), b"\x03\x03a|b\x01c"),
        (
            EventId::kafka_record("orders", 3, 42),
            b"\x10\x06orders\x04\0\0\0\x03\x08\0\0\0\0\0\0\0\x2a",
        ),
        (EventId::jetstream_message_id("S", "m1"), b"\x11\x01S\x02m1"),
        (EventId::jetstream_record("S", 258), b"\x12\x01S\x08\0\0\0\0\0\0\x01\x02"),
        (EventId::mqtt_publisher_id("t/x", "m"), b"\x13\x03t/x\x01m"),
        (EventId::amqp_message_id("m-1"), b"\x14\x03m-1"),
        (EventId::sqs_record("5fea"), b"\x15\x045fea"),
        (EventId::pubsub_record("p/t", "99"), b"\x16\x03p/t\x0299"),
        (EventId::stripe_event("evt_1"), b"\x17\x05evt_1"),
        (EventId::github_delivery("72d3"), b"\x18\x0472d3"),
        (EventId::standard_webhook("s", "msg"), b"\x19\x01s\x03msg"),
        (EventId::cloud_event("/src", "A"), b"\x1a\x04/src\x01A"),
    ];
    made.into_iter().map(|(id, b)| (id.unwrap(), b)).collect()
}

/// Case H4: spellings and their hashes are what stored claims were made from.
#[test]
fn h4_golden_spellings_and_hashes_never_change() {
    let golden = golden();
    let kinds: Vec<u8> = Kind::ALL.iter().map(|kind| *kind as u8).collect();
    let seen: Vec<u8> = golden.iter().map(|(id, _)| id.as_encoded()[0]).collect();
    assert_eq!(seen, kinds, "one golden id per kind, in order");
    for (id, bytes) in &golden {
        assert_eq!(id.as_encoded(), *bytes, "{id}");
    }
    all_distinct(&golden.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
    // Computed by an implementation of SipHash-2-4-128 of its own.
    let record = EventId::kafka_record("orders", 3, 42).unwrap();
    assert_eq!(hash(&text("order-1")), 0x1f06_ac98_3c6a_1998_bf57_184e_206e_9663);
    assert_eq!(hash(&record), 0xdac1_2ab8_b7ea_5e1c_d726_8076_588b_be92);
    // Lengths past one byte of varint, and past what fits in place.
    assert_eq!(text(&"x".repeat(127)).as_encoded()[..3], [2, 0x7f, b'x']);
    assert_eq!(text(&"x".repeat(128)).as_encoded()[..3], [2, 0x80, 1]);
    let longest = text(&"x".repeat(EVENT_ID_MAX_BYTES));
    assert_eq!(longest.as_encoded()[..4], [2, 0xff, 0xff, 3]);
}

/// Case I1: a missing id is refused by every constructor, each time; it never becomes a claim.
#[test]
fn i1_empty_ids_are_refused_with_a_message_that_says_what_to_do() {
    let refused = [
        EventId::bytes(b""),
        EventId::text(""),
        EventId::text(""),
        EventId::parts(&[]),
        EventId::parts(&[b""]),
        EventId::parts(&[b"tenant", b""]),
        EventId::kafka_record("", 0, 0),
        EventId::kafka_record("t", -1, 0),
        EventId::kafka_record("t", 0, -1001),
        EventId::jetstream_message_id("", "m"),
        EventId::jetstream_message_id("s", ""),
        EventId::jetstream_record("", 1),
        EventId::jetstream_record("s", 0),
        EventId::mqtt_publisher_id("", "m"),
        EventId::mqtt_publisher_id("t", ""),
        EventId::amqp_message_id(""),
        EventId::sqs_record(""),
        EventId::pubsub_record("", "1"),
        EventId::pubsub_record("t", ""),
        EventId::stripe_event(""),
        EventId::github_delivery(""),
        EventId::standard_webhook("", "m"),
        EventId::standard_webhook("s", ""),
        EventId::cloud_event("", "1"),
        EventId::cloud_event("/s", ""),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(error.is_invalid() && !error.is_retryable(), "{error}");
        assert!(error.to_string().len() > 60, "{error}");
    }
}

/// Case J1: ids that contain each other stay apart.
#[test]
fn j1_prefixes_and_suffixes_are_distinct() {
    all_distinct(&["a", "ab", "abc", "x", "Orig-x", "x-Orig"].map(text));
}

/// Case J3: identity is byte for byte; nothing folds case, composition, blanks or widths.
#[test]
fn j3_ids_are_byte_exact() {
    all_distinct(
        &[
            "caf\u{e9}",
            "cafe\u{301}",
            "x",
            "x ",
            " x",
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
            "\u{ff4b}",
        ]
        .map(text),
    );
    let invalid_utf8: [&[u8]; 4] = [b"\xff", b"\xfe", b"\xc3\x28", "\u{fffd}".as_bytes()];
    all_distinct(&invalid_utf8.map(|id| EventId::bytes(id).unwrap()));
}

/// Case J5: parts keep their borders, whatever bytes stand in them.
#[test]
fn j5_parts_are_not_joined() {
    let parts = |parts: &[&[u8]]| EventId::parts(parts).unwrap();
    all_distinct(&[
        parts(&[b"a|b", b"c"]),
        parts(&[b"a", b"b|c"]),
        parts(&[b"a|b|c"]),
        parts(&[b"abc"]),
        parts(&[b"a", b"b", b"c"]),
        parts(&[b"c", b"b", b"a"]),
        parts(&[b"a", b"bc"]),
        parts(&[b"ab", b"c"]),
        parts(&[b"a\x01b"]), // the bytes of ("a", "b") after the first length
        parts(&[b"a", b"b"]),
        parts(&[b"\x01a\x01b"]),
        parts(&[b"a\0", b"b"]),
        parts(&[b"a", b"\0b"]),
        parts(&[b"a", b"b", b"\0"]),
        EventId::bytes(b"abc").unwrap(),
        text("abc"),
    ]);
    all_distinct(&[
        EventId::cloud_event("/a", "b").unwrap(),
        EventId::cloud_event("/", "ab").unwrap(),
        EventId::standard_webhook("/a", "b").unwrap(),
        EventId::kafka_record("t1", 1, 1).unwrap(),
        EventId::kafka_record("t", 11, 1).unwrap(),
        EventId::kafka_record("t", 1, 11).unwrap(),
    ]);
}

#[test]
fn limits_hold_at_n_minus_1_n_and_n_plus_1() {
    let bytes = vec![b'x'; EVENT_ID_MAX_BYTES + 1];
    for len in [1, EVENT_ID_MAX_BYTES - 1, EVENT_ID_MAX_BYTES] {
        assert!(EventId::bytes(&bytes[..len]).is_ok());
        assert!(EventId::parts(&[&bytes[..len - 1], b"y"][usize::from(len == 1)..]).is_ok());
    }
    assert!(EventId::bytes(&bytes).unwrap_err().is_limit());
    let summed = EventId::parts(&[&bytes[..EVENT_ID_MAX_BYTES], b"y"]);
    assert!(summed.unwrap_err().is_limit());
    let singles = vec![&b"x"[..]; EVENT_ID_MAX_BYTES];
    let id = EventId::parts(&singles).unwrap();
    assert_eq!(id.as_encoded().len(), 1 + 2 * EVENT_ID_MAX_BYTES);
}

#[test]
fn usual_ids_need_no_allocation_and_the_border_is_seamless() {
    for len in 1..200 {
        let id = text(&"x".repeat(len));
        assert_eq!(matches!(id.0, Spelled::Inline { .. }), len <= 60, "{len}");
        assert_eq!(id, id.clone());
        assert_eq!(id.as_encoded(), naive(2, &["x".repeat(len).into_bytes()]));
    }
}

#[test]
fn shown_as_the_call_that_makes_it() {
    for (id, shown) in [
        (text("a\"b\n"), r#"text("a\"b\n")"#.to_owned()),
        (EventId::bytes(b"abc").unwrap(), r#"bytes(b"abc")"#.into()),
        (EventId::bytes(b"\0\xff").unwrap(), "bytes(0x00ff)".into()),
        (
            EventId::kafka_record("o", i32::MAX, i64::MAX).unwrap(),
            "kafka_record(\"o\", 2147483647, 9223372036854775807)".into(),
        ),
        (text(&"\u{e9}".repeat(50)), format!("text(\"{}\"… (100 bytes))", "\u{e9}".repeat(48))),
    ] {
        assert_eq!(id.to_string(), shown);
        assert_eq!(format!("{id:?}"), shown);
    }
}

/// The spelling, written down without any care for speed.
fn naive(kind: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(kind);
    for part in parts {
        w.bytes(part);
    }
    w.finish()
}

fn some_parts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Few letters and few lengths, so that borders and length bytes collide where they can.
    let byte = prop_oneof![Just(0_u8), Just(1), Just(2), Just(b'a'), any::<u8>()];
    let part = prop::collection::vec(byte, 1..6);
    let long = prop::collection::vec(any::<u8>(), 1..300);
    prop::collection::vec(prop_oneof![8 => part, 1 => long], 1..5)
}

proptest! {
    #[test]
    fn spelling_equals_the_naive_one_and_reads_back(parts in some_parts()) {
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        for kind in Kind::ALL {
            let spelled = Spelled::new(*kind, &slices).unwrap();
            prop_assert_eq!(spelled.as_bytes(), naive(*kind as u8, &parts));
            let (back, read_parts) = read(spelled.as_bytes()).unwrap();
            prop_assert_eq!(back, *kind);
            prop_assert_eq!(&read_parts, &slices);
        }
    }

    #[test]
    fn equal_only_if_kind_and_parts_are(a in some_parts(), b in some_parts()) {
        let make = |parts: &[Vec<u8>]| {
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            EventId::parts(&slices).unwrap()
        };
        prop_assert_eq!(make(&a) == make(&b), a == b);
        prop_assert_eq!(make(&a) == EventId::bytes(&a.concat()).unwrap(), false);
    }

    #[test]
    fn anything_is_shown_without_panic(parts in some_parts(), noise in any::<Vec<u8>>()) {
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        for kind in Kind::ALL {
            let _ = EventId(Spelled::new(*kind, &slices).unwrap()).to_string();
        }
        let _ = read(&noise);
    }
}

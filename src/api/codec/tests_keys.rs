//! Keys: bytes order as values do, no two values share bytes, and only written bytes decode.

use std::cmp::Reverse;
use std::fmt::Debug;

use proptest::prelude::*;

use super::{Key, malformed};

fn bytes<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode(&mut out);
    out
}

/// Golden bytes, the name, the round trip, and every truncation and extension of them.
#[track_caller]
fn golden<K: Key<Owned = K> + PartialEq + Debug>(name: &str, key: K, expected: &[u8]) {
    assert_eq!(bytes(&key), expected);
    assert_eq!(K::name(), name);
    assert_eq!(K::decode(expected).unwrap(), key);
    if let Some(width) = K::WIDTH {
        assert_eq!(expected.len(), width);
    }
    for len in 0..expected.len() {
        only_written_bytes::<K>(&expected[..len]);
    }
    only_written_bytes::<K>(&[expected, &[0]].concat());
}

/// Case H4: these bytes are in stores; they never change under their names.
#[test]
fn h4_golden_keys_never_change() {
    golden("u8be/1", 7_u8, &[7]);
    golden("u16be/1", 0x0102_u16, &[1, 2]);
    golden("u32be/1", 0x0102_0304_u32, &[1, 2, 3, 4]);
    golden("u64be/1", 258_u64, &[0, 0, 0, 0, 0, 0, 1, 2]);
    golden("u128be/1", u128::MAX - 1, &[[255; 15].as_slice(), &[254]].concat());
    golden("i8be/1", -1_i8, &[0x7f]);
    golden("i16be/1", i16::MIN, &[0, 0]);
    golden("i32be/1", 1_i32, &[0x80, 0, 0, 1]);
    golden("i64be/1", -2_i64, &[0x7f, 255, 255, 255, 255, 255, 255, 254]);
    golden("i128be/1", i128::MAX, &[255; 16]);
    golden("bool/1", true, &[1]);
    golden("char/1", '\u{e9}', &[0, 0, 0, 0xe9]);
    golden("str/1", "caf\u{e9}".to_owned(), b"caf\xc3\xa9");
    golden("bytes/1", vec![0, 1, 255], &[0, 1, 255]);
    golden("bytes3/1", [0, 1, 255], &[0, 1, 255]);
    golden("option(u8be/1)/1", None::<u8>, &[0]);
    golden("option(str/1)/1", Some("a".to_owned()), b"\x01a");
    golden("reverse(u16be/1)/1", Reverse(1_u16), &[0xff, 0xfe]);
    golden("reverse(str/1)/1", Reverse("a".to_owned()), &[!b'a', 255, 255]);
    golden("tuple(u8be/1,i8be/1)/1", (1_u8, 1_i8), &[1, 0x81]);
    golden("tuple(str/1,bytes/1)/1", ("a".to_owned(), vec![0, 7]), &[b'a', 0, 0, 0, 0xff, 7, 0, 0]);
    golden(
        "tuple(bool/1,tuple(str/1,u8be/1)/1,option(u8be/1)/1)/1",
        (true, ("a".to_owned(), 0_u8), None::<u8>),
        &[1, b'a', 0, 0xff, 0, 0xff, 0, 0xff, 0, 0, 0, 0xff, 0, 0],
    );
    golden(
        "tuple(u8be/1,u8be/1,u8be/1,u8be/1,u8be/1,u8be/1)/1",
        (1_u8, 2_u8, 3_u8, 4_u8, 5_u8, 6_u8),
        &[1, 2, 3, 4, 5, 6],
    );
}

#[test]
fn borrowed_forms_write_what_owned_ones_do() {
    assert_eq!(bytes("a"), bytes(&"a".to_owned()));
    assert_eq!(bytes(&b"ab"[..]), bytes(&vec![b'a', b'b']));
    assert_eq!(bytes(&("a", &b"b"[..])), bytes(&("a".to_owned(), vec![b'b'])));
    assert_eq!(<(u8, &str)>::name(), <(u8, String)>::name());
    assert_eq!(<(u8, &str)>::decode(b"\x07a\0\0").unwrap(), (7, "a".into()));
}

#[test]
fn errors_name_the_codec_and_what_is_wrong() {
    let message = |error: crate::Error| {
        assert!(error.is_decode() && !error.is_retryable());
        error.to_string()
    };
    for (error, said) in [
        (u64::decode(&[0; 7]).unwrap_err(), "u64be/1: 7 bytes where 8 belong"),
        (bool::decode(&[2]).unwrap_err(), "bool/1: 2 is neither 0 nor 1"),
        (char::decode(&[0, 0, 0xd8, 0]).unwrap_err(), "char/1: 0xd800 is no character"),
        (str::decode(b"ab\xff").unwrap_err(), "str/1: not UTF-8 at byte 2"),
        (<(u8, String)>::decode(b"\x01a").unwrap_err(), "str/1: a part is not closed"),
        (<(String, u8)>::decode(b"a\0\0").unwrap_err(), "u8be/1: cut short inside a tuple"),
        (<(u8, u8)>::decode(&[1, 2, 3]).unwrap_err(), "tuple(u8be/1,u8be/1)/1: 1 trailing bytes"),
        (<Option<u8>>::decode(&[3, 0]).unwrap_err(), "option(u8be/1)/1: tag 3 is neither 0 nor 1"),
    ] {
        assert_eq!(
            message(error),
            message(malformed(said.split(": ").next().unwrap(), said.split_once(": ").unwrap().1))
        );
    }
}

/// What K1 and the round trip say of two keys.
fn two_keys<K: Key<Owned = K> + Ord + Debug>(a: &K, b: &K) {
    let (x, y) = (bytes(a), bytes(b));
    assert_eq!(x.cmp(&y), a.cmp(b), "{a:?} {b:?} {x:?} {y:?}");
    assert_eq!(&K::decode(&x).unwrap(), a);
    if let Some(width) = K::WIDTH {
        assert_eq!(x.len(), width);
    }
}

/// What K2 says of any bytes: an error, or the very bytes that the decoded key is written as.
fn only_written_bytes<K: Key<Owned = K>>(noise: &[u8]) {
    match K::decode(noise) {
        Ok(key) => assert_eq!(bytes(&key), noise),
        Err(error) => assert!(error.is_decode()),
    }
}

/// Bytes in which escapes, closings and their neighbours are frequent.
fn tricky() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0xfe), Just(0xff), any::<u8>()];
    prop::collection::vec(byte, 0..6)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[\\x00\\x01ab]{0,5}", any::<String>()]
}

type Deep = (Vec<u8>, Option<(String, i16)>, Reverse<(Vec<u8>, bool)>);

fn deep() -> impl Strategy<Value = Deep> {
    let some = prop::option::of((text(), any::<i16>()));
    let reversed = (tricky(), any::<bool>()).prop_map(Reverse);
    (tricky(), some, reversed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn numbers_keep_their_order(a: (u64, i64, u128, i128), b: (u64, i64, u128, i128)) {
        two_keys(&a.0, &b.0);
        two_keys(&a.1, &b.1);
        two_keys(&a.2, &b.2);
        two_keys(&a.3, &b.3);
        two_keys(&(a.0 as u8), &(b.0 as u8));
        two_keys(&(a.0 as u16), &(b.0 as u16));
        two_keys(&(a.0 as u32), &(b.0 as u32));
        two_keys(&(a.1 as i8), &(b.1 as i8));
        two_keys(&(a.1 as i16), &(b.1 as i16));
        two_keys(&(a.1 as i32), &(b.1 as i32));
        two_keys(&a, &b);
        two_keys(&Reverse(a.1), &Reverse(b.1));
    }

    #[test]
    fn text_and_bytes_keep_their_order(a in tricky(), b in tricky(), s in text(), t in text()) {
        two_keys(&a, &b);
        two_keys(&s, &t);
        two_keys(&Some(a.clone()), &None);
        two_keys(&Some(a.clone()), &Some(b.clone()));
        two_keys(&Reverse(a.clone()), &Reverse(b.clone()));
        two_keys(&Reverse(Reverse(s.clone())), &Reverse(Reverse(t.clone())));
        two_keys(&(a.clone(), s.clone()), &(b.clone(), t.clone()));
        two_keys(&(a.clone(), s.clone()), &(a, t.clone()));
        two_keys(&s.chars().next().unwrap_or('\0'), &t.chars().next().unwrap_or('\u{10ffff}'));
        two_keys(&(s, b.clone(), 1_u8, true, 'x', -1_i8), &(t, b, 1, false, 'y', 0));
    }

    #[test]
    fn borders_between_parts_count(a in tricky(), b in tricky(), c in tricky(), d in tricky()) {
        let equal = (&a, &b) == (&c, &d);
        let (x, y) = (bytes(&(a, b)), bytes(&(c, d)));
        prop_assert_eq!(x == y, equal);
        prop_assert!(equal || !x.starts_with(&y), "a closed part is never the front of another");
    }

    #[test]
    fn nested_keys_keep_their_order(a in deep(), b in deep()) {
        two_keys(&a, &b);
        two_keys(&Reverse(a.clone()), &Reverse(b.clone()));
        two_keys(&(a.1, a.0), &(b.1, b.0));
    }

    #[test]
    fn any_bytes_are_refused_or_were_written(noise in tricky(), more in any::<Vec<u8>>()) {
        for bytes in [noise, more] {
            only_written_bytes::<u8>(&bytes);
            only_written_bytes::<i128>(&bytes);
            only_written_bytes::<bool>(&bytes);
            only_written_bytes::<char>(&bytes);
            only_written_bytes::<String>(&bytes);
            only_written_bytes::<Vec<u8>>(&bytes);
            only_written_bytes::<[u8; 2]>(&bytes);
            only_written_bytes::<Option<bool>>(&bytes);
            only_written_bytes::<Reverse<Vec<u8>>>(&bytes);
            only_written_bytes::<(Vec<u8>, u8)>(&bytes);
            only_written_bytes::<(bool, Vec<u8>, Vec<u8>)>(&bytes);
            only_written_bytes::<Deep>(&bytes);
        }
    }

    #[test]
    fn damaged_keys_are_refused_or_are_other_keys(key in deep(), at: prop::sample::Index, bit in 0..8_u32) {
        let written = bytes(&key);
        for len in 0..written.len() {
            only_written_bytes::<Deep>(&written[..len]);
        }
        let mut flipped = written.clone();
        flipped[at.index(written.len())] ^= 1 << bit;
        only_written_bytes::<Deep>(&flipped);
    }
}

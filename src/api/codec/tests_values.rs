//! Values: golden bytes, round trips, and only written bytes decode.

use std::fmt::Debug;

use proptest::prelude::*;

use super::Value;

fn bytes<V: Value + ?Sized>(value: &V) -> Vec<u8> {
    let mut out = vec![0xAB]; // encoding appends, whatever stands there
    value.encode(&mut out).unwrap();
    assert_eq!(out.remove(0), 0xAB);
    out
}

#[track_caller]
fn golden<V: Value<Owned = V> + PartialEq + Debug>(name: &str, value: V, expected: &[u8]) {
    assert_eq!(bytes(&value), expected);
    assert_eq!(V::name(), name);
    assert_eq!(V::decode(expected).unwrap(), value);
    if let Some(width) = V::WIDTH {
        assert_eq!(expected.len(), width);
    }
    for len in 0..expected.len() {
        only_written_bytes::<V>(&expected[..len]);
    }
    only_written_bytes::<V>(&[expected, &[0]].concat());
}

/// An error, or the very bytes that the decoded value is written as.
fn only_written_bytes<V: Value<Owned = V>>(noise: &[u8]) {
    match V::decode(noise) {
        Ok(value) => assert_eq!(bytes(&value), noise),
        Err(error) => assert!(error.is_decode()),
    }
}

/// Case H4: these bytes are in stores; they never change under their names.
#[test]
fn h4_golden_values_never_change() {
    golden("u8le/1", 7_u8, &[7]);
    golden("u16le/1", 0x0102_u16, &[2, 1]);
    golden("u32le/1", 0x0102_0304_u32, &[4, 3, 2, 1]);
    golden("u64le/1", 258_u64, &[2, 1, 0, 0, 0, 0, 0, 0]);
    golden("u128le/1", 1_u128, &[[1].as_slice(), &[0; 15]].concat());
    golden("i8le/1", -1_i8, &[255]);
    golden("i16le/1", -2_i16, &[254, 255]);
    golden("i32le/1", i32::MIN, &[0, 0, 0, 0x80]);
    golden("i64le/1", -2_i64, &[254, 255, 255, 255, 255, 255, 255, 255]);
    golden("i128le/1", -1_i128, &[255; 16]);
    golden("f32le/1", 1.5_f32, &[0, 0, 0xc0, 0x3f]);
    golden("f64le/1", -0.0_f64, &[0, 0, 0, 0, 0, 0, 0, 0x80]);
    golden("bool/1", true, &[1]);
    golden("char/1", '\u{e9}', &[0xe9, 0, 0, 0]);
    golden("unit/1", (), &[]);
    golden("str/1", "caf\u{e9}".to_owned(), b"caf\xc3\xa9");
    golden("bytes/1", vec![0, 1, 255], &[0, 1, 255]);
    golden("bytes3/1", [0_u8, 1, 255], &[0, 1, 255]);
    golden("option(u8le/1)/1", None::<u8>, &[0]);
    golden("option(unit/1)/1", Some(()), &[1]);
    golden(
        "tuple(u64le/1,f64le/1)/1",
        (1_u64, 1.0_f64),
        &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
    );
    golden(
        "tuple(str/1,u8le/1,bytes/1)/1",
        ("ab".to_owned(), 9_u8, vec![0; 128]),
        &[[2, b'a', b'b', 9, 0x80, 1].as_slice(), &[0; 128]].concat(),
    );
    golden(
        "tuple(bool/1,tuple(str/1,option(u8le/1)/1)/1)/1",
        (true, ("a".to_owned(), Some(5_u8))),
        &[1, 5, 1, b'a', 2, 1, 5],
    );
    golden(
        "tuple(u8le/1,u8le/1,u8le/1,u8le/1,u8le/1,u8le/1)/1",
        (1_u8, 2_u8, 3_u8, 4_u8, 5_u8, 6_u8),
        &[1, 2, 3, 4, 5, 6],
    );
}

#[test]
fn borrowed_forms_write_what_owned_ones_do() {
    assert_eq!(bytes("a"), bytes(&"a".to_owned()));
    assert_eq!(bytes(&b"ab"[..]), bytes(&vec![b'a', b'b']));
    assert_eq!(bytes(&("a", 1_u8)), bytes(&("a".to_owned(), 1_u8)));
    assert_eq!(<(u8, &str) as Value>::name(), "tuple(u8le/1,str/1)/1");
    assert_eq!(<(u8, &str) as Value>::decode(b"\x07\x01a").unwrap(), (7, "a".into()));
}

#[test]
fn nan_keeps_its_bits() {
    for bits in [0x7ff8_0000_0000_0001_u64, 0xfff0_0000_0000_0001] {
        let decoded = <f64 as Value>::decode(&bytes(&f64::from_bits(bits))).unwrap();
        assert_eq!(decoded.to_bits(), bits);
    }
}

#[test]
fn errors_name_the_codec_and_what_is_wrong() {
    for (error, said) in [
        (<i64 as Value>::decode(&[0; 9]).unwrap_err(), "i64le/1: 9 bytes where 8 belong"),
        (<() as Value>::decode(&[0]).unwrap_err(), "unit/1: 1 bytes where 0 belong"),
        (<(u8, String) as Value>::decode(&[1, 9]).unwrap_err(), "str/1: cut short inside a tuple"),
        (
            <(u8, u8) as Value>::decode(&[1, 2, 3]).unwrap_err(),
            "tuple(u8le/1,u8le/1)/1: trailing bytes",
        ),
    ] {
        assert!(error.is_decode());
        assert_eq!(error.to_string(), format!("stored bytes do not decode: {said}"));
    }
}

type Deep = (String, Option<(Vec<u8>, i64)>, (bool, f32), [u8; 2], ());

fn deep() -> impl Strategy<Value = Deep> {
    let float = any::<i16>().prop_map(f32::from);
    (
        any::<String>(),
        any::<Option<(Vec<u8>, i64)>>(),
        (any::<bool>(), float),
        any::<[u8; 2]>(),
        Just(()),
    )
}

proptest! {
    #[test]
    fn round_trip_and_injective(a in deep(), b in deep()) {
        prop_assert_eq!(&<Deep as Value>::decode(&bytes(&a)).unwrap(), &a);
        prop_assert_eq!(bytes(&a) == bytes(&b), a == b);
        let float = f64::from(a.2.1) / 7.0;
        prop_assert_eq!(<f64 as Value>::decode(&bytes(&float)).unwrap(), float);
    }

    #[test]
    fn any_bytes_are_refused_or_were_written(noise: Vec<u8>, short in prop::collection::vec(0..4_u8, 0..12)) {
        for bytes in [noise, short] {
            only_written_bytes::<u16>(&bytes);
            only_written_bytes::<f64>(&bytes);
            only_written_bytes::<bool>(&bytes);
            only_written_bytes::<char>(&bytes);
            only_written_bytes::<String>(&bytes);
            only_written_bytes::<Option<String>>(&bytes);
            only_written_bytes::<(Vec<u8>, u8)>(&bytes);
            only_written_bytes::<(Vec<u8>, Option<Vec<u8>>, String)>(&bytes);
            only_written_bytes::<Deep>(&bytes);
        }
    }

    #[test]
    fn damaged_values_are_refused_or_are_other_values(value in deep(), at: prop::sample::Index, bit in 0..8_u32) {
        let written = bytes(&value);
        for len in 0..written.len() {
            prop_assert!(<Deep as Value>::decode(&written[..len]).is_err());
        }
        let mut flipped = written.clone();
        flipped[at.index(written.len())] ^= 1 << bit;
        only_written_bytes::<Deep>(&flipped);
    }
}

#[cfg(feature = "serde")]
mod json {
    use super::*;
    use crate::codec::Json;
    use std::collections::BTreeMap;

    #[test]
    fn golden_and_refusals() {
        let value = Json((1_u8, Some("a".to_owned()), vec![1.5_f64]));
        assert_eq!(bytes(&value), br#"[1,"a",[1.5]]"#);
        assert_eq!(<Json<(u8, Option<String>, Vec<f64>)>>::decode(&bytes(&value)).unwrap(), value);
        assert_eq!(Json::<u8>::name(), "json/1");
        for bad in [&b""[..], b"{", b"1 2", b"256", b"\xff", b"null"] {
            let error = Json::<u8>::decode(bad).unwrap_err();
            assert!(error.is_decode() && error.to_string().contains("json/1"), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(Json::<Vec<u8>>::decode(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_value_without_json_is_refused_and_leaves_nothing() {
        let mut out = vec![7];
        let error = Json(BTreeMap::from([((1, 2), 3)])).encode(&mut out).unwrap_err();
        assert!(error.is_invalid());
        assert_eq!(out, [7]);
    }

    proptest! {
        // serde_json is exact only with its feature `float_roundtrip`; else the last bit may drift.
        #[test]
        fn floats_round_trip(value: f64) {
            prop_assume!(value.is_finite());
            let back = Json::<f64>::decode(&bytes(&Json(value))).unwrap();
            prop_assert_eq!(back.0.to_bits(), value.to_bits());
        }
    }
}

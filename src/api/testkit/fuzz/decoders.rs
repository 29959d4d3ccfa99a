//! Any bytes, to every decoder of a durable record.

use super::Input;
use crate::api::codec::{Key, Value};
use crate::base::codec::{Reader, Writer};
use crate::{claims, engine, storage};

/// The first byte chooses the decoder. It gets the others as they are, and closed by a right checksum,
/// which a fuzzer would hardly find.
pub fn decoders(data: &[u8]) {
    let mut input = Input(data);
    let choice = usize::from(input.u8());
    let all: Vec<fn(&[u8])> = [
        storage::decoders::DECODERS,
        claims::decoders::DECODERS,
        claims::run::decoders::DECODERS,
        engine::decoders::DECODERS,
        &[numbers, keys, values],
    ]
    .concat();
    let Some(decoder) = all.get(choice % all.len()) else { return };
    decoder(input.0);
    let mut w = Writer::new();
    w.raw(input.0);
    decoder(&w.seal());
}

fn numbers(bytes: &[u8]) {
    let mut r = Reader::new(bytes);
    while let Ok(number) = r.varint() {
        let mut w = Writer::new();
        w.varint(number);
        assert_eq!(Reader::new(&w.finish()).varint(), Ok(number));
    }
    while r.bytes().is_ok_and(|b| !b.is_empty()) {}
}

fn key<K: Key + ?Sized>(bytes: &[u8])
where
    K::Owned: std::borrow::Borrow<K>,
{
    if let Ok(key) = K::decode(bytes) {
        let mut again = Vec::new();
        std::borrow::Borrow::<K>::borrow(&key).encode(&mut again);
        assert_eq!(again, bytes, "a key has one spelling");
    }
}

fn keys(bytes: &[u8]) {
    key::<u8>(bytes);
    key::<i64>(bytes);
    key::<u128>(bytes);
    key::<bool>(bytes);
    key::<char>(bytes);
    key::<str>(bytes);
    key::<[u8]>(bytes);
    key::<[u8; 3]>(bytes);
    key::<Option<u16>>(bytes);
    key::<(String, u8, Vec<u8>)>(bytes);
    key::<std::cmp::Reverse<(u8, String)>>(bytes);
}

fn value<V: Value + ?Sized>(bytes: &[u8])
where
    V::Owned: std::borrow::Borrow<V>,
{
    if let Ok(value) = V::decode(bytes) {
        let mut again = Vec::new();
        let encoded = std::borrow::Borrow::<V>::borrow(&value).encode(&mut again);
        assert!(encoded.is_ok() && again == bytes, "a value has one spelling");
    }
}

fn values(bytes: &[u8]) {
    value::<u32>(bytes);
    value::<f64>(bytes);
    value::<bool>(bytes);
    value::<char>(bytes);
    value::<()>(bytes);
    value::<str>(bytes);
    value::<[u8]>(bytes);
    value::<Option<i16>>(bytes);
    value::<(String, u8, Vec<u8>)>(bytes);
}

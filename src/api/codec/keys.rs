//! Keys that stand alone: numbers, characters, text, bytes.

use std::borrow::Cow;

use super::{Key, exactly, malformed, utf8};
use crate::base::error::Error;

macro_rules! unsigned_key {
    ($($int:ty: $name:literal),*) => {$(
        impl Key for $int {
            type Owned = Self;
            const WIDTH: Option<usize> = Some(size_of::<$int>());

            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn decode(bytes: &[u8]) -> Result<Self, Error> {
                exactly(<Self as Key>::name, bytes).map(Self::from_be_bytes)
            }
        }
    )*};
}

macro_rules! signed_key {
    ($($int:ty: $name:literal),*) => {$(
        impl Key for $int {
            type Owned = Self;
            const WIDTH: Option<usize> = Some(size_of::<$int>());

            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn encode(&self, out: &mut Vec<u8>) {
                // With the sign bit flipped, negative numbers sort before the others.
                out.extend_from_slice(&(self ^ Self::MIN).to_be_bytes());
            }

            fn decode(bytes: &[u8]) -> Result<Self, Error> {
                Ok(Self::from_be_bytes(exactly(<Self as Key>::name, bytes)?) ^ Self::MIN)
            }
        }
    )*};
}

unsigned_key!(u8: "u8be/1", u16: "u16be/1", u32: "u32be/1", u64: "u64be/1", u128: "u128be/1");
signed_key!(i8: "i8be/1", i16: "i16be/1", i32: "i32be/1", i64: "i64be/1", i128: "i128be/1");

impl Key for bool {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(1);

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("bool/1")
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        match exactly(<Self as Key>::name, bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(malformed("bool/1", format!("{other} is neither 0 nor 1"))),
        }
    }
}

impl Key for char {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(4);

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("char/1")
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&u32::from(*self).to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let code = u32::from_be_bytes(exactly(<Self as Key>::name, bytes)?);
        char::from_u32(code)
            .ok_or_else(|| malformed("char/1", format!("{code:#x} is no character")))
    }
}

impl Key for str {
    type Owned = String;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("str/1")
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<String, Error> {
        utf8(<Self as Key>::name, bytes)
    }
}

impl Key for String {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        <str as Key>::name()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Key::encode(self.as_str(), out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        <str as Key>::decode(bytes)
    }
}

impl Key for [u8] {
    type Owned = Vec<u8>;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("bytes/1")
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(bytes.to_vec())
    }
}

impl Key for Vec<u8> {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        <[u8] as Key>::name()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Ok(bytes.to_vec())
    }
}

impl<const N: usize> Key for [u8; N] {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(N);

    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("bytes{N}/1"))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        exactly(<Self as Key>::name, bytes)
    }
}

/// A borrowed key is stored as the key itself, so that parts of tuples need not be owned.
impl<K: Key + ?Sized> Key for &K {
    type Owned = K::Owned;
    const WIDTH: Option<usize> = K::WIDTH;

    fn name() -> Cow<'static, str> {
        K::name()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        K::encode(self, out);
    }

    fn decode(bytes: &[u8]) -> Result<K::Owned, Error> {
        K::decode(bytes)
    }
}

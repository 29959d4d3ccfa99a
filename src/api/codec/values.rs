//! Values that stand alone: numbers, characters, text, bytes.

use std::borrow::Cow;

use super::{Value, exactly, malformed, utf8};
use crate::base::error::Error;

macro_rules! number_value {
    ($($number:ty: $name:literal),*) => {$(
        impl Value for $number {
            type Owned = Self;
            const WIDTH: Option<usize> = Some(size_of::<$number>());

            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
                out.extend_from_slice(&self.to_le_bytes());
                Ok(())
            }

            fn decode(bytes: &[u8]) -> Result<Self, Error> {
                exactly(<Self as Value>::name, bytes).map(Self::from_le_bytes)
            }
        }
    )*};
}

number_value!(u8: "u8le/1", u16: "u16le/1", u32: "u32le/1", u64: "u64le/1", u128: "u128le/1");
number_value!(i8: "i8le/1", i16: "i16le/1", i32: "i32le/1", i64: "i64le/1", i128: "i128le/1");
number_value!(f32: "f32le/1", f64: "f64le/1");

impl Value for bool {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(1);

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("bool/1")
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(u8::from(*self));
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        match exactly(<Self as Value>::name, bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(malformed("bool/1", format!("{other} is neither 0 nor 1"))),
        }
    }
}

impl Value for char {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(4);

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("char/1")
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(&u32::from(*self).to_le_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let code = u32::from_le_bytes(exactly(<Self as Value>::name, bytes)?);
        char::from_u32(code)
            .ok_or_else(|| malformed("char/1", format!("{code:#x} is no character")))
    }
}

impl Value for () {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(0);

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("unit/1")
    }

    fn encode(&self, _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        exactly::<0>(<Self as Value>::name, bytes).map(|_| ())
    }
}

impl Value for str {
    type Owned = String;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("str/1")
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(self.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<String, Error> {
        utf8(<Self as Value>::name, bytes)
    }
}

impl Value for String {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        <str as Value>::name()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        Value::encode(self.as_str(), out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        <str as Value>::decode(bytes)
    }
}

impl Value for [u8] {
    type Owned = Vec<u8>;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("bytes/1")
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(bytes.to_vec())
    }
}

impl Value for Vec<u8> {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        <[u8] as Value>::name()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Ok(bytes.to_vec())
    }
}

impl<const N: usize> Value for [u8; N] {
    type Owned = Self;
    const WIDTH: Option<usize> = Some(N);

    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("bytes{N}/1"))
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        exactly(<Self as Value>::name, bytes)
    }
}

/// A borrowed value is stored as the value itself, so that parts of tuples need not be owned.
impl<V: Value + ?Sized> Value for &V {
    type Owned = V::Owned;
    const WIDTH: Option<usize> = V::WIDTH;

    fn name() -> Cow<'static, str> {
        V::name()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        V::encode(self, out)
    }

    fn decode(bytes: &[u8]) -> Result<V::Owned, Error> {
        V::decode(bytes)
    }
}

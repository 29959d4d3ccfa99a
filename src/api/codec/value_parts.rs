//! Values made of values: tuples and options.
//!
//! A part of fixed width stands as it is; any other stands behind its length as a varint.

use std::borrow::Cow;

use super::{Value, malformed, option_tag, total_width};
use crate::base::codec::{Reader, Writer};
use crate::base::error::Error;

/// Appends `value` as a part.
fn put<V: Value + ?Sized>(value: &V, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    if V::WIDTH.is_none() {
        out.push(0); // room for the length, which is known only afterwards
    }
    let body = out.len();
    value.encode(out)?;
    let len = out.len().saturating_sub(body);
    match (V::WIDTH, u8::try_from(len), out.get_mut(start)) {
        (Some(width), ..) => debug_assert_eq!(len, width, "WIDTH of {}", V::name()),
        (None, Ok(short @ ..0x80), Some(room)) => *room = short,
        _ => {
            let mut prefix = Writer::new();
            prefix.varint(len as u64);
            out.splice(start..body, prefix.finish());
        }
    }
    Ok(())
}

/// Takes a part of type `V` off the front of `rest`.
fn take<V: Value + ?Sized>(rest: &mut Reader<'_>) -> Result<V::Owned, Error> {
    let part = match V::WIDTH {
        Some(width) => rest.raw(width),
        None => rest.bytes(),
    };
    V::decode(part.map_err(|what| malformed(V::name(), format!("{} inside a tuple", what.0)))?)
}

macro_rules! tuple_value {
    ($($part:ident $n:tt),*) => {
        impl<$($part: Value),*> Value for ($($part,)*) {
            type Owned = ($($part::Owned,)*);
            const WIDTH: Option<usize> = total_width(&[$($part::WIDTH),*]);

            fn name() -> Cow<'static, str> {
                Cow::Owned(format!("tuple({})/1", [$($part::name()),*].join(",")))
            }

            fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
                $(put(&self.$n, out)?;)*
                Ok(())
            }

            fn decode(bytes: &[u8]) -> Result<Self::Owned, Error> {
                let mut rest = Reader::new(bytes);
                let value = ($(take::<$part>(&mut rest)?,)*);
                rest.finish().map_err(|what| malformed(<Self as Value>::name(), what.0))?;
                Ok(value)
            }
        }
    };
}

tuple_value!(A 0, B 1);
tuple_value!(A 0, B 1, C 2);
tuple_value!(A 0, B 1, C 2, D 3);
tuple_value!(A 0, B 1, C 2, D 3, E 4);
tuple_value!(A 0, B 1, C 2, D 3, E 4, F 5);

impl<V: Value> Value for Option<V> {
    type Owned = Option<V::Owned>;

    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("option({})/1", V::name()))
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(u8::from(self.is_some()));
        self.as_ref().map_or(Ok(()), |value| value.encode(out))
    }

    fn decode(bytes: &[u8]) -> Result<Self::Owned, Error> {
        option_tag(<Self as Value>::name, bytes)?.map(V::decode).transpose()
    }
}

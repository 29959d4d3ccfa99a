//! Keys made of keys: tuples, options, reversed order; and how a key stands inside another.
//!
//! A part of fixed width stands as it is. Any other has each `00` written as `00 FF` and is closed
//! by `00 00`: the closing bytes sort below whatever a longer part goes on with, so order is kept,
//! and they occur nowhere else, so no part is the front of another (K1).

use std::borrow::Cow;
use std::cmp::Reverse;

use super::{Key, finish, malformed, option_tag, total_width};
use crate::base::error::Error;

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const CLOSE: u8 = 0x00;

/// Appends `key` as a part.
fn put<K: Key + ?Sized>(key: &K, out: &mut Vec<u8>) {
    let start = out.len();
    key.encode(out);
    match K::WIDTH {
        Some(width) => debug_assert_eq!(out.len() - start, width, "WIDTH of {}", K::name()),
        None => {
            if out.get(start..).is_some_and(|part| part.contains(&ESCAPE)) {
                escape(out, start);
            }
            out.extend_from_slice(&[ESCAPE, CLOSE]);
        }
    }
}

/// Escapes what stands behind `start`; seldom needed, so it may copy.
fn escape(out: &mut Vec<u8>, start: usize) {
    for byte in out.split_off(start) {
        out.push(byte);
        if byte == ESCAPE {
            out.push(ESCAPED_ZERO);
        }
    }
}

/// Takes a part of type `K` off the front of `rest`.
fn take<K: Key + ?Sized>(rest: &mut &[u8]) -> Result<K::Owned, Error> {
    if let Some(width) = K::WIDTH {
        let cut = || malformed(K::name(), "cut short inside a tuple");
        let (part, tail) = rest.split_at_checked(width).ok_or_else(cut)?;
        *rest = tail;
        return K::decode(part);
    }
    K::decode(&unescape(rest).map_err(|what| malformed(K::name(), what))?)
}

/// Takes an escaped part off the front of `rest`, borrowed where nothing was escaped.
fn unescape<'a>(rest: &mut &'a [u8]) -> Result<Cow<'a, [u8]>, &'static str> {
    let mut part = Cow::Borrowed(&[][..]);
    loop {
        let zero = rest.iter().position(|byte| *byte == ESCAPE);
        let (plain, mark) =
            zero.and_then(|at| rest.split_at_checked(at)).ok_or("a part is not closed")?;
        match part {
            Cow::Borrowed(_) => part = Cow::Borrowed(plain),
            Cow::Owned(ref mut bytes) => bytes.extend_from_slice(plain),
        }
        match mark {
            [ESCAPE, CLOSE, tail @ ..] => {
                *rest = tail;
                return Ok(part);
            }
            [ESCAPE, ESCAPED_ZERO, tail @ ..] => {
                *rest = tail;
                part.to_mut().push(0);
            }
            _ => return Err("an escape inside a part is unknown or cut short"),
        }
    }
}

macro_rules! tuple_key {
    ($($part:ident $n:tt),*) => {
        impl<$($part: Key),*> Key for ($($part,)*) {
            type Owned = ($($part::Owned,)*);
            const WIDTH: Option<usize> = total_width(&[$($part::WIDTH),*]);

            fn name() -> Cow<'static, str> {
                Cow::Owned(format!("tuple({})/1", [$($part::name()),*].join(",")))
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $(put(&self.$n, out);)*
            }

            fn decode(bytes: &[u8]) -> Result<Self::Owned, Error> {
                let mut rest = bytes;
                let key = ($(take::<$part>(&mut rest)?,)*);
                finish(<Self as Key>::name, rest)?;
                Ok(key)
            }
        }
    };
}

tuple_key!(A 0, B 1);
tuple_key!(A 0, B 1, C 2);
tuple_key!(A 0, B 1, C 2, D 3);
tuple_key!(A 0, B 1, C 2, D 3, E 4);
tuple_key!(A 0, B 1, C 2, D 3, E 4, F 5);

impl<K: Key> Key for Option<K> {
    type Owned = Option<K::Owned>;

    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("option({})/1", K::name()))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode(out);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self::Owned, Error> {
        option_tag(<Self as Key>::name, bytes)?.map(K::decode).transpose()
    }
}

/// Newest or largest first: keys in the opposite order.
impl<K: Key> Key for Reverse<K> {
    type Owned = Reverse<K::Owned>;
    const WIDTH: Option<usize> = K::WIDTH;

    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("reverse({})/1", K::name()))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        // As a part: flipped bits reverse the order only of what is prefix-free.
        let start = out.len();
        put(&self.0, out);
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }

    fn decode(bytes: &[u8]) -> Result<Self::Owned, Error> {
        let flipped: Vec<u8> = bytes.iter().map(|byte| !*byte).collect();
        let mut rest = flipped.as_slice();
        let key = take::<K>(&mut rest)?;
        finish(<Self as Key>::name, rest)?;
        Ok(Reverse(key))
    }
}

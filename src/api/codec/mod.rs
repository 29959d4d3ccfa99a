//! How typed keys and values become the bytes that a keyspace stores.
//!
//! A `Map<K, V>` stores `K` through [`Key`] and `V` through [`Value`]. Both carry a name with a
//! version; a keyspace remembers the names it was created with and refuses to be opened with
//! others, so stored bytes are never read as another type. An encoding never changes under its
//! name.
//!
//! # Keys
//! Keys are compared as bytes, and every key encoding keeps the order of its type: a scan meets
//! the entries in the order of the keys. Equal bytes mean equal keys.
//!
//! | type | name | bytes |
//! |---|---|---|
//! | `u8` … `u128` | `u64be/1` | big-endian |
//! | `i8` … `i128` | `i64be/1` | big-endian with the sign bit flipped |
//! | `bool` | `bool/1` | `00` or `01` |
//! | `char` | `char/1` | the code point as a big-endian `u32` |
//! | `str`, `String`, `&str` | `str/1` | UTF-8 as it is |
//! | `[u8]`, `Vec<u8>`, `&[u8]` | `bytes/1` | as they are |
//! | `[u8; N]` | `bytes16/1` | as they are |
//! | `Option<K>` | `option(K)/1` | `00`, or `01` and the key |
//! | [`Reverse<K>`](std::cmp::Reverse) | `reverse(K)/1` | the key *as a part* (below), every bit flipped |
//! | tuples of 2 to 6 keys | `tuple(A,B)/1` | each key *as a part*, one after the other |
//!
//! A key **as a part** is its bytes if they always have the same number ([`Key::WIDTH`]).
//! Otherwise every `00` in it becomes `00 FF`, and `00 00` closes it. That keeps order (a closed
//! part sorts before any that goes on) and borders (no part can be taken for the front of
//! another).
//!
//! There is no key of `usize` or `isize`, whose width depends on the machine, and none of floating
//! point, whose order has no place for NaN.
//!
//! # Values
//!
//! | type | name | bytes |
//! |---|---|---|
//! | `u8` … `u128`, `i8` … `i128` | `u64le/1`, `i64le/1` | little-endian |
//! | `f32`, `f64` | `f64le/1` | IEEE 754 bits, little-endian; NaN keeps its bits |
//! | `bool` | `bool/1` | `00` or `01` |
//! | `char` | `char/1` | the code point as a little-endian `u32` |
//! | `()` | `unit/1` | none |
//! | `str`, `String`, `&str` | `str/1` | UTF-8 as it is |
//! | `[u8]`, `Vec<u8>`, `&[u8]` | `bytes/1` | as they are |
//! | `[u8; N]` | `bytes16/1` | as they are |
//! | `Option<V>` | `option(V)/1` | `00`, or `01` and the value |
//! | tuples of 2 to 6 values | `tuple(A,B)/1` | each value; one without a fixed width behind its length as a varint |
//! | `Json<T>` (feature `serde`) | `json/1` | JSON text |
//!
//! Decoding takes exactly what encoding writes (JSON apart): other lengths, other spellings and
//! trailing bytes are errors, never another value.
//!
//! ```
//! use std::cmp::Reverse;
//! use txinbox::codec::{Key, Value};
//!
//! fn encoded<K: Key + ?Sized>(key: &K) -> Vec<u8> {
//!     let mut bytes = Vec::new();
//!     key.encode(&mut bytes);
//!     bytes
//! }
//! assert_eq!(encoded(&258_u32), [0, 0, 1, 2]);
//! assert!(encoded(&-5_i64) < encoded(&3_i64));
//! assert!(encoded(&("a", 9_u8)) < encoded(&("ab", 1_u8)));
//! assert!(encoded(&Reverse(2_u64)) < encoded(&Reverse(1_u64)));
//! assert_eq!(<(u32, String) as Key>::name(), "tuple(u32be/1,str/1)/1");
//!
//! let mut bytes = Vec::new();
//! Value::encode(&(7_u16, "seven"), &mut bytes)?;
//! assert_eq!(bytes, [7, 0, 5, b's', b'e', b'v', b'e', b'n']);
//! assert_eq!(<(u16, String) as Value>::decode(&bytes)?, (7, "seven".to_owned()));
//! # Ok::<(), txinbox::Error>(())
//! ```

// What must hold:
// K1. Key encodings keep order and are injective; as parts they are prefix-free besides.
// K2. `decode` never panics, allocates no more than a small multiple of its input, and accepts a
//     byte string only if `encode` writes it (JSON apart).
// K3. Bytes under a name never change; a new encoding gets a new version in its name.

#[cfg(feature = "serde")]
mod json;
mod key_parts;
mod keys;
#[cfg(test)]
mod tests_keys;
#[cfg(test)]
mod tests_values;
mod value_parts;
mod values;

use std::borrow::Cow;

use crate::base::error::Error;

#[cfg(feature = "serde")]
pub use json::Json;

/// A type whose values can be keys of a keyspace, in an encoding that keeps their order.
///
/// Implement it for your own types by delegating to the given ones; a tuple serves most.
/// An implementation must keep three promises, or scans miss entries and keys overwrite each
/// other: the bytes of `a` sort before those of `b` exactly if `a` sorts before `b`; different
/// keys have different bytes; under one [`name`](Self::name) the bytes never change.
///
/// A key may have at most 65,536 bytes in its encoding, which is checked where it is stored.
///
/// ```
/// use std::borrow::Cow;
/// use txinbox::codec::{Key, malformed};
///
/// #[derive(Debug, PartialEq)]
/// struct Account(u32);
///
/// impl Key for Account {
///     type Owned = Self;
///     const WIDTH: Option<usize> = u32::WIDTH;
///     fn name() -> Cow<'static, str> {
///         "account/1".into()
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         self.0.encode(out);
///     }
///     fn decode(bytes: &[u8]) -> Result<Self, txinbox::Error> {
///         match u32::decode(bytes)? {
///             0 => Err(malformed("account/1", "account 0 does not exist")),
///             number => Ok(Self(number)),
///         }
///     }
/// }
/// let mut bytes = Vec::new();
/// (Account(7), "open").encode(&mut bytes);
/// assert_eq!(<(Account, String)>::decode(&bytes)?, (Account(7), "open".to_owned()));
/// assert!(Account::decode(&[0; 4]).unwrap_err().is_decode());
/// # Ok::<(), txinbox::Error>(())
/// ```
pub trait Key {
    /// What a key is read back as: `String` for `str`, the type itself for most others.
    type Owned;

    /// The number of bytes of every encoding, where they all have the same.
    const WIDTH: Option<usize> = None;

    /// The encoding's name and version, such as `u64be/1`; stored with the keyspace.
    fn name() -> Cow<'static, str>;

    /// Appends the key's bytes to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a key back from all of `bytes`.
    ///
    /// # Errors
    /// [`is_decode`](Error::is_decode) if `encode` never writes these bytes; see [`malformed`].
    fn decode(bytes: &[u8]) -> Result<Self::Owned, Error>;
}

/// A type whose values can be values of a keyspace.
///
/// Implement it for your own types by delegating to the given ones. Under one
/// [`name`](Self::name) the bytes must never change their meaning.
///
/// A value may have at most 64 MiB in its encoding, which is checked where it is stored.
///
/// ```
/// use std::borrow::Cow;
/// use txinbox::codec::Value;
///
/// #[derive(Debug, PartialEq)]
/// struct Region { quakes: u64, strongest: f64 }
///
/// impl Value for Region {
///     type Owned = Self;
///     fn name() -> Cow<'static, str> {
///         "region/1".into()
///     }
///     fn encode(&self, out: &mut Vec<u8>) -> Result<(), txinbox::Error> {
///         (self.quakes, self.strongest).encode(out)
///     }
///     fn decode(bytes: &[u8]) -> Result<Self, txinbox::Error> {
///         let (quakes, strongest) = <(u64, f64)>::decode(bytes)?;
///         Ok(Self { quakes, strongest })
///     }
/// }
/// let mut bytes = Vec::new();
/// Region { quakes: 3, strongest: 5.5 }.encode(&mut bytes)?;
/// assert_eq!(Region::decode(&bytes)?, Region { quakes: 3, strongest: 5.5 });
/// assert!(Region::decode(&bytes[1..]).unwrap_err().is_decode());
/// # Ok::<(), txinbox::Error>(())
/// ```
pub trait Value {
    /// What a value is read back as: `String` for `str`, the type itself for most others.
    type Owned;

    /// The number of bytes of every encoding, where they all have the same.
    const WIDTH: Option<usize> = None;

    /// The encoding's name and version, such as `i64le/1`; stored with the keyspace.
    fn name() -> Cow<'static, str>;

    /// Appends the value's bytes to `out`.
    ///
    /// # Errors
    /// Whatever keeps a value from having bytes; none of the types here but `Json` ever fails.
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Reads a value back from all of `bytes`.
    ///
    /// # Errors
    /// [`is_decode`](Error::is_decode) if `encode` never writes these bytes; see [`malformed`].
    fn decode(bytes: &[u8]) -> Result<Self::Owned, Error>;
}

/// The error of a `decode` that met bytes its `encode` never writes: the codec's name, and what
/// is wrong with them.
///
/// ```
/// let error = txinbox::codec::malformed("account/1", "account 0 does not exist");
/// assert!(error.is_decode());
/// assert_eq!(error.to_string(), "stored bytes do not decode: account/1: account 0 does not exist");
/// ```
#[must_use]
pub fn malformed(codec: impl AsRef<str>, what: impl AsRef<str>) -> Error {
    Error::decode(format!("{}: {}", codec.as_ref(), what.as_ref()))
}

/// All of `bytes` as an array, or the error that says how many there should be.
fn exactly<const N: usize>(
    name: fn() -> Cow<'static, str>,
    bytes: &[u8],
) -> Result<[u8; N], Error> {
    bytes
        .try_into()
        .map_err(|_| malformed(name(), format!("{} bytes where {N} belong", bytes.len())))
}

/// All of `bytes` as text.
fn utf8(name: fn() -> Cow<'static, str>, bytes: &[u8]) -> Result<String, Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(malformed(name(), format!("not UTF-8 at byte {}", error.valid_up_to()))),
    }
}

/// The width of several encodings in a row, if each has one.
const fn total_width(widths: &[Option<usize>]) -> Option<usize> {
    let (mut total, mut rest) = (0, widths);
    while let [first, tail @ ..] = rest {
        match first {
            Some(width) => total += *width,
            None => return None,
        }
        rest = tail;
    }
    Some(total)
}

/// Splits off what stands before the payload of an `Option`: whether there is one.
fn option_tag(name: fn() -> Cow<'static, str>, bytes: &[u8]) -> Result<Option<&[u8]>, Error> {
    match bytes {
        [0] => Ok(None),
        [1, some @ ..] => Ok(Some(some)),
        [0, ..] => Err(malformed(name(), "trailing bytes after none")),
        [tag, ..] => Err(malformed(name(), format!("tag {tag} is neither 0 nor 1"))),
        [] => Err(malformed(name(), "cut short")),
    }
}

fn finish(name: fn() -> Cow<'static, str>, rest: &[u8]) -> Result<(), Error> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(malformed(name(), format!("{} trailing bytes", rest.len())))
    }
}

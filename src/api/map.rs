//! Typed names of keyspaces.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::codec::{Key, Value};
use crate::base::error::Error;
use crate::base::sync::Arc;
use crate::engine::{KeyspaceEntry, Space};
use crate::storage::tables::TableId;

/// Holds neither, in a way that lets `K` and `V` vary.
type Types<K, V> = (fn() -> *const K, fn() -> *const V);

/// A keyspace of application state: an ordered map from `K` to `V`.
///
/// A `Map` is only a typed name; reading and writing go through a [`Tx`](crate::Tx) or a
/// [`View`](crate::View). Get one from [`Inbox::map`](crate::Inbox::map). Cloning is cheap.
///
/// `Map<[u8], [u8]>` is the raw keyspace: bytes in, bytes out.
///
/// ```
/// # use std::time::Duration;
/// use txinbox::{Inbox, Map, Retention};
///
/// let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let counts: Map<str, u64> = inbox.map("counts")?;
/// assert_eq!(counts.name(), "counts");
/// // The same name with other types is refused.
/// assert!(inbox.map::<u64, u64>("counts").unwrap_err().is_type_mismatch());
/// # Ok::<(), txinbox::Error>(())
/// ```
pub struct Map<K: ?Sized, V: ?Sized> {
    name: Arc<str>,
    pub(crate) space: Space,
    types: PhantomData<Types<K, V>>,
}

impl<K: ?Sized, V: ?Sized> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), space: self.space.clone(), types: PhantomData }
    }
}

impl<K: ?Sized, V: ?Sized> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Map").field(&self.name).finish()
    }
}

impl<K: ?Sized, V: ?Sized> Map<K, V> {
    pub(crate) fn new(name: &str, entry: &KeyspaceEntry, store_id: u128) -> Self {
        let (id, life) = (entry.id, entry.life.clone());
        let table = TableId::Keyspace(id).name().into();
        Self { name: name.into(), space: Space { id, table, life, store_id }, types: PhantomData }
    }

    /// The name that the keyspace is stored under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What a keyspace remembers of its codecs.
pub(crate) fn codecs_of<K: Key + ?Sized, V: Value + ?Sized>() -> String {
    format!("{} -> {}", K::name(), V::name())
}

/// Most keys and values, with the checksum that a value gets, fit without growing.
const SMALL_BYTES: usize = 32;

pub(crate) fn encode_key<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SMALL_BYTES);
    key.encode(&mut bytes);
    bytes
}

pub(crate) fn encode_value<V: Value + ?Sized>(value: &V) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(SMALL_BYTES);
    value.encode(&mut bytes)?;
    Ok(bytes)
}

/// Bounds of a scan, encoded.
pub(crate) struct KeyRange {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl KeyRange {
    pub(crate) fn new<K: Key + ?Sized>(range: &impl RangeBounds<K>) -> Self {
        Self { low: range.start_bound().map(encode_key), high: range.end_bound().map(encode_key) }
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice))
    }
}

/// Rows of a scan as the map's types.
pub(crate) type TypedRows<K, V> = Vec<(<K as Key>::Owned, <V as Value>::Owned)>;

pub(crate) fn decode_rows<K: Key + ?Sized, V: Value + ?Sized>(
    rows: Vec<(Vec<u8>, Vec<u8>)>,
) -> Result<TypedRows<K, V>, Error> {
    rows.into_iter().map(|(k, v)| Ok((K::decode(&k)?, V::decode(&v)?))).collect()
}

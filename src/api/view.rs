//! Reading the state of the last durable group.

use std::fmt;
use std::ops::RangeBounds;

use super::codec::{Key, Value};
use super::map::{KeyRange, Map, TypedRows, decode_rows, encode_key};
use crate::base::error::Error;
use crate::engine::{PinnedView, read_stored, scan_stored};
use crate::storage::tables::TableId;

/// The whole application state as of one durable group; it does not change while you hold it.
///
/// A view sees every call that had returned when it was opened, and never anything that could
/// still be lost. Reading waits for no writer. While a view is open the space it reads is not
/// reused; one that holds back more than
/// [`Builder::view_max_pinned_bytes`](crate::Builder::view_max_pinned_bytes) is ended, and its
/// reads then say so ([`is_view_ended`](Error::is_view_ended)). Get one from
/// [`Inbox::read`](crate::Inbox::read).
///
/// ```
/// # use std::time::Duration;
/// # use txinbox::{Event, EventId, Inbox, Map, Retention};
/// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
/// let totals: Map<str, u64> = inbox.map("totals")?;
/// inbox.consumer("c")?.process(&Event::unchecked(EventId::text("e")?), |tx| {
///     Ok(tx.insert(&totals, "eur", &5)?)
/// })?;
/// assert_eq!(inbox.read(|view| view.get(&totals, "eur"))?, Some(5));
/// # Ok::<(), txinbox::Error>(())
/// ```
pub struct View {
    pub(crate) pinned: PinnedView,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View")
    }
}

impl View {
    /// The value under `key`, or `None`.
    ///
    /// # Errors
    /// As [`Tx::get`](crate::Tx::get); and if the view was ended.
    pub fn get<K, V>(&self, map: &Map<K, V>, key: &K) -> Result<Option<V::Owned>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let bytes = read_stored(&self.pinned.snapshot, &map.space, &encode_key(key))?;
        bytes.map(|b| V::decode(&b)).transpose()
    }

    /// The first `limit` entries of `range`, in key order; see [`Tx::scan`](crate::Tx::scan).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan<K, V>(
        &self,
        map: &Map<K, V>,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<TypedRows<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        self.rows(map, &range, limit, false)
    }

    /// As [`scan`](Self::scan), from the end of the range downwards.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan_back<K, V>(
        &self,
        map: &Map<K, V>,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<TypedRows<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        self.rows(map, &range, limit, true)
    }

    fn rows<K, V>(
        &self,
        map: &Map<K, V>,
        range: &impl RangeBounds<K>,
        limit: usize,
        reverse: bool,
    ) -> Result<TypedRows<K, V>, Error>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        let range = KeyRange::new(range);
        let snapshot = &self.pinned.snapshot;
        decode_rows::<K, V>(scan_stored(snapshot, &map.space, range.bounds(), limit, reverse)?)
    }

    /// How many entries a map has. Takes time in proportion to the map's changes that no checkpoint
    /// holds yet, not to the map.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn len<K: ?Sized, V: ?Sized>(&self, map: &Map<K, V>) -> Result<u64, Error> {
        map.space.check(&self.pinned.snapshot)?;
        self.pinned.snapshot.len(TableId::Keyspace(map.space.id))
    }
}

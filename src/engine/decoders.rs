//! The decoders of this layer's records, for the fuzz targets: any bytes at all may come.
//!
//! What must hold: none panics, and what decodes encodes to the same bytes where a record has one
//! spelling only.

use super::audit::Entry;
use super::backup::parse_rows;
use super::lease::Row;
use super::mark::Mark;
use super::ordered::PositionRow;
use super::overlay::{open_value, seal_value};
use super::registry::Registry;
use super::results;
use crate::base::ids::{KeyspaceId, ResultKey};

/// One decoder after the other.
pub(crate) const DECODERS: &[fn(&[u8])] =
    &[mark, name, result, value, backup_rows, position, record, lease];

fn mark(bytes: &[u8]) {
    if let Ok(mark) = Mark::decode(bytes) {
        assert_eq!(mark.encode(), bytes);
    }
}

fn name(bytes: &[u8]) {
    for key in [&b"c:name"[..], b"k:name", b"version-of-state", b"g\0\0\0\x01", b"o\0\0\0\x01"] {
        let _ = Registry::default().load_row(key, bytes);
    }
    let (key, value) = bytes.split_at(bytes.len().min(9));
    let _ = Registry::default().load_row(key, value);
}

fn result(bytes: &[u8]) {
    let key = bytes.first_chunk::<8>().map_or(0, |key| u64::from_le_bytes(*key));
    if let Some(opened) = results::open(ResultKey(key), bytes) {
        assert_eq!(results::seal(ResultKey(key), &opened), bytes);
    }
}

fn value(bytes: &[u8]) {
    let (space, key) = (KeyspaceId(3), &b"key"[..]);
    if let Ok(opened) = open_value(space, key, bytes) {
        assert_eq!(seal_value(space, key, opened.to_vec()), bytes);
    }
    let sealed = seal_value(space, key, bytes.to_vec());
    assert!(open_value(space, key, &sealed).is_ok_and(|opened| opened == bytes));
}

fn lease(bytes: &[u8]) {
    if let Ok(row) = Row::decode(bytes) {
        assert_eq!(row.encode(), bytes);
    }
}

fn backup_rows(bytes: &[u8]) {
    let _ = parse_rows(bytes);
}

fn position(bytes: &[u8]) {
    if let Ok(row) = PositionRow::decode(bytes) {
        assert_eq!(row.encode(), bytes);
    }
}

fn record(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(12));
    if let Ok(entry) = Entry::decode(key, value) {
        assert_eq!((&Entry::key(entry.place)[..], &entry.encode()[..]), (key, value));
    }
}

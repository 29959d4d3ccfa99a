//! The decoders of runs, for the fuzz targets: any bytes at all may come.
//!
//! What must hold: none panics, and what decodes encodes to the same bytes. A record is bound to its
//! table by a tag, so each is read as if it lay in the table that it names.

use super::block::{self, Block};
use super::filter::Filter;
use super::meta::RunMeta;
use super::name::parse_table_name;
use super::page::block_first;
use crate::base::ids::IdHash;

/// One decoder after the other.
pub(crate) const DECODERS: &[fn(&[u8])] = &[any_block, any_filter, meta, names];

/// The tag behind the version byte.
fn owner(bytes: &[u8]) -> u32 {
    let tag = bytes.get(1..).and_then(|rest| rest.first_chunk::<4>());
    tag.map_or(0, |tag| u32::from_le_bytes(*tag))
}

fn any_block(bytes: &[u8]) {
    let owner = owner(bytes);
    let Ok(opened) = Block::open(bytes, owner) else { return };
    let Ok(rows) = opened.rows() else { return };
    for row in &rows {
        let mut found = Vec::new();
        assert!(opened.find(row.hash, &mut found).is_ok() && found.contains(row));
    }
    // Columns may be wider than they need be, so the bytes may differ, but not what they say.
    let again = block::encode(&rows, opened.covers_to(), owner);
    assert_eq!(Block::open(&again, owner).and_then(|b| b.rows()), Ok(rows));
}

fn any_filter(bytes: &[u8]) {
    let owner = owner(bytes);
    let Ok(filter) = Filter::decode(bytes, owner) else { return };
    assert_eq!(filter.encode(owner), bytes);
    for n in 0..64 {
        let _ = filter.maybe(IdHash(u128::from(owner) << n | n));
    }
}

fn meta(bytes: &[u8]) {
    if let Ok(meta) = RunMeta::decode(bytes) {
        assert_eq!(meta.encode(), bytes);
    }
}

fn names(bytes: &[u8]) {
    let _ = block_first(bytes);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some((name, partition)) = parse_table_name(text)
    {
        assert_eq!(name.table(partition), text);
    }
}

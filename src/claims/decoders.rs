//! The decoders of this layer's records, for the fuzz targets: any bytes at all may come.
//!
//! What must hold: none panics, and what decodes encodes to the same bytes where a record has one
//! spelling only.

use super::catalogue::Catalogue;
use super::packed::{self, CHUNK_MAX_BYTES};
use super::policy::Policy;
use super::state::decode_tombstone;
use super::store_time::SavedClock;

/// One decoder after the other.
pub(crate) const DECODERS: &[fn(&[u8])] =
    &[packed_row, chunk_key, policy, saved_clock, catalogue_row, tombstone];

fn packed_row(bytes: &[u8]) {
    let Ok(row) = packed::decode(bytes) else { return };
    let again: Vec<_> = packed::encode_chunks(&row).collect();
    // One that is larger than its writer makes it comes back as several.
    if bytes.len() < CHUNK_MAX_BYTES / 2 {
        assert_eq!(again, [bytes], "a chunk has one spelling");
    }
}

fn chunk_key(bytes: &[u8]) {
    if let Ok((seq, chunk)) = packed::read_chunk_key(bytes) {
        assert_eq!(packed::chunk_key(seq, chunk), bytes);
    }
}

fn policy(bytes: &[u8]) {
    if let Ok(policy) = Policy::decode(bytes) {
        assert_eq!(policy.encode(), bytes);
    }
}

fn saved_clock(bytes: &[u8]) {
    if let Ok(saved) = SavedClock::decode(bytes) {
        assert_eq!(saved.encode(), bytes);
    }
}

/// Every kind of row, whatever its key.
fn catalogue_row(bytes: &[u8]) {
    for key in [&b"r\0\x01"[..], b"b\0\0\0\0\0\0\0\x01", b"x\0\0\0\x01", b"f\0\0\0\0\0\0\0\x01"] {
        let _ = Catalogue::default().load_row(key, bytes);
    }
    let _ = Catalogue::default().load_row(b"watermark", bytes);
    let (key, value) = bytes.split_at(bytes.len().min(9));
    let _ = Catalogue::default().load_row(key, value);
}

fn tombstone(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(16));
    let _ = decode_tombstone(key, value);
    let _ = decode_tombstone(&[7; 16], bytes);
}

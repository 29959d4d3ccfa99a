//! The decoders of this layer's records, for the fuzz targets: any bytes at all may come.
//!
//! What must hold: none panics, and what decodes encodes to something that decodes to the same.

use super::batch::Batch;
use super::header::Header;
use super::journal::{End, scan_bytes};
use super::tables::TableId;

/// One decoder after the other.
pub(crate) const DECODERS: &[fn(&[u8])] = &[header, batch, table_code, journal, journal_row];

fn header(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode(), bytes, "a header has one spelling");
    }
}

fn batch(bytes: &[u8]) {
    if let Ok(batch) = Batch::decode(bytes) {
        assert_eq!(batch.bytes(), bytes);
    }
}

fn journal(bytes: &[u8]) {
    scan_bytes(bytes);
}

fn journal_row(bytes: &[u8]) {
    if let Ok(end) = End::decode(bytes) {
        assert_eq!(end.encode(), bytes);
    }
}

fn table_code(bytes: &[u8]) {
    let Some(code) = bytes.first_chunk::<8>() else { return };
    let code = u64::from_le_bytes(*code);
    if let Some(table) = TableId::from_code(code) {
        assert_eq!(table.code(), code);
    }
}

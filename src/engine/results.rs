//! Stored results: the bytes that a handler leaves for every repeat of its event.
//!
//! What must hold: U1. None, empty and expired are told apart. U2. A result is checked against its key
//! when it is read.

use super::Engine;
use crate::base::codec::{Writer, unseal};
use crate::base::error::Error;
use crate::base::ids::ResultKey;
use crate::claims::pending::result_bucket;
use crate::claims::row::StoredResult;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// What a claim says of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResultBytes {
    None,
    Expired,
    Some(Vec<u8>),
}

/// A result as it is stored: key, bytes, checksum.
pub(crate) fn seal(key: ResultKey, bytes: &[u8]) -> Vec<u8> {
    let mut w = Writer::with_capacity(bytes.len() + 12);
    w.u64(key.0);
    w.raw(bytes);
    w.seal()
}

pub(super) fn open(key: ResultKey, row: &[u8]) -> Option<Vec<u8>> {
    let (stored, bytes) = unseal(row).ok()?.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*stored) == key.0).then(|| bytes.to_vec())
}

impl Engine {
    /// As `read_result`, from the newest durable group.
    pub(crate) fn read_result_now(&self, result: StoredResult) -> Result<ResultBytes, Error> {
        match result {
            // Nothing to read, so nothing that a store which is down could not answer.
            StoredResult::None => return Ok(ResultBytes::None),
            StoredResult::Empty { .. } => return Ok(ResultBytes::Some(Vec::new())),
            StoredResult::Key { .. } => {}
        }
        let snapshot = self.view()?.snapshot;
        match self.read_result(&snapshot, result) {
            // A recovery came between; the store is on its next snapshot now.
            Err(error) if error.is_view_ended() => {
                let snapshot = self.view()?.snapshot;
                self.read_result(&snapshot, result)
            }
            other => other,
        }
    }

    /// The result that a stored claim names.
    pub(crate) fn read_result(
        &self,
        snapshot: &Snapshot,
        result: StoredResult,
    ) -> Result<ResultBytes, Error> {
        let key = match result {
            StoredResult::None => return Ok(ResultBytes::None),
            StoredResult::Empty { .. } => return Ok(ResultBytes::Some(Vec::new())),
            StoredResult::Key { key, .. } => key,
        };
        let bucket = result_bucket(key);
        if !self.state.read().catalogue.results.contains_key(&bucket) {
            return Ok(ResultBytes::Expired);
        }
        let table = TableId::Results(bucket).name();
        let damaged = |detail| Error::corrupt(format!("table {table}, result {key}"), detail);
        let row = snapshot
            .get_in(TableId::Results(bucket), &table, &key.0.to_be_bytes())?
            .ok_or_else(|| damaged("the claim names it, but it is not there"))?;
        let bytes = open(key, &row).ok_or_else(|| damaged("it does not match"))?;
        Ok(ResultBytes::Some(bytes))
    }
}

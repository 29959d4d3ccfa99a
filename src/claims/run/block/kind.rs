//! What a row stands for, as flags, one word and perhaps an extra word.

use crate::base::codec::Malformed;
use crate::base::ids::{Fingerprint, IdHash, ResultKey};
use crate::claims::row::{RowKind, StoredResult};

/// A claim with a fingerprint and no result: by far the most common row.
const UNCHECKED: u8 = 1; // no fingerprint; the word is 0
const EMPTY_RESULT: u8 = 2;
const KEYED_RESULT: u8 = 4; // the extra is its key
const ALIAS: u8 = 8; // the word and the extra are the primary's lower and upper half
const REFUSED: u8 = 16; // a claim turned down for good

/// A [`RowKind`] in the block's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) flags: u8,
    pub(super) word: u64,
    pub(super) extra: Option<u64>,
}

/// True if rows with these flags have an extra word.
pub(super) fn has_extra(flags: u8) -> bool {
    flags & (KEYED_RESULT | ALIAS) != 0
}

/// True if rows with these flags can have a word other than 0.
pub(super) fn has_word(flags: u8) -> bool {
    flags & UNCHECKED == 0
}

pub(super) fn pack(kind: RowKind) -> Packed {
    match kind {
        RowKind::Claim { fingerprint, result } => {
            let refused = result.is_refused();
            let (result, extra) = match result {
                StoredResult::None => (0, None),
                StoredResult::Empty { .. } => (EMPTY_RESULT, None),
                StoredResult::Key { key, .. } => (KEYED_RESULT, Some(key.0)),
            };
            let flags = if refused { result | REFUSED } else { result };
            match fingerprint {
                Some(Fingerprint(word)) => Packed { flags, word, extra },
                None => Packed { flags: flags | UNCHECKED, word: 0, extra },
            }
        }
        RowKind::Alias { primary } => Packed {
            flags: ALIAS,
            word: primary.0 as u64, // the lower half; the upper is the extra
            extra: Some((primary.0 >> 64) as u64),
        },
    }
}

pub(super) fn unpack(packed: Packed) -> Result<RowKind, Malformed> {
    let Packed { flags, word, extra } = packed;
    let refused = flags & REFUSED != 0;
    let result = match (flags & !(UNCHECKED | REFUSED), extra) {
        (0, None) if !refused => StoredResult::None,
        (EMPTY_RESULT, None) => StoredResult::Empty { refused },
        (KEYED_RESULT, Some(key)) => StoredResult::Key { key: ResultKey(key), refused },
        (ALIAS, Some(upper)) if flags == ALIAS => {
            let primary = IdHash(u128::from(upper) << 64 | u128::from(word));
            return Ok(RowKind::Alias { primary });
        }
        _ => return Err(Malformed("flags of no known kind")),
    };
    let fingerprint = has_word(flags).then_some(Fingerprint(word));
    if fingerprint.is_none() && word != 0 {
        return Err(Malformed("a fingerprint where there is none"));
    }
    Ok(RowKind::Claim { fingerprint, result })
}

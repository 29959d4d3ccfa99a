//! The packed row: a group's claims of one retention class, as they lie on disk before sealing.
//!
//! Owns the layout of a row's chunks and of their keys. Written by the group's own transaction, so
//! a crash leaves all chunks of a group or none; read when the store opens.
//!
//! What must hold:
//! K1. Every chunk decodes alone: whatever repeats is said against the claim before it *in the same
//!     chunk*. K2. A chunk with its key fills at most one page of the database. K3. A row has one
//!     encoding: what decodes encodes to the same bytes. K4. Key order is the order of groups, then
//!     of claims within each class.
//!
//! A chunk, numbers in the encodings of `base::codec`, "zigzag" for signed ones:
//!
//! | field | bytes | |
//! |---|---|---|
//! | version | 1 | [`VERSION`] |
//! | bucket, class, at | varints | of all claims of the row |
//! | wall | zigzag varint | of all claims of the row |
//! | claims | 17 to [`CLAIM_MAX_BYTES`] each | to the end |
//! | checksum | 4 | CRC-32 of all before it |
//!
//! A claim: a tag; its place less the one before it, if that is not 1 (before the first stands -1);
//! consumer and generation, if not those before it (before the first, 0 and 0); event time less the
//! one before it (before the first, the row's wall time), zigzag, if it has one; its hash; then of
//! an alias the primary's hash, unless that is the last claim before it; of a claim the
//! fingerprint, if it has one, and the result key less the one before it, if it has one. Whether a
//! claim was refused stands in its tag.

use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::{
    BucketId, ClassId, ConsumerId, EventMs, Fingerprint, Generation, IdHash, Place, ResultKey,
    Scope, Seq, StoreMs, WallMs,
};
use crate::base::limits;
use crate::claims::row::{RecentClaim, RowKind, StoredResult};

#[cfg(test)]
pub(crate) mod tests;

const VERSION: u8 = 2;
const KEY_BYTES: usize = 10;
/// What redb's leaf adds to one pair: 4 bytes of header, 4 each for the ends of key and value.
const PAGE_OVERHEAD_BYTES: usize = 12;
/// The largest value that shares one page with its key.
pub(crate) const CHUNK_MAX_BYTES: usize = 4_096 - PAGE_OVERHEAD_BYTES - KEY_BYTES;
const HEAD_MAX_BYTES: usize = 1 + 10 + 3 + 10 + 10;
const CLAIM_MAX_BYTES: usize = 1 + 5 + 5 + 5 + 10 + 16 + 8 + 10;
const CHECKSUM_BYTES: usize = 4;
/// The last place that a claim may have in its group; the table in memory keeps 24 bits of it.
pub(crate) const PLACE_MAX: u32 = (1 << 24) - 1;

const ROWS_MAX: usize = limits::GROUP_MAX_EVENTS * (1 + limits::ALIASES_MAX);
const _: () = assert!(ROWS_MAX < PLACE_MAX as usize);
const _: () = assert!(
    ROWS_MAX / ((CHUNK_MAX_BYTES - HEAD_MAX_BYTES) / CLAIM_MAX_BYTES - 1)
        + (limits::CLASSES_MAX as usize)
        < u16::MAX as usize
);

const ALIAS: u8 = 1 << 0;
/// Of a claim: a fingerprint follows. Of an alias: its primary is the last claim before it.
const FINGERPRINT_OR_NEAR: u8 = 1 << 1;
const RESULT_SHIFT: u8 = 2;
const RESULT_MASK: u8 = 0b11 << RESULT_SHIFT;
const EVENT_TIME: u8 = 1 << 4;
const SCOPE: u8 = 1 << 5;
const PLACE: u8 = 1 << 6;
/// Of a claim: turned down for good.
const REFUSED: u8 = 1 << 7;

/// A group's claims of one retention class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedRow {
    pub(crate) bucket: BucketId,
    pub(crate) class: ClassId,
    /// Store time of the commit, by the class.
    pub(crate) at: StoreMs,
    /// Wall time of the commit.
    pub(crate) wall: WallMs,
    pub(crate) claims: Vec<RecentClaim>,
}

/// The key of a group's chunk. Chunks are numbered through all classes of the group.
pub(crate) fn chunk_key(seq: Seq, chunk: u16) -> [u8; KEY_BYTES] {
    let [a, b, c, d, e, f, g, h] = seq.0.to_be_bytes();
    let [i, j] = chunk.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j]
}

/// Reads what [`chunk_key`] wrote.
pub(crate) fn read_chunk_key(key: &[u8]) -> Result<(Seq, u16), Malformed> {
    let refused = Malformed("key of recent claims is not 10 bytes");
    let (seq, chunk) = key.split_first_chunk::<8>().ok_or(refused)?;
    let chunk = <[u8; 2]>::try_from(chunk).map_err(|_| refused)?;
    Ok((Seq(u64::from_be_bytes(*seq)), u16::from_be_bytes(chunk)))
}

/// The row's chunks, in the order of its claims; none if it has no claims.
pub(crate) fn encode_chunks(row: &PackedRow) -> Chunks<'_> {
    Chunks { row, rest: &row.claims }
}

/// Keys and values of a whole group, in key order.
pub(crate) fn encode_group(
    seq: Seq,
    rows: &[PackedRow],
) -> impl Iterator<Item = ([u8; KEY_BYTES], Vec<u8>)> + '_ {
    let chunks = rows.iter().flat_map(encode_chunks);
    (0..=u16::MAX).zip(chunks).map(move |(n, chunk)| (chunk_key(seq, n), chunk))
}

/// Iterator over the chunks of a row.
#[derive(Debug)]
pub(crate) struct Chunks<'a> {
    row: &'a PackedRow,
    rest: &'a [RecentClaim],
}

impl Iterator for Chunks<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.rest.is_empty() {
            return None;
        }
        let wanted = HEAD_MAX_BYTES + self.rest.len() * CLAIM_MAX_BYTES + CHECKSUM_BYTES;
        let mut w = Writer::with_capacity(wanted.min(CHUNK_MAX_BYTES));
        w.u8(VERSION);
        w.varint(self.row.bucket.0);
        w.varint(u64::from(self.row.class.0));
        w.varint(self.row.at.0);
        w.varint(zigzag(self.row.wall.0));
        let mut before = Before::new(self.row.wall);
        while let Some((claim, rest)) = self.rest.split_first() {
            if w.len() + CLAIM_MAX_BYTES + CHECKSUM_BYTES > CHUNK_MAX_BYTES {
                break;
            }
            before.encode(&mut w, claim);
            self.rest = rest;
        }
        Some(w.seal())
    }
}

/// Reads one chunk: its row with that part of the claims which it carries.
#[cfg(any(test, feature = "testkit"))]
pub(crate) fn decode(chunk: &[u8]) -> Result<PackedRow, Malformed> {
    let mut row = PackedRow::default();
    decode_into(chunk, &mut row)?;
    Ok(row)
}

/// As `decode`, in the memory that `row` has; what it says is replaced. After an error it says
/// nothing that may be used.
pub(crate) fn decode_into(chunk: &[u8], row: &mut PackedRow) -> Result<(), Malformed> {
    let mut r = Reader::new(unseal(chunk)?);
    if r.u8()? != VERSION {
        return Err(Malformed("unknown version of a packed row"));
    }
    row.bucket = BucketId(r.varint()?);
    row.class = ClassId(narrow(r.varint()?)?);
    row.at = StoreMs(r.varint()?);
    row.wall = WallMs(unzigzag(r.varint()?));
    row.claims.clear();
    row.claims.reserve(r.remaining() / 24 + 1);
    if r.is_empty() {
        return Err(Malformed("packed row without claims"));
    }
    let mut before = Before::new(row.wall);
    while !r.is_empty() {
        row.claims.push(before.decode(&mut r)?);
    }
    Ok(())
}

/// What the next claim is said against.
struct Before {
    place: u32,
    scope: Scope,
    event_time: i64,
    result: u64,
    claim: Option<IdHash>,
}

impl Before {
    fn new(wall: WallMs) -> Self {
        Self {
            place: u32::MAX,
            scope: Scope::default(),
            event_time: wall.0,
            result: 0,
            claim: None,
        }
    }

    fn encode(&mut self, w: &mut Writer, claim: &RecentClaim) {
        debug_assert!(claim.place.0 <= PLACE_MAX, "place past its limit");
        let step = claim.place.0.wrapping_sub(self.place);
        let new_scope = claim.scope != self.scope;
        let mut tag = self.kind_tag(&claim.kind);
        tag |= if step == 1 { 0 } else { PLACE };
        tag |= if new_scope { SCOPE } else { 0 };
        tag |= claim.event_time.map_or(0, |_| EVENT_TIME);
        w.u8(tag);
        if step != 1 {
            w.varint(u64::from(step));
        }
        if new_scope {
            w.varint(u64::from(claim.scope.consumer.0));
            w.varint(u64::from(claim.scope.generation.0));
        }
        if let Some(time) = claim.event_time {
            w.varint(zigzag(time.0.wrapping_sub(self.event_time)));
            self.event_time = time.0;
        }
        w.u128(claim.hash.0);
        match claim.kind {
            RowKind::Alias { primary } => {
                if tag & FINGERPRINT_OR_NEAR == 0 {
                    w.u128(primary.0);
                }
            }
            RowKind::Claim { fingerprint, result } => {
                if let Some(fingerprint) = fingerprint {
                    w.u64(fingerprint.0);
                }
                if let StoredResult::Key { key, .. } = result {
                    w.varint(key.0.wrapping_sub(self.result));
                    self.result = key.0;
                }
                self.claim = Some(claim.hash);
            }
        }
        self.place = claim.place.0;
        self.scope = claim.scope;
    }

    fn kind_tag(&self, kind: &RowKind) -> u8 {
        match *kind {
            RowKind::Alias { primary } if self.claim == Some(primary) => {
                ALIAS | FINGERPRINT_OR_NEAR
            }
            RowKind::Alias { .. } => ALIAS,
            RowKind::Claim { fingerprint, result } => {
                let refused = if result.is_refused() { REFUSED } else { 0 };
                let result = match result {
                    StoredResult::None => 0,
                    StoredResult::Empty { .. } => 1 << RESULT_SHIFT,
                    StoredResult::Key { .. } => 2 << RESULT_SHIFT,
                };
                fingerprint.map_or(0, |_| FINGERPRINT_OR_NEAR) | result | refused
            }
        }
    }

    fn decode(&mut self, r: &mut Reader<'_>) -> Result<RecentClaim, Malformed> {
        let tag = r.u8()?;
        let step = if tag & PLACE == 0 { 1 } else { narrow(r.varint()?)? };
        self.place = self.place.wrapping_add(step);
        if self.place > PLACE_MAX || (tag & PLACE != 0 && step == 1) {
            return Err(Malformed("place of a claim out of range or spelled twice"));
        }
        if tag & SCOPE != 0 {
            let scope = Scope {
                consumer: ConsumerId(narrow(r.varint()?)?),
                generation: Generation(narrow(r.varint()?)?),
            };
            if std::mem::replace(&mut self.scope, scope) == scope {
                return Err(Malformed("scope of a claim spelled twice"));
            }
        }
        let mut event_time = None;
        if tag & EVENT_TIME != 0 {
            self.event_time = self.event_time.wrapping_add(unzigzag(r.varint()?));
            event_time = Some(EventMs(self.event_time));
        }
        let hash = IdHash(r.u128()?);
        Ok(RecentClaim {
            hash,
            place: Place(self.place),
            scope: self.scope,
            event_time,
            kind: self.decode_kind(tag, hash, r)?,
        })
    }

    fn decode_kind(
        &mut self,
        tag: u8,
        hash: IdHash,
        r: &mut Reader<'_>,
    ) -> Result<RowKind, Malformed> {
        let marked = tag & FINGERPRINT_OR_NEAR != 0;
        let result = (tag & RESULT_MASK) >> RESULT_SHIFT;
        if tag & ALIAS != 0 {
            let primary = match (marked, self.claim) {
                (true, Some(claim)) => claim,
                (true, None) => return Err(Malformed("alias of a claim that is not there")),
                (false, near) => {
                    let primary = IdHash(r.u128()?);
                    if near == Some(primary) {
                        return Err(Malformed("primary of an alias spelled twice"));
                    }
                    primary
                }
            };
            return match tag & (RESULT_MASK | REFUSED) {
                0 => Ok(RowKind::Alias { primary }),
                _ => Err(Malformed("alias with a result")),
            };
        }
        let fingerprint = match marked {
            true => Some(Fingerprint(r.u64()?)),
            false => None,
        };
        let refused = tag & REFUSED != 0;
        let result = match result {
            0 if !refused => StoredResult::None,
            1 => StoredResult::Empty { refused },
            2 => {
                self.result = self.result.wrapping_add(r.varint()?);
                StoredResult::Key { key: ResultKey(self.result), refused }
            }
            _ => return Err(Malformed("unknown kind of result")),
        };
        self.claim = Some(hash);
        Ok(RowKind::Claim { fingerprint, result })
    }
}

fn narrow<T: TryFrom<u64>>(wide: u64) -> Result<T, Malformed> {
    T::try_from(wide).map_err(|_| Malformed("number too large for its field"))
}

fn zigzag(v: i64) -> u64 {
    (v.cast_unsigned() << 1) ^ (v >> 63).cast_unsigned()
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1).cast_signed() ^ -((v & 1).cast_signed())
}

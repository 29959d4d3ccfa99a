//! One table of recent claims: whole groups, a stretch of the sequence without holes.
//!
//! Owns the rows of its groups. Young tables are written by `Recent` under the engine's lock; a
//! frozen one never changes again and is read without any lock by sealing.
//!
//! What must hold: T1. A group lies in one table, whatever its size: if the index fills up in the
//! middle of a group, the table begins another instead of hashing again. T2. What goes in comes
//! out: `find` gives every row as it was stored, `rows` all of them in the order of insertion.

use super::aggregate::{Aggregates, add_claims};
use super::blocks::Blocks;
use super::index::Index;
use crate::base::ids::{
    BucketId, ClassId, Fingerprint, IdHash, Place, Position, ResultKey, Seq, StoreMs, WallMs,
};
use crate::claims::packed::{PLACE_MAX, PackedRow};
use crate::claims::row::{ClaimRow, RecentClaim, RowKind, StoredResult};

/// An index begun because a group outgrew its table is for at least so many.
const ADDED_MIN: usize = 1 << 10;

/// Claims whose slots are fetched side by side before the first of them is inserted: an insertion
/// by itself waits for memory.
const TOGETHER: usize = 64;

const FLAGS_BITS: u32 = 8;
const _: () = assert!(PLACE_MAX == u32::MAX >> FLAGS_BITS);

const FINGERPRINT: u32 = 1 << 0;
const ALIAS: u32 = 1 << 1;
const RESULT_EMPTY: u32 = 1 << 2;
const RESULT_KEY: u32 = 1 << 3;
const REFUSED: u32 = 1 << 4;

/// A stored row that a look-up met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) position: Position,
    pub(crate) class: ClassId,
    pub(crate) bucket: BucketId,
    pub(crate) row: ClaimRow,
}

/// What the claims of one packed row have in common.
#[derive(Clone, Copy, Debug)]
struct Meta {
    seq: Seq,
    at: StoreMs,
    wall: WallMs,
    owner: u32,
}

/// One row, 32 bytes; what it means is said by its flags.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Two halves, low first: a 128-bit number would be aligned to 16 bytes.
    hash: [u64; 2],
    /// A fingerprint, a result key, or an index into `extras`.
    word: u64,
    meta: u32,
    place_flags: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    index: Index,
    /// Further ones, with the number of their first entry, if a group outgrew the table.
    added: Vec<(u32, Index)>,
    entries: Blocks<Entry>,
    metas: Blocks<Meta>,
    /// An alias's primary; a claim's fingerprint and result key, if it has both.
    extras: Blocks<[u64; 2]>,
    owners: Vec<(BucketId, ClassId)>,
    aggregates: Aggregates,
    first_seq: Seq,
    last_seq: Seq,
    capacity: usize,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            index: Index::new(capacity),
            added: Vec::new(),
            entries: Blocks::new(),
            metas: Blocks::new(),
            extras: Blocks::new(),
            owners: Vec::new(),
            aggregates: Aggregates::new(),
            first_seq: Seq::default(),
            last_seq: Seq::default(),
            capacity,
        }
    }

    /// The group of its oldest row.
    pub(crate) fn first_seq(&self) -> Seq {
        self.first_seq
    }

    /// The group of its newest row; sealing this table covers the sequence up to here.
    pub(crate) fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Rows, aliases counted.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows per bucket and scope.
    pub(crate) fn aggregates(&self) -> &Aggregates {
        &self.aggregates
    }

    /// Whether another group's row of that many claims finds room.
    pub(super) fn has_room_for(&self, claims: usize) -> bool {
        self.len().saturating_add(claims) <= self.capacity
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        // A node of a B-tree map is half empty at worst; per scope that is about this much.
        let scopes: usize = self.aggregates.values().map(|s| s.len() * 96 + 96).sum();
        self.index.bytes()
            + self.added.iter().map(|(_, i)| i.bytes()).sum::<usize>()
            + self.entries.bytes()
            + self.metas.bytes()
            + self.extras.bytes()
            + self.owners.capacity() * size_of::<(BucketId, ClassId)>()
            + scopes
    }

    /// Adds a row's claims. The groups of successive rows never descend.
    pub(super) fn insert_row(&mut self, seq: Seq, row: &PackedRow) {
        debug_assert!(self.is_empty() || seq >= self.last_seq, "groups descend");
        if row.claims.is_empty() {
            return;
        }
        if self.is_empty() {
            self.first_seq = seq;
        }
        self.last_seq = self.last_seq.max(seq);
        let owner = self.owner(row.bucket, row.class);
        let meta = self.metas.push(Meta { seq, at: row.at, wall: row.wall, owner });
        for claims in row.claims.chunks(TOGETHER) {
            if claims.len() > 1 {
                let words = claims.iter().map(|claim| self.index.touch(claim.hash));
                std::hint::black_box(words.fold(0, |all, word| all ^ word));
            }
            for claim in claims {
                let entry = self.pack(meta, claim);
                let number = self.entries.push(entry);
                if self.index.room() > 0 {
                    self.index.insert(claim.hash, number);
                } else {
                    self.insert_added(claim.hash, number);
                }
            }
        }
        add_claims(self.aggregates.entry(row.bucket).or_default(), &row.claims);
    }

    #[cold]
    fn insert_added(&mut self, hash: IdHash, number: u32) {
        if self.added.last().is_none_or(|(_, i)| i.room() == 0) {
            // T1. As large as all before it, so that there are never more than a few.
            let capacity = (number as usize).max(ADDED_MIN);
            self.added.push((number, Index::new(capacity)));
        }
        if let Some((first, index)) = self.added.last_mut() {
            index.insert(hash, number - *first);
        }
    }

    fn owner(&mut self, bucket: BucketId, class: ClassId) -> u32 {
        let wanted = (bucket, class);
        // Few buckets are open at a time, and the newest is the likeliest.
        let known = self.owners.iter().rposition(|owner| *owner == wanted);
        known.unwrap_or_else(|| {
            self.owners.push(wanted);
            self.owners.len() - 1
        }) as u32
    }

    /// Fetches what a look-up of `hash` reads first.
    pub(super) fn touch(&self, hash: IdHash) -> u32 {
        self.index.touch(hash)
    }

    /// Calls `found` for every row of `hash`.
    pub(crate) fn find(&self, hash: IdHash, found: &mut impl FnMut(Hit)) {
        let mut look = |number| {
            let entry = self.entries.get(number);
            if entry.hash == halves(hash) {
                found(self.unpack(&entry));
            }
        };
        self.index.find(hash, &mut look);
        for (first, index) in &self.added {
            index.find(hash, |number| look(first + number));
        }
    }

    /// All rows, in the order in which they came.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn rows(&self) -> impl Iterator<Item = Hit> + '_ {
        self.entries.iter().map(|entry| self.unpack(entry))
    }

    /// Number, bucket and hash of every row, in the order in which they came.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u32, BucketId, IdHash)> + '_ {
        // The claims of a packed row come one after the other.
        let mut known = None;
        (0..).zip(self.entries.iter()).map(move |(number, entry)| {
            let bucket = match known {
                Some((meta, bucket)) if meta == entry.meta => bucket,
                _ => self.owners[self.metas.get(entry.meta).owner as usize].0,
            };
            known = Some((entry.meta, bucket));
            (number, bucket, whole(entry.hash))
        })
    }

    /// The row that `keys` gave this number.
    pub(super) fn row(&self, number: u32) -> Hit {
        self.unpack(&self.entries.get(number))
    }

    fn pack(&mut self, meta: u32, claim: &RecentClaim) -> Entry {
        debug_assert!(claim.place.0 <= PLACE_MAX, "place past its limit");
        let (word, flags) = match claim.kind {
            RowKind::Alias { primary } => (u64::from(self.extras.push(halves(primary))), ALIAS),
            RowKind::Claim { fingerprint, result } => match (fingerprint, result) {
                (None, StoredResult::None) => (0, 0),
                (None, StoredResult::Empty { .. }) => (0, RESULT_EMPTY),
                (None, StoredResult::Key { key, .. }) => (key.0, RESULT_KEY),
                (Some(f), StoredResult::None) => (f.0, FINGERPRINT),
                (Some(f), StoredResult::Empty { .. }) => (f.0, FINGERPRINT | RESULT_EMPTY),
                (Some(f), StoredResult::Key { key, .. }) => {
                    let extra = self.extras.push([f.0, key.0]);
                    (u64::from(extra), FINGERPRINT | RESULT_KEY)
                }
            },
        };
        let refused = matches!(claim.kind, RowKind::Claim { result, .. } if result.is_refused());
        let flags = if refused { flags | REFUSED } else { flags };
        Entry {
            hash: halves(claim.hash),
            word,
            meta,
            place_flags: claim.place.0 << FLAGS_BITS | flags,
        }
    }

    fn unpack(&self, entry: &Entry) -> Hit {
        let meta = self.metas.get(entry.meta);
        let (bucket, class) = self.owners[meta.owner as usize];
        Hit {
            position: (meta.seq, Place(entry.place_flags >> FLAGS_BITS)),
            class,
            bucket,
            row: ClaimRow {
                hash: whole(entry.hash),
                at: meta.at,
                wall: meta.wall,
                kind: self.unpack_kind(entry),
            },
        }
    }

    fn unpack_kind(&self, entry: &Entry) -> RowKind {
        let has = |flag| entry.place_flags & flag != 0;
        if has(ALIAS) {
            return RowKind::Alias { primary: whole(self.extras.get(entry.word as u32)) };
        }
        let [first, second] = if has(FINGERPRINT) && has(RESULT_KEY) {
            self.extras.get(entry.word as u32)
        } else {
            [entry.word; 2]
        };
        RowKind::Claim {
            fingerprint: has(FINGERPRINT).then_some(Fingerprint(first)),
            result: if has(RESULT_KEY) {
                StoredResult::Key { key: ResultKey(second), refused: has(REFUSED) }
            } else if has(RESULT_EMPTY) {
                StoredResult::Empty { refused: has(REFUSED) }
            } else {
                StoredResult::None
            },
        }
    }
}

fn halves(hash: IdHash) -> [u64; 2] {
    [hash.0 as u64, (hash.0 >> 64) as u64]
}

fn whole([low, high]: [u64; 2]) -> IdHash {
    IdHash(u128::from(high) << 64 | u128::from(low))
}

//! What is stored of a lease.
//!
//! What must hold: LR1. A row has one encoding. LR2. Its ids are distinct, the primary apart, under which
//! it lies.

use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::ids::{ClassId, ConsumerId, Fingerprint, Generation, IdHash, Scope, StoreMs};
use crate::base::limits::ALIASES_MAX;

const VERSION: u8 = 1;

/// Where an event that is not settled stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Somebody works on it, or did when the lease ran out.
    Held,
    /// Its last attempt failed; the next may begin at `until_ms`.
    Waiting,
    /// Given up after its last attempt.
    Dead,
}

/// All of a row but what only its next worker reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) standing: Standing,
    pub(crate) scope: Scope,
    /// Whose retention the row has.
    pub(crate) class: ClassId,
    /// That class's store time when the row was last written.
    pub(crate) at: StoreMs,
    /// Uptime at which the lease runs out, or the next attempt may begin.
    pub(crate) until_ms: u64,
    pub(crate) token: u64,
    pub(crate) attempt: u32,
    /// What the idempotency keys are made from.
    pub(crate) root: u128,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Reserved besides the primary, under which the row lies.
    pub(crate) ids: Vec<IdHash>,
}

/// A lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) head: Head,
    pub(crate) note: Option<Vec<u8>>,
    /// What the last failed attempt said.
    pub(crate) error: Option<String>,
}

impl Head {
    /// How long nobody else may begin; of a dead event for ever.
    pub(crate) fn left_ms(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms)
    }

    /// Whether somebody may be at work on it.
    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        self.standing == Standing::Held && self.left_ms(now_ms) > 0
    }
}

pub(super) fn key(primary: IdHash) -> [u8; 16] {
    primary.0.to_be_bytes()
}

pub(super) fn decode_key(key: &[u8]) -> Result<IdHash, Malformed> {
    let bytes = key.try_into().map_err(|_| Malformed("its key is not 16 bytes long"))?;
    Ok(IdHash(u128::from_be_bytes(bytes)))
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Head { standing, scope, class, at, until_ms, token, attempt, root, fingerprint, ids } =
            &self.head;
        let mut w = Writer::with_capacity(80 + ids.len() * 16);
        w.u8(VERSION);
        w.u8(match standing {
            Standing::Held => 0,
            Standing::Waiting => 1,
            Standing::Dead => 2,
        });
        w.u32(scope.consumer.0);
        w.u32(scope.generation.0);
        w.u16(class.0);
        w.u64(at.0);
        w.u64(*until_ms);
        w.u64(*token);
        w.u32(*attempt);
        w.u128(*root);
        w.u8(u8::from(fingerprint.is_some()));
        if let Some(fingerprint) = fingerprint {
            w.u64(fingerprint.0);
        }
        w.varint(ids.len() as u64);
        for id in ids {
            w.u128(id.0);
        }
        for part in [self.note.as_deref(), self.error.as_deref().map(str::as_bytes)] {
            w.u8(u8::from(part.is_some()));
            if let Some(part) = part {
                w.bytes(part);
            }
        }
        w.seal()
    }

    pub(crate) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version of a lease"));
        }
        let standing = match r.u8()? {
            0 => Standing::Held,
            1 => Standing::Waiting,
            2 => Standing::Dead,
            _ => return Err(Malformed("unknown standing of a lease")),
        };
        let scope = Scope { consumer: ConsumerId(r.u32()?), generation: Generation(r.u32()?) };
        let (class, at) = (ClassId(r.u16()?), StoreMs(r.u64()?));
        let (until_ms, token, attempt, root) = (r.u64()?, r.u64()?, r.u32()?, r.u128()?);
        let fingerprint = if flag(&mut r)? { Some(Fingerprint(r.u64()?)) } else { None };
        let count = r.varint()?;
        if count > ALIASES_MAX as u64 {
            return Err(Malformed("more ids than an event has"));
        }
        let ids = (0..count).map(|_| Ok(IdHash(r.u128()?))).collect::<Result<_, Malformed>>()?;
        let head =
            Head { standing, scope, class, at, until_ms, token, attempt, root, fingerprint, ids };
        let note = if flag(&mut r)? { Some(r.bytes()?.to_vec()) } else { None };
        let error = if flag(&mut r)? { Some(text(r.bytes()?)?) } else { None };
        r.finish()?;
        Ok(Self { head, note, error })
    }
}

fn flag(r: &mut Reader<'_>) -> Result<bool, Malformed> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("neither there nor absent")),
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("an error's text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let head = Head {
            standing: Standing::Waiting,
            scope: Scope { consumer: ConsumerId(1), generation: Generation(2) },
            class: ClassId(3),
            at: StoreMs(4),
            until_ms: 5,
            token: 6,
            attempt: 7,
            root: 8,
            fingerprint: Some(Fingerprint(9)),
            ids: vec![IdHash(10)],
        };
        Row { head, note: Some(b"n".to_vec()), error: Some("e".to_owned()) }
    }

    #[test]
    fn golden_bytes_of_a_lease() {
        let le = |n: u64, len: usize| n.to_le_bytes()[..len].to_vec();
        let wide = |n: u128| n.to_le_bytes().to_vec();
        let golden = [
            vec![1, 1],
            le(1, 4),
            le(2, 4),
            le(3, 2),
            le(4, 8),
            le(5, 8),
            le(6, 8),
            le(7, 4),
            wide(8),
            vec![1],
            le(9, 8),
            vec![1],
            wide(10),
            vec![1, 1, b'n', 1, 1, b'e'],
        ]
        .concat();
        let bytes = row().encode();
        assert_eq!(unseal(&bytes), Ok(&golden[..]));
        assert_eq!(key(IdHash(0x0102)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn rows_round_trip_and_every_flip_is_refused() {
        let mut rows = vec![row()];
        for standing in [Standing::Held, Standing::Dead] {
            let head = Head { standing, fingerprint: None, ids: Vec::new(), ..row().head };
            rows.push(Row { head, note: None, error: None });
        }
        for row in rows {
            let bytes = row.encode();
            assert_eq!(Row::decode(&bytes), Ok(row));
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Row::decode(&bad).is_err());
            }
        }
    }
}

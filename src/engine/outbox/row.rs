//! What is stored of outgoing messages.
//!
//! What must hold: MR1. Keys sort by destination and then by history: group, then place in the group. MR2. A
//! row has one encoding, and its checksum covers its key, so that it passes in no other place.

use crate::base::canary::planted;
use crate::base::codec::{Malformed, Reader, Writer};
use crate::base::ids::{ConsumerId, DestinationId, Generation, Scope, Seq, WallMs};
use crate::base::limits::HEADERS_MAX;

const VERSION: u8 = 1;
const HAS_DUE: u8 = 1;
const HAS_KEY: u8 = 2;
const GIVEN_UP: u8 = 1;

/// Where a message stands in history; those of one destination never share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessagePlace {
    pub(crate) seq: Seq,
    pub(crate) ordinal: u32,
}

impl MessagePlace {
    pub(crate) const LAST: Self = Self { seq: Seq::MAX, ordinal: u32::MAX };

    /// The first place behind it.
    pub(crate) fn next(self) -> Self {
        match self.ordinal.checked_add(1) {
            Some(ordinal) => Self { ordinal, ..self },
            None => Self { seq: self.seq.next(), ordinal: 0 },
        }
    }
}

/// The key of a message, of its attempts and of its dead letter.
pub(crate) fn key(destination: DestinationId, place: MessagePlace) -> [u8; 16] {
    let high = u128::from(destination.0) << 96;
    (high | u128::from(place.seq.0) << 32 | u128::from(place.ordinal)).to_be_bytes()
}

pub(crate) fn decode_key(key: &[u8]) -> Result<(DestinationId, MessagePlace), Malformed> {
    let bytes = key.try_into().map_err(|_| Malformed("a message's key is not 16 bytes long"))?;
    let n = u128::from_be_bytes(bytes);
    let place = MessagePlace { seq: Seq((n >> 32) as u64), ordinal: n as u32 };
    Ok((DestinationId((n >> 96) as u32), place))
}

/// The key under which a message is found by its own key's hash.
pub(crate) fn index_key(
    destination: DestinationId,
    key_hash: u128,
    place: MessagePlace,
) -> [u8; 32] {
    let mut all = [0; 32];
    let (head, tail) = all.split_at_mut(4);
    let (hash, tail) = tail.split_at_mut(16);
    head.copy_from_slice(&destination.0.to_be_bytes());
    hash.copy_from_slice(&key_hash.to_be_bytes());
    tail.copy_from_slice(key(DestinationId(0), place).get(4..).unwrap_or_default());
    all
}

/// The place in such a key.
pub(crate) fn decode_index_key(key: &[u8]) -> Result<MessagePlace, Malformed> {
    match key.last_chunk::<12>() {
        Some(tail) if key.len() == 32 => {
            decode_key(&[&[0; 4], &tail[..]].concat()).map(|(_, place)| place)
        }
        _ => Err(Malformed("a key of the messages' index is not 32 bytes long")),
    }
}

/// Closes a row by a checksum over its key and itself.
pub(crate) fn seal(key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
    let crc = checksum(key, &body);
    body.extend_from_slice(&crc.to_le_bytes());
    body
}

/// What `seal` closed.
pub(crate) fn unseal<'r>(key: &[u8], row: &'r [u8]) -> Result<&'r [u8], Malformed> {
    let (body, crc) = row.split_last_chunk::<4>().ok_or(Malformed("too short for a checksum"))?;
    let matches = checksum(key, body) == u32::from_le_bytes(*crc);
    if matches || planted("checksum-not-verified-on-read") {
        Ok(body)
    } else {
        Err(Malformed("checksum does not match"))
    }
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(body);
    crc.finalize()
}

/// A header's name and value.
pub(crate) type Header = (String, Vec<u8>);

/// A message without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageBody {
    pub(crate) id: u128,
    /// Whose event it came from.
    pub(crate) scope: Scope,
    /// When it was enqueued.
    pub(crate) wall: WallMs,
    /// Not to be handed out before.
    pub(crate) due: Option<WallMs>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Vec<Header>,
    pub(crate) payload: Vec<u8>,
}

impl MessageBody {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { id, scope, wall, due, key, headers, payload } = self;
        let mut w = Writer::with_capacity(64 + payload.len());
        w.u8(VERSION);
        let due_flag = if due.is_some() { HAS_DUE } else { 0 };
        w.u8(due_flag | if key.is_some() { HAS_KEY } else { 0 });
        w.u128(*id);
        w.varint(u64::from(scope.consumer.0));
        w.varint(u64::from(scope.generation.0));
        w.i64(wall.0);
        if let Some(due) = due {
            w.i64(due.0);
        }
        if let Some(key) = key {
            w.bytes(key);
        }
        w.varint(headers.len() as u64);
        for (name, value) in headers {
            w.bytes(name.as_bytes());
            w.bytes(value);
        }
        w.raw(payload);
        w.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        version(&mut r)?;
        let flags = r.u8()?;
        if flags & !(HAS_DUE | HAS_KEY) != 0 {
            return Err(Malformed("unknown flags of a message"));
        }
        let id = r.u128()?;
        let scope = Scope {
            consumer: ConsumerId(narrow(&mut r)?),
            generation: Generation(narrow(&mut r)?),
        };
        let wall = WallMs(r.i64()?);
        let due = if flags & HAS_DUE != 0 { Some(WallMs(r.i64()?)) } else { None };
        let key = if flags & HAS_KEY != 0 { Some(r.bytes()?.to_vec()) } else { None };
        let count = r.varint()?;
        if count > HEADERS_MAX as u64 {
            return Err(Malformed("more headers than a message has"));
        }
        let headers = (0..count)
            .map(|_| Ok((text(r.bytes()?)?, r.bytes()?.to_vec())))
            .collect::<Result<_, Malformed>>()?;
        let payload = r.raw(r.remaining())?.to_vec();
        Ok(Self { id, scope, wall, due, key, headers, payload })
    }
}

/// What the attempts at a message have come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// How many have failed.
    pub(crate) failed: u32,
    /// Uptime before which there is to be no other.
    pub(crate) until_ms: u64,
    /// Given up, but kept in its place: those of its key wait behind it.
    pub(crate) blocks: bool,
    /// What the last one said.
    pub(crate) error: String,
}

impl Attempts {
    pub(crate) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut w = Writer::with_capacity(32 + self.error.len());
        w.u8(VERSION);
        w.u32(self.failed);
        w.u64(self.until_ms);
        w.u8(if self.blocks { GIVEN_UP } else { 0 });
        w.bytes(self.error.as_bytes());
        seal(key, w.finish())
    }

    pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(key, row)?);
        version(&mut r)?;
        let (failed, until_ms) = (r.u32()?, r.u64()?);
        let blocks = flag(&mut r)?;
        let error = text(r.bytes()?)?;
        r.finish()?;
        Ok(Self { failed, until_ms, blocks, error })
    }
}

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadRow {
    pub(crate) attempts: u32,
    /// When it was given up.
    pub(crate) wall: WallMs,
    pub(crate) error: String,
    /// The message; `None` where it is kept in its place, since it blocks its key.
    pub(crate) body: Option<Vec<u8>>,
}

impl DeadRow {
    pub(crate) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let body = self.body.as_deref().unwrap_or_default();
        let mut w = Writer::with_capacity(32 + self.error.len() + body.len());
        w.u8(VERSION);
        w.u32(self.attempts);
        w.i64(self.wall.0);
        w.bytes(self.error.as_bytes());
        w.u8(u8::from(self.body.is_some()));
        w.raw(body);
        seal(key, w.finish())
    }

    pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(key, row)?);
        version(&mut r)?;
        let (attempts, wall) = (r.u32()?, WallMs(r.i64()?));
        let error = text(r.bytes()?)?;
        let body = if flag(&mut r)? { Some(r.raw(r.remaining())?.to_vec()) } else { None };
        r.finish()?;
        Ok(Self { attempts, wall, error, body })
    }
}

/// How many messages a destination has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Not settled and not given up.
    pub(crate) waiting: u64,
    pub(crate) dead: u64,
}

impl Tally {
    pub(crate) fn encode(self, key: &[u8]) -> Vec<u8> {
        let mut w = Writer::with_capacity(21);
        w.u8(VERSION);
        w.u64(self.waiting);
        w.u64(self.dead);
        seal(key, w.finish())
    }

    pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(key, row)?);
        version(&mut r)?;
        let (waiting, dead) = (r.u64()?, r.u64()?);
        r.finish()?;
        Ok(Self { waiting, dead })
    }
}

/// The row of the index by key: only that it is there counts.
pub(crate) fn index_row(key: &[u8]) -> Vec<u8> {
    seal(key, vec![VERSION])
}

pub(crate) fn check_index_row(key: &[u8], row: &[u8]) -> Result<(), Malformed> {
    version(&mut Reader::new(unseal(key, row)?))
}

fn version(r: &mut Reader<'_>) -> Result<(), Malformed> {
    if r.u8()? == VERSION { Ok(()) } else { Err(Malformed("unknown version of an outbox row")) }
}

fn flag(r: &mut Reader<'_>) -> Result<bool, Malformed> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("neither there nor absent")),
    }
}

fn narrow(r: &mut Reader<'_>) -> Result<u32, Malformed> {
    u32::try_from(r.varint()?).map_err(|_| Malformed("a number is too large"))
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text is not UTF-8"))
}

#[cfg(test)]
mod tests;

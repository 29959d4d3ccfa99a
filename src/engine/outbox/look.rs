//! Looking at messages: lists, numbers, and the check of all rows.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::hand::{damaged, read_attempts, read_message};
use super::lane::Wait;
use super::row::{self, DeadRow, MessageBody, MessagePlace, Tally};
use super::{Engine, Tallies};
use crate::base::error::Error;
use crate::base::ids::{DestinationId, WallMs};
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// Where a message that waits stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may go, or waits behind another of its key.
    Waiting,
    HandedOut,
    /// For its next attempt, or the time that its sender chose.
    Later {
        in_ms: u64,
    },
    /// Given up, and blocks its key.
    Blocks,
}

/// A message that is not settled.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) place: MessagePlace,
    pub(crate) body: MessageBody,
    pub(crate) failed: u32,
    /// What the last attempt said.
    pub(crate) error: Option<String>,
    pub(crate) standing: Standing,
}

/// A message that was given up.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    pub(crate) place: MessagePlace,
    pub(crate) body: MessageBody,
    pub(crate) attempts: u32,
    pub(crate) wall: WallMs,
    pub(crate) error: String,
    pub(crate) blocks: bool,
}

/// What is there now of a destination.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneCounts {
    pub(crate) waiting: u64,
    pub(crate) dead: u64,
    pub(crate) handed_out: u64,
    /// When the first message that waits was enqueued.
    pub(crate) oldest: Option<WallMs>,
}

/// The bounds of a destination's rows behind a place.
fn behind(destination: DestinationId, after: Option<MessagePlace>) -> ([u8; 16], [u8; 16]) {
    let first = after.map_or(MessagePlace::default(), MessagePlace::next);
    (row::key(destination, first), row::key(destination, MessagePlace::LAST))
}

impl Engine {
    /// Messages behind a place that are not settled, in order.
    pub(crate) fn waiting(
        &self,
        destination: DestinationId,
        after: Option<MessagePlace>,
        limit: usize,
    ) -> Result<Vec<Waiting>, Error> {
        let snapshot = self.view()?.snapshot;
        let (first, last) = behind(destination, after);
        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let rows = snapshot.scan(TableId::Messages, bounds, false, Vec::new())?;
        rows.take(limit)
            .map(|message| {
                let (key, value) = message?;
                let decoded = row::decode_key(&key).and_then(|(_, place)| {
                    Ok((place, row::unseal(&key, &value).and_then(MessageBody::decode)?))
                });
                let (place, body) = decoded.map_err(|m| damaged("outbox-messages", &key, m))?;
                let attempts = read_attempts(&snapshot, destination, place)?;
                let standing = match &attempts {
                    Some(attempts) if attempts.blocks => Standing::Blocks,
                    _ => self.standing(destination, place),
                };
                let failed = attempts.as_ref().map_or(0, |attempts| attempts.failed);
                let error = attempts.map(|attempts| attempts.error);
                Ok(Waiting { place, body, failed, error, standing })
            })
            .collect()
    }

    fn standing(&self, destination: DestinationId, place: MessagePlace) -> Standing {
        let now = self.lane_now();
        let shared = self.outbox.shared(destination);
        let known = shared.lane.lock().known(place).copied();
        match known.map(|known| known.wait) {
            Some(Wait::Answer { .. }) => Standing::HandedOut,
            Some(Wait::Attempt { uptime_ms }) if uptime_ms > now.uptime_ms => {
                Standing::Later { in_ms: uptime_ms - now.uptime_ms }
            }
            Some(Wait::Due { wall_ms }) if wall_ms > now.wall_ms => {
                let in_ms = wall_ms.saturating_sub(now.wall_ms);
                Standing::Later { in_ms: u64::try_from(in_ms).unwrap_or_default() }
            }
            _ => Standing::Waiting,
        }
    }

    /// Dead letters behind a place, in order.
    pub(crate) fn dead_letters(
        &self,
        destination: DestinationId,
        after: Option<MessagePlace>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let snapshot = self.view()?.snapshot;
        let (first, last) = behind(destination, after);
        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let rows = snapshot.scan(TableId::DeadLetters, bounds, false, Vec::new())?;
        rows.take(limit).map(|dead| read_dead(&snapshot, dead)).collect()
    }

    /// What is there now of a destination. Reads one message at most.
    pub(crate) fn lane_counts(&self, destination: DestinationId) -> Result<LaneCounts, Error> {
        let tally = self.outbox.tallies.lock().get(&destination).copied().unwrap_or_default();
        let shared = self.outbox.shared(destination);
        let (first, cursor, handed_out) = {
            let lane = shared.lane.lock();
            (lane.first_known(), lane.cursor, lane.handed_out())
        };
        let mut counts =
            LaneCounts { waiting: tally.waiting, dead: tally.dead, handed_out, oldest: None };
        if tally.waiting == 0 {
            return Ok(counts);
        }
        let snapshot = self.state.read().snapshot.clone();
        let known = match first {
            Some(place) => read_message(&snapshot, destination, place)?,
            None => None,
        };
        counts.oldest = match known {
            Some(body) => Some(body.wall),
            None => {
                let (first, last) =
                    (row::key(destination, cursor), row::key(destination, MessagePlace::LAST));
                let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
                let mut rows = snapshot.scan(TableId::Messages, bounds, false, Vec::new())?;
                let next = rows.next().transpose()?;
                let wall = |(key, value): (Vec<u8>, Vec<u8>)| {
                    let body = row::unseal(&key, &value).and_then(MessageBody::decode);
                    body.map(|body| body.wall).map_err(|m| damaged("outbox-messages", &key, m))
                };
                next.map(wall).transpose()?
            }
        };
        Ok(counts)
    }

    /// Checks every row of the outbox, and that none is without those it belongs to (OB5, OB6).
    pub(in crate::engine) fn verify_outbox(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let mut counted: BTreeMap<DestinationId, Tally> = BTreeMap::new();
        let mut keyed = 0_u64;
        for message in snapshot.whole(TableId::Messages)? {
            let (key, value) = message?;
            let at = |m| damaged("outbox-messages", &key, m);
            let (destination, place) = row::decode_key(&key).map_err(at)?;
            let body = row::unseal(&key, &value).and_then(MessageBody::decode).map_err(at)?;
            if let Some(own) = &body.key {
                let index = row::index_key(destination, self.hash_key().message_key(own), place);
                let found = snapshot.get(TableId::MessageKeys, &index)?;
                let found = found.ok_or_else(|| orphan("outbox-keys", &index))?;
                row::check_index_row(&index, &found)
                    .map_err(|m| damaged("outbox-keys", &index, m))?;
                keyed += 1;
            }
            let attempts = read_attempts(snapshot, destination, place)?;
            let is_dead = attempts.is_some_and(|attempts| attempts.blocks);
            counted.entry(destination).or_default().waiting += u64::from(!is_dead);
        }
        if snapshot.len(TableId::MessageKeys)? != keyed {
            return Err(Error::corrupt(
                "table outbox-keys",
                "it names messages that are not there",
            ));
        }
        for attempts in snapshot.whole(TableId::Attempts)? {
            let (key, _) = attempts?;
            let at = |m| damaged("outbox-attempts", &key, m);
            let (destination, place) = row::decode_key(&key).map_err(at)?;
            if read_message(snapshot, destination, place)?.is_none() {
                return Err(orphan("outbox-attempts", &key));
            }
        }
        for dead in snapshot.whole(TableId::DeadLetters)? {
            let (key, value) = dead?;
            let (destination, _) =
                row::decode_key(&key).map_err(|m| damaged("outbox-dead", &key, m))?;
            read_dead(snapshot, Ok((key, value)))?;
            counted.entry(destination).or_default().dead += 1;
        }
        let stored = Tallies::load(snapshot)?;
        for (destination, tally) in stored.all() {
            if counted.remove(destination).unwrap_or_default() != *tally {
                let place = format!("table outbox-tallies, destination {destination}");
                return Err(Error::corrupt(place, "it does not count what is there"));
            }
        }
        match counted.keys().next() {
            Some(destination) => Err(orphan("outbox-tallies", &destination.0.to_be_bytes())),
            None => Ok(()),
        }
    }
}

fn read_dead(
    snapshot: &Snapshot,
    stored: Result<(Vec<u8>, Vec<u8>), Error>,
) -> Result<DeadLetter, Error> {
    let (key, value) = stored?;
    let at = |m| damaged("outbox-dead", &key, m);
    let (destination, place) = row::decode_key(&key).map_err(at)?;
    let DeadRow { attempts, wall, error, body } = DeadRow::decode(&key, &value).map_err(at)?;
    let blocks = body.is_none();
    let body = match body {
        Some(body) => MessageBody::decode(&body).map_err(at)?,
        None => read_message(snapshot, destination, place)?
            .ok_or_else(|| orphan("outbox-dead", &key))?,
    };
    Ok(DeadLetter { place, body, attempts, wall, error, blocks })
}

fn orphan(table: &str, key: &[u8]) -> Error {
    let place = format!("table {table}, key {}", key.escape_ascii());
    Error::corrupt(place, "a row of the outbox is without the one that it belongs to")
}

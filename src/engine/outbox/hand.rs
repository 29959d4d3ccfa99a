//! Handing messages out.
//!
//! What must hold: HO1. What is handed out is of a durable group (OB2), the first of its key (OB3). HO2. A
//! hand-out that is not answered in time counts as an attempt that failed, and the message is offered again.

use std::ops::Bound;

use super::fail::{Patience, Verdict};
use super::lane::{Known, Lane, Now, Wait};
use super::row::{self, Attempts, MessageBody, MessagePlace};
use super::{Engine, Shared};
use crate::base::canary::planted;
use crate::base::codec::Malformed;
use crate::base::error::Error;
use crate::base::ids::{DestinationId, Seq};
use crate::base::sync::Arc;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// Messages that one call looks at, once it has something to hand out.
const LOOK_MAX: usize = 1 << 14;

/// A message in a relay's hands.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    pub(crate) place: MessagePlace,
    pub(crate) token: u64,
    /// From 1.
    pub(crate) attempt: u32,
    pub(crate) body: MessageBody,
}

/// One call that hands out.
struct Round<'r> {
    engine: &'r Engine,
    destination: DestinationId,
    snapshot: &'r Snapshot,
    now: Now,
    until_us: u64,
    most: usize,
    handed: Vec<Handed>,
}

impl Engine {
    /// Hands out up to `most` messages, each for as long as a hand-out may take. Empty if there is
    /// nothing that may go now.
    pub(crate) fn hand_out(
        &self,
        destination: DestinationId,
        most: usize,
        patience: &Patience,
    ) -> Result<Vec<Handed>, Error> {
        let shared = self.outbox.shared(destination);
        self.give_up_waiting(destination, &shared, most, patience)?;
        let mut lane = self.sound_lane(&shared, |_| false)?;
        let snapshot = self.state.read().snapshot.clone();
        let snapshot = if planted("delivery-of-a-group-that-is-not-durable") {
            Arc::new(self.memtable.snapshot(snapshot.stored(), Seq::MAX))
        } else {
            snapshot
        };
        let now = self.lane_now();
        lane.wake(now);
        let until_us = now.us.saturating_add(patience.answer_within_us);
        let handed = Vec::new();
        let (engine, snapshot) = (self, &*snapshot);
        let mut round = Round { engine, destination, snapshot, now, until_us, most, handed };
        let looked = round.ready(&mut lane).and_then(|()| round.ahead(&mut lane));
        if let Err(error) = looked {
            for handed in &round.handed {
                lane.set(handed.place, Wait::Nothing); // the caller will not learn of them
            }
            return Err(error);
        }
        self.counters.destination(destination).handed_out.add(round.handed.len() as u64);
        Ok(round.handed)
    }

    /// Takes back what was not answered in time.
    fn give_up_waiting(
        &self,
        destination: DestinationId,
        shared: &Shared,
        most: usize,
        patience: &Patience,
    ) -> Result<(), Error> {
        let now = self.lane_now();
        let overdue = shared.lane.lock().overdue(now, most);
        if overdue.is_empty() {
            return Ok(());
        }
        self.counters.destination(destination).overdue.add(overdue.len() as u64);
        let failures: Vec<_> = overdue
            .into_iter()
            .map(|place| (place, None, Verdict { why: OVERDUE, at_once: true }))
            .collect();
        self.fail_deliveries(destination, &failures, patience).map(drop)
    }

    /// How long until a destination has something to do that it has not now; `None` if only a change brings
    /// it.
    pub(crate) fn next_delivery_us(&self, destination: DestinationId) -> Option<u64> {
        let shared = self.outbox.shared(destination);
        let now = self.lane_now();
        let lane = shared.lane.lock();
        lane.next_us(now)
    }

    /// Lets a message go that is settled, and notes the next of its key. After an error the whole lane is
    /// looked at anew, so that no key waits for ever.
    pub(super) fn pass_on(
        &self,
        destination: DestinationId,
        lane: &mut Lane,
        snapshot: &Snapshot,
        gone: MessagePlace,
    ) -> Result<(), Error> {
        let Some(next) = lane.remove(gone) else { return Ok(()) };
        let followed = self.follow(destination, lane, snapshot, next);
        if followed.is_err() {
            lane.begin_anew();
        }
        followed
    }

    fn follow(
        &self,
        destination: DestinationId,
        lane: &mut Lane,
        snapshot: &Snapshot,
        (key_hash, from): (u128, MessagePlace),
    ) -> Result<(), Error> {
        let now = self.lane_now();
        let first = row::index_key(destination, key_hash, from);
        let last = row::index_key(destination, key_hash, MessagePlace::LAST);
        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        for index in snapshot.scan(TableId::MessageKeys, bounds, false, Vec::new())? {
            let (key, value) = index?;
            let place = row::check_index_row(&key, &value)
                .and_then(|()| row::decode_index_key(&key))
                .map_err(|m| damaged("outbox-keys", &key, m))?;
            if place >= lane.cursor {
                break; // it is met there
            }
            if lane.has_met(place) {
                continue;
            }
            let Some(body) = read_message(snapshot, destination, place)? else { continue };
            let attempts = read_attempts(snapshot, destination, place)?;
            lane.follow(key_hash, place);
            lane.note(place, standing_of(&body, attempts.as_ref(), Some(key_hash), now));
            return Ok(());
        }
        lane.free(key_hash);
        Ok(())
    }
}

const OVERDUE: &str = "it was handed out and not answered in time";

impl Round<'_> {
    /// Hands out what was looked at before and waits no longer.
    fn ready(&mut self, lane: &mut Lane) -> Result<(), Error> {
        while self.handed.len() < self.most
            && let Some(place) = lane.first_ready()
        {
            match read_message(self.snapshot, self.destination, place)? {
                Some(body) => self.hand(lane, place, body),
                None => {
                    // Damage; the check of the whole store tells of what.
                    self.engine.pass_on(self.destination, lane, self.snapshot, place)?;
                }
            }
        }
        Ok(())
    }

    /// Looks at messages from the cursor on.
    fn ahead(&mut self, lane: &mut Lane) -> Result<(), Error> {
        if self.handed.len() >= self.most || !lane.has_room() {
            return Ok(());
        }
        let first = row::key(self.destination, lane.cursor);
        let last = row::key(self.destination, MessagePlace::LAST);
        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let rows = self.snapshot.scan(TableId::Messages, bounds, false, Vec::new())?;
        let attempts = self.snapshot.scan(TableId::Attempts, bounds, false, Vec::new())?;
        let mut attempts = attempts.peekable();
        for (looked, message) in rows.enumerate() {
            let (key, value) = message?;
            let (_, place) =
                row::decode_key(&key).map_err(|m| damaged("outbox-messages", &key, m))?;
            let body = row::unseal(&key, &value).and_then(MessageBody::decode);
            let body = body.map_err(|m| damaged("outbox-messages", &key, m))?;
            let tried = attempts_at(&mut attempts, &key)?;
            lane.cursor = place.next();
            let key_hash = body.key.as_deref().map(|key| self.engine.hash_key().message_key(key));
            let waits = lane.has_met(place)
                || lane.waits_behind(key_hash, place) && !planted("outbox-keys-out-of-order");
            if !waits {
                self.meet(lane, place, body, tried.as_ref(), key_hash);
            }
            let is_enough = !self.handed.is_empty() && looked >= LOOK_MAX;
            if self.handed.len() >= self.most || is_enough || !lane.has_room() {
                break;
            }
        }
        Ok(())
    }

    /// Takes note of a message as its rows have it, and hands it out if it may go.
    fn meet(
        &mut self,
        lane: &mut Lane,
        place: MessagePlace,
        body: MessageBody,
        tried: Option<&Attempts>,
        key_hash: Option<u128>,
    ) {
        let known = standing_of(&body, tried, key_hash, self.now);
        lane.note(place, known);
        if known.wait == Wait::Nothing {
            self.hand(lane, place, body);
        }
    }

    fn hand(&mut self, lane: &mut Lane, place: MessagePlace, body: MessageBody) {
        let token = lane.next_token();
        let Some(known) = lane.known(place).copied() else { return };
        lane.set(place, Wait::Answer { token, until_us: self.until_us });
        let attempt = known.failed.saturating_add(1);
        self.handed.push(Handed { place, token, attempt, body });
    }
}

/// The row of attempts under a key, from a scan that runs along.
fn attempts_at(
    scan: &mut std::iter::Peekable<impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>>,
    key: &[u8],
) -> Result<Option<Attempts>, Error> {
    while let Some(next) = scan.peek() {
        let (at, value) = next.as_ref().map_err(Error::clone)?;
        match at.as_slice().cmp(key) {
            std::cmp::Ordering::Less => drop(scan.next()),
            std::cmp::Ordering::Equal => {
                let attempts = Attempts::decode(key, value);
                return attempts.map(Some).map_err(|m| damaged("outbox-attempts", key, m));
            }
            std::cmp::Ordering::Greater => break,
        }
    }
    Ok(None)
}

/// What a message waits for that is the first of its key.
fn standing_of(
    body: &MessageBody,
    attempts: Option<&Attempts>,
    key_hash: Option<u128>,
    now: Now,
) -> Known {
    let failed = attempts.map_or(0, |attempts| attempts.failed);
    let wait = match (attempts, body.due) {
        (Some(attempts), _) if attempts.blocks => Wait::Hand,
        (Some(attempts), _) if attempts.until_ms > now.uptime_ms => {
            Wait::Attempt { uptime_ms: attempts.until_ms }
        }
        (_, Some(due)) if due.0 > now.wall_ms => Wait::Due { wall_ms: due.0 },
        _ => Wait::Nothing,
    };
    Known { wait, key_hash, failed }
}

pub(super) fn damaged(table: &str, key: &[u8], m: Malformed) -> Error {
    Error::corrupt(format!("table {table}, key {}", key.escape_ascii()), m.0)
}

pub(super) fn read_message(
    snapshot: &Snapshot,
    destination: DestinationId,
    place: MessagePlace,
) -> Result<Option<MessageBody>, Error> {
    let key = row::key(destination, place);
    let Some(row) = snapshot.get(TableId::Messages, &key)? else { return Ok(None) };
    let body = row::unseal(&key, &row).and_then(MessageBody::decode);
    body.map(Some).map_err(|m| damaged("outbox-messages", &key, m))
}

pub(super) fn read_attempts(
    snapshot: &Snapshot,
    destination: DestinationId,
    place: MessagePlace,
) -> Result<Option<Attempts>, Error> {
    let key = row::key(destination, place);
    let Some(row) = snapshot.get(TableId::Attempts, &key)? else { return Ok(None) };
    Attempts::decode(&key, &row).map(Some).map_err(|m| damaged("outbox-attempts", &key, m))
}

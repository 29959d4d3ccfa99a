//! What a destination's relays share in memory: who has which message, and which is next.
//!
//! Messages are looked at in the order of their places, each once, by a cursor; those that were looked at and
//! are not settled are *known*. Nothing here is on disk: after an opening the cursor begins anew.
//! What must hold:
//! LN1. Every message before the cursor that is not settled is known, or waits behind a known one of its key.
//! LN2. Of each key at most one message is known, the first that is not settled, unless it was put back.
//! LN3. A message is settled by one caller at a time. LN4. Handing out costs the same whatever waits.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;

use super::row::MessagePlace;
use crate::base::hash::IdHasher;
use crate::base::limits::UNSETTLED_MAX;

/// The clocks that messages wait by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Stopwatch: for hand-outs, which end with the process.
    pub(super) us: u64,
    /// The store's uptime: for attempts.
    pub(super) uptime_ms: u64,
    /// The wall clock: for the times that senders chose.
    pub(super) wall_ms: i64,
}

/// What a known message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// To be handed out next.
    Nothing,
    /// Handed out: for its answer, until then.
    Answer { token: u64, until_us: u64 },
    /// For its next attempt.
    Attempt { uptime_ms: u64 },
    /// For the time that its sender chose.
    Due { wall_ms: i64 },
    /// For somebody to put it back, or to throw it away.
    Hand,
}

/// A message that is not settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) wait: Wait,
    pub(super) key_hash: Option<u128>,
    /// Attempts that have failed.
    pub(super) failed: u32,
}

/// A key with a message that is not settled.
#[derive(Clone, Copy, Debug)]
struct Busy {
    head: MessagePlace,
    /// The first place at which there may be another one of it before the cursor.
    behind: Option<MessagePlace>,
}

type KeyMap<V> = HashMap<u128, V, BuildHasherDefault<IdHasher>>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The next place to look at.
    pub(super) cursor: MessagePlace,
    known: BTreeMap<MessagePlace, Known>,
    ready: BTreeSet<MessagePlace>,
    answers: BTreeSet<(u64, MessagePlace)>,
    attempts: BTreeSet<(u64, MessagePlace)>,
    dues: BTreeSet<(i64, MessagePlace)>,
    busy: KeyMap<Busy>,
    /// Being settled by somebody (LN3).
    settling: HashSet<MessagePlace>,
    tokens: u64,
}

impl Lane {
    pub(super) fn known(&self, place: MessagePlace) -> Option<&Known> {
        self.known.get(&place)
    }

    /// The first message that is not settled and was looked at.
    pub(super) fn first_known(&self) -> Option<MessagePlace> {
        self.known.first_key_value().map(|(place, _)| *place)
    }

    pub(super) fn handed_out(&self) -> u64 {
        self.answers.len() as u64
    }

    /// Whether the cursor may go on.
    pub(super) fn has_room(&self) -> bool {
        self.known.len() < UNSETTLED_MAX
    }

    /// Whether a message need not be looked at, since it is known or about to go.
    pub(super) fn has_met(&self, place: MessagePlace) -> bool {
        self.known.contains_key(&place) || self.settling.contains(&place)
    }

    /// If another message of its key comes first, notes that this one waits behind it.
    pub(super) fn waits_behind(&mut self, key_hash: Option<u128>, place: MessagePlace) -> bool {
        let Some(busy) = key_hash.and_then(|hash| self.busy.get_mut(&hash)) else { return false };
        if busy.head != place {
            busy.behind = Some(busy.behind.map_or(place, |behind| behind.min(place)));
        }
        busy.head != place
    }

    /// Takes note of a message that is the first of its key, or changes what it waits for.
    pub(super) fn note(&mut self, place: MessagePlace, known: Known) {
        self.unlist(place);
        match known.wait {
            Wait::Nothing => drop(self.ready.insert(place)),
            Wait::Answer { until_us, .. } => drop(self.answers.insert((until_us, place))),
            Wait::Attempt { uptime_ms } => drop(self.attempts.insert((uptime_ms, place))),
            Wait::Due { wall_ms } => drop(self.dues.insert((wall_ms, place))),
            Wait::Hand => {}
        }
        if let Some(hash) = known.key_hash {
            self.busy.entry(hash).or_insert(Busy { head: place, behind: None });
        }
        self.known.insert(place, known);
    }

    /// Changes what a known message waits for.
    pub(super) fn set(&mut self, place: MessagePlace, wait: Wait) {
        if let Some(known) = self.known.get(&place).copied() {
            self.note(place, Known { wait, ..known });
        }
    }

    fn unlist(&mut self, place: MessagePlace) {
        match self.known.get(&place).map(|known| known.wait) {
            Some(Wait::Nothing) => drop(self.ready.remove(&place)),
            Some(Wait::Answer { until_us, .. }) => drop(self.answers.remove(&(until_us, place))),
            Some(Wait::Attempt { uptime_ms }) => drop(self.attempts.remove(&(uptime_ms, place))),
            Some(Wait::Due { wall_ms }) => drop(self.dues.remove(&(wall_ms, place))),
            Some(Wait::Hand) | None => {}
        }
    }

    /// Forgets a message that is gone. If others of its key wait behind it, the hash and the place to
    /// look for the next from: [`Lane::follow`] or [`Lane::free`] is to be called then.
    pub(super) fn remove(&mut self, place: MessagePlace) -> Option<(u128, MessagePlace)> {
        self.unlist(place);
        let known = self.known.remove(&place)?;
        let hash = known.key_hash?;
        let busy = self.busy.get(&hash).filter(|busy| busy.head == place)?;
        let behind = busy.behind;
        if behind.is_none() {
            self.busy.remove(&hash);
        }
        behind.map(|behind| (hash, behind))
    }

    /// The next of a key takes its head's place; it is to be noted then.
    pub(super) fn follow(&mut self, key_hash: u128, head: MessagePlace) {
        self.busy.insert(key_hash, Busy { head, behind: Some(head.next()) });
    }

    /// Nothing of a key waits before the cursor.
    pub(super) fn free(&mut self, key_hash: u128) {
        self.busy.remove(&key_hash);
    }

    /// Lets those go on whose time has come.
    pub(super) fn wake(&mut self, now: Now) {
        while let Some((until, place)) = self.attempts.first().copied()
            && until <= now.uptime_ms
        {
            self.set(place, Wait::Nothing);
        }
        while let Some((due, place)) = self.dues.first().copied()
            && due <= now.wall_ms
        {
            self.set(place, Wait::Nothing);
        }
    }

    /// Some of those whose answer did not come in time.
    pub(super) fn overdue(&self, now: Now, most: usize) -> Vec<MessagePlace> {
        let over = self.answers.iter().take_while(|(until_us, _)| *until_us <= now.us);
        over.map(|(_, place)| *place).filter(|p| !self.settling.contains(p)).take(most).collect()
    }

    /// In how many microseconds there will be something to do that is not now, if anything will.
    pub(super) fn next_us(&self, now: Now) -> Option<u64> {
        let answer = self.answers.first().map(|(until_us, _)| until_us.saturating_sub(now.us));
        let attempt =
            self.attempts.first().map(|(until_ms, _)| until_ms.saturating_sub(now.uptime_ms));
        let due = self
            .dues
            .first()
            .map(|(due, _)| u64::try_from(due.saturating_sub(now.wall_ms)).unwrap_or_default());
        let in_ms = attempt.into_iter().chain(due).map(|ms| ms.saturating_mul(1_000));
        in_ms.chain(answer).min()
    }

    /// The next that waits for nothing.
    pub(super) fn first_ready(&self) -> Option<MessagePlace> {
        self.ready.iter().copied().find(|place| !self.settling.contains(place))
    }

    /// A number for a hand-out: greater than all before it.
    pub(super) fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    pub(super) fn is_settling(&self, place: MessagePlace) -> bool {
        self.settling.contains(&place)
    }

    pub(super) fn settle(&mut self, place: MessagePlace) {
        self.settling.insert(place);
    }

    /// The one who settled a message is done with it.
    pub(super) fn settled(&mut self, place: MessagePlace) {
        self.settling.remove(&place);
    }

    /// The commit that was to settle these has failed, and what is there now is not known: looks at
    /// everything again but for what others have been handed.
    pub(super) fn doubt(&mut self, places: impl Iterator<Item = MessagePlace>) {
        for place in places {
            self.unlist(place);
            self.known.remove(&place);
        }
        self.begin_anew();
    }

    /// Looks at everything again, but for what is handed out.
    pub(super) fn begin_anew(&mut self) {
        let known = std::mem::take(&mut self.known);
        let (settling, tokens) = (std::mem::take(&mut self.settling), self.tokens);
        *self = Self { settling, tokens, ..Self::default() };
        let is_out = |known: &Known| matches!(known.wait, Wait::Answer { .. });
        for (place, known) in known.into_iter().filter(|(_, known)| is_out(known)) {
            self.note(place, known);
        }
    }

    /// A message before the cursor was put back: it comes before the later ones of its key, unless one of
    /// them is out.
    pub(super) fn put_back(&mut self, place: MessagePlace, key_hash: Option<u128>) {
        if place >= self.cursor {
            return; // it is met there
        }
        let busy = key_hash.and_then(|hash| Some((hash, *self.busy.get(&hash)?)));
        if let Some((hash, busy)) = busy.filter(|(_, busy)| busy.head != place) {
            let wait = self.known.get(&busy.head).map(|known| known.wait);
            let is_out = matches!(wait, Some(Wait::Answer { .. })) || self.is_settling(busy.head);
            if is_out || busy.head < place {
                self.waits_behind(key_hash, place);
                return;
            }
            self.unlist(busy.head);
            self.known.remove(&busy.head);
            let behind = Some(busy.behind.map_or(busy.head, |behind| behind.min(busy.head)));
            self.busy.insert(hash, Busy { head: place, behind });
        }
        let known = Known { wait: Wait::Nothing, key_hash, failed: 0 };
        self.note(place, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Seq;

    fn at(seq: u64) -> MessagePlace {
        MessagePlace { seq: Seq(seq), ordinal: 0 }
    }

    fn known(wait: Wait, key_hash: Option<u128>) -> Known {
        Known { wait, key_hash, failed: 0 }
    }

    #[test]
    fn ln2_those_of_a_key_wait_behind_its_first() {
        let mut lane = Lane { cursor: at(9), ..Lane::default() };
        assert!(!lane.waits_behind(Some(7), at(1)));
        lane.note(at(1), known(Wait::Nothing, Some(7)));
        assert!(!lane.waits_behind(Some(7), at(1)), "not behind itself");
        assert!(lane.waits_behind(Some(7), at(3)) && lane.waits_behind(Some(7), at(2)));
        assert!(!lane.waits_behind(Some(8), at(3)) && !lane.waits_behind(None, at(3)));
        assert_eq!(lane.remove(at(1)), Some((7, at(2))));
        lane.follow(7, at(2));
        lane.note(at(2), known(Wait::Nothing, Some(7)));
        assert_eq!(lane.remove(at(2)), Some((7, at(2).next())));
        lane.free(7);
        assert!(!lane.waits_behind(Some(7), at(3)));
    }

    #[test]
    fn times_come_by_their_own_clocks() {
        let mut lane = Lane::default();
        let zero = Now { us: 0, uptime_ms: 0, wall_ms: 0 };
        assert_eq!(lane.next_us(zero), None);
        lane.note(at(1), known(Wait::Attempt { uptime_ms: 5 }, None));
        lane.note(at(2), known(Wait::Due { wall_ms: 7 }, None));
        lane.note(at(3), known(Wait::Answer { token: 1, until_us: 4_000 }, None));
        lane.note(at(4), known(Wait::Hand, None));
        assert_eq!(lane.next_us(zero), Some(4_000));
        assert_eq!(lane.handed_out(), 1);
        lane.wake(Now { us: 9_000, uptime_ms: 4, wall_ms: 6 });
        assert_eq!(lane.first_ready(), None);
        assert_eq!(lane.overdue(Now { us: 3_999, ..zero }, 9), []);
        assert_eq!(lane.overdue(Now { us: 4_000, ..zero }, 9), [at(3)]);
        lane.wake(Now { us: 0, uptime_ms: 5, wall_ms: 6 });
        assert_eq!(lane.first_ready(), Some(at(1)));
        lane.wake(Now { us: 0, uptime_ms: 5, wall_ms: 7 });
        lane.set(at(1), Wait::Answer { token: 2, until_us: 1 });
        assert_eq!(lane.first_ready(), Some(at(2)));
        lane.settle(at(2));
        assert_eq!(lane.first_ready(), None, "LN3");
        lane.settled(at(2));
        lane.cursor = at(9);
        lane.doubt([at(3)].into_iter());
        assert_eq!((lane.handed_out(), lane.first_ready()), (1, None), "at(1) is out still");
        assert!(lane.known(at(1)).is_some() && lane.known(at(3)).is_none());
        assert_eq!(lane.cursor, MessagePlace::default());
    }
}

//! Attempts that failed, and messages that are given up for it.
//!
//! What must hold: FA1. Only the newest hand-out's failure counts, since it alone may still be under way. FA2. The
//! number of attempts that failed survives everything. FA3. What is given up is a dead letter in the same
//! group, or counted as dropped, as the destination wants it.

use super::Engine;
use super::hand::read_message;
use super::lane::{Known, Lane, Wait};
use super::row::{self, Attempts, DeadRow, MessagePlace};
use super::settle::Marked;
use crate::base::error::Error;
use crate::base::ids::{DestinationId, WallMs};
use crate::base::limits::DELIVERY_ERROR_MAX_BYTES;
use crate::engine::core::Core;
use crate::storage::tables::TableId;

/// What becomes of a message whose attempts are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// A dead letter; those of its key go on.
    Park,
    /// Dropped and counted.
    Skip,
    /// A dead letter that holds up those of its key.
    Block,
}

/// How a destination is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) answer_within_us: u64,
    pub(crate) first_backoff_ms: u64,
    pub(crate) longest_backoff_ms: u64,
    pub(crate) attempts_max: u32,
    pub(crate) exhausted: Exhausted,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict<'v> {
    pub(crate) why: &'v str,
    /// The next may follow without a wait.
    pub(crate) at_once: bool,
}

/// What a failed attempt has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Again {
        in_ms: u64,
    },
    Dead,
    Dropped,
    /// It was not the newest hand-out, or the message was settled already.
    Late,
}

impl Engine {
    /// Notes durably that attempts have failed, and what becomes of their messages. A `None` for a token
    /// stands for the newest.
    pub(crate) fn fail_deliveries(
        &self,
        destination: DestinationId,
        failures: &[(MessagePlace, Option<u64>, Verdict<'_>)],
        patience: &Patience,
    ) -> Result<Vec<Failure>, Error> {
        let marked = self.mark_failures(destination, failures)?;
        let plans: Vec<_> = marked
            .iter()
            .zip(failures)
            .filter_map(|(marked, (_, _, verdict))| {
                Some((
                    marked.as_ref()?,
                    verdict,
                    self.plan_failure(marked.as_ref()?, verdict, patience),
                ))
            })
            .collect();
        let staged = if plans.is_empty() {
            Ok(())
        } else {
            self.in_group(|core| {
                plans.iter().try_for_each(|(marked, verdict, failure)| {
                    let exhausted = patience.exhausted;
                    self.stage_failure(core, destination, **marked, verdict, *failure, exhausted)
                })
            })
        };
        let all: Vec<Marked> = plans.iter().map(|(marked, _, _)| **marked).collect();
        let mut planned = plans.iter().map(|(_, _, failure)| *failure);
        let uptime_ms = self.uptime_ms();
        self.unmark(destination, &all, staged.is_ok(), |lane, marked| {
            let failure = planned.next().unwrap_or(Failure::Late);
            note_failure(lane, marked, failure, patience.exhausted, uptime_ms)
        });
        staged?;
        self.count_failures(destination, plans.iter().map(|(_, _, failure)| *failure));
        let mut planned = plans.iter().map(|(_, _, failure)| *failure);
        let answers = marked.iter().map(|marked| match marked {
            Some(_) => planned.next().unwrap_or(Failure::Late),
            None => Failure::Late,
        });
        Ok(answers.collect())
    }

    fn count_failures(&self, destination: DestinationId, all: impl Iterator<Item = Failure>) {
        let counters = self.counters.destination(destination);
        for failure in all {
            counters.failed.add(1);
            match failure {
                Failure::Dead => counters.dead.add(1),
                Failure::Dropped => counters.dropped.add(1),
                Failure::Again { .. } | Failure::Late => {}
            }
        }
    }

    /// Marks those whose newest hand-out is meant (FA1).
    fn mark_failures(
        &self,
        destination: DestinationId,
        failures: &[(MessagePlace, Option<u64>, Verdict<'_>)],
    ) -> Result<Vec<Option<Marked>>, Error> {
        let shared = self.outbox.shared(destination);
        let is_settling = |lane: &Lane| failures.iter().any(|(place, ..)| lane.is_settling(*place));
        let mut lane = self.sound_lane(&shared, is_settling)?;
        let mark = |(place, token, _): &(MessagePlace, Option<u64>, Verdict<'_>)| {
            let known = *lane.known(*place)?;
            let Wait::Answer { token: newest, .. } = known.wait else { return None };
            if token.is_some_and(|token| token != newest) || lane.is_settling(*place) {
                return None;
            }
            lane.settle(*place);
            let (key_hash, failed) = (known.key_hash, known.failed);
            Some(Marked { place: *place, key_hash, failed, blocks: false })
        };
        Ok(failures.iter().map(mark).collect())
    }

    fn plan_failure(&self, marked: &Marked, verdict: &Verdict<'_>, patience: &Patience) -> Failure {
        let failed = marked.failed.saturating_add(1);
        if failed >= patience.attempts_max {
            return match patience.exhausted {
                Exhausted::Skip => Failure::Dropped,
                Exhausted::Park | Exhausted::Block => Failure::Dead,
            };
        }
        if verdict.at_once {
            return Failure::Again { in_ms: 0 };
        }
        let doublings = (failed - 1).min(32);
        let full = patience.first_backoff_ms.saturating_mul(1_u64 << doublings);
        let full = full.min(patience.longest_backoff_ms);
        // Half of it at random, so that what failed together is not tried together.
        let random = self.random.next_u64().unwrap_or(u64::MAX);
        Failure::Again { in_ms: full / 2 + random % (full - full / 2 + 1) }
    }

    fn stage_failure(
        &self,
        core: &mut Core,
        destination: DestinationId,
        marked: Marked,
        verdict: &Verdict<'_>,
        failure: Failure,
        exhausted: Exhausted,
    ) -> Result<(), Error> {
        let key = row::key(destination, marked.place);
        let attempts = marked.failed.saturating_add(1);
        let error = cut(verdict.why).to_owned();
        match failure {
            Failure::Late => {}
            Failure::Dropped => self.stage_removal(core, destination, marked),
            Failure::Again { in_ms } => {
                let until_ms = self.uptime_ms().saturating_add(in_ms);
                let row = Attempts { failed: attempts, until_ms, blocks: false, error };
                core.group.batch.put(TableId::Attempts, &key, &row.encode(&key));
            }
            Failure::Dead => {
                let blocks = exhausted == Exhausted::Block;
                let body = match blocks {
                    true => None,
                    false => read_message(&core.tip, destination, marked.place)?,
                };
                let wall = WallMs(self.clock.wall_ms());
                if blocks {
                    let row =
                        Attempts { failed: attempts, until_ms: 0, blocks, error: error.clone() };
                    core.group.batch.put(TableId::Attempts, &key, &row.encode(&key));
                    self.count_messages(core, destination, |tally| {
                        tally.waiting = tally.waiting.saturating_sub(1);
                    });
                } else {
                    self.stage_removal(core, destination, marked);
                }
                let body = body.map(|body| body.encode());
                let row = DeadRow { attempts, wall, error, body }.encode(&key);
                core.group.batch.put(TableId::DeadLetters, &key, &row);
                core.group.staged_bytes = core.group.staged_bytes.saturating_add(row.len());
                self.count_messages(core, destination, |tally| tally.dead += 1);
            }
        }
        Ok(())
    }
}

/// What the lane makes of a failure that is durable; whether the message is gone.
fn note_failure(
    lane: &mut Lane,
    marked: &Marked,
    failure: Failure,
    exhausted: Exhausted,
    uptime_ms: u64,
) -> bool {
    let wait = match failure {
        Failure::Again { in_ms: 0 } => Wait::Nothing,
        Failure::Again { in_ms } => Wait::Attempt { uptime_ms: uptime_ms.saturating_add(in_ms) },
        Failure::Dead if exhausted == Exhausted::Block => Wait::Hand,
        Failure::Dead | Failure::Dropped => return true,
        Failure::Late => return false,
    };
    if let Some(known) = lane.known(marked.place).copied() {
        let failed = known.failed.saturating_add(1);
        lane.note(marked.place, Known { wait, failed, ..known });
    }
    false
}

/// As much of a text as is kept.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(DELIVERY_ERROR_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

//! The plain reference: a map of events, each with a standing, a token and a time.

use std::collections::BTreeMap;

use txinbox::Outcome;

pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// An event is known under two ids; `second` delivers it under its other one alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) n: u8,
    pub(crate) second: bool,
    pub(crate) payload: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Ok,
    Refuse,
    Skip,
    Fail,
}

/// What is known of an event that is not settled.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) held: bool,
    pub(crate) dead: bool,
    pub(crate) until: u64,
    pub(crate) token: u64,
    pub(crate) attempt: u32,
    pub(crate) note: Option<u8>,
    pub(crate) payload: u8,
}

#[derive(Clone, Debug)]
pub(crate) enum State {
    Open(Row),
    Settled { payload: u8, refused: bool },
}

/// What a call came to, in as few words as the reference knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Lease { attempt: u32, note: Option<u8> },
    Applied,
    Refused,
    Skipped,
    HandlerError,
    Duplicate { refused: bool },
    Mismatch,
    InProgress { left: u64, attempt: u32 },
    Dead { attempts: u32 },
    Fenced { token: u64 },
    Done(bool),
    Lost,
}

pub(crate) fn said(outcome: Outcome<()>) -> Answer {
    match outcome {
        Outcome::Applied(..) => Answer::Applied,
        Outcome::Refused(..) => Answer::Refused,
        Outcome::Skipped(()) => Answer::Skipped,
        Outcome::Duplicate(claim) => Answer::Duplicate { refused: claim.is_refused() },
        Outcome::Mismatch(_) => Answer::Mismatch,
        Outcome::InProgress { expires_in, attempt } => {
            Answer::InProgress { left: expires_in.as_secs(), attempt }
        }
        Outcome::Dead { attempts } => Answer::Dead { attempts },
        Outcome::Fenced { epoch } => Answer::Fenced { token: epoch },
        other => panic!("{other:?}"),
    }
}

#[derive(Default)]
pub(crate) struct Reference {
    pub(crate) now: u64,
    pub(crate) events: BTreeMap<u8, State>,
    pub(crate) counts: BTreeMap<u64, u64>,
}

impl Reference {
    /// The answer of the claims or of a row that is in the way.
    pub(crate) fn judge(&self, event: Named) -> Option<Answer> {
        match self.events.get(&event.n)? {
            State::Settled { payload, refused } if *payload == event.payload => {
                Some(Answer::Duplicate { refused: *refused })
            }
            State::Settled { .. } => Some(Answer::Mismatch),
            State::Open(row) => {
                let left = row.until.saturating_sub(self.now);
                let waits = Answer::InProgress { left, attempt: row.attempt };
                match row {
                    _ if row.payload != event.payload => Some(waits),
                    _ if row.dead => Some(Answer::Dead { attempts: row.attempt }),
                    _ => (left > 0).then_some(waits),
                }
            }
        }
    }

    pub(crate) fn begin(&mut self, event: Named, duration: u64, token: u64) -> Answer {
        if let Some(answer) = self.judge(event) {
            return answer;
        }
        let until = self.now + duration;
        let fresh = Row {
            held: true,
            dead: false,
            until,
            token,
            attempt: 0,
            note: None,
            payload: event.payload,
        };
        let mut row = match self.events.remove(&event.n) {
            Some(State::Open(row)) => row,
            _ => fresh.clone(),
        };
        let answer = if row.attempt >= MAX_ATTEMPTS {
            row = Row { dead: true, held: false, ..row };
            Answer::Dead { attempts: row.attempt }
        } else {
            row = Row { attempt: row.attempt + 1, note: row.note, ..fresh };
            Answer::Lease { attempt: row.attempt, note: row.note }
        };
        self.events.insert(event.n, State::Open(row));
        answer
    }

    pub(crate) fn current(&mut self, n: u8, token: u64) -> Option<&mut Row> {
        match self.events.get_mut(&n) {
            Some(State::Open(row)) if row.held && row.token == token => Some(row),
            _ => None,
        }
    }

    /// What a worker whose lease may be gone is told; `None` while it is not.
    pub(crate) fn late(&mut self, event: Named, token: u64) -> Option<Answer> {
        if self.current(event.n, token).is_some() {
            return None;
        }
        match self.events.get(&event.n) {
            Some(State::Open(row)) => Some(Answer::Fenced { token: row.token }),
            Some(State::Settled { .. }) => self.judge(event),
            None => Some(Answer::Fenced { token }),
        }
    }

    pub(crate) fn handle(&mut self, event: Named, end: End) -> Answer {
        let refused = match end {
            End::Fail => return Answer::HandlerError,
            End::Skip => return Answer::Skipped,
            End::Refuse => true,
            End::Ok => {
                *self.counts.entry(u64::from(event.n)).or_default() += 1;
                false
            }
        };
        self.events.insert(event.n, State::Settled { payload: event.payload, refused });
        if refused { Answer::Refused } else { Answer::Applied }
    }
}

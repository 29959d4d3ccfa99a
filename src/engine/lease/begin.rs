//! Giving a lease out.
//!
//! What must hold: BG1. A token is the place of its lease in history: its group, then its place among the
//! leases of that group; a restored copy's lie above all of its source's. BG2. What the attempts before have
//! left, their number, their note and the ids they reserved, goes to the next.

use super::super::Engine;
use super::super::core::Core;
use super::super::process::{Case, Draft};
use super::row::{Head, Row, Standing};
use crate::base::error::Error;
use crate::base::ids::IdHash;
use crate::base::limits::{ALIASES_MAX, GROUP_MAX_EVENTS, LEASES_MAX};

/// Bits of a token below those of its group's sequence.
const PLACE_BITS: u32 = 12;
const LINEAGE_SHIFT: u32 = 56;
const _: () = assert!(GROUP_MAX_EVENTS <= 1 << PLACE_BITS);

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) duration_ms: u64,
    pub(crate) max_attempts: u32,
    /// What this event's idempotency keys are made from, if this is its first attempt.
    pub(crate) root: u128,
}

/// A lease that is staged; to be given out once it is durable.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    pub(crate) attempt: u32,
    pub(crate) root: u128,
    pub(crate) note: Option<Vec<u8>>,
    /// All ids that it has reserved, the event's own first.
    pub(crate) ids: Vec<IdHash>,
}

/// What earlier attempts have left.
#[derive(Default)]
struct Past {
    attempt: u32,
    newest: Option<(u64, Row)>,
    ids: Vec<IdHash>,
    primaries: Vec<IdHash>,
}

impl Engine {
    /// Stages a lease for an event that nobody has settled or works on; otherwise the answer to it.
    pub(crate) fn take_on(
        &self,
        core: &mut Core,
        case: Case<'_>,
        asked: Asked,
    ) -> Result<Result<Grant, Draft<()>>, Error> {
        core.group.events = core.group.events.saturating_add(1);
        if let Some(draft) = self.judge(core, case)? {
            return Ok(Err(draft));
        }
        let past = self.past(core, case)?;
        if past.primaries.is_empty() && core.leases.len() >= LEASES_MAX {
            let (got, limit) = (core.leases.len() as u64 + 1, LEASES_MAX as u64);
            return Err(Error::limit("the number of leases", got, limit));
        }
        for primary in &past.primaries {
            self.remove(core, *primary);
        }
        if past.attempt >= asked.max_attempts
            && let Some((_, mut row)) = past.newest
        {
            // Its last attempt ended with the lease, not by saying why.
            row.head = Head { attempt: past.attempt, ..self.head(case, &past.ids, row.head) };
            row.head.standing = Standing::Dead;
            self.put(core, first_of(case), row);
            return Ok(Err(Draft::Dead { attempts: past.attempt }));
        }
        Ok(Ok(self.grant(core, case, asked, past)))
    }

    fn past(&self, core: &mut Core, case: Case<'_>) -> Result<Past, Error> {
        let mut past = Past::default();
        for (primary, head) in core.leases.under(&case.delivery.ids) {
            let row = self.row(core, primary)?;
            past.attempt = past.attempt.max(head.attempt);
            past.ids.push(primary);
            past.ids.extend(&head.ids);
            past.primaries.push(primary);
            if past.newest.as_ref().is_none_or(|(token, _)| *token < head.token) {
                past.newest = Some((head.token, row));
            }
        }
        Ok(past)
    }

    /// The head of this event's row, with what does not change of the one before.
    fn head(&self, case: Case<'_>, reserved: &[IdHash], before: Head) -> Head {
        let mut ids: Vec<IdHash> = Vec::new();
        for id in case.delivery.ids.iter().skip(1).chain(reserved) {
            let is_new = *id != first_of(case) && !ids.contains(id);
            if is_new && ids.len() < ALIASES_MAX {
                ids.push(*id);
            }
        }
        let class = case.class();
        let fingerprint = case.delivery.fingerprint.or(before.fingerprint);
        Head { class, at: self.now(class), fingerprint, ids, ..before }
    }

    fn grant(&self, core: &mut Core, case: Case<'_>, asked: Asked, past: Past) -> Grant {
        let (root, note, error) = match past.newest {
            Some((_, row)) => (row.head.root, row.note, row.error),
            None => (asked.root, None, None),
        };
        let token = self.next_token(core);
        let attempt = past.attempt.saturating_add(1);
        let before = Head {
            standing: Standing::Held,
            scope: case.handling.scope,
            class: case.class(),
            at: self.now(case.class()),
            until_ms: self.uptime_ms().saturating_add(asked.duration_ms),
            token,
            attempt,
            root,
            fingerprint: None,
            ids: Vec::new(),
        };
        let head = self.head(case, &past.ids, before);
        let primary = first_of(case);
        let ids = std::iter::once(primary).chain(head.ids.iter().copied()).collect();
        self.put(core, primary, Row { head, note: note.clone(), error });
        Grant { token, attempt, root, note, ids }
    }

    fn next_token(&self, core: &mut Core) -> u64 {
        let place = core.group.leases;
        core.group.leases = place.saturating_add(1);
        let lineage = u64::from(self.directory.header().lineage.min(0xff));
        lineage << LINEAGE_SHIFT | core.seq.next().0 << PLACE_BITS | place
    }
}

fn first_of(case: Case<'_>) -> IdHash {
    case.delivery.ids.first().copied().unwrap_or_default()
}

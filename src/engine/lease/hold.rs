//! What the holder of a lease does with it, and what others may do by hand.

use super::super::Engine;
use super::super::core::Core;
use super::super::process::{Case, Draft, Ran};
use super::super::stage::Stage;
use super::row::{Head, Row, Standing};
use crate::base::error::{BoxError, Error};
use crate::base::ids::{IdHash, StoreMs};
use crate::base::limits::LEASE_ERROR_MAX_BYTES;

impl Engine {
    /// Changes the row of the lease that `token` holds.
    pub(crate) fn amend(
        &self,
        core: &mut Core,
        case: Case<'_>,
        token: u64,
        change: impl FnOnce(&mut Row, u64),
    ) -> Result<(), Error> {
        core.group.events = core.group.events.saturating_add(1);
        let held = self.held(core, &case.delivery.ids, token);
        let primary = held.ok_or_else(|| Error::lease_lost(token))?;
        let mut row = self.row(core, primary)?;
        change(&mut row, self.uptime_ms());
        row.head.at = self.now(row.head.class);
        self.put(core, primary, row);
        Ok(())
    }

    /// Settles the event of a lease, if `token` holds it; otherwise tells what became of it.
    pub(crate) fn complete<T>(
        &self,
        core: &mut Core,
        case: Case<'_>,
        token: u64,
        handler: impl for<'g> FnOnce(Stage<'g>) -> (Stage<'g>, Result<T, BoxError>),
    ) -> Ran<T> {
        core.group.events = core.group.events.saturating_add(1);
        match self.finished(core, case, token) {
            Ok(Some(draft)) => return Ran::Draft(draft),
            Ok(None) => {}
            Err(error) => return Ran::Failed(error),
        }
        if let Err(error) = self.check_space(core) {
            return Ran::Failed(error);
        }
        let ran = self.run(core, case, handler);
        if let Ran::Draft(Draft::Skipped(_)) = ran {
            self.release(core, &case.delivery.ids); // done with, and not to be remembered
        }
        ran
    }

    /// What became of an event whose lease `token` no longer holds; `None` while it does.
    fn finished<T>(
        &self,
        core: &mut Core,
        case: Case<'_>,
        token: u64,
    ) -> Result<Option<Draft<T>>, Error> {
        let held = self.held(core, &case.delivery.ids, token);
        if let Some(draft) = self.settled(core, case)? {
            if let Some(primary) = held {
                self.remove(core, primary); // settled under another id of the event
            }
            return Ok(Some(draft));
        }
        if held.is_some() {
            return Ok(None);
        }
        let newest = core.leases.under(&case.delivery.ids).first().map(|(_, head)| head.token);
        Ok(Some(Draft::Fenced { token: newest.unwrap_or(token) }))
    }

    /// Ends an attempt without settling the event.
    pub(crate) fn fail(
        &self,
        core: &mut Core,
        case: Case<'_>,
        token: u64,
        why: &str,
        backoff_ms: u64,
        max_attempts: u32,
    ) -> Result<Draft<()>, Error> {
        core.group.events = core.group.events.saturating_add(1);
        if let Some(draft) = self.finished(core, case, token)? {
            return Ok(draft);
        }
        let held = self.held(core, &case.delivery.ids, token);
        let primary = held.ok_or_else(|| Error::lease_lost(token))?;
        let mut row = self.row(core, primary)?;
        let attempt = row.head.attempt;
        let standing = if attempt >= max_attempts { Standing::Dead } else { Standing::Waiting };
        let until_ms = self.uptime_ms().saturating_add(backoff_ms);
        let at = self.now(row.head.class);
        row.head = Head { standing, until_ms, at, ..row.head };
        row.error = Some(cut(why).to_owned());
        self.put(core, primary, row);
        Ok(match standing {
            Standing::Dead => Draft::Dead { attempts: attempt },
            _ => Draft::InProgress { expires_in_ms: backoff_ms, attempt, is_other: false },
        })
    }

    /// Lets an event that was given up be tried again, from its first attempt; false if none was.
    pub(crate) fn redrive(&self, core: &mut Core, id: IdHash) -> Result<bool, Error> {
        core.group.events = core.group.events.saturating_add(1);
        let found = core.leases.under(&[id]);
        let Some((primary, head)) = found.into_iter().next() else { return Ok(false) };
        if head.standing != Standing::Dead {
            return Ok(false);
        }
        let mut row = self.row(core, primary)?;
        let (until_ms, at): (u64, StoreMs) = (self.uptime_ms(), self.now(head.class));
        row.head = Head { standing: Standing::Waiting, attempt: 0, until_ms, at, ..row.head };
        self.put(core, primary, row);
        Ok(true)
    }

    /// The lease row that an id leads to, and how long it has left.
    pub(crate) fn lease_row(
        &self,
        core: &mut Core,
        id: IdHash,
    ) -> Result<Option<(Row, u64)>, Error> {
        let found = core.leases.under(&[id]);
        let Some((primary, head)) = found.into_iter().next() else { return Ok(None) };
        let row = self.row(core, primary)?;
        Ok(Some((row, head.left_ms(self.uptime_ms()))))
    }

    /// What a delivery would be answered now without being handled, and whether that may change by the
    /// work of somebody who holds a lease; `None` if nothing is known of the event.
    pub(crate) fn watch(
        &self,
        core: &mut Core,
        case: Case<'_>,
    ) -> Result<Option<(Draft<()>, bool)>, Error> {
        if let Some(draft) = self.settled(core, case)? {
            return Ok(Some((draft, false)));
        }
        let now_ms = self.uptime_ms();
        let found = core.leases.under(&case.delivery.ids);
        Ok(found.into_iter().next().map(|(_, head)| {
            let (attempt, expires_in_ms) = (head.attempt, head.left_ms(now_ms));
            let draft = match head.standing {
                Standing::Dead => Draft::Dead { attempts: attempt },
                _ => Draft::InProgress { expires_in_ms, attempt, is_other: false },
            };
            (draft, head.is_live(now_ms))
        }))
    }
}

/// As much of a text as is kept.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(LEASE_ERROR_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

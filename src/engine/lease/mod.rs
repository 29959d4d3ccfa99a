//! Leases: events that are worked on outside a transaction, which of their attempts is the current one, and
//! which were given up.
//!
//! Owns the table `leases` and its image, the [`Board`], which only the holder of the write slot touches. A
//! lease is a row like any other of its group: journaled, replayed, and gone with the group if that fails.
//!
//! What must hold:
//! LS1. A token is strictly larger than every one given out before, and is given out only once its row is
//!      durable. LS2. Only the current token notes, renews, fails or completes; what a later finisher brings
//!      changes nothing. LS3. Completing removes the row in the very group that adds the claim. LS4. The
//!      board equals the table as of the open group. LS5. A lease runs out by the store's uptime alone; no
//!      wall clock is asked. LS6. Nothing but its own end removes a lease that has not run out: no
//!      opening, no forgetting, no dropped handle. LS7. A claim outranks a lease: it is looked up first.
//!
//! Called by `process`, `core` and `maintenance`, and by `api`.

mod begin;
mod board;
mod hold;
mod row;
mod shared;
mod sweep;

pub(crate) use begin::{Asked, Grant};
pub(crate) use board::Board;
#[cfg(feature = "testkit")]
pub(super) use row::Row;
pub(crate) use row::{Head, Standing};
pub(crate) use shared::Shared;

use super::Engine;
use super::core::Core;
use super::process::{Delivery, Draft};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{ClassId, IdHash};
use crate::storage::tables::TableId;
use row::Row as LeaseRow;

/// The clock that leases run out by: no class has this number, so no opening lets it leap.
const UPTIME: ClassId = ClassId(u16::MAX);

impl Engine {
    /// How long the store has been open, in all.
    pub(super) fn uptime_ms(&self) -> u64 {
        self.now(UPTIME).0
    }

    /// What a lease on any of these ids answers to a delivery; `None` where the event may be handled:
    /// there is none, it has run out, or its next attempt is due.
    pub(super) fn leased<T>(&self, core: &Core, delivery: &Delivery) -> Option<Draft<T>> {
        if core.leases.is_empty() {
            return None; // the only cost where no lease is used
        }
        let now_ms = self.uptime_ms();
        core.leases.under(&delivery.ids).into_iter().find_map(|(_, head)| {
            let left_ms = head.left_ms(now_ms);
            let is_other = matches!(
                (head.fingerprint, delivery.fingerprint), (Some(then), Some(now)) if then != now
            );
            match head.standing {
                // The id is the first payload's until that is settled or given up.
                _ if is_other => Some(Draft::InProgress {
                    expires_in_ms: left_ms,
                    attempt: head.attempt,
                    is_other,
                }),
                Standing::Dead => Some(Draft::Dead { attempts: head.attempt }),
                _ if left_ms == 0 => None,
                _ => Some(Draft::InProgress {
                    expires_in_ms: left_ms,
                    attempt: head.attempt,
                    is_other,
                }),
            }
        })
    }

    /// Takes the leases on these ids away; returns the ids that they reserved besides.
    pub(super) fn release(&self, core: &mut Core, ids: &[IdHash]) -> Vec<IdHash> {
        if core.leases.is_empty() {
            return Vec::new();
        }
        let mut reserved = Vec::new();
        for (primary, head) in core.leases.under(ids) {
            self.remove(core, primary);
            let all = std::iter::once(primary).chain(head.ids);
            reserved.extend(all.filter(|id| !ids.contains(id)));
        }
        reserved
    }

    fn remove(&self, core: &mut Core, primary: IdHash) {
        self.stage_lease(core, primary, None);
        core.leases.remove(primary);
        self.leases.note(&core.leases);
    }

    fn put(&self, core: &mut Core, primary: IdHash, row: LeaseRow) {
        self.stage_lease(core, primary, Some(&row.encode()));
        core.leases.put(primary, row.head);
        self.leases.note(&core.leases);
    }

    fn stage_lease(&self, core: &mut Core, primary: IdHash, row: Option<&[u8]>) {
        if !core.group.has_begun {
            self.begin_group(core); // before any row of it, since it may freeze all that is there
        }
        let from = core.group.batch.end();
        match row {
            Some(row) => core.group.batch.put(TableId::Leases, &row::key(primary), row),
            None => core.group.batch.remove(TableId::Leases, &row::key(primary)),
        }
        let bytes = row.map_or(0, <[u8]>::len);
        core.group.staged_bytes = core.group.staged_bytes.saturating_add(bytes);
        self.memtable.absorb(core.seq.next(), core.group.batch.rows_from(from));
    }

    /// The row under a primary that the board has, with what the board leaves out.
    fn row(&self, core: &mut Core, primary: IdHash) -> Result<LeaseRow, Error> {
        if !core.group.has_begun {
            self.begin_group(core);
        }
        let bytes = core.tip.get(TableId::Leases, &row::key(primary))?;
        let damaged = |detail| Error::corrupt(format!("lease {primary}"), detail);
        let bytes = bytes.ok_or_else(|| damaged("it is known, but not there"))?;
        LeaseRow::decode(&bytes).map_err(|m| damaged(m.0))
    }

    /// Whether LS4 holds.
    #[cfg(feature = "testkit")]
    pub(crate) fn leases_equal_their_table(&self) -> Result<bool, Error> {
        let mut turn = self.turn(None)?;
        turn.finish_group();
        let stored = Board::load(&self.view()?.snapshot)?;
        Ok(turn.core().leases == stored)
    }

    /// The lease on these ids, if `token` is its current one.
    fn held(&self, core: &Core, ids: &[IdHash], token: u64) -> Option<IdHash> {
        let is_current = |head: &Head| {
            head.standing == Standing::Held
                && (head.token == token || planted("lease-token-not-checked"))
        };
        core.leases.under(ids).into_iter().find(|(_, h)| is_current(h)).map(|(primary, _)| primary)
    }
}

//! The one who writes to redb: whoever holds this lock.
//!
//! Owns the open database. What must hold: WR1. Every durable commit carries the rows it needs to be a whole
//! prefix of history. WR2. After any failure nothing more is written until a recovery has replaced the
//! database.

use super::mark::JOURNAL_KEY;
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{Epoch, Seq};
use crate::base::sync::Arc;
use crate::storage::db::{Db, WriteTxn};
use crate::storage::journal::End;
use crate::storage::memtable::{Mark, Memtable};
use crate::storage::snapshot::Stored;
use crate::storage::tables::TableId;

/// Rows written by one part of a checkpoint. Each may cost a page and be synced with the others: so this
/// bounds how long a record of the journal can wait for the device behind them.
pub(super) const PART_ROWS: usize = 2_048;

/// See the module.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` while a failed write has not been healed, and once the store is closed.
    pub(crate) db: Option<Db>,
    pub(crate) epoch: Epoch,
}

impl Writer {
    fn db(&self) -> Result<&Db, Error> {
        self.db.as_ref().ok_or_else(Error::view_ended)
    }

    /// Makes a part of the frozen rows durable, but none of the group `through`; returns the place to
    /// go on from.
    ///
    /// A crash after it leaves rows in redb that are newer than its mark. The journal has them too, and is
    /// replayed over them.
    pub(super) fn apply_part(
        &self,
        memtable: &Memtable,
        through: Seq,
        after: Option<&Mark>,
    ) -> Result<Option<Mark>, Error> {
        let txn = self.db()?.write(true)?;
        let rows = memtable.apply_frozen(&txn, after, PART_ROWS, &|_, seq| seq < through);
        finish(txn, rows)
    }

    /// Makes the rest of the frozen rows durable, with the place where the journal goes on after them.
    /// `parts` tells whether all but the last group's were written already.
    pub(super) fn apply_rest(
        &self,
        memtable: &Memtable,
        through: Seq,
        end: Option<End>,
        parts: bool,
    ) -> Result<Arc<Stored>, Error> {
        let db = self.db()?;
        let late = match () {
            () if planted("state-in-a-second-transaction") => Some(b's'),
            () if planted("outbox-in-a-second-transaction") => Some(b'o'),
            () => None,
        };
        if let Some(late) = late {
            let txn = db.write(true)?;
            let early = |table: TableId, _| !table.name().as_bytes().starts_with(&[late]);
            let rows = memtable.apply_frozen(&txn, None, usize::MAX, &early);
            finish(txn, rows)?;
        }
        let txn = db.write(!planted("acknowledged-before-durable"))?;
        let wanted = |_, seq| !parts || seq >= through;
        let rows = memtable.apply_frozen(&txn, None, usize::MAX, &wanted).and_then(|_| match end {
            Some(end) => txn.table(&TableId::Mark.name())?.insert(JOURNAL_KEY, &end.encode()),
            None => Ok(()),
        });
        finish(txn, rows)?;
        Ok(Arc::new(Stored::new(db.read()?)))
    }

    /// Runs `f` in a transaction that is not durable by itself: the next checkpoint makes it so, a
    /// crash before that loses it. An error if the opening of `epoch` is over.
    pub(super) fn unsynced<T>(
        &self,
        epoch: Option<Epoch>,
        f: impl FnOnce(&WriteTxn) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if epoch != Some(self.epoch) {
            // A recovery came between: what this slice belongs to is gone.
            return Err(Error::view_ended());
        }
        let txn = self.db()?.write(false)?;
        let value = f(&txn);
        finish(txn, value)
    }
}

/// Commits what was written if that went well; the first error is the one to report.
fn finish<T>(txn: WriteTxn, value: Result<T, Error>) -> Result<T, Error> {
    match value {
        Ok(value) => txn.commit().map(|()| value),
        Err(error) => {
            let _ = txn.abort(); // the transaction is gone either way
            Err(error)
        }
    }
}

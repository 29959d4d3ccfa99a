//! The one who writes to redb: whoever holds this lock.
//!
//! Owns the open database. What must hold: WR1. Every durable commit carries the rows it needs to be a whole
//! prefix of history. WR2. After any failure nothing more is written until a recovery has replaced the
//! database.

use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::Epoch;
use crate::base::sync::Arc;
use crate::storage::db::{Db, WriteTxn};
use crate::storage::journal::End;
use crate::storage::memtable::Memtable;
use crate::storage::snapshot::Stored;
use crate::storage::tables::TableId;

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

    /// Makes the frozen rows durable, with the place where the journal goes on after them.
    pub(super) fn apply(
        &self,
        memtable: &Memtable,
        end: Option<End>,
    ) -> Result<Arc<Stored>, Error> {
        let db = self.db()?;
        let txn = db.write(!planted("acknowledged-before-durable"))?;
        if planted("state-in-a-second-transaction") {
            memtable.apply_frozen(&txn, &|table| !matches!(table, TableId::Keyspace(_)))?;
            txn.commit()?;
            let txn = db.write(true)?;
            Self::put(&txn, memtable, end)?;
            txn.commit()?;
            return Ok(Arc::new(Stored::new(db.read()?)));
        }
        if let Err(error) = Self::put(&txn, memtable, end) {
            // The first error is the one to report; the transaction is gone either way.
            let _ = txn.abort();
            return Err(error);
        }
        txn.commit()?;
        Ok(Arc::new(Stored::new(db.read()?)))
    }

    fn put(txn: &WriteTxn, memtable: &Memtable, end: Option<End>) -> Result<(), Error> {
        memtable.apply_frozen(txn, &|_| true)?;
        if let Some(end) = end {
            txn.table(&TableId::Mark.name())?.insert(super::mark::JOURNAL_KEY, &end.encode())?;
        }
        Ok(())
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
        match f(&txn) {
            Ok(value) => txn.commit().map(|()| value),
            Err(error) => {
                let _ = txn.abort();
                Err(error)
            }
        }
    }
}

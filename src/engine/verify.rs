//! Checking a whole store against its checksums.
//!
//! Owns no state. Reads everything; for operators, and for the tests' oracle.

use super::Engine;
use super::lease::Board;
use super::overlay::open_value;
use crate::base::error::Error;
use crate::base::ids::{KeyspaceId, ResultKey};
use crate::base::sync::Arc;
use crate::claims::row::StoredResult;
use crate::claims::run::Run;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

impl Engine {
    /// Checks every claim, value and result, then every page.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.check_open()?;
        let mut turn = self.turn(None)?;
        turn.finish_group();
        self.checkpoint_here(turn.core())?;
        let (snapshot, runs): (_, Vec<Arc<Run>>) = {
            let state = self.state.read();
            (state.snapshot.clone(), state.runs.values().flatten().cloned().collect())
        };
        for run in runs {
            for row in run.scan(&snapshot) {
                row?;
            }
        }
        Board::load(&snapshot)?;
        self.verify_state(&snapshot)?;
        self.verify_results(&snapshot)?;
        self.verify_positions(&snapshot)?;
        self.verify_audit(&snapshot)?;
        self.verify_outbox(&snapshot)?;
        // Nobody writes to the file meanwhile.
        let _writer = self.writer.lock();
        self.directory.check_pages()
    }

    fn verify_state(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let spaces: Vec<KeyspaceId> =
            self.registry.read().keyspaces.values().map(|k| k.id).collect();
        for space in spaces {
            for row in snapshot.whole(TableId::Keyspace(space))? {
                let (key, value) = row?;
                open_value(space, &key, &value)?;
            }
        }
        Ok(())
    }

    fn verify_results(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let buckets: Vec<u32> = self.state.read().catalogue.results.keys().copied().collect();
        for bucket in buckets {
            let name = TableId::Results(bucket).name();
            for row in snapshot.whole(TableId::Results(bucket))? {
                let (key, _) = row?;
                let key = key.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| {
                    Error::corrupt(format!("table {name}"), "a key is not eight bytes long")
                })?;
                let stored = StoredResult::Key { key: ResultKey(key), refused: false };
                self.read_result(snapshot, stored)?;
            }
        }
        Ok(())
    }
}

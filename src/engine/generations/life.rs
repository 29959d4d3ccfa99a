//! Whether a keyspace is still what its name stands for, for all handles of it.

use crate::base::error::Error;
use crate::base::ids::Seq;
use crate::base::sync::{Arc, AtomicU64, Ordering};
use crate::storage::snapshot::Snapshot;

/// Shared by all handles of a keyspace: the group that replaced it, if one has.
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<AtomicU64>);

impl Default for Life {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Life {
    pub(super) fn end(&self, at: Seq) {
        self.0.store(at.0, Ordering::SeqCst);
    }

    /// An error if this snapshot shows a state without the keyspace; one taken before is read as ever.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), Error> {
        match self.0.load(Ordering::SeqCst) {
            u64::MAX => Ok(()),
            ended if snapshot.at().0 < ended => Ok(()),
            _ => Err(Error::superseded("this handle of a map")),
        }
    }
}

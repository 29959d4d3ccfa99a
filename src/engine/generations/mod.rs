//! Generations of a consumer: history handled anew, on purpose, beside the generation that serves.
//!
//! A *rebuild* is a generation that is not served yet. It has claims, positions and keyspaces of its own, until
//! it is promoted or given up. Owns the rows that say so and what becomes of the keyspaces replaced.
//! What must hold:
//! GN1. Promoting is one durable commit: consumer and maps change together, or neither does. GN2. The number
//!     of a generation is never used twice, nor that of a keyspace: what was given up leaves no claim that a
//!     later one would meet. GN3. Once replaced, a keyspace is neither read nor written by its old handles; its
//!     table is freed in slices, after a crash too. GN4. A consumer's handle of a generation that is
//!     neither served nor being rebuilt is refused.

mod life;
mod rows;
mod steps;

pub(crate) use life::Life;
pub(crate) use rows::Generations;

use super::Engine;
use super::registry::Registry;
use crate::base::error::Error;
use crate::base::ids::{Scope, Seq};

impl Registry {
    /// Takes in what a recovery has read. The handles that users hold go on; of the keyspaces that were
    /// replaced they learn so.
    pub(crate) fn replace(&mut self, read: Self, at: Seq) {
        let before = std::mem::replace(self, read);
        let old = before.keyspaces.into_values().chain(before.generations.into_entries());
        for entry in old {
            let named = self.keyspaces.values_mut();
            match named.chain(self.generations.entries_mut()).find(|new| new.id == entry.id) {
                Some(new) => new.life = entry.life,
                None => entry.life.end(at),
            }
        }
    }
}

impl Engine {
    /// Errs for a generation that is neither served nor being rebuilt. Exact in the write slot, and true
    /// of some moment before it.
    pub(crate) fn check_generation(&self, scope: Scope) -> Result<(), Error> {
        if self.registry.read().generations.lives(scope) {
            return Ok(());
        }
        let (consumer, generation) = (scope.consumer, scope.generation);
        Err(Error::superseded(format!("generation {generation} of consumer {consumer}")))
    }
}

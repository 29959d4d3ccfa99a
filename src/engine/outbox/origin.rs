//! Where messages come from, as far as their ids need to know.
//!
//! What must hold: OG1. A message's id depends on the namespace, the consumer's name, the event, the
//! destination and the message's label alone: not on the generation, the attempt or the time. OG2. An event that
//! sends nothing pays nothing for it.

use std::fmt;

use super::Engine;
use crate::base::ids::Scope;

/// The event, or what stands for it.
#[derive(Clone, Copy)]
pub(crate) enum Sender<'o> {
    /// An event at a consumer: its spelled id, asked for only when it is needed.
    Event { consumer: &'o str, id: &'o dyn Fn() -> Vec<u8> },
    /// A position of an ordered source without an event's id.
    Position { consumer: &'o str, source: &'o [u8], incarnation: u64, position: u64 },
    /// An event under a lease, which keeps what its keys are made from.
    Root(u128),
}

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'o> {
    pub(crate) engine: &'o Engine,
    pub(crate) scope: Scope,
    pub(crate) sender: Sender<'o>,
}

impl Origin<'_> {
    /// What the ids of its messages are made from.
    pub(crate) fn root(&self) -> u128 {
        let namespace = self.engine.namespace;
        match self.sender {
            Sender::Event { consumer, id } => namespace.event_root(consumer, &id()),
            Sender::Position { consumer, source, incarnation, position } => {
                namespace.position_root(consumer, source, (incarnation, position))
            }
            Sender::Root(root) => root,
        }
    }
}

impl fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("scope", &self.scope).finish_non_exhaustive()
    }
}

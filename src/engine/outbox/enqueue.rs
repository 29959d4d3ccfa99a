//! Messages on their way into the open group.

use super::row::{self, MessagePlace};
use crate::base::canary::planted;
use crate::base::ids::{DestinationId, Scope};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::storage::batch::Batch;
use crate::storage::tables::TableId;

/// A message as its event's handler staged it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) destination: DestinationId,
    pub(crate) id: u128,
    /// Told apart by a name, not by its number.
    pub(crate) is_named: bool,
    pub(crate) key_hash: Option<u128>,
    /// Encoded.
    pub(crate) body: Vec<u8>,
}

impl Outgoing {
    /// Bytes that it adds to what its event stages.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + 16
    }
}

impl Engine {
    /// Adds the messages of an event that succeeded to the open group. The caller holds the slot.
    ///
    /// Those of a generation that is not served are only counted: the one that is has sent them, or will.
    pub(in crate::engine) fn stage_messages(
        &self,
        core: &mut Core,
        scope: Scope,
        messages: Vec<Outgoing>,
    ) {
        if !self.registry.read().generations.serves(scope) && !planted("rebuild-sends-again") {
            for message in messages {
                core.group.sent_to(message.destination).muted += 1;
            }
            return;
        }
        let seq = core.seq.next();
        let from = core.group.batch.end();
        let mut bytes = 0;
        for message in messages {
            let place = MessagePlace { seq, ordinal: core.group.messages };
            core.group.messages = core.group.messages.saturating_add(1);
            bytes += message.bytes();
            core.group.sent_to(message.destination).enqueued += 1;
            let tally = core.tallies.change(message.destination, |tally| tally.waiting += 1);
            self.outbox.note_one(message.destination, tally);
            put_message(&mut core.group.batch, place, message);
        }
        core.group.staged_bytes = core.group.staged_bytes.saturating_add(bytes);
        self.memtable.absorb(seq, core.group.batch.rows_from(from));
    }
}

/// The rows of a message in its place.
pub(super) fn put_message(batch: &mut Batch, place: MessagePlace, message: Outgoing) {
    let Outgoing { destination, key_hash, body, .. } = message;
    let key = row::key(destination, place);
    batch.put(TableId::Messages, &key, &row::seal(&key, body));
    if let Some(hash) = key_hash {
        let key = row::index_key(destination, hash, place);
        batch.put(TableId::MessageKeys, &key, &row::index_row(&key));
    }
}

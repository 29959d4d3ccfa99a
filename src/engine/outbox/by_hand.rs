//! What an operator does with single messages: putting dead letters back, throwing messages away.

use super::Engine;
use super::hand::damaged;
use super::lane::Wait;
use super::row::{self, DeadRow, MessageBody, MessagePlace};
use super::settle::Marked;
use crate::base::error::Error;
use crate::base::ids::DestinationId;
use crate::engine::core::Core;
use crate::storage::tables::TableId;

/// A dead letter as its row says it, and the hash of its message's key.
type Dead = (DeadRow, Option<u128>);

impl Engine {
    /// Lets a dead letter be tried again, from its first attempt and in its old place; false if there is
    /// none.
    pub(crate) fn requeue(
        &self,
        destination: DestinationId,
        place: MessagePlace,
    ) -> Result<bool, Error> {
        self.take_dead_letter(destination, place, true)
    }

    /// Throws a dead letter away; false if there is none.
    pub(crate) fn discard(
        &self,
        destination: DestinationId,
        place: MessagePlace,
    ) -> Result<bool, Error> {
        self.take_dead_letter(destination, place, false)
    }

    fn take_dead_letter(
        &self,
        destination: DestinationId,
        place: MessagePlace,
        put_back: bool,
    ) -> Result<bool, Error> {
        let marked = self.mark_one(destination, place)?;
        let key = row::key(destination, place);
        let mut found: Option<Option<u128>> = None;
        let staged = self.in_group(|core| {
            let Some((dead, key_hash)) = self.dead_letter(core, destination, place)? else {
                return Ok(());
            };
            found = Some(key_hash);
            let marked = Marked { key_hash, failed: dead.attempts, blocks: true, ..marked };
            let batch = &mut core.group.batch;
            batch.remove(TableId::DeadLetters, &key);
            match (put_back, dead.body) {
                (true, None) => batch.remove(TableId::Attempts, &key),
                (true, Some(body)) => {
                    batch.put(TableId::Messages, &key, &row::seal(&key, body));
                    if let Some(hash) = key_hash {
                        let index = row::index_key(destination, hash, place);
                        batch.put(TableId::MessageKeys, &index, &row::index_row(&index));
                    }
                }
                (false, None) => {
                    self.stage_removal(core, destination, marked);
                    return Ok(());
                }
                (false, Some(_)) => {}
            }
            self.count_messages(core, destination, |tally| {
                tally.dead = tally.dead.saturating_sub(1);
                tally.waiting += u64::from(put_back);
            });
            Ok(())
        });
        self.unmark(destination, &[marked], staged.is_ok(), |lane, marked| match found {
            Some(key_hash) if put_back => {
                lane.put_back(marked.place, key_hash);
                false
            }
            Some(_) => true,
            None => false,
        });
        staged?;
        if found.is_some() {
            let counters = self.counters.destination(destination);
            if put_back { &counters.requeued } else { &counters.discarded }.add(1);
        }
        Ok(found.is_some())
    }

    fn dead_letter(
        &self,
        core: &Core,
        destination: DestinationId,
        place: MessagePlace,
    ) -> Result<Option<Dead>, Error> {
        let key = row::key(destination, place);
        let Some(stored) = core.tip.get(TableId::DeadLetters, &key)? else { return Ok(None) };
        let dead = DeadRow::decode(&key, &stored).map_err(|m| damaged("outbox-dead", &key, m))?;
        let body = match &dead.body {
            Some(body) => MessageBody::decode(body),
            None => {
                let stored = core.tip.get(TableId::Messages, &key)?.unwrap_or_default();
                row::unseal(&key, &stored).and_then(MessageBody::decode)
            }
        };
        let body = body.map_err(|m| damaged("outbox-dead", &key, m))?;
        let key_hash = body.key.as_deref().map(|key| self.hash_key().message_key(key));
        Ok(Some((dead, key_hash)))
    }

    /// Throws a message away that waits; false if it is settled or given up.
    pub(crate) fn drop_message(
        &self,
        destination: DestinationId,
        place: MessagePlace,
    ) -> Result<bool, Error> {
        let marked = self.mark(destination, &[place])?;
        let Some(only) = marked.first().copied() else { return Ok(false) };
        if only.blocks {
            self.unmark(destination, &marked, true, |_, _| false);
            return Ok(false);
        }
        let gone = self.in_group(|core| {
            self.stage_removal(core, destination, only);
            Ok(())
        });
        self.unmark(destination, &marked, gone.is_ok(), |_, _| true);
        gone?;
        self.counters.destination(destination).discarded.add(1);
        Ok(true)
    }

    /// Marks a dead letter, which the lane need not know.
    fn mark_one(&self, destination: DestinationId, place: MessagePlace) -> Result<Marked, Error> {
        let shared = self.outbox.shared(destination);
        let mut lane = self.sound_lane(&shared, |lane| lane.is_settling(place))?;
        lane.settle(place);
        let blocks = lane.known(place).is_some_and(|known| known.wait == Wait::Hand);
        Ok(Marked { place, key_hash: None, failed: 0, blocks })
    }
}

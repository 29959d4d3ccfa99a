//! One event being handled: its staged writes over all that was closed, and the open group.
//!
//! What must hold: H1. Reads see the newest. H2. Nothing leaves here unless the event
//! succeeds. H3. The first storage error sticks: the event fails with it even if the handler swallows
//! it.

use super::generations::Life;
use super::outbox::{Origin, Outgoing};
use super::overlay::{Overlay, Scanned, open_value, seal_value};
use crate::base::error::Error;
use crate::base::ids::KeyspaceId;
use crate::base::limits::{
    EVENT_MESSAGES_MAX, EVENT_STAGED_MAX_BYTES, KEY_MAX_BYTES, VALUE_MAX_BYTES,
};
use crate::base::sync::Arc;
use crate::storage::batch::Put;
use crate::storage::db::Bounds;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// What the handler decided besides its writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    #[default]
    Keep,
    /// Drop everything, the claim included.
    Skip,
    /// Drop the writes; keep the claim, with these bytes as its result.
    Refuse(Vec<u8>),
}

/// A keyspace as a transaction names it.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) id: KeyspaceId,
    pub(crate) table: Arc<str>,
    pub(crate) life: Life,
    pub(crate) store_id: u128,
}

impl Space {
    /// An error if the keyspace is none of what this snapshot shows.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), Error> {
        if self.store_id != snapshot.store_id() {
            return Err(Error::invalid(
                "the map belongs to another store: ask the inbox that is read or written for its own",
            ));
        }
        self.life.check(snapshot)
    }
}

/// The staging area of one event.
#[derive(Debug)]
pub(crate) struct Stage<'g> {
    own: Overlay,
    tip: &'g Snapshot,
    origin: Option<Origin<'g>>,
    /// What the ids of its messages are made from, once one was asked for.
    root: Option<u128>,
    result: Option<Vec<u8>>,
    result_max_bytes: usize,
    messages: Vec<Outgoing>,
    message_bytes: usize,
    verdict: Verdict,
    failed: Option<Error>,
}

/// What a successful event leaves to its group.
pub(crate) struct Staged {
    pub(crate) overlay: Overlay,
    pub(crate) messages: Vec<Outgoing>,
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) verdict: Verdict,
}

impl<'g> Stage<'g> {
    /// Without an origin it is no event, and can send nothing.
    pub(crate) fn new(
        own: Overlay,
        tip: &'g Snapshot,
        origin: Option<Origin<'g>>,
        result_max_bytes: usize,
    ) -> Self {
        Self {
            own,
            tip,
            origin,
            root: None,
            result: None,
            result_max_bytes,
            messages: Vec::new(),
            message_bytes: 0,
            verdict: Verdict::Keep,
            failed: None,
        }
    }

    /// Remembers the first error, so that the event fails with it.
    pub(crate) fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Err(error), None) = (&result, &self.failed) {
            self.failed = Some(error.clone());
        }
        result
    }

    pub(crate) fn get(&mut self, space: &Space, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let got = space.check(self.tip).and_then(|()| self.read(space, key));
        self.note(got)
    }

    fn read(&self, space: &Space, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.own.get(space.id, key) {
            Some(put) => {
                put.map(|stored| open_value(space.id, key, stored).map(<[u8]>::to_vec)).transpose()
            }
            None => read_stored(self.tip, space, key),
        }
    }

    pub(crate) fn insert(
        &mut self,
        space: &Space,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> Result<(), Error> {
        let checked = space.check(self.tip).and_then(|()| self.check_put(&key, value.len()));
        self.note(checked)?;
        let sealed = seal_value(space.id, &key, value);
        self.own.stage(space.id, &key, Some(&sealed));
        Ok(())
    }

    pub(crate) fn remove(&mut self, space: &Space, key: Vec<u8>) -> Result<(), Error> {
        let checked = space.check(self.tip).and_then(|()| self.check_put(&key, 0));
        self.note(checked)?;
        self.own.stage(space.id, &key, None);
        Ok(())
    }

    fn check_put(&self, key: &[u8], value_bytes: usize) -> Result<(), Error> {
        let total = self
            .staged_bytes()
            .saturating_add(self.result.as_ref().map_or(0, Vec::len))
            .saturating_add(key.len())
            .saturating_add(value_bytes);
        check_limits([
            ("a key, in bytes,", key.len(), KEY_MAX_BYTES),
            ("a value, in bytes,", value_bytes, VALUE_MAX_BYTES),
            (STAGED, total, EVENT_STAGED_MAX_BYTES),
        ])
    }

    pub(crate) fn scan(
        &mut self,
        space: &Space,
        bounds: Bounds<'_>,
        limit: usize,
        reverse: bool,
    ) -> Result<Scanned, Error> {
        let own = self.own.range(space.id, bounds, reverse);
        let rows = scan_over(self.tip, space, own, bounds, limit, reverse);
        self.note(rows)
    }

    pub(crate) fn origin(&self) -> Option<Origin<'g>> {
        self.origin
    }

    /// What the ids of its messages are made from.
    pub(crate) fn root(&mut self) -> u128 {
        let origin = self.origin;
        *self.root.get_or_insert_with(|| origin.map_or(0, |origin| origin.root()))
    }

    /// What the handler has sent so far.
    pub(crate) fn messages(&self) -> &[Outgoing] {
        &self.messages
    }

    pub(crate) fn enqueue(&mut self, message: Outgoing) -> Result<(), Error> {
        let total = self.staged_bytes().saturating_add(message.bytes());
        let checked = check_limits([
            ("the number of messages of an event", self.messages.len() + 1, EVENT_MESSAGES_MAX),
            (STAGED, total, EVENT_STAGED_MAX_BYTES),
        ]);
        self.note(checked)?;
        self.message_bytes = self.message_bytes.saturating_add(message.bytes());
        self.messages.push(message);
        Ok(())
    }

    fn staged_bytes(&self) -> usize {
        self.own.bytes().saturating_add(self.message_bytes)
    }

    pub(crate) fn set_result(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        let total = self.staged_bytes().saturating_add(bytes.len());
        let checked = check_limits([
            ("a result, in bytes,", bytes.len(), self.result_max_bytes),
            (STAGED, total, EVENT_STAGED_MAX_BYTES),
        ]);
        self.note(checked)?;
        self.result = Some(bytes);
        Ok(())
    }

    pub(crate) fn has_result(&self) -> bool {
        self.result.is_some() || matches!(self.verdict, Verdict::Refuse(_))
    }

    pub(crate) fn refuse(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        let checked = check_limits([("a result, in bytes,", bytes.len(), self.result_max_bytes)]);
        self.note(checked)?;
        self.verdict = Verdict::Refuse(bytes);
        Ok(())
    }

    pub(crate) fn skip(&mut self) {
        self.verdict = Verdict::Skip;
    }

    /// What is left to the group; an error if any read or write of the handler failed.
    pub(crate) fn finish(self) -> Result<Staged, Error> {
        match self.failed {
            Some(error) => Err(error),
            None => {
                let Self { own: overlay, messages, result, verdict, .. } = self;
                Ok(Staged { overlay, messages, result, verdict })
            }
        }
    }
}

const STAGED: &str = "what one event stages, in bytes,";

/// An error for the first number that is above its limit.
fn check_limits<const N: usize>(numbers: [(&'static str, usize, usize); N]) -> Result<(), Error> {
    match numbers.into_iter().find(|(_, got, limit)| got > limit) {
        Some((what, got, limit)) => Err(Error::limit(what, got as u64, limit as u64)),
        None => Ok(()),
    }
}

/// A value as a snapshot has it.
pub(crate) fn read_stored(
    snapshot: &Snapshot,
    space: &Space,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    space.check(snapshot)?;
    let table = TableId::Keyspace(space.id);
    match snapshot.get_in(table, &space.table, key)? {
        None => Ok(None),
        Some(mut stored) => {
            let value_bytes = open_value(space.id, key, &stored)?.len();
            stored.truncate(value_bytes);
            Ok(Some(stored))
        }
    }
}

/// Values of a snapshot between the bounds.
pub(crate) fn scan_stored(
    snapshot: &Snapshot,
    space: &Space,
    bounds: Bounds<'_>,
    limit: usize,
    reverse: bool,
) -> Result<Scanned, Error> {
    scan_over(snapshot, space, Vec::new(), bounds, limit, reverse)
}

fn scan_over(
    snapshot: &Snapshot,
    space: &Space,
    own: Vec<(Vec<u8>, Put)>,
    bounds: Bounds<'_>,
    limit: usize,
    reverse: bool,
) -> Result<Scanned, Error> {
    space.check(snapshot)?;
    let rows = snapshot.scan(TableId::Keyspace(space.id), bounds, reverse, own)?;
    rows.take(limit)
        .map(|row| {
            let (key, stored) = row?;
            let value = open_value(space.id, &key, &stored)?.to_vec();
            Ok((key, value))
        })
        .collect()
}

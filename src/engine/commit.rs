//! From an open group to a closed one, and from there to a durable one.
//!
//! A closed group becomes durable in one of two ways: it *flies*, its journal record written and synced by
//! whoever closed it while the next group is built; or it is committed to redb at once, in the write slot:
//! with `Durability::EveryCommit`, for changes of the catalogue, and where no segment has room for it.
//!
//! What must hold:
//! W1. Claims, state, results, tombstones, new buckets and the mark of a group are rows of one sequence:
//!     one journal record, or one redb transaction. W2. The image takes a group in only after it is durable, and
//!     readers see it whole. W3. A failed commit is answered by the truth where healing finds it, else by
//!     "unknown". W4. While a group flies the next may read what it wrote, but nobody else.

use std::collections::BTreeMap;

use super::Engine;
use super::core::{Core, given_up};
use super::flight::Crashed;
use super::group::{Committed, Done, Group, Sent};
use super::mark;
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{
    BucketId, ClassId, DestinationId, IdHash, Place, Position, Seq, StoreMs, WallMs,
};
use crate::base::sync::Arc;
use crate::claims::catalogue::{Bucket, Change, ResultBucket};
use crate::claims::packed::{self, PackedRow};
use crate::claims::pending::{PendingClaim, PendingKind, result_key};
use crate::claims::policy::Policy;
use crate::claims::row::{RecentClaim, RowKind, StoredResult};
use crate::claims::state::{State, put_tombstone};
use crate::storage::batch::Batch;
use crate::storage::journal::Prepared;
use crate::storage::tables::TableId;

/// A group turned into rows, and what to tell the image once they are durable.
#[derive(Debug)]
struct Sealed {
    /// All its rows, in the order in which they were staged.
    batch: Batch,
    change: Change,
    rows: Vec<PackedRow>,
    tombstones: Vec<(IdHash, Position)>,
    committed: Committed,
    events: usize,
    /// Messages, and to whom.
    sent: Vec<(DestinationId, Sent)>,
}

/// A closed group whose record is ready to be written.
#[derive(Debug)]
pub(crate) struct Takeoff {
    prepared: Prepared,
    sealed: Sealed,
    done: Arc<Done>,
}

impl Sealed {
    /// Whether the events after it need to know no more of it than its claims and its state.
    fn is_plain(&self) -> bool {
        self.tombstones.is_empty() && self.change.is_empty()
    }

    /// Carries what is durable now into the image.
    fn accept(self, state: &mut State, claims: bool) -> Committed {
        let seq = self.committed.seq;
        if !self.change.buckets.is_empty() {
            // Claims of different buckets seal apart, so none waits in a table of the next.
            state.recent.rotate();
        }
        if claims {
            for row in &self.rows {
                state.recent.insert_row(seq, row);
            }
        }
        if !self.tombstones.is_empty() {
            Arc::make_mut(&mut state.tombstones).extend(self.tombstones);
        }
        state.accept(&self.change);
        self.committed
    }
}

impl Takeoff {
    /// Whether the slot may be given up before it has landed (W4).
    pub(crate) fn may_fly(&self) -> bool {
        self.sealed.is_plain()
    }
}

impl Engine {
    /// Closes the open group. The caller holds the slot, and lets what is returned land; with `None`
    /// everybody who waited has been answered.
    pub(crate) fn close_group(&self, core: &mut Core) -> Option<Takeoff> {
        let next = core.group.next();
        let group = std::mem::replace(&mut core.group, next);
        let done = group.done.clone();
        if !group.is_dirty() {
            return None; // nobody waits for a group without anything in it
        }
        done.note_closed();
        match self.close_dirty(core, group, &done) {
            Ok(takeoff) => takeoff,
            Err(error) => {
                done.set(Err(error));
                None
            }
        }
    }

    /// As `close_group`, and durable when it returns. The error is that of the group, which those who
    /// wait for it are told, too.
    pub(crate) fn finish_group(&self, core: &mut Core) -> Result<(), Error> {
        let done = core.group.is_dirty().then(|| core.group.done.clone());
        if let Some(takeoff) = self.close_group(core)
            && let Err(crashed) = self.land(takeoff)
        {
            self.flight.crashed(crashed);
        }
        self.clear_the_air();
        if self.flight.has_crashed() {
            // The error, if it cannot, is what the next call will be told.
            let _ = core.heal(self);
        }
        done.and_then(|done| done.answer()).map_or(Ok(()), |answer| answer.map(drop))
    }

    fn close_dirty(
        &self,
        core: &mut Core,
        group: Group,
        done: &Arc<Done>,
    ) -> Result<Option<Takeoff>, Error> {
        let epoch = core.epoch;
        self.clear_the_air();
        core.ready(self)?;
        if core.epoch != epoch {
            // What it had read may be gone.
            return Err(given_up());
        }
        let seq = core.seq.next();
        let sealed = self.seal_group(core, group, seq);
        if !self.make_room(core, &sealed.batch)? {
            let events = sealed.events;
            let sent = sealed.sent.clone();
            let mut committed = None;
            self.commit_here(core, seq, |state| committed = Some(sealed.accept(state, true)))?;
            self.count_group(events);
            done.set(Ok(Arc::new(committed.unwrap_or_default())));
            self.note_sent(&sent);
            return Ok(None);
        }
        let Some(journal) = &mut core.journal else { return Ok(None) };
        let prepared = journal.prepare(seq, self.flight.durable(), sealed.batch.bytes());
        core.segment_last[usize::from(journal.current() & 1)] = seq;
        core.seq = seq;
        if sealed.is_plain() {
            let mut state = self.state.write();
            for row in &sealed.rows {
                state.recent.insert_row(seq, row);
            }
        }
        self.flight.take_off(done.clone());
        Ok(Some(Takeoff { prepared, sealed, done: done.clone() }))
    }

    /// Makes the record of a closed group durable and answers everybody who waits for it; returns the
    /// group that waited to be closed behind it.
    ///
    /// A crash before the sync leaves a record that the next opening finds whole, or not at all.
    pub(crate) fn land(&self, takeoff: Takeoff) -> Result<Option<Arc<Done>>, Crashed> {
        let Takeoff { prepared, sealed, done } = takeoff;
        let seq = sealed.committed.seq;
        if planted("claim-seen-before-it-is-durable") {
            (0..1 << 16).for_each(|_| crate::base::sync::thread::yield_now()); // a slow disk
        }
        let written =
            if planted("acknowledged-before-durable") { Ok(()) } else { prepared.write_and_sync() };
        if let Err(error) = written {
            self.counters.failed_commits.add(1);
            return Err(Crashed { seq, done, error });
        }
        self.counters.journal_bytes.add(prepared.bytes() as u64);
        self.count_group(sealed.events);
        let is_plain = sealed.is_plain();
        let sent = sealed.sent.clone();
        let mut committed = None;
        self.publish(seq, None, |state| committed = Some(sealed.accept(state, !is_plain)));
        let parked = self.flight.landed(seq);
        done.set(Ok(Arc::new(committed.unwrap_or_default())));
        self.note_sent(&sent);
        if !is_plain || self.is_sealing_near() {
            self.wake_maintenance();
        }
        Ok(parked)
    }

    fn count_group(&self, events: usize) {
        self.counters.groups.add(1);
        self.counters.grouped_events.add(events as u64);
    }

    /// Makes all up to `seq`, whose rows are in the memtable, durable in redb; then readers get, in one
    /// step, its snapshot and what `accept` makes of the image. The caller holds the slot, and no group
    /// flies.
    pub(crate) fn commit_here(
        &self,
        core: &mut Core,
        seq: Seq,
        accept: impl FnOnce(&mut State),
    ) -> Result<(), Error> {
        let committed = self.checkpoint_frozen().and_then(|()| {
            self.memtable.freeze();
            let end = core.journal.as_mut().map(|journal| journal.skip_to(seq));
            self.apply_frozen(seq, end, accept)
        });
        match committed {
            Ok(()) => {
                core.seq = seq;
                core.full_until_us = None;
                Ok(())
            }
            Err(error) => self.after_failed_commit(core, seq, error),
        }
    }

    /// Heals, and finds out whether the group became durable all the same.
    fn after_failed_commit(&self, core: &mut Core, seq: Seq, error: Error) -> Result<(), Error> {
        self.counters.failed_commits.add(1);
        if core.heal(self).is_err() {
            return Err(Error::unknown(error));
        }
        if error.is_full() {
            core.note_full(&*self.clock);
        }
        // What healing read was made durable first, so this is the truth for good.
        if core.seq >= seq { Err(Error::unknown(error)) } else { Err(error) }
    }

    fn seal_group(&self, core: &mut Core, group: Group, seq: Seq) -> Sealed {
        let wall = WallMs(self.clock.wall_ms());
        let mut change = Change::default();
        let mut batch = group.batch;
        let staged = batch.end();
        let mut at: Vec<(ClassId, StoreMs)> = Vec::new();
        let mut rows: BTreeMap<ClassId, PackedRow> = BTreeMap::new();
        for claim in group.pending.claims() {
            let class = claim.class;
            let row = rows.entry(class).or_insert_with(|| {
                let now = self.now(class);
                at.push((class, now));
                let bucket = self.bucket_for(core, class, now, &mut change);
                PackedRow { bucket, class, at: now, wall, claims: Vec::new() }
            });
            let kind = self.stored_kind(core, claim, row.at, &mut change, &mut batch);
            row.claims.push(RecentClaim {
                hash: claim.hash,
                place: claim.place,
                scope: claim.scope,
                event_time: claim.event_time,
                kind,
            });
        }
        let rows: Vec<PackedRow> = rows.into_values().collect();
        for (key, chunk) in packed::encode_group(seq, &rows) {
            batch.put(TableId::Recent, &key, &chunk);
        }
        let mut tombstones = Vec::new();
        for (hash, place) in group.pending.tombstones() {
            let position: (Seq, Place) = (seq, place);
            put_tombstone(&mut batch, hash, position);
            tombstones.push((hash, position));
        }
        change.write(&mut batch);
        core.tallies.write(&mut batch);
        let mark = core.mark(seq, &self.clocks, &*self.clock);
        batch.put(TableId::Mark, mark::KEY, &mark.encode());
        // What the events staged is there already.
        self.memtable.absorb(seq, batch.rows_from(staged));
        let committed = Committed { seq, wall, at };
        let (events, sent) = (group.events, group.sent);
        Sealed { batch, change, rows, tombstones, committed, events, sent }
    }

    /// The bucket for a commit of `class` now, a new one if the last has ended.
    fn bucket_for(
        &self,
        core: &mut Core,
        class: ClassId,
        now: StoreMs,
        change: &mut Change,
    ) -> BucketId {
        let state = self.state.read();
        if let Some(open) = state.catalogue.open_bucket(class, now) {
            return open.id;
        }
        let (start, end) = (now, state.catalogue.policy(class).bucket_end(now));
        let id = core.next_bucket;
        core.next_bucket = BucketId(id.0.saturating_add(1));
        change.buckets.push(Bucket {
            id,
            class,
            start,
            end,
            runs: Vec::new(),
            owners: BTreeMap::new(),
        });
        id
    }

    /// A pending claim as its row says it, its result put where the row points.
    fn stored_kind(
        &self,
        core: &mut Core,
        claim: &PendingClaim,
        now: StoreMs,
        change: &mut Change,
        batch: &mut Batch,
    ) -> RowKind {
        match &claim.kind {
            PendingKind::Alias { primary } => RowKind::Alias { primary: *primary },
            PendingKind::Claim { fingerprint, result, refused } => {
                let result = match result {
                    None => StoredResult::None,
                    Some(bytes) if bytes.is_empty() => StoredResult::Empty { refused: *refused },
                    Some(bytes) => {
                        let bucket = self.results_for(core, claim, now, change);
                        let key = result_key(bucket, core.next_result);
                        core.next_result = core.next_result.wrapping_add(1);
                        let row = super::results::seal(key, bytes);
                        batch.put(TableId::Results(bucket), &key.0.to_be_bytes(), &row);
                        StoredResult::Key { key, refused: *refused }
                    }
                };
                RowKind::Claim { fingerprint: *fingerprint, result }
            }
        }
    }

    /// The result bucket for a claim committed now, a new one if the last has ended.
    fn results_for(
        &self,
        core: &mut Core,
        claim: &PendingClaim,
        now: StoreMs,
        change: &mut Change,
    ) -> u32 {
        let state = self.state.read();
        let of_class = state.catalogue.policy(claim.class);
        // A result that was to outlive its claim could never be asked for, and would stay for ever.
        let outlives = |ms: &u64| of_class.retention_ms.is_some_and(|keep| *ms >= keep);
        let own = claim.result_retention_ms.filter(|ms| !outlives(ms));
        let fits = |b: &&ResultBucket| {
            b.class == claim.class
                && b.own_retention == own.is_some()
                && (own.is_none() || b.retention_ms == own)
                && now < b.end
        };
        let known = state.catalogue.results.values().rev().find(fits);
        if let Some(bucket) = known.or_else(|| change.results.iter().find(fits)) {
            return bucket.id;
        }
        let policy = own.map_or(of_class, |ms| Policy { retention_ms: Some(ms) });
        let (retention_ms, end) = (policy.retention_ms, policy.bucket_end(now));
        let id = core.next_results;
        core.next_results = id.wrapping_add(1);
        change.results.push(ResultBucket {
            id,
            class: claim.class,
            retention_ms,
            end,
            own_retention: own.is_some(),
        });
        id
    }
}

//! From an open group to a durable one.
//!
//! Owns the order of a commit. What must hold:
//! W1. Claims, state, results, tombstones, new buckets and the mark are one batch, and one redb
//!     transaction. W2. The image takes a group in only after its commit is durable, and readers see it whole. W3. A
//!     failed commit is answered by the truth where healing finds it, else by "unknown".

use std::collections::BTreeMap;

use super::Engine;
use super::core::Core;
use super::group::{Committed, Group};
use super::mark;
use crate::base::error::Error;
use crate::base::ids::{BucketId, ClassId, IdHash, Place, Position, Seq, StoreMs, WallMs};
use crate::base::sync::Arc;
use crate::claims::catalogue::{Bucket, Change, ResultBucket};
use crate::claims::packed::{self, PackedRow};
use crate::claims::pending::{PendingClaim, PendingKind, result_key};
use crate::claims::policy::Policy;
use crate::claims::row::{RecentClaim, RowKind, StoredResult};
use crate::claims::state::{State, put_tombstone};
use crate::storage::batch::Batch;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

/// A group turned into rows, and what to tell the image once they are durable.
struct Sealed {
    batch: Batch,
    change: Change,
    rows: Vec<PackedRow>,
    tombstones: Vec<(IdHash, Position)>,
    committed: Committed,
}

impl Engine {
    /// Commits the open group and answers everybody who waits for it.
    pub(crate) fn close_group(&self, core: &mut Core) {
        let group = std::mem::take(&mut core.group);
        let done = group.done.clone();
        if !group.is_dirty() {
            // Only reads of durable state: they need no commit to be true.
            let committed = Committed { seq: core.seq, wall: WallMs(0), at: Vec::new() };
            done.set(Ok(Arc::new(committed)));
            return;
        }
        let answer = self.commit_group(core, group);
        done.set(answer.map(Arc::new));
        self.wake_maintenance();
    }

    fn commit_group(&self, core: &mut Core, group: Group) -> Result<Committed, Error> {
        core.ready(self, &self.state)?;
        let seq = Seq(core.seq.0.saturating_add(1));
        let events = group.events;
        let sealed = self.seal_group(core, group, seq);
        let Sealed { batch, change, rows, tombstones, committed } = sealed;
        self.commit_batch(core, seq, &batch, |state| {
            if !change.buckets.is_empty() {
                // Claims of different buckets seal apart, so none waits in a table of the next.
                state.recent.rotate();
            }
            for row in &rows {
                state.recent.insert_row(seq, row);
            }
            if !tombstones.is_empty() {
                Arc::make_mut(&mut state.tombstones).extend(tombstones);
            }
            state.accept(&change);
        })?;
        self.counters.groups.add(1);
        self.counters.grouped_events.add(events as u64);
        Ok(committed)
    }

    /// Makes a batch durable as the group `seq`; then readers get, in one step, its snapshot and what
    /// `accept` makes of the image.
    pub(crate) fn commit_batch(
        &self,
        core: &mut Core,
        seq: Seq,
        batch: &Batch,
        accept: impl FnOnce(&mut State),
    ) -> Result<(), Error> {
        match batch.commit(core.db()?).and_then(|()| core.db()?.read()) {
            Ok(read) => {
                core.seq = seq;
                core.full_until_us = None;
                self.publish(core, Arc::new(Snapshot::new(read)), accept);
                Ok(())
            }
            Err(error) => self.after_failed_commit(core, seq, error),
        }
    }

    /// Heals, and finds out whether the group became durable all the same.
    fn after_failed_commit(&self, core: &mut Core, seq: Seq, error: Error) -> Result<(), Error> {
        self.counters.failed_commits.add(1);
        if core.heal(self, &self.state).is_err() {
            return Err(Error::unknown(error));
        }
        if error.is_full() {
            core.note_full(&*self.clock);
        }
        // What healing read was made durable first, so this is the truth for good.
        if core.seq == seq { Err(Error::unknown(error)) } else { Err(error) }
    }

    fn seal_group(&self, core: &mut Core, group: Group, seq: Seq) -> Sealed {
        let wall = WallMs(self.clock.wall_ms());
        let mut change = Change::default();
        let mut batch = group.rows;
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
        let chunks = rows.iter().flat_map(packed::encode_chunks);
        for (i, chunk) in chunks.enumerate() {
            let number = u16::try_from(i).unwrap_or(u16::MAX);
            batch.put(TableId::Recent, packed::chunk_key(seq, number).to_vec(), chunk);
        }
        let mut tombstones = Vec::new();
        for (hash, place) in group.pending.tombstones() {
            let position: (Seq, Place) = (seq, place);
            put_tombstone(&mut batch, hash, position);
            tombstones.push((hash, position));
        }
        for (space, rows) in group.overlay.into_spaces() {
            batch.extend(TableId::Keyspace(space), rows);
        }
        change.write(&mut batch);
        batch.put(
            TableId::Mark,
            mark::KEY.to_vec(),
            core.mark(seq, &self.clocks, &*self.clock).encode(),
        );
        Sealed { batch, change, rows, tombstones, committed: Committed { seq, wall, at } }
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
            PendingKind::Claim { fingerprint, result } => {
                let result = match result {
                    None => StoredResult::None,
                    Some(bytes) if bytes.is_empty() => StoredResult::Empty,
                    Some(bytes) => {
                        let bucket = self.results_for(core, claim, now, change);
                        let key = result_key(bucket, core.next_result);
                        core.next_result = core.next_result.wrapping_add(1);
                        let row = super::results::seal(key, bytes);
                        batch.put(TableId::Results(bucket), key.0.to_be_bytes().to_vec(), row);
                        StoredResult::Key(key)
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

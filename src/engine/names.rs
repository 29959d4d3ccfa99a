//! Registering names: consumers with their retention classes, keyspaces, the version of state.
//!
//! What must hold: I1. A name is in the registry only once its row is durable. I2. Names are given out
//! one group at a time, so that two callers never get one number for two names. I3. A retention that
//! a store already promised is not shortened unless the caller says so.

use super::core::Core;
use super::generations::Life;
use super::registry::{
    ConsumerEntry, KeyspaceEntry, check_name, put_consumer, put_keyspace, put_namespace,
    put_state_version,
};
use super::{DEFAULT_CLASS, Engine};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{ClassId, Generation, StoreMs};
use crate::base::limits::CLASSES_MAX;
use crate::claims::catalogue::{Bucket, Change, ResultBucket};
use crate::claims::policy::Policy;
use crate::storage::batch::Batch;
use crate::storage::tables::TableId;

impl Engine {
    /// Gives the default class the policy of this opening, unless that is shorter than what is
    /// stored and nobody allowed it.
    pub(crate) fn adopt_default_policy(
        &self,
        policy: Policy,
        allow_shorter: bool,
    ) -> Result<(), Error> {
        let stored = self.state.read().catalogue.classes.get(&DEFAULT_CLASS).copied();
        let policy = match stored.map(|stored| stored.settle(policy, allow_shorter)) {
            Some(settled) if !settled.changed => return Ok(()),
            Some(settled) => settled.policy,
            None => policy,
        };
        let mut turn = self.turn(None)?;
        let mut change = Change { classes: vec![(DEFAULT_CLASS, policy)], ..Change::default() };
        if !planted("open-bucket-kept-for-a-shorter-policy") {
            self.cut_open_buckets(policy, &mut change);
        }
        self.commit_change(turn.core(), Batch::default(), &change)
    }

    /// Gives a store that was never used a namespace.
    pub(super) fn adopt_namespace(&self, namespace: &str) -> Result<(), Error> {
        let mut turn = self.turn(None)?;
        let mut batch = Batch::default();
        put_namespace(&mut batch, namespace);
        self.commit_change(turn.core(), batch, &Change::default())?;
        self.registry.write().namespace = Some(namespace.to_owned());
        Ok(())
    }

    /// Ends the open buckets of the default class that would go on for longer than a new one: claims made
    /// from now on are not to wait for their end.
    fn cut_open_buckets(&self, policy: Policy, change: &mut Change) {
        let state = self.state.read();
        let now = self.now(DEFAULT_CLASS);
        let cut = StoreMs(now.0.saturating_add(1));
        let is_long = |class: ClassId, end: StoreMs| {
            class == DEFAULT_CLASS && end > policy.bucket_end(now) && end > cut
        };
        for bucket in state.catalogue.buckets.values().filter(|b| is_long(b.class, b.end)) {
            change.buckets.push(Bucket { end: cut, ..bucket.clone() });
        }
        let results = state.catalogue.results.values().filter(|b| !b.own_retention);
        for bucket in results.filter(|b| is_long(b.class, b.end)) {
            change.results.push(ResultBucket { end: cut, ..*bucket });
        }
    }

    /// Makes a change of the catalogue durable as a group of its own. The caller holds the slot.
    pub(crate) fn commit_change(
        &self,
        core: &mut Core,
        mut batch: Batch,
        change: &Change,
    ) -> Result<(), Error> {
        if core.group.is_dirty() {
            let epoch = core.epoch;
            // Its error is told to those who wait for it.
            let _ = self.finish_group(core);
            core.ready(self)?;
            if core.epoch != epoch {
                // A recovery came between: what the change speaks of may be gone with it.
                return Err(Error::view_ended());
            }
        }
        self.clear_the_air();
        core.ready(self)?;
        let seq = core.seq.next();
        change.write(&mut batch);
        let mark = core.mark(seq, &self.clocks, &*self.clock);
        batch.put(TableId::Mark, super::mark::KEY, &mark.encode());
        self.memtable.absorb(seq, batch.rows());
        self.commit_here(core, seq, |state| state.accept(change))
    }

    /// The consumer of that name, registered if it is new.
    pub(crate) fn consumer(
        &self,
        name: &str,
        policy: Option<(Policy, bool)>,
    ) -> Result<ConsumerEntry, Error> {
        check_name("a consumer's name, in bytes,", name)?;
        let known = self.registry.read().consumers.get(name).cloned();
        if let (Some(entry), None) = (&known, policy) {
            return Ok(entry.clone());
        }
        let mut turn = self.turn(None)?;
        let mut change = Change::default();
        // Again, now that nobody else can be registering it.
        let known = self.registry.read().consumers.get(name).cloned();
        let (mut entry, is_new) = match known {
            Some(entry) => (entry, false),
            None => {
                let id = self.registry.read().next_consumer()?;
                let generation = Generation(0);
                (ConsumerEntry { id, generation, classes: vec![DEFAULT_CLASS] }, true)
            }
        };
        let before = entry.classes.clone();
        if let Some((policy, allow_shorter)) = policy {
            self.choose_class(&mut entry, is_new, policy, allow_shorter, &mut change)?;
        }
        if !is_new && entry.classes == before {
            return Ok(entry);
        }
        let mut batch = Batch::default();
        put_consumer(&mut batch, name, &entry);
        self.commit_change(turn.core(), batch, &change)?;
        self.registry.write().add_consumer(name, entry.clone());
        Ok(entry)
    }

    fn choose_class(
        &self,
        entry: &mut ConsumerEntry,
        is_new: bool,
        policy: Policy,
        allow_shorter: bool,
        change: &mut Change,
    ) -> Result<(), Error> {
        let state = self.state.read();
        let classes = &state.catalogue.classes;
        let current = state.catalogue.policy(entry.class());
        if !is_new && !current.settle(policy, allow_shorter).changed {
            return Ok(());
        }
        // The default class is not shared: its retention may change at the next opening.
        let same = classes.iter().find(|(id, p)| **id != DEFAULT_CLASS && **p == policy);
        let class = match same {
            Some((id, _)) => *id,
            None => {
                let next = classes.keys().map(|c| c.0).max().unwrap_or(0).saturating_add(1);
                if next >= CLASSES_MAX {
                    return Err(Error::limit(
                        "the number of different retentions",
                        u64::from(next),
                        u64::from(CLASSES_MAX) - 1,
                    ));
                }
                change.classes.push((ClassId(next), policy));
                ClassId(next)
            }
        };
        if is_new {
            entry.classes.clear();
        }
        entry.classes.retain(|c| *c != class);
        entry.classes.push(class);
        Ok(())
    }

    /// The keyspace of that name, made if it is new; its codecs must be those it was made with.
    pub(crate) fn keyspace(&self, name: &str, codecs: &str) -> Result<KeyspaceEntry, Error> {
        check_name("a keyspace's name, in bytes,", name)?;
        let checked = |entry: KeyspaceEntry| {
            if entry.codecs == codecs {
                Ok(entry)
            } else {
                Err(Error::type_mismatch(name, entry.codecs, codecs))
            }
        };
        let known = self.registry.read().keyspaces.get(name).cloned();
        if let Some(entry) = known {
            return checked(entry);
        }
        let mut turn = self.turn(None)?;
        let known = self.registry.read().keyspaces.get(name).cloned();
        if let Some(entry) = known {
            return checked(entry);
        }
        let id = self.registry.read().next_keyspace()?;
        let entry = KeyspaceEntry { id, codecs: codecs.to_owned(), life: Life::default() };
        let mut batch = Batch::default();
        put_keyspace(&mut batch, name, &entry);
        self.commit_change(turn.core(), batch, &Change::default())?;
        self.registry.write().keyspaces.insert(name.to_owned(), entry.clone());
        Ok(entry)
    }

    /// Writes the version of the application's state into the open group.
    pub(crate) fn stage_state_version(&self, core: &mut Core, version: u64) {
        let mut rows = Batch::default();
        put_state_version(&mut rows, version);
        self.memtable.absorb(core.seq.next(), rows.rows());
        core.group.batch.append(&rows);
    }
}

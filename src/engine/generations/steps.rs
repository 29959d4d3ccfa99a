//! Beginning a rebuild, giving it keyspaces, promoting it, giving it up.
//!
//! Each is one durable commit of the catalogue, made in the write slot: a crash before it leaves the old
//! state, after it the new.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Life;
use super::rows::{Rebuild, put_rebuild, put_retired};
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::ids::{Generation, Scope, Seq};
use crate::claims::catalogue::Change;
use crate::engine::registry::{
    ConsumerEntry, KeyspaceEntry, Registry, check_name, put_consumer, put_keyspace,
};
use crate::engine::{Engine, ordered};
use crate::storage::batch::Batch;
use crate::storage::tables::TableId;

/// The open rebuild that a handle stands for.
fn rebuild_of(registry: &Registry, scope: Scope) -> Result<Rebuild, Error> {
    let rebuild = registry.generations.rebuild(scope.consumer);
    let open = rebuild.filter(|r| r.is_open && r.generation == scope.generation);
    open.cloned().ok_or_else(|| {
        Error::superseded(format!("generation {} of consumer {}", scope.generation, scope.consumer))
    })
}

impl Engine {
    /// The consumer's rebuild: the one that is open, or a new one.
    pub(crate) fn begin_rebuild(&self, name: &str) -> Result<ConsumerEntry, Error> {
        let mut turn = self.turn(None)?;
        let (entry, newest) = {
            let registry = self.registry.read();
            let entry = registry.consumers.get(name).cloned();
            let entry = entry.ok_or_else(|| Error::invalid("there is no such consumer"))?;
            let newest = registry.generations.rebuild(entry.id).cloned();
            (entry, newest)
        };
        if let Some(open) = newest.as_ref().filter(|rebuild| rebuild.is_open) {
            return Ok(ConsumerEntry { generation: open.generation, ..entry });
        }
        let before = newest.map_or(entry.generation, |r| r.generation.max(entry.generation));
        let next = before.0.checked_add(1).ok_or_else(|| {
            let limit = u64::from(u32::MAX);
            Error::limit("the number of generations", limit + 1, limit)
        })?;
        let generation = Generation(next);
        let rebuild = Rebuild { generation, is_open: true, spaces: BTreeMap::new() };
        let mut batch = Batch::default();
        put_rebuild(&mut batch, entry.id, &rebuild);
        self.commit_change(turn.core(), batch, &Change::default())?;
        self.registry.write().generations.put(entry.id, rebuild);
        Ok(ConsumerEntry { generation, ..entry })
    }

    /// The rebuild's own keyspace for a name, made if it is new.
    pub(crate) fn rebuilt_keyspace(
        &self,
        scope: Scope,
        name: &str,
        codecs: &str,
    ) -> Result<KeyspaceEntry, Error> {
        check_name("a keyspace's name, in bytes,", name)?;
        let mut turn = self.turn(None)?;
        let mut rebuild = rebuild_of(&self.registry.read(), scope)?;
        if let Some(entry) = rebuild.spaces.get(name) {
            if entry.codecs != codecs {
                return Err(Error::type_mismatch(name, &entry.codecs, codecs));
            }
            return Ok(entry.clone());
        }
        let id = self.registry.read().next_keyspace()?;
        let entry = KeyspaceEntry { id, codecs: codecs.to_owned(), life: Life::default() };
        rebuild.spaces.insert(name.to_owned(), entry.clone());
        let mut batch = Batch::default();
        put_rebuild(&mut batch, scope.consumer, &rebuild);
        self.commit_change(turn.core(), batch, &Change::default())?;
        self.registry.write().generations.put(scope.consumer, rebuild);
        Ok(entry)
    }

    /// Lets a rebuild take the place of the generation served, and its keyspaces that of the maps of their
    /// names.
    pub(crate) fn promote(&self, name: &str, scope: Scope) -> Result<ConsumerEntry, Error> {
        self.close_rebuild(scope, |registry, rebuild, batch| {
            let served = registry.consumers.get(name).cloned();
            let served = served.ok_or_else(|| Error::invalid("there is no such consumer"))?;
            let entry = ConsumerEntry { generation: scope.generation, ..served };
            put_consumer(batch, name, &entry);
            let mut replaced = Vec::new();
            for (name, space) in std::mem::take(&mut rebuild.spaces) {
                put_keyspace(batch, &name, &space);
                replaced.extend(registry.keyspaces.insert(name, space));
            }
            registry.add_consumer(name, entry.clone());
            Ok((entry, replaced))
        })
    }

    /// Gives a rebuild up, with all that it has handled.
    pub(crate) fn abandon(&self, scope: Scope) -> Result<(), Error> {
        self.close_rebuild(scope, |_, rebuild, _| {
            Ok(((), std::mem::take(&mut rebuild.spaces).into_values().collect()))
        })
    }

    /// Closes a rebuild in one commit. `change` makes of a copy of the registry what it will be, and names
    /// the keyspaces that nobody will need.
    fn close_rebuild<T>(
        &self,
        scope: Scope,
        change: impl FnOnce(
            &mut Registry,
            &mut Rebuild,
            &mut Batch,
        ) -> Result<(T, Vec<KeyspaceEntry>), Error>,
    ) -> Result<T, Error> {
        if self.slot.is_mine() {
            return Err(Error::reentrant());
        }
        let mut work = self.maintenance.lock();
        let mut turn = self.turn(None)?;
        turn.finish_group();
        turn.core().ready(self)?;
        let mut registry = self.registry.read().clone();
        let mut rebuild = rebuild_of(&registry, scope)?;
        let mut batch = Batch::default();
        let (value, unneeded) = change(&mut registry, &mut rebuild, &mut batch)?;
        rebuild.is_open = false;
        put_rebuild(&mut batch, scope.consumer, &rebuild);
        registry.generations.put(scope.consumer, rebuild);
        for entry in &unneeded {
            put_retired(&mut batch, entry.id);
            registry.generations.retire(entry.id);
        }
        self.remove_positions(scope, &registry, &mut batch)?;
        if planted("generation-promoted-in-two-commits") {
            self.commit_in_two(&mut turn, &batch)?;
        }
        self.commit_change(turn.core(), batch, &Change::default())?;
        let at = turn.core().seq;
        *self.registry.write() = registry;
        for entry in unneeded {
            entry.life.end(at);
            work.retire(TableId::Keyspace(entry.id).name());
        }
        drop(turn);
        self.wake_maintenance();
        Ok(value)
    }

    /// Removes the positions of all of the consumer's generations that are not served from now on.
    fn remove_positions(
        &self,
        scope: Scope,
        registry: &Registry,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let stored = self.state.read().snapshot.stored();
        let tip = self.memtable.snapshot(stored, Seq::MAX);
        let first = ordered::prefix_of(Scope { generation: Generation(0), ..scope });
        let bounds = (Bound::Included(&first[..]), Bound::Unbounded);
        for row in tip.scan(TableId::Positions, bounds, false, Vec::new())? {
            let (key, _) = row?;
            match ordered::scope_of(&key) {
                Some(of) if of.consumer != scope.consumer => break,
                Some(of) if registry.generations.lives(of) => {}
                _ => batch.remove(TableId::Positions, &key),
            }
        }
        Ok(())
    }

    /// The planted bug: half of the rows become durable before the others.
    fn commit_in_two(
        &self,
        turn: &mut crate::engine::turn::Turn<'_>,
        batch: &Batch,
    ) -> Result<(), Error> {
        let mut first = Batch::default();
        for (table, key, put) in batch.rows().take(1) {
            if let Some(value) = put {
                first.put(table, key, value);
            }
        }
        self.commit_change(turn.core(), first, &Change::default())
    }
}

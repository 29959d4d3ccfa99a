//! The names of a store: its consumers, keyspaces and destinations, and the version of the application's state.
//!
//! Owns their catalogue rows. What must hold: N1. A name keeps its number for ever, for hashes and
//! tables are built on it. N2. A keyspace is opened only with the codecs it was made with.

use std::collections::{BTreeMap, HashMap};

use super::generations::{Generations, Life};
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::ids::{ClassId, ConsumerId, DestinationId, Generation, KeyspaceId, Scope};
use crate::base::limits::{CONSUMERS_MAX, DESTINATIONS_MAX, KEYSPACES_MAX, NAME_MAX_BYTES};
use crate::base::sync::Arc;
use crate::storage::batch::Batch;
use crate::storage::snapshot::Snapshot;
use crate::storage::tables::TableId;

const VERSION: u8 = 1;
const CONSUMER: u8 = b'c';
const KEYSPACE: u8 = b'k';
const DESTINATION: u8 = b'd';
const NAMESPACE: &[u8] = b"namespace";
const STATE_VERSION: &[u8] = b"version-of-state";

/// A registered consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerEntry {
    pub(crate) id: ConsumerId,
    pub(crate) generation: Generation,
    /// Every class its claims may lie in; new ones go to the last.
    pub(crate) classes: Vec<ClassId>,
}

impl ConsumerEntry {
    pub(crate) fn scope(&self) -> Scope {
        Scope { consumer: self.id, generation: self.generation }
    }

    pub(crate) fn class(&self) -> ClassId {
        self.classes.last().copied().unwrap_or_default()
    }
}

/// A registered keyspace.
#[derive(Clone, Debug)]
pub(crate) struct KeyspaceEntry {
    pub(crate) id: KeyspaceId,
    /// Names and versions of its key and value codecs.
    pub(crate) codecs: String,
    pub(crate) life: Life,
}

/// All names of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    pub(crate) consumers: BTreeMap<String, ConsumerEntry>,
    /// The classes of each consumer, for every delivery to ask.
    classes: HashMap<ConsumerId, Arc<[ClassId]>>,
    pub(crate) keyspaces: BTreeMap<String, KeyspaceEntry>,
    pub(crate) destinations: BTreeMap<String, DestinationId>,
    /// What the store was told to derive outward keys from.
    pub(crate) namespace: Option<String>,
    pub(crate) state_version: u64,
    pub(crate) generations: Generations,
}

/// An error unless the name can be one.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::invalid(format!("{what} is empty; give it a name")));
    }
    if name.len() > NAME_MAX_BYTES {
        return Err(Error::limit(what, name.len() as u64, NAME_MAX_BYTES as u64));
    }
    Ok(())
}

fn key(prefix: u8, name: &str) -> Vec<u8> {
    [&[prefix, b':'], name.as_bytes()].concat()
}

impl Registry {
    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self, Error> {
        let mut registry = Self::default();
        for row in snapshot.whole(TableId::Catalogue)? {
            let (key, value) = row?;
            registry.load_row(&key, &value).map_err(|m| {
                Error::corrupt(format!("catalogue row {}", key.escape_ascii()), m.0)
            })?;
        }
        Ok(registry)
    }

    pub(super) fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let text = |name: &[u8]| {
            String::from_utf8(name.to_vec()).map_err(|_| Malformed("a name is not UTF-8"))
        };
        match key {
            STATE_VERSION => self.state_version = Reader::new(unseal(value)?).u64()?,
            [CONSUMER, b':', name @ ..] => {
                self.add_consumer(&text(name)?, decode_consumer(value)?);
            }
            NAMESPACE => self.namespace = Some(text(unseal(value)?)?),
            [DESTINATION, b':', name @ ..] => {
                let mut r = Reader::new(unseal(value)?);
                if r.u8()? != VERSION {
                    return Err(Malformed("unknown version of a destination"));
                }
                let id = DestinationId(r.u32()?);
                r.finish()?;
                self.destinations.insert(text(name)?, id);
            }
            [KEYSPACE, b':', name @ ..] => {
                let mut r = Reader::new(unseal(value)?);
                if r.u8()? != VERSION {
                    return Err(Malformed("unknown version of a keyspace"));
                }
                let id = KeyspaceId(r.u32()?);
                let codecs = text(r.bytes()?)?;
                r.finish()?;
                let life = Life::default();
                self.keyspaces.insert(text(name)?, KeyspaceEntry { id, codecs, life });
            }
            _ if self.generations.load_row(key, value)? => {}
            _ => {} // claims own the other rows
        }
        Ok(())
    }

    pub(crate) fn add_consumer(&mut self, name: &str, entry: ConsumerEntry) {
        self.classes.insert(entry.id, entry.classes.clone().into());
        self.generations.serve(entry.scope());
        self.consumers.insert(name.to_owned(), entry);
    }

    /// Every class that a consumer's claims may lie in; new ones go to the last.
    pub(crate) fn classes_of(&self, consumer: ConsumerId) -> Arc<[ClassId]> {
        self.classes.get(&consumer).cloned().unwrap_or_default()
    }

    /// The namespace that an opening which asks for `asked` gets; `None` for the store's own.
    pub(super) fn choose_namespace(&self, asked: Option<&str>) -> Result<Option<String>, Error> {
        match (asked, self.namespace.as_deref()) {
            (Some(asked), _) if asked.is_empty() || asked.len() > NAME_MAX_BYTES => {
                check_name("a namespace, in bytes,", asked).map(|()| None)
            }
            (Some(asked), Some(stored)) if asked != stored => Err(Error::invalid(format!(
                "the store's namespace is {stored:?}, not {asked:?}; every key given out would change: \
                 open it with its own, or without any"
            ))),
            (Some(asked), None) if !self.consumers.is_empty() => Err(Error::invalid(format!(
                "the store has been in use without a namespace; every key given out would change with \
                 {asked:?}: open it without any"
            ))),
            (asked, stored) => Ok(asked.or(stored).map(str::to_owned)),
        }
    }

    pub(crate) fn next_consumer(&self) -> Result<ConsumerId, Error> {
        let next = self.consumers.values().map(|c| c.id.0.saturating_add(1)).max().unwrap_or(1);
        if next > CONSUMERS_MAX {
            return Err(Error::limit(
                "the number of consumers",
                u64::from(next),
                u64::from(CONSUMERS_MAX),
            ));
        }
        Ok(ConsumerId(next))
    }

    pub(crate) fn next_destination(&self) -> Result<DestinationId, Error> {
        let next = self.destinations.values().map(|d| d.0.saturating_add(1)).max().unwrap_or(1);
        if next > DESTINATIONS_MAX {
            let (got, limit) = (u64::from(next), u64::from(DESTINATIONS_MAX));
            return Err(Error::limit("the number of destinations", got, limit));
        }
        Ok(DestinationId(next))
    }

    pub(crate) fn next_keyspace(&self) -> Result<KeyspaceId, Error> {
        let named = self.keyspaces.values().map(|k| k.id);
        let all = named.chain(self.generations.keyspaces());
        let next = all.map(|id| id.0.saturating_add(1)).max().unwrap_or(1);
        if next > KEYSPACES_MAX {
            return Err(Error::limit(
                "the number of keyspaces",
                u64::from(next),
                u64::from(KEYSPACES_MAX),
            ));
        }
        Ok(KeyspaceId(next))
    }
}

pub(crate) fn put_consumer(batch: &mut Batch, name: &str, entry: &ConsumerEntry) {
    let mut w = Writer::new();
    w.u8(VERSION);
    w.u32(entry.id.0);
    w.u32(entry.generation.0);
    w.varint(entry.classes.len() as u64);
    for class in &entry.classes {
        w.u16(class.0);
    }
    batch.put(TableId::Catalogue, &key(CONSUMER, name), &w.seal());
}

fn decode_consumer(value: &[u8]) -> Result<ConsumerEntry, Malformed> {
    let mut r = Reader::new(unseal(value)?);
    if r.u8()? != VERSION {
        return Err(Malformed("unknown version of a consumer"));
    }
    let id = ConsumerId(r.u32()?);
    let generation = Generation(r.u32()?);
    let mut classes = Vec::new();
    for _ in 0..r.varint()? {
        classes.push(ClassId(r.u16()?));
    }
    r.finish()?;
    Ok(ConsumerEntry { id, generation, classes })
}

pub(crate) fn put_keyspace(batch: &mut Batch, name: &str, entry: &KeyspaceEntry) {
    let mut w = Writer::new();
    w.u8(VERSION);
    w.u32(entry.id.0);
    w.bytes(entry.codecs.as_bytes());
    batch.put(TableId::Catalogue, &key(KEYSPACE, name), &w.seal());
}

pub(crate) fn put_destination(batch: &mut Batch, name: &str, id: DestinationId) {
    let mut w = Writer::new();
    w.u8(VERSION);
    w.u32(id.0);
    batch.put(TableId::Catalogue, &key(DESTINATION, name), &w.seal());
}

pub(crate) fn put_namespace(batch: &mut Batch, namespace: &str) {
    let mut w = Writer::new();
    w.raw(namespace.as_bytes());
    batch.put(TableId::Catalogue, NAMESPACE, &w.seal());
}

pub(crate) fn put_state_version(batch: &mut Batch, version: u64) {
    let mut w = Writer::new();
    w.u64(version);
    batch.put(TableId::Catalogue, STATE_VERSION, &w.seal());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits that no caller reaches in a test's time; numbers are never given twice, so the highest
    /// one given counts, not how many are left.
    #[test]
    fn consumers_and_keyspaces_end_at_their_limits() {
        for (last, next) in [
            (0, Some(1)),
            (CONSUMERS_MAX - 2, Some(CONSUMERS_MAX - 1)),
            (CONSUMERS_MAX - 1, Some(CONSUMERS_MAX)),
            (CONSUMERS_MAX, None),
            (u32::MAX, None), // damage, perhaps
        ] {
            let mut registry = Registry::default();
            let (id, generation) = (ConsumerId(last), Generation(0));
            registry.add_consumer("c", ConsumerEntry { id, generation, classes: Vec::new() });
            match next {
                Some(next) => assert_eq!(registry.next_consumer().unwrap(), ConsumerId(next)),
                None => assert!(registry.next_consumer().unwrap_err().is_limit()),
            }
        }
        for (last, next) in [
            (KEYSPACES_MAX - 2, Some(KEYSPACES_MAX - 1)),
            (KEYSPACES_MAX - 1, Some(KEYSPACES_MAX)),
            (KEYSPACES_MAX, None),
            (u32::MAX, None),
        ] {
            let mut registry = Registry::default();
            let (id, life) = (KeyspaceId(last), Life::default());
            let entry = KeyspaceEntry { id, codecs: String::new(), life };
            registry.keyspaces.insert("k".to_owned(), entry);
            match next {
                Some(next) => assert_eq!(registry.next_keyspace().unwrap(), KeyspaceId(next)),
                None => assert!(registry.next_keyspace().unwrap_err().is_limit()),
            }
        }
        for (last, next) in [
            (DESTINATIONS_MAX - 2, Some(DESTINATIONS_MAX - 1)),
            (DESTINATIONS_MAX - 1, Some(DESTINATIONS_MAX)),
            (DESTINATIONS_MAX, None),
            (u32::MAX, None),
        ] {
            let mut registry = Registry::default();
            registry.destinations.insert("d".to_owned(), DestinationId(last));
            match next {
                Some(next) => assert_eq!(registry.next_destination().unwrap(), DestinationId(next)),
                None => assert!(registry.next_destination().unwrap_err().is_limit()),
            }
        }
        assert_eq!(Registry::default().next_destination().unwrap(), DestinationId(1));
        assert_eq!(Registry::default().next_consumer().unwrap(), ConsumerId(1));
        assert_eq!(Registry::default().next_keyspace().unwrap(), KeyspaceId(1));
    }
}

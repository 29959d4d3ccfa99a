//! The model's time: classes, their clocks, buckets of claims and of results, floors.
//!
//! What must hold: a class's time is uptime by the boot clock plus, at each opening, the wall clock's
//! gap since the last save if positive, at most R/32; a bucket takes commits of [start, start+R/8) and
//! may be forgotten R later, which raises the floors of its owners.

use std::collections::BTreeMap;

use super::{Model, Registered};
use crate::base::error::Error;
use crate::base::limits::RELEASE_WALL_MS;
use crate::claims::policy::Retention;

/// A retention class: the store's own, or one that consumers of the same retention share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The store's, with its R in milliseconds; `None` for ever.
    Default(Option<u64>),
    /// Of consumers with a retention of their own.
    Own(Option<u64>),
}

impl Class {
    /// R: how long a claim is kept at least, in milliseconds of store time.
    #[must_use]
    pub fn retention_ms(self) -> Option<u64> {
        let (Self::Default(ms) | Self::Own(ms)) = self;
        ms
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassTime {
    base_ms: u64,
    boot_at_resume_ms: u64,
    newest_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) class: Class,
    start_ms: u64,
    end_ms: u64,
    /// The newest event time of each consumer.
    pub(super) newest: BTreeMap<String, i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultBucket {
    class: Class,
    own_ms: Option<u64>,
    end_ms: u64,
}

/// A bucket of claims that a store still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveBucket {
    /// Its class.
    pub class: Class,
    /// Store time of its first possible commit.
    pub start_ms: u64,
    /// Store time that its commits stay below.
    pub end_ms: u64,
}

/// A bucket of results that a store still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveResults {
    /// The class of the claims.
    pub class: Class,
    /// The retention that the handle gave, if it did.
    pub own_ms: Option<u64>,
    /// Store time that its commits stay below.
    pub end_ms: u64,
}

const AHEAD_MAX_MS: u64 = 24 * 3_600_000;

fn span_ms(retention_ms: Option<u64>) -> u64 {
    retention_ms.map_or(u64::MAX, |r| r.div_ceil(8).max(1))
}

fn is_expired(end_ms: u64, retention_ms: Option<u64>, now_ms: u64) -> bool {
    retention_ms.and_then(|r| end_ms.checked_add(r)).is_some_and(|at| at <= now_ms)
}

impl Model {
    /// An empty store whose default class has this retention.
    ///
    /// # Errors
    /// A retention out of range.
    pub fn new(retention: &Retention) -> Result<Self, Error> {
        let default = Class::Default(retention.policy()?.retention_ms);
        let mut model = Self {
            state: BTreeMap::new(),
            consumers: BTreeMap::new(),
            rows: BTreeMap::new(),
            classes: BTreeMap::new(),
            buckets: BTreeMap::new(),
            results: BTreeMap::new(),
            next_bucket: 0,
            wall_ms: 0,
            boot_ms: 0,
        };
        model.meet(default);
        Ok(model)
    }

    fn meet(&mut self, class: Class) {
        let fresh = ClassTime { base_ms: 0, boot_at_resume_ms: self.boot_ms, newest_ms: 0 };
        self.classes.entry(class).or_insert(fresh);
    }

    fn default_class(&self) -> Class {
        self.classes.keys().copied().next().unwrap_or(Class::Default(None))
    }

    /// Registers a consumer, or gives a known one another retention if that is longer.
    ///
    /// # Errors
    /// A retention out of range.
    pub fn register(&mut self, name: &str, retention: Option<&Retention>) -> Result<(), Error> {
        let default = self.default_class();
        let own = match retention {
            None => None,
            Some(retention) => Some(Class::Own(retention.policy()?.retention_ms)),
        };
        let ever = |class: Class| class.retention_ms().unwrap_or(u64::MAX);
        let current = self.consumers.get(name).and_then(|known| known.classes.last().copied());
        let shorter = |class| current.is_some_and(|current| ever(class) <= ever(current));
        let own = own.filter(|class| !shorter(*class));
        if let Some(class) = own {
            self.meet(class);
        }
        match (self.consumers.get_mut(name), own) {
            (None, own) => {
                let classes = vec![own.unwrap_or(default)];
                let fresh = Registered { classes, floor_ms: None };
                self.consumers.insert(name.to_owned(), fresh);
            }
            (Some(known), Some(class)) => {
                known.classes.retain(|c| *c != class);
                known.classes.push(class);
            }
            (Some(_), None) => {}
        }
        Ok(())
    }

    /// The machine's clocks show this; the store is open.
    pub fn set_clock(&mut self, wall_ms: i64, boot_ms: u64) {
        (self.wall_ms, self.boot_ms) = (wall_ms, boot_ms);
        for time in self.classes.values_mut() {
            let passed = boot_ms.saturating_sub(time.boot_at_resume_ms);
            time.newest_ms = time.newest_ms.max(time.base_ms.saturating_add(passed));
        }
    }

    /// The store was closed in order at the clocks set last, and is opened again at these.
    pub fn reopen(&mut self, wall_ms: i64, boot_ms: u64) {
        let gap_ms = if wall_ms > self.wall_ms { wall_ms.abs_diff(self.wall_ms) } else { 0 };
        for (class, time) in &mut self.classes {
            let most_ms = class.retention_ms().unwrap_or(0) / 32;
            let base_ms = time.newest_ms.saturating_add(gap_ms.min(most_ms));
            *time = ClassTime { base_ms, boot_at_resume_ms: boot_ms, newest_ms: base_ms };
        }
        self.set_clock(wall_ms, boot_ms);
    }

    /// The store died and was opened again: each class's time, which a crash may set back to the
    /// last save, as the store tells it. `saved` are the times at the last commit that was answered.
    ///
    /// # Errors
    /// A time that no save can explain.
    pub fn resume(
        &mut self,
        saved: &BTreeMap<Class, u64>,
        wall_ms: i64,
        boot_ms: u64,
        told: &BTreeMap<Class, u64>,
    ) -> Result<(), String> {
        (self.wall_ms, self.boot_ms) = (wall_ms, boot_ms);
        for class in self.classes.keys().copied().collect::<Vec<_>>() {
            let now_ms = told.get(&class).copied().unwrap_or(0);
            let most_ms = class.retention_ms().unwrap_or(0) / 32;
            let latest_ms = self.now_ms(class).saturating_add(most_ms);
            let earliest_ms = saved.get(&class).copied().unwrap_or(0);
            if now_ms < earliest_ms || now_ms > latest_ms {
                return Err(format!(
                    "I6: store time of {class:?} resumes at {now_ms}, not in {earliest_ms}..={latest_ms}"
                ));
            }
            let time = ClassTime { base_ms: now_ms, boot_at_resume_ms: boot_ms, newest_ms: now_ms };
            self.classes.insert(class, time);
        }
        Ok(())
    }

    /// Store time of a class.
    #[must_use]
    pub fn now_ms(&self, class: Class) -> u64 {
        self.classes.get(&class).map_or(0, |time| time.newest_ms)
    }

    /// Takes over the store's time of classes without any claim: it begins when the store first asks
    /// for it, which nobody can tell.
    pub fn follow_idle(&mut self, told: &BTreeMap<Class, u64>) {
        let boot_at_resume_ms = self.boot_ms;
        for (class, now_ms) in told {
            let idle = self.buckets.values().all(|bucket| bucket.class != *class);
            if idle && self.now_ms(*class) != *now_ms {
                let (base_ms, newest_ms) = (*now_ms, *now_ms);
                self.classes.insert(*class, ClassTime { base_ms, boot_at_resume_ms, newest_ms });
            }
        }
    }

    /// Store time of every class.
    #[must_use]
    pub fn times(&self) -> BTreeMap<Class, u64> {
        self.classes.iter().map(|(class, time)| (*class, time.newest_ms)).collect()
    }

    pub(super) fn newest_class(&self, consumer: &str) -> Class {
        let known = self.consumers.get(consumer);
        known.and_then(|c| c.classes.last().copied()).unwrap_or(self.default_class())
    }

    /// The newest event time of a consumer that is stored, or was and raised the floor.
    #[must_use]
    pub fn newest_event_ms(&self, consumer: &str) -> Option<i64> {
        let seen = self.buckets.values().filter_map(|b| b.newest.get(consumer).copied());
        seen.chain(self.floor_ms(consumer)).max()
    }

    /// Whether an event time cannot be true yet.
    pub(super) fn is_ahead(&self, consumer: &str, time_ms: i64) -> bool {
        let reference_ms = if self.wall_ms >= RELEASE_WALL_MS {
            Some(self.wall_ms)
        } else {
            self.newest_event_ms(consumer)
        };
        let limit_ms = self.newest_class(consumer).retention_ms();
        let limit_ms = limit_ms.map_or(AHEAD_MAX_MS, |r| (r / 4).min(AHEAD_MAX_MS));
        reference_ms.is_some_and(|reference_ms| {
            let ahead_ms = i128::from(time_ms) - i128::from(reference_ms);
            ahead_ms > i128::from(limit_ms)
        })
    }

    /// The bucket for a commit of the class now.
    pub(super) fn open_bucket(&mut self, class: Class) -> u64 {
        let now_ms = self.now_ms(class);
        let last = self.buckets.iter().rev().find(|(_, b)| b.class == class);
        if let Some((id, _)) = last.filter(|(_, b)| now_ms < b.end_ms) {
            return *id;
        }
        let end_ms = now_ms.saturating_add(span_ms(class.retention_ms()));
        let bucket = Bucket { class, start_ms: now_ms, end_ms, newest: BTreeMap::new() };
        self.next_bucket += 1;
        self.buckets.insert(self.next_bucket, bucket);
        self.next_bucket
    }

    /// The bucket for a result committed now.
    pub(super) fn results_bucket(&mut self, class: Class, own_ms: Option<u64>) -> u64 {
        let now_ms = self.now_ms(class);
        let fits = |b: &ResultBucket| b.class == class && b.own_ms == own_ms && now_ms < b.end_ms;
        if let Some((id, _)) = self.results.iter().rev().find(|(_, b)| fits(b)) {
            return *id;
        }
        let keep_ms = own_ms.or(class.retention_ms());
        let end_ms = now_ms.saturating_add(span_ms(keep_ms));
        self.next_bucket += 1;
        self.results.insert(self.next_bucket, ResultBucket { class, own_ms, end_ms });
        self.next_bucket
    }

    /// The buckets that are stored.
    #[must_use]
    pub fn live_buckets(&self) -> Vec<LiveBucket> {
        let live = self.buckets.values();
        let live =
            live.map(|b| LiveBucket { class: b.class, start_ms: b.start_ms, end_ms: b.end_ms });
        let mut live: Vec<_> = live.collect();
        live.sort_unstable();
        live
    }

    /// The buckets of results that are stored.
    #[must_use]
    pub fn live_results(&self) -> Vec<LiveResults> {
        let live = self.results.values();
        let live = live.map(|b| LiveResults { class: b.class, own_ms: b.own_ms, end_ms: b.end_ms });
        let mut live: Vec<_> = live.collect();
        live.sort_unstable();
        live
    }

    /// Forgets every bucket whose time has come.
    pub fn sweep(&mut self) {
        for id in self.buckets.keys().copied().collect::<Vec<_>>() {
            if self.is_over(id) {
                self.drop_bucket(id);
            }
        }
        for id in self.results.keys().copied().collect::<Vec<_>>() {
            if self.are_results_over(id) {
                self.results.remove(&id);
            }
        }
    }

    /// Follows a store that forgets when it finds the time: drops the buckets that it no longer has.
    ///
    /// # Errors
    /// One of them was still promised.
    pub fn follow(&mut self, claims: &[LiveBucket], results: &[LiveResults]) -> Result<(), String> {
        let gone = self.buckets.iter().filter(|(_, b)| {
            let live = LiveBucket { class: b.class, start_ms: b.start_ms, end_ms: b.end_ms };
            !claims.contains(&live)
        });
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            if !self.is_over(id) {
                return Err(format!(
                    "I5: {:?} was forgotten before its time",
                    self.buckets.get(&id)
                ));
            }
            self.drop_bucket(id);
        }
        let gone = self.results.iter().filter(|(_, b)| {
            !results.contains(&LiveResults { class: b.class, own_ms: b.own_ms, end_ms: b.end_ms })
        });
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            if !self.are_results_over(id) {
                return Err(format!(
                    "I5: results {:?} went before their time",
                    self.results.get(&id)
                ));
            }
            self.results.remove(&id);
        }
        Ok(())
    }

    fn is_over(&self, id: u64) -> bool {
        self.buckets
            .get(&id)
            .is_some_and(|b| is_expired(b.end_ms, b.class.retention_ms(), self.now_ms(b.class)))
    }

    fn are_results_over(&self, id: u64) -> bool {
        self.results.get(&id).is_some_and(|b| {
            is_expired(b.end_ms, b.own_ms.or(b.class.retention_ms()), self.now_ms(b.class))
        })
    }

    fn drop_bucket(&mut self, id: u64) {
        let Some(bucket) = self.buckets.remove(&id) else { return };
        for (consumer, newest_ms) in bucket.newest {
            if let Some(owner) = self.consumers.get_mut(&consumer) {
                owner.floor_ms = owner.floor_ms.max(Some(newest_ms));
            }
        }
        for rows in self.rows.values_mut() {
            rows.retain(|row| row.bucket != id);
        }
        self.rows.retain(|_, rows| !rows.is_empty());
    }
}

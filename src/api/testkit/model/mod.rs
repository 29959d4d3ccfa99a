//! The reference model: the inbox as a few ordered maps, slow and plainly right.
//!
//! Owns what must be true of claims, state, floors and results after each call, said once more and
//! without any of the store's machinery: no groups, runs, filters, tombstones or pages. Called by the
//! [`Runner`](super::Runner), by fuzz targets and by users' tests.
//!
//! What must hold: MO1. Every answer follows from the maps and the clock alone. MO2. A row leaves only
//! with its bucket or by `forget`. MO3. Nothing here calls the engine.

mod answer;
mod identity;
mod time;

use std::collections::BTreeMap;

pub(super) use answer::is_typed;
pub use answer::{Answer, Known, Stored};
pub use time::{Class, LiveBucket, LiveResults};

use crate::api::event::Event;
use crate::api::event_id::EventId;
use crate::base::hash::HashKey;
use crate::base::ids::EventMs;
use time::{Bucket, ClassTime, ResultBucket};

/// The state that the model's handlers write: one map of numbers.
pub type ModelState = BTreeMap<u64, u64>;

/// How a model handler ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It succeeds, and may leave a result.
    Keep(Option<Vec<u8>>),
    /// It turns the event down for good, and says why.
    Refuse(Vec<u8>),
    /// It remembers nothing.
    Skip,
    /// It returns an error.
    Fail,
    /// It panics.
    Panic,
}

/// What a delivery is made through.
#[derive(Clone, Debug, Default)]
pub struct Through {
    /// The consumer's name; it must have been registered.
    pub consumer: String,
    /// Whether the handle accepts late events.
    pub accept_late: bool,
    /// The handle's own retention of results, in milliseconds.
    pub result_retention_ms: Option<u64>,
}

/// What stands under one id of one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    bucket: u64,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Claim(Claim),
    Alias { primary: EventId },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    class: Class,
    at_ms: u64,
    wall_ms: i64,
    fingerprint: Option<u64>,
    result: Option<Result_>,
    refused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Result_ {
    bytes: Vec<u8>,
    /// `None` for zero bytes, which never expire.
    bucket: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Registered {
    /// Every class its claims may lie in; new ones go to the last.
    classes: Vec<Class>,
    floor_ms: Option<i64>,
}

/// The inbox as ordered maps. Clones are independent, so that a driver can keep the state before
/// a call whose outcome it was not told.
///
/// ```
/// use txinbox::testkit::{Answer, Model, Through, Verdict};
/// use txinbox::{Event, EventId, Retention};
/// use std::time::Duration;
///
/// let mut model = Model::new(&Retention::at_least(Duration::from_secs(60)))?;
/// model.set_clock(1_800_000_000_000, 0);
/// model.register("billing", None)?;
/// let through = Through { consumer: "billing".into(), ..Through::default() };
/// let event = Event::unchecked(EventId::text("order-1")?);
/// let mut deliver = |model: &mut Model| {
///     model.process(&through, &event, |state| {
///         *state.entry(7).or_default() += 1;
///         Verdict::Keep(None)
///     })
/// };
/// assert!(matches!(deliver(&mut model), Answer::Applied(_)));
/// assert!(matches!(deliver(&mut model), Answer::Duplicate(_)));
/// assert_eq!(model.state()[&7], 1);
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    state: ModelState,
    consumers: BTreeMap<String, Registered>,
    rows: BTreeMap<(String, EventId), Vec<Row>>,
    classes: BTreeMap<Class, ClassTime>,
    buckets: BTreeMap<u64, Bucket>,
    results: BTreeMap<u64, ResultBucket>,
    next_bucket: u64,
    wall_ms: i64,
    boot_ms: u64,
}

/// Payloads are compared by a hash under this key; the number itself is never told.
const KEY: HashKey = HashKey(*b"reference model!");

impl Model {
    /// The application's state.
    #[must_use]
    pub fn state(&self) -> &ModelState {
        &self.state
    }

    /// The floor of a consumer.
    #[must_use]
    pub fn floor_ms(&self, consumer: &str) -> Option<i64> {
        self.consumers.get(consumer)?.floor_ms
    }

    /// The names of all consumers.
    pub fn consumers(&self) -> impl Iterator<Item = &str> {
        self.consumers.keys().map(String::as_str)
    }

    /// Every id that something stands under, of any consumer.
    pub fn ids(&self) -> impl Iterator<Item = (&str, &EventId)> {
        self.rows.keys().map(|(consumer, id)| (consumer.as_str(), id))
    }

    /// How many claims are stored.
    #[must_use]
    pub fn claims(&self) -> usize {
        let rows = self.rows.values().flatten();
        rows.filter(|row| matches!(row.kind, Kind::Claim(_))).count()
    }

    /// One delivery.
    pub fn process(
        &mut self,
        through: &Through,
        event: &Event<'_>,
        handler: impl FnOnce(&mut ModelState) -> Verdict,
    ) -> Answer {
        if let Some(answer) = self.judge(through, event) {
            return answer;
        }
        let before = self.state.clone();
        let verdict = handler(&mut self.state);
        if !matches!(verdict, Verdict::Keep(_)) {
            self.state = before;
        }
        match verdict {
            Verdict::Keep(result) => Answer::Applied(self.claim(through, event, result, false)),
            Verdict::Refuse(why) => Answer::Refused(self.claim(through, event, Some(why), true)),
            Verdict::Skip => Answer::Skipped,
            Verdict::Fail => Answer::Failed,
            Verdict::Panic => Answer::Panicked,
        }
    }

    /// The answer that needs no handler.
    fn judge(&mut self, through: &Through, event: &Event<'_>) -> Option<Answer> {
        let consumer = &through.consumer;
        let fingerprint = event.payload_fingerprint(&KEY).map(|f| f.0);
        let met = self.primaries_of(consumer, event);
        let found = met.iter().find(|(_, claim)| same(claim.fingerprint, fingerprint));
        if let Some((primary, claim)) = found {
            let (primary, known) = (primary.clone(), self.known(claim));
            let unknown = self.unknown_ids(consumer, event);
            if !unknown.is_empty() && event.time().is_some_and(|t| self.is_ahead(consumer, t.0)) {
                return Some(Answer::Future);
            }
            for id in unknown {
                self.put(consumer, event, &id, Kind::Alias { primary: primary.clone() });
            }
            return Some(Answer::Duplicate(known));
        }
        if let Some((_, claim)) = met.first() {
            return Some(Answer::Mismatch(self.known(claim)));
        }
        let EventMs(time) = event.time()?;
        let floor = self.floor_ms(consumer).filter(|floor| time <= *floor);
        if let Some(floor) = floor.filter(|_| !through.accept_late) {
            return Some(Answer::TooLate { floor_ms: floor });
        }
        self.is_ahead(consumer, time).then_some(Answer::Future)
    }

    fn claim(
        &mut self,
        through: &Through,
        event: &Event<'_>,
        result: Option<Vec<u8>>,
        refused: bool,
    ) -> Known {
        let consumer = through.consumer.as_str();
        let class = self.newest_class(consumer);
        let at_ms = self.now_ms(class);
        let result = result.map(|bytes| {
            let own = through.result_retention_ms;
            let bucket = (!bytes.is_empty()).then(|| self.results_bucket(class, own));
            Result_ { bytes, bucket }
        });
        let claim = Claim {
            class,
            at_ms,
            wall_ms: self.wall_ms,
            fingerprint: event.payload_fingerprint(&KEY).map(|f| f.0),
            result,
            refused,
        };
        let known = self.known(&claim);
        self.put(consumer, event, event.id(), Kind::Claim(claim));
        for alias in distinct_aliases(event) {
            self.put(consumer, event, &alias, Kind::Alias { primary: event.id().clone() });
        }
        known
    }

    fn put(&mut self, consumer: &str, event: &Event<'_>, id: &EventId, kind: Kind) {
        let bucket = self.open_bucket(self.newest_class(consumer));
        if let (Some(EventMs(time)), Some(bucket)) = (event.time(), self.buckets.get_mut(&bucket)) {
            let newest = bucket.newest.entry(consumer.to_owned()).or_insert(time);
            *newest = time.max(*newest);
        }
        self.rows.entry((consumer.to_owned(), id.clone())).or_default().push(Row { bucket, kind });
    }

    /// The event's ids that nothing is stored under.
    fn unknown_ids(&self, consumer: &str, event: &Event<'_>) -> Vec<EventId> {
        let mut ids = vec![event.id().clone()];
        ids.extend(distinct_aliases(event));
        ids.retain(|id| self.claims_under(consumer, id).is_empty());
        ids
    }

    /// Forgets what an id stands for; false if that is nothing.
    pub fn forget(&mut self, consumer: &str, id: &EventId) -> bool {
        let mut any = false;
        while let Some((primary, _)) = self.claims_under(consumer, id).into_iter().next() {
            any = true;
            for ((owner, id), rows) in &mut self.rows {
                rows.retain(|row| match &row.kind {
                    _ if owner != consumer => true,
                    Kind::Claim(_) => *id != primary,
                    Kind::Alias { primary: other } => *other != primary && *id != primary,
                });
            }
            self.rows.retain(|_, rows| !rows.is_empty());
        }
        any
    }

    /// The claims that an id may be told to stand for: one, but for an id that several events share.
    #[must_use]
    pub fn lookup(&self, consumer: &str, id: &EventId) -> Vec<Known> {
        let claims = self.claims_under(consumer, id);
        claims.iter().map(|(_, claim)| self.known(claim)).collect()
    }

    fn known(&self, claim: &Claim) -> Known {
        let age_ms = self.now_ms(claim.class).saturating_sub(claim.at_ms);
        let result = match &claim.result {
            None => Stored::None,
            Some(Result_ { bucket: Some(bucket), .. }) if !self.results.contains_key(bucket) => {
                Stored::Expired
            }
            Some(Result_ { bytes, .. }) => Stored::Bytes(bytes.clone()),
        };
        Known {
            wall_ms: claim.wall_ms,
            age_ms,
            kept_for_ms: claim.class.retention_ms().map(|keep| keep.saturating_sub(age_ms)),
            fingerprint: claim.fingerprint,
            result,
            refused: claim.refused,
        }
    }
}

/// Whether two fingerprints let a repeat pass for the same event.
fn same(then: Option<u64>, now: Option<u64>) -> bool {
    then.is_none() || now.is_none() || then == now
}

/// The event's aliases without repetitions and without its own id.
fn distinct_aliases(event: &Event<'_>) -> Vec<EventId> {
    let mut distinct: Vec<EventId> = Vec::new();
    for alias in event.aliases() {
        if alias != event.id() && !distinct.contains(alias) {
            distinct.push(alias.clone());
        }
    }
    distinct
}

//! The feed: 1,707 real earthquakes, and a simulation of how their agency published them.
//!
//! Owns what a poll shows at a given time. What must hold: F1. A poll is a function of the file
//! and the time alone, so that every run sees the same deliveries in the same order. F2. What a
//! quake is called in the state ([`Quake::key`]) is the same under whichever id it is delivered.

use serde_json::Value;
use txinbox::{Error, Event, EventId};

/// `id`, `ids`, `time`, `updated`, `mag`, `place` are used of each line; see the file's source in
/// the README.
const FILE: &str = include_str!("../data/quakes.ndjson");

/// Between two polls.
const POLL_EVERY_MS: i64 = 3_600_000;
/// Each poll brings what happened in this time before it.
const POLL_COVERS_MS: i64 = 7 * 24 * POLL_EVERY_MS;
/// From the first quake until everything has been seen in its last revision.
pub(crate) const POLLS: i64 = 169;

/// One quake, as the file has it.
#[derive(Debug)]
pub(crate) struct Quake {
    id: String,
    /// Every id under which some network reports it, sorted.
    ids: Vec<String>,
    time_ms: i64,
    updated_ms: i64,
    /// In hundredths, so that state needs no floating point.
    magnitude: i64,
    pub(crate) region: String,
    /// What stays the same about a quake, whoever reports it and however often it is revised.
    origin: String,
}

impl Quake {
    /// The name of the quake in the state: the first of its sorted ids.
    pub(crate) fn key(&self) -> &str {
        self.ids.first().map_or(&self.id, |first| first)
    }

    pub(crate) fn magnitude(&self) -> i64 {
        self.magnitude
    }

    fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let number = |name: &str| value.get(name)?.as_i64();
        let ids = value.get("ids")?.as_array()?;
        let mut ids: Vec<String> =
            ids.iter().filter_map(|v| Some(v.as_str()?.to_owned())).collect();
        ids.sort_unstable();
        let (time_ms, place) = (number("time")?, text("place")?);
        Some(Self {
            id: text("id")?,
            ids,
            time_ms,
            updated_ms: number("updated")?,
            magnitude: (value.get("mag")?.as_f64()? * 100.0).round() as i64,
            region: region(&place).to_owned(),
            origin: format!("{time_ms} {place}"),
        })
    }

    /// The id that a network gave it before the agency settled on `id`: another one, if it has one.
    fn early_id(&self) -> &str {
        self.ids.iter().find(|id| **id != self.id).unwrap_or(&self.id)
    }

    /// A first estimate that is 0.05 to 0.40 off, up or down, by the id's letters.
    fn early_magnitude(&self) -> i64 {
        let seed = self.id.bytes().fold(0_i64, |sum, byte| (sum * 31 + i64::from(byte)) % 9_973);
        let off = 5 + seed % 36;
        if seed % 2 == 0 { self.magnitude + off } else { self.magnitude - off }
    }
}

/// The part of the place that names a country, a state or a sea; the feed spells two of them twice.
fn region(place: &str) -> &str {
    match place.rsplit(", ").next().unwrap_or(place) {
        "CA" => "California",
        "NV" => "Nevada",
        "MX" => "Mexico",
        name => name,
    }
}

/// One quake in one poll.
#[derive(Debug)]
pub(crate) struct Report<'f> {
    pub(crate) quake: &'f Quake,
    pub(crate) magnitude: i64,
    pub(crate) updated_ms: i64,
    id: EventId,
    aliases: Vec<EventId>,
    revision_id: EventId,
    /// What this revision says; two deliveries of one revision must agree on it.
    revision: String,
}

impl<'f> Report<'f> {
    fn new(quake: &'f Quake, now_ms: i64) -> Result<Self, Error> {
        let (id, magnitude, updated_ms) = if now_ms < quake.updated_ms {
            (quake.early_id(), quake.early_magnitude(), quake.time_ms)
        } else {
            (quake.id.as_str(), quake.magnitude, quake.updated_ms)
        };
        let others = quake.ids.iter().filter(|other| *other != id);
        Ok(Self {
            quake,
            magnitude,
            updated_ms,
            id: EventId::text(id)?,
            aliases: others.map(|other| EventId::text(other)).collect::<Result<_, _>>()?,
            revision_id: EventId::parts(&[id.as_bytes(), &updated_ms.to_be_bytes()])?,
            revision: format!("{} {magnitude}", quake.origin),
        })
    }

    /// "This quake happened." The magnitude is no part of it: it may be revised, and a payload that
    /// changed with it would make every later delivery a mismatch. Time and place never change here,
    /// so a mismatch would mean what it should: one id was given to two quakes.
    pub(crate) fn happened(&self) -> Event<'_> {
        let event = Event::new(self.id.clone(), &self.quake.origin).at_ms(self.quake.time_ms);
        self.aliases.iter().cloned().fold(event, Event::alias)
    }

    /// "Its magnitude was revised." Each revision is an event of its own: id and time of update
    /// together. A mismatch would mean that the agency changed a revision without saying so.
    pub(crate) fn revised(&self) -> Event<'_> {
        Event::new(self.revision_id.clone(), &self.revision).at_ms(self.updated_ms)
    }
}

/// The whole file.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) quakes: Vec<Quake>,
}

impl Feed {
    pub(crate) fn load() -> Result<Self, String> {
        let mut quakes = Vec::new();
        for (n, line) in FILE.lines().enumerate() {
            quakes.push(
                Quake::parse(line).ok_or_else(|| format!("quakes.ndjson:{}: no quake", n + 1))?,
            );
        }
        Ok(Self { quakes })
    }

    /// When the n-th poll happens; the first one at the first quake.
    pub(crate) fn poll_time_ms(&self, n: i64) -> i64 {
        self.quakes.first().map_or(0, |first| first.time_ms) + n * POLL_EVERY_MS
    }

    /// What a poll brings: every quake of the seven days before it, oldest first.
    pub(crate) fn poll(&self, now_ms: i64) -> Result<Vec<Report<'_>>, Error> {
        let shown = |q: &&Quake| now_ms - POLL_COVERS_MS < q.time_ms && q.time_ms <= now_ms;
        self.quakes.iter().filter(shown).map(|q| Report::new(q, now_ms)).collect()
    }
}

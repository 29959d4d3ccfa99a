//! The state that the two consumers keep, and their handlers.
//!
//! What must hold: Q1. A region's count, strongest magnitude and energy are those of the quakes
//! counted in it, each with the magnitude of its last revision. Q2. Neither handler asks whether
//! it has seen its event before: that is the inbox's part, and the comparison at the end of the
//! run would show it if the inbox failed at it.

use std::borrow::Cow;

use txinbox::codec::Value;
use txinbox::{BoxError, Error, Inbox, Map, Tx, View};

use super::feed::Report;
use super::plain::{ALERT_FROM, Region, State, energy_j};

/// The keyspaces of the example.
#[derive(Debug)]
pub(crate) struct Books {
    /// By quake: its region, magnitude, and when that was last revised.
    quakes: Map<str, (String, i64, i64)>,
    regions: Map<str, Region>,
    /// By region, magnitude and quake: a region's strongest quake comes last.
    by_strength: Map<(String, i64, String), ()>,
    /// By quake: its magnitude.
    alerts: Map<str, i64>,
    /// One row: how far the feed had come when something was last applied.
    feed_time: Map<str, i64>,
}

impl Value for Region {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        "region/1".into()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        (self.quakes, self.strongest, self.energy_j).encode(out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (quakes, strongest, energy_j) = <(u64, i64, u128)>::decode(bytes)?;
        Ok(Self { quakes, strongest, energy_j })
    }
}

impl Books {
    pub(crate) fn open(inbox: &Inbox) -> Result<Self, Error> {
        Ok(Self {
            quakes: inbox.map("quakes")?,
            regions: inbox.map("regions")?,
            by_strength: inbox.map("by strength")?,
            alerts: inbox.map("alerts")?,
            feed_time: inbox.map("feed time")?,
        })
    }

    /// How far an earlier run had come, if there was one.
    pub(crate) fn feed_time_ms(&self, inbox: &Inbox) -> Result<Option<i64>, Error> {
        inbox.read(|view| view.get(&self.feed_time, "now"))
    }

    /// Handler of `quakes`: counts a new quake. Returns by how much the number of alerts changed.
    pub(crate) fn count(
        &self,
        tx: &mut Tx<'_>,
        report: &Report<'_>,
        now_ms: i64,
    ) -> Result<i64, BoxError> {
        let (key, region) = (report.quake.key(), &report.quake.region);
        let mut totals = tx.get(&self.regions, region)?.unwrap_or_default();
        totals.quakes += 1;
        totals.energy_j += energy_j(report.magnitude);
        self.place(tx, region, key, report)?;
        self.settle(tx, region, totals, now_ms)?;
        if report.magnitude < ALERT_FROM {
            return Ok(0);
        }
        tx.insert(&self.alerts, key, &report.magnitude)?;
        Ok(1)
    }

    /// Handler of `revisions`: replaces a quake's magnitude. Returns as [`count`](Self::count).
    pub(crate) fn revise(
        &self,
        tx: &mut Tx<'_>,
        report: &Report<'_>,
        now_ms: i64,
    ) -> Result<i64, BoxError> {
        let key = report.quake.key();
        let Some((region, old, revised_ms)) = tx.get(&self.quakes, key)? else {
            return Err(format!("{key} was revised before it was counted").into());
        };
        if report.updated_ms < revised_ms {
            return Ok(0); // an older revision that comes late is handled by leaving it out
        }
        let mut totals = tx.get(&self.regions, &region)?.unwrap_or_default();
        totals.energy_j = totals.energy_j - energy_j(old) + energy_j(report.magnitude);
        tx.remove(&self.by_strength, &(region.clone(), old, key.to_owned()))?;
        self.place(tx, &region, key, report)?;
        self.settle(tx, &region, totals, now_ms)?;

        let (had, has) = (old >= ALERT_FROM, report.magnitude >= ALERT_FROM);
        if has {
            tx.insert(&self.alerts, key, &report.magnitude)?;
        } else if had {
            tx.remove(&self.alerts, key)?;
        }
        Ok(i64::from(has) - i64::from(had))
    }

    fn place(
        &self,
        tx: &mut Tx<'_>,
        region: &str,
        key: &str,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        let magnitude = report.magnitude;
        tx.insert(&self.quakes, key, &(region.to_owned(), magnitude, report.updated_ms))?;
        tx.insert(&self.by_strength, &(region.to_owned(), magnitude, key.to_owned()), &())?;
        Ok(())
    }

    /// Writes a region's totals, its strongest magnitude taken from the order of strength.
    fn settle(
        &self,
        tx: &mut Tx<'_>,
        region: &str,
        mut totals: Region,
        now_ms: i64,
    ) -> Result<(), Error> {
        let weakest = (region.to_owned(), i64::MIN, String::new());
        let beyond = (region.to_owned(), i64::MAX, String::new());
        let last = tx.scan_back(&self.by_strength, weakest..beyond, 1)?;
        if let Some(((_, strongest, _), ())) = last.first() {
            totals.strongest = *strongest;
        }
        tx.insert(&self.regions, region, &totals)?;
        tx.insert(&self.feed_time, "now", &now_ms)?;
        Ok(())
    }

    /// Everything in the store, from one consistent view.
    pub(crate) fn whole(&self, view: &View) -> Result<State, Error> {
        let all = usize::MAX;
        let quakes = view.scan(&self.quakes, .., all)?;
        let by_strength = view.scan(&self.by_strength, .., all)?;
        Ok(State {
            regions: view.scan(&self.regions, .., all)?.into_iter().collect(),
            quakes: quakes.into_iter().map(|(key, (region, m, _))| (key, (region, m))).collect(),
            by_strength: by_strength.into_iter().map(|(row, ())| row).collect(),
            alerts: view.scan(&self.alerts, .., all)?.into_iter().collect(),
        })
    }
}

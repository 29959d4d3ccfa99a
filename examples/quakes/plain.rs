//! The reference: the same totals from a single pass over the file, without store or feed.

use std::collections::{BTreeMap, BTreeSet};

use super::feed::Quake;

/// From this magnitude on, in hundredths, a quake has an alert.
pub(crate) const ALERT_FROM: i64 = 500;

/// What is known of a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) quakes: u64,
    /// In hundredths; of the strongest quake.
    pub(crate) strongest: i64,
    /// Released by all quakes together.
    pub(crate) energy_j: u128,
}

/// Everything the example keeps, row for row.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) regions: BTreeMap<String, Region>,
    /// Region and magnitude by quake.
    pub(crate) quakes: BTreeMap<String, (String, i64)>,
    /// Region, magnitude, quake: the order in which the strongest of a region comes last.
    pub(crate) by_strength: BTreeSet<(String, i64, String)>,
    /// Magnitude by quake.
    pub(crate) alerts: BTreeMap<String, i64>,
}

/// The energy that a quake radiates, by Gutenberg and Richter's relation of 1956, rounded to whole
/// joules: sums of whole numbers do not depend on the order in which quakes arrive, and taking a
/// revised quake's old share out again leaves nothing behind.
pub(crate) fn energy_j(magnitude: i64) -> u128 {
    10_f64.powf(1.5 * (magnitude as f64 / 100.0) + 4.8).round() as u128
}

/// The state after every quake was counted once, with the magnitude of its last revision.
pub(crate) fn single_pass(quakes: &[Quake]) -> State {
    let mut state = State::default();
    for quake in quakes {
        let (key, magnitude) = (quake.key().to_owned(), quake.magnitude());
        let region = state
            .regions
            .entry(quake.region.clone())
            .or_insert(Region { strongest: magnitude, ..Region::default() });
        region.quakes += 1;
        region.strongest = region.strongest.max(magnitude);
        region.energy_j += energy_j(magnitude);
        if magnitude >= ALERT_FROM {
            state.alerts.insert(key.clone(), magnitude);
        }
        state.by_strength.insert((quake.region.clone(), magnitude, key.clone()));
        state.quakes.insert(key, (quake.region.clone(), magnitude));
    }
    state
}

/// What stands in one state and not in the other, a line each.
pub(crate) fn differences(expected: &State, found: &State) -> Vec<String> {
    let mut lines = Vec::new();
    compare("region", &expected.regions, &found.regions, &mut lines);
    compare("quake", &expected.quakes, &found.quakes, &mut lines);
    compare("alert", &expected.alerts, &found.alerts, &mut lines);
    for row in expected.by_strength.symmetric_difference(&found.by_strength) {
        let side = if expected.by_strength.contains(row) { "missing" } else { "too many" };
        lines.push(format!("by strength: {row:?} is {side}"));
    }
    lines
}

fn compare<V: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &BTreeMap<String, V>,
    found: &BTreeMap<String, V>,
    lines: &mut Vec<String>,
) {
    let extra = found.keys().filter(|key| !expected.contains_key(*key));
    for key in expected.keys().chain(extra) {
        let (want, have) = (expected.get(key), found.get(key));
        if want != have {
            lines.push(format!("{what} {key}: expected {want:?}, found {have:?}"));
        }
    }
}

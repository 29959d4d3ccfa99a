//! txinbox against the others: ratios of figures, and pauses beside those of the bare syncs.
//!
//! A ratio is given twice: as the median of the ratios between windows of one round, since what slows the machine down
//! slows all engines of a round down; and as the ratio of the medians that the table shows.

use serde::Serialize;

use super::Row;
use crate::engine::is_control;
use crate::protocol::Sample;

const OURS: &str = "txinbox";

/// One figure of txinbox over that of another row.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub workload: &'static str,
    pub figure: &'static str,
    /// The engine, or the other workload of txinbox, that it is compared with.
    pub over: String,
    pub best_peer: bool,
    pub by_round: f64,
    /// In ascending order.
    pub rounds: Vec<f64>,
    pub of_medians: f64,
}

/// The longest pause of a workload beside that of a bare sync in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Pause {
    pub workload: &'static str,
    pub max_us: f64,
    pub control: String,
    pub control_max_us: f64,
    pub above_control_us: f64,
}

/// A figure of a window.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    of: fn(&Sample) -> f64,
}

const EVENTS_PER_S: Figure = Figure { name: "events_per_s", of: |sample| sample.events_per_s };
const P50: Figure = Figure { name: "p50_us", of: |sample| sample.p50_us };
const P999: Figure = Figure { name: "p999_us", of: |sample| sample.p999_us };

/// The ratios of one figure in each round, in ascending order.
fn rounds(above: &Row, below: &Row, figure: Figure) -> Vec<f64> {
    let rounds = above.windows.iter().zip(&below.windows);
    let mut ratios: Vec<_> =
        rounds.map(|(above, below)| (figure.of)(above) / (figure.of)(below)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn middle(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How many times the events a second of `below` those of `above` are, by rounds.
pub fn multiple(above: &Row, below: &Row) -> f64 {
    middle(&rounds(above, below, EVENTS_PER_S))
}

/// The engine with the most events a second, ours and the controls left out.
pub fn best_peer<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<&'r Row> {
    rows.filter(|row| row.engine != OURS && !is_control(&row.engine))
        .max_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s))
}

impl Ratio {
    fn new(ours: &Row, other: &Row, figure: Figure) -> Self {
        let rounds = rounds(ours, other, figure);
        let over = if other.engine == OURS { other.workload } else { &other.engine };
        Self {
            workload: ours.workload,
            figure: figure.name,
            over: over.to_owned(),
            best_peer: false,
            by_round: hundredth(middle(&rounds)),
            of_medians: hundredth((figure.of)(&ours.sample) / (figure.of)(&other.sample)),
            rounds: rounds.into_iter().map(hundredth).collect(),
        }
    }
}

/// All ratios: events a second over each peer, the median call over each control's, and p99.9 of `busy` over `calm`.
pub fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for ours in rows.iter().filter(|row| row.engine == OURS) {
        let others = || others(rows, ours);
        let best = best_peer(others()).map(|best| best.engine.as_str());
        for other in others() {
            let figure = if is_control(&other.engine) { P50 } else { EVENTS_PER_S };
            let ratio = Ratio::new(ours, other, figure);
            let best_peer = best == Some(other.engine.as_str());
            ratios.push(Ratio { best_peer, ..ratio });
        }
        let calm = rows.iter().find(|row| row.engine == OURS && row.workload == "calm");
        if let ("busy", Some(calm)) = (ours.workload, calm) {
            ratios.push(Ratio::new(ours, calm, P999));
        }
    }
    ratios
}

/// The pauses of every workload in which a control took part.
pub fn pauses(rows: &[Row]) -> Vec<Pause> {
    let mut pauses = Vec::new();
    for ours in rows.iter().filter(|row| row.engine == OURS) {
        for control in others(rows, ours).filter(|row| is_control(&row.engine)) {
            pauses.push(Pause {
                workload: ours.workload,
                max_us: ours.max_us,
                control: control.engine.clone(),
                control_max_us: control.max_us,
                above_control_us: super::tenth(ours.max_us - control.max_us),
            });
        }
    }
    pauses
}

fn others<'r>(rows: &'r [Row], ours: &'r Row) -> impl Iterator<Item = &'r Row> {
    rows.iter().filter(move |row| row.workload == ours.workload && row.engine != OURS)
}

fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The lines below the table.
pub fn render(rows: &[Row]) -> String {
    let mut text = format!(
        "\n{OURS} over the others: median of the ratios of each round (extremes), ratio of the medians\n"
    );
    for ratio in ratios(rows) {
        let (least, most) = (ratio.rounds.first(), ratio.rounds.last());
        text.push_str(&format!(
            "{:<16} {:<12} {:>8.2} ({:.2}-{:.2}) {:>8.2}  x {}{}\n",
            ratio.workload,
            ratio.figure,
            ratio.by_round,
            least.copied().unwrap_or(f64::NAN),
            most.copied().unwrap_or(f64::NAN),
            ratio.of_medians,
            ratio.over,
            if ratio.best_peer { " (best peer)" } else { "" },
        ));
    }
    text.push_str(&format!(
        "\nlongest pause of {OURS}, less that of a bare sync in the same run\n"
    ));
    for Pause { workload, max_us, control, control_max_us, above_control_us } in pauses(rows) {
        let [ours, bare, above] = [max_us, control_max_us, above_control_us].map(|us| us / 1000.0);
        text.push_str(&format!(
            "{workload:<16} {ours:>8.1} ms - {bare:.1} ms ({control}) = {above:+.1} ms\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    fn row(engine: &str, workload: &str, events_per_s: [f64; 3], max_us: f64) -> Option<Row> {
        let sample = |events_per_s| Sample { events_per_s, max_us, ..Sample::default() };
        let workload = workload::by_name(workload).ok()?;
        Row::new(engine, "1", &workload, 1, events_per_s.map(sample).to_vec())
    }

    #[test]
    fn ratios_are_taken_by_round_and_of_medians() {
        // The machine was half as fast in the second round, for everybody.
        let rows: Vec<_> = [
            row("txinbox", "g1", [40.0, 20.0, 44.0], 30_000.0),
            row("sqlite", "g1", [10.0, 5.0, 11.0], 0.0),
            row("fjall", "g1", [20.0, 10.0, 20.0], 0.0),
            row("sync", "g1", [1000.0; 3], 10_000.0),
        ]
        .into_iter()
        .flatten()
        .collect();
        let ratios = ratios(&rows);
        let of = |over: &str| ratios.iter().find(|ratio| ratio.over == over);
        assert!(of("sqlite").is_some_and(|r| r.by_round == 4.0 && !r.best_peer));
        assert!(of("fjall").is_some_and(|r| r.rounds == [2.0, 2.0, 2.2] && r.best_peer));
        assert!(of("fjall").is_some_and(|r| r.of_medians == 2.0));
        assert!(of("sync").is_some_and(|r| r.figure == "p50_us" && !r.best_peer));
        assert_eq!(pauses(&rows).first().map(|pause| pause.above_control_us), Some(20_000.0));
    }
}

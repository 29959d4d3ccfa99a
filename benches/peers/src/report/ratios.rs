//! txinbox against the others: medians of the ratios between windows of one round, since what slows the machine down
//! slows all engines of a round down.

use super::Row;
use crate::engine::is_control;
use crate::protocol::Sample;

const OURS: &str = "txinbox";

/// The ratios of one figure in each round, in ascending order.
pub struct Ratios(Vec<f64>);

impl Ratios {
    /// The figure of `above` over that of `below`, round by round.
    pub fn between(above: &Row, below: &Row, figure: impl Fn(&Sample) -> f64) -> Self {
        let rounds = above.windows.iter().zip(&below.windows);
        let mut ratios: Vec<_> =
            rounds.map(|(above, below)| figure(above) / figure(below)).collect();
        ratios.sort_by(f64::total_cmp);
        Self(ratios)
    }

    pub fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl std::fmt::Display for Ratios {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = |end: Option<&f64>| end.copied().unwrap_or(f64::NAN);
        write!(f, "{:.2}", self.median())?;
        write!(f, " ({:.2}-{:.2})", end(self.0.first()), end(self.0.last()))
    }
}

/// The engine with the most events a second, ours and the controls left out.
pub fn best_peer<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<&'r Row> {
    rows.filter(|row| row.engine != OURS && !is_control(&row.engine))
        .max_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s))
}

pub fn render(rows: &[Row]) -> String {
    let mut text =
        format!("\n{OURS} against the others: median (and extremes) of the ratios in each round\n");
    for ours in rows.iter().filter(|row| row.engine == OURS) {
        let others =
            || rows.iter().filter(move |row| row.workload == ours.workload && row.engine != OURS);
        let mut parts = Vec::new();
        let best = best_peer(others());
        for peer in others().filter(|row| !is_control(&row.engine)) {
            let ratio = Ratios::between(ours, peer, |sample| sample.events_per_s);
            let mark = best.is_some_and(|best| best.engine == peer.engine);
            parts.push(format!(
                "{ratio} x {}{}",
                peer.engine,
                if mark { " (best peer)" } else { "" }
            ));
        }
        for control in others().filter(|row| is_control(&row.engine)) {
            let p50 = Ratios::between(ours, control, |sample| sample.p50_us);
            let pause = (ours.max_us - control.max_us) / 1000.0;
            parts.push(format!("p50 {p50} x {}, longest pause {pause:+.1} ms", control.engine));
        }
        if let Some(calm) = calm_twin(rows, ours) {
            let p999 = Ratios::between(ours, calm, |sample| sample.p999_us);
            parts.push(format!("p99.9 {p999} x {}", calm.workload));
        }
        if !parts.is_empty() {
            text.push_str(&format!("{:<16} {}\n", ours.workload, parts.join("; ")));
        }
    }
    text
}

/// The row in which upkeep rests, to one in which it never ends.
fn calm_twin<'r>(rows: &'r [Row], busy: &Row) -> Option<&'r Row> {
    let group = busy.workload.strip_prefix("busy-")?;
    rows.iter()
        .find(|row| row.engine == busy.engine && row.workload.strip_prefix("calm-") == Some(group))
}

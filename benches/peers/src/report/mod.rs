//! The figures of a run, and the forms they are given out in.

pub mod ratios;
pub mod svg;
pub mod table;

use anyhow::Result;
use serde::Serialize;

use crate::machine::Machine;
use crate::protocol::Sample;
use crate::workload::Workload;

/// One engine under one workload: the median window.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub engine: String,
    pub version: String,
    pub workload: &'static str,
    pub claims: u64,
    pub group: usize,
    pub threads: usize,
    pub events_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub written_bytes_per_event: f64,
    pub disk_bytes: u64,
    pub rss_bytes: u64,
    /// The median window, for the table.
    #[serde(skip)]
    pub sample: Sample,
    /// All windows in turn, for ratios between windows of one round.
    #[serde(skip)]
    pub windows: Vec<Sample>,
}

impl Row {
    pub fn new(
        engine: &str,
        version: &str,
        workload: &Workload,
        claims: u64,
        windows: Vec<Sample>,
    ) -> Option<Self> {
        let sample = median(&windows)?;
        Some(Self {
            engine: engine.to_owned(),
            version: version.to_owned(),
            workload: workload.name,
            claims,
            group: workload.group,
            threads: workload.threads,
            events_per_s: tenth(sample.events_per_s),
            p50_us: tenth(sample.p50_us),
            p99_us: tenth(sample.p99_us),
            p999_us: tenth(sample.p999_us),
            max_us: tenth(sample.max_us),
            written_bytes_per_event: tenth(sample.written_bytes_per_event),
            disk_bytes: sample.disk_bytes,
            rss_bytes: sample.rss_bytes,
            sample,
            windows,
        })
    }
}

/// The window with the median throughput, with the worst pause of all windows.
fn median(windows: &[Sample]) -> Option<Sample> {
    let mut sorted = windows.to_vec();
    sorted.sort_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s));
    let worst = sorted.iter().map(|sample| sample.max_us).fold(0.0, f64::max);
    sorted.get(sorted.len() / 2).map(|sample| Sample { max_us: worst, ..*sample })
}

/// One line a row, so that two runs compare by line.
pub fn json(rows: &[Row], machine: &Machine) -> Result<String> {
    let (caption, command) =
        (serde_json::to_string(&machine.caption())?, serde_json::to_string(&machine.command)?);
    Ok(format!(
        "{{\n\"machine\": {caption},\n\"command\": {command},\n\"rows\": {},\n\"ratios\": {},\n\"pauses\": {}\n}}\n",
        lines(rows)?,
        lines(&ratios::ratios(rows))?,
        lines(&ratios::pauses(rows))?,
    ))
}

fn lines(items: &[impl Serialize]) -> Result<String> {
    let lines: Vec<_> = items.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(format!("[\n{}\n]", lines.join(",\n")))
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A whole number with its digits grouped: 1,234,567.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        let texts = [0.0, 999.4, 1000.0, 123_456.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }
}

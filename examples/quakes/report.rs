//! What the example shows: progress while it runs, a table at its end, or one line of JSON.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr};

use super::feed::POLLS;
use super::plain::State;

/// Regions that the table shows one by one.
const ROWS: usize = 12;

/// Of this run, over both consumers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) deliveries: u64,
    pub(crate) applied: u64,
    pub(crate) duplicates: u64,
    pub(crate) mismatches: u64,
    /// Alert rows that this run added, less those that a revision took away again.
    pub(crate) alerts: i64,
}

/// One line that is written over and over on a terminal; a line for each day of the feed elsewhere.
pub(crate) fn progress(poll: i64, now_ms: i64, counters: &Counters) {
    let mut err = stderr().lock();
    let terminal = err.is_terminal();
    let last = poll + 1 == POLLS;
    if !terminal && poll % 24 != 0 && !last {
        return;
    }
    let (start, end) = match (terminal, last) {
        (true, true) => ("\r", "\x1b[K\n"),
        (true, false) => ("\r", "\x1b[K"),
        (false, _) => ("", "\n"),
    };
    // Progress is a courtesy: a closed terminal must not stop the work.
    let _ = write!(
        err,
        "{start}poll {:3} of {POLLS}, {}: {} deliveries, {} applied, {} duplicates{end}",
        poll + 1,
        day_and_hour(now_ms),
        grouped(counters.deliveries),
        grouped(counters.applied),
        grouped(counters.duplicates),
    );
    let _ = err.flush();
}

/// The closing line for programs.
pub(crate) fn json(counters: &Counters, ok: bool) -> String {
    let Counters { deliveries, applied, duplicates, mismatches, alerts } = counters;
    let check = if ok { "ok" } else { "failed" };
    format!(
        "{{\"deliveries\":{deliveries},\"applied\":{applied},\"duplicates\":{duplicates},\
         \"mismatches\":{mismatches},\"alerts\":{alerts},\"check\":\"{check}\"}}"
    )
}

/// The closing table for people.
pub(crate) fn table(state: &State, counters: &Counters, differences: &[String]) -> String {
    let mut regions: Vec<_> = state.regions.iter().collect();
    regions.sort_by(|a, b| b.1.energy_j.cmp(&a.1.energy_j).then(a.0.cmp(b.0)));

    let mut out = String::from("\n");
    row(&mut out, "region", "quakes", "strongest", "energy (J)");
    row(&mut out, &"-".repeat(32), "------", "---------", "----------");
    for (name, region) in regions.iter().take(ROWS) {
        let strongest = magnitude(region.strongest);
        row(&mut out, name, &grouped(region.quakes), &strongest, &scientific(region.energy_j));
    }
    if let Some(rest) = regions.get(ROWS..).filter(|rest| !rest.is_empty()) {
        let name = format!("{} more regions", rest.len());
        let quakes = rest.iter().map(|(_, r)| r.quakes).sum();
        let strongest = rest.iter().map(|(_, r)| r.strongest).max().unwrap_or(0);
        let energy = rest.iter().map(|(_, r)| r.energy_j).sum();
        row(&mut out, &name, &grouped(quakes), &magnitude(strongest), &scientific(energy));
    }

    let lines = [
        ("quakes in the store", state.quakes.len() as u64),
        ("alerts in the store (magnitude 5 or more)", state.alerts.len() as u64),
        ("deliveries in this run, to two consumers", counters.deliveries),
        ("  applied", counters.applied),
        ("  duplicates, which changed nothing", counters.duplicates),
        ("  mismatches", counters.mismatches),
    ];
    out.push('\n');
    for (name, number) in lines {
        let _ = writeln!(out, "{name:<46} {:>15}", grouped(number));
    }
    if counters.applied == 0 {
        out.push_str("\nAn earlier run had handled everything; this one applied nothing.\n");
    }
    out.push_str(if differences.is_empty() {
        "\nThe state equals that of a single pass over the file.\n"
    } else {
        "\nThe state DIFFERS from that of a single pass over the file.\n"
    });
    out
}

fn row(out: &mut String, region: &str, quakes: &str, strongest: &str, energy: &str) {
    let _ = writeln!(out, "{region:<32} {quakes:>6}  {strongest:>9}  {energy:>10}");
}

fn magnitude(hundredths: i64) -> String {
    format!("{:.2}", hundredths as f64 / 100.0)
}

fn scientific(joules: u128) -> String {
    format!("{:.2e}", joules as f64)
}

/// 12345 as 12,345.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Milliseconds since 1970 as a day and hour in UTC, by Howard Hinnant's `civil_from_days`.
fn day_and_hour(ms: i64) -> String {
    let hours = ms.div_euclid(3_600_000);
    let days = hours.div_euclid(24) + 719_468;
    let era_day = days.rem_euclid(146_097);
    let era_year = (era_day - era_day / 1_460 + era_day / 36_524 - era_day / 146_096) / 365;
    let year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    let month = (5 * year_day + 2) / 153;
    let day = year_day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era_year + days.div_euclid(146_097) * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}h", hours.rem_euclid(24))
}

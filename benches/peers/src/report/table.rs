//! The table on standard output.

use super::{Row, grouped};
use crate::machine::Machine;

const COLUMNS: usize = 13;
const HEAD: [&str; COLUMNS] = [
    "workload",
    "engine",
    "version",
    "events/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "written B/event",
    "device B/event",
    "disk MiB",
    "rss MiB",
    "syncs/group",
];

pub fn render(rows: &[Row], machine: &Machine) -> String {
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let widths: Vec<_> = (0..COLUMNS)
        .map(|column| {
            let widest = cells.iter().filter_map(|row| row.get(column)).map(String::len).max();
            widest.unwrap_or(0).max(HEAD.get(column).map_or(0, |head| head.len()))
        })
        .collect();
    let mut text = line(&HEAD.map(str::to_owned), &widths);
    let mut previous = "";
    for (row, cells) in rows.iter().zip(&cells) {
        if row.workload != previous {
            text.push('\n');
            previous = row.workload;
        }
        text.push_str(&line(cells, &widths));
    }
    format!("{text}\n{NOTES}\n{}\n{}\n", machine.caption(), machine.command)
}

const NOTES: &str = "\
Latencies are of one call: a group, or one event of a thread; max: the worst of all windows.
written: passed to write calls, background work included. ~: seen by the device from the whole machine, an upper bound.
syncs/group: counted in the engine, or (~) cache flushes of the device per group, where the engine cannot be asked.";

fn cells(row: &Row) -> [String; COLUMNS] {
    let mib = |bytes: u64| grouped(bytes as f64 / f64::from(1 << 20));
    let device = row.sample.device_bytes_per_event;
    [
        row.workload.to_owned(),
        row.engine.clone(),
        row.version.clone(),
        grouped(row.events_per_s),
        format!("{:.1}", row.p50_us),
        format!("{:.1}", row.p99_us),
        format!("{:.1}", row.p999_us),
        grouped(row.max_us),
        grouped(row.written_bytes_per_event),
        device.map_or_else(|| "?".to_owned(), |bytes| format!("~{}", grouped(bytes))),
        mib(row.disk_bytes),
        mib(row.rss_bytes),
        syncs(row),
    ]
}

fn syncs(row: &Row) -> String {
    match (row.sample.commits, row.sample.syncs, row.sample.device_flushes) {
        (Some(0), ..) | (None, None, _) => "-".to_owned(),
        (Some(groups), Some(syncs), _) => format!("{:.2}", syncs as f64 / groups as f64),
        (Some(groups), None, Some(flushes)) => format!("~{:.2}", flushes as f64 / groups as f64),
        (Some(_), None, None) => "?".to_owned(),
        (None, Some(syncs), _) => format!("{syncs} in all"),
    }
}

/// The first three columns are words, the others numbers.
fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        if column < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    let mut text = padded.collect::<Vec<_>>().join("  ").trim_end().to_owned();
    text.push('\n');
    text
}

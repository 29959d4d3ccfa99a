//! The drawing: one panel a workload, one bar an engine, each panel with its own linear axis from zero.

use super::{Row, grouped};
use crate::machine::Machine;
use crate::workload::Workload;

const WIDTH: usize = 1040;
const MARGIN: usize = 24;
const COLUMNS: usize = 2;
const PANEL: usize = (WIDTH - 3 * MARGIN) / COLUMNS;
const LABEL: usize = 66;
const BAR_ROOM: usize = 205;
const BAR: usize = 16;
const STEP: usize = 23;
const TITLE: usize = 38;
const HEADER: usize = 74;
const FOOTER: usize = 74;
const STYLE: &str = "\
<style>
  text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12px; fill: #24292f; }
  .head { font-size: 17px; font-weight: 600; }
  .title { font-size: 13px; font-weight: 600; }
  .note { font-size: 11px; fill: #57606a; }
  .value { font-variant-numeric: tabular-nums; }
</style>
";

pub fn render(rows: &[Row], workloads: &[Workload], machine: &Machine) -> String {
    let panels: Vec<(&Workload, Vec<&Row>)> = workloads
        .iter()
        .map(|workload| {
            (workload, rows.iter().filter(|row| row.workload == workload.name).collect())
        })
        .collect();
    let mut body = String::new();
    let mut top = HEADER;
    for pair in panels.chunks(COLUMNS) {
        for (column, (workload, rows)) in pair.iter().enumerate() {
            body.push_str(&panel(MARGIN + column * (PANEL + MARGIN), top, workload, rows));
        }
        top += pair.iter().map(|(_, rows)| TITLE + rows.len() * STEP).max().unwrap_or(0) + MARGIN;
    }
    let height = top + FOOTER;
    let claims = rows.first().map_or(0.0, |row| row.claims as f64);
    let head = format!("Durable events per second with {} claims retained", grouped(claims));
    let note = "16-byte random ids, 5 % duplicates of any retained claim, a counter a new event, synced before the \
                answer; longer is better, every panel has its own scale";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{}\">\n{STYLE}\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}{}{body}{}{}</svg>\n",
        escape(&head),
        text(MARGIN, 32, "head", &head),
        text(MARGIN, 53, "note", note),
        text(MARGIN, top + 20, "note", &machine.caption()),
        text(MARGIN, top + 38, "note", &machine.command),
    )
}

fn panel(left: usize, top: usize, workload: &Workload, rows: &[&Row]) -> String {
    let most = rows.iter().map(|row| row.events_per_s).fold(1.0, f64::max);
    let mut out = text(left, top + 14, "title", &format!("{}: {}", workload.name, workload.title));
    let axis = left + LABEL;
    let bottom = top + TITLE - 10 + rows.len() * STEP - (STEP - BAR) + 3;
    out.push_str(&format!(
        "<line x1=\"{axis}\" y1=\"{}\" x2=\"{axis}\" y2=\"{bottom}\" stroke=\"#8c959f\"/>\n",
        top + TITLE - 13
    ));
    for (place, row) in rows.iter().enumerate() {
        let y = top + TITLE - 10 + place * STEP;
        let length = (row.events_per_s / most * BAR_ROOM as f64).max(1.0);
        let values = format!(
            "{}/s · p50 {} · p99 {}",
            grouped(row.events_per_s),
            duration(row.p50_us),
            duration(row.p99_us)
        );
        out.push_str(&text(left, y + 12, "label", &row.engine));
        out.push_str(&format!(
            "<rect x=\"{axis}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{}\"/>\n",
            colour(&row.engine)
        ));
        out.push_str(&format!(
            "<text class=\"note value\" x=\"{:.1}\" y=\"{}\">{values}</text>\n",
            axis as f64 + length + 6.0,
            y + 12
        ));
    }
    out
}

/// Ours stands out; the peers keep their colour in every panel.
fn colour(engine: &str) -> &'static str {
    match engine {
        "txinbox" => "#d1490c",
        "sqlite" => "#3b6ea5",
        "fjall" => "#4f8f6b",
        "rocksdb" => "#8a6fb0",
        "lmdb" => "#b59a3c",
        "redb" => "#7d8590",
        _ => "#c9d1d9",
    }
}

/// Microseconds in the unit that reads best.
fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1000.0 => format!("{us:.0} µs"),
        us if us < 10_000.0 => format!("{:.1} ms", us / 1000.0),
        us => format!("{:.0} ms", us / 1000.0),
    }
}

fn text(x: usize, y: usize, class: &str, content: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(content))
}

fn escape(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! The drawing: one panel a workload, one bar an engine, in multiples of the best peer's events per second. Every panel
//! has its own linear scale from zero; a dashed line marks the best peer. Colours follow the reader's light or dark
//! scheme.

use super::ratios::{best_peer, multiple};
use super::{Row, grouped};
use crate::engine::is_control;
use crate::machine::Machine;
use crate::workload::Workload;

const WIDTH: usize = 1000;
const MARGIN: usize = 32;
const GAP: usize = 44;
const COLUMNS: usize = 2;
const PANEL: usize = (WIDTH - 2 * MARGIN - GAP) / COLUMNS;
/// Room for the engine's name, and for the figures behind its bar.
const LABEL: usize = 70;
const FIGURES: usize = 150;
const BAR: usize = 15;
const STEP: usize = 22;
const HEADER: usize = 96;
const PANEL_TITLE: usize = 30;
const PANEL_GAP: usize = 30;
const LINE: usize = 16;
/// Characters of a footer's line.
const FOOTER_CHARS: usize = 150;
const STYLE: &str = "\
<style>
  svg { color-scheme: light dark; }
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2933; }
  text { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }
  .back { fill: #ffffff; stroke: #dde3ea; }
  .head { font-size: 20px; font-weight: 600; }
  .title { font-size: 13.5px; font-weight: 600; }
  .note { font-size: 11px; fill: #5a6775; }
  .name { text-anchor: end; }
  .ours { font-weight: 700; }
  .bar { fill: #b4bfca; }
  .bar.best { fill: #73849a; }
  .bar.ours { fill: #d9480f; }
  .axis { stroke: #c3ccd6; }
  .best-line { stroke: #73849a; stroke-dasharray: 3 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e9ef; stroke: #12171d; }
    .back { fill: #12171d; stroke: #2b343e; }
    .note { fill: #98a5b3; }
    .bar { fill: #46525f; }
    .bar.best { fill: #7d90a6; }
    .bar.ours { fill: #ff8142; }
    .axis { stroke: #3a4551; }
    .best-line { stroke: #7d90a6; }
  }
</style>
";

/// The rows of one workload, in multiples of its best peer.
struct Panel<'r> {
    workload: &'r Workload,
    best: &'r Row,
    bars: Vec<(&'r Row, f64)>,
}

impl<'r> Panel<'r> {
    /// None where there is no peer to compare with, or events come at a pace, so that all keep up alike.
    fn new(workload: &'r Workload, rows: &'r [Row]) -> Option<Self> {
        if workload.groups_per_s.is_some() {
            return None;
        }
        let of_workload = || {
            rows.iter().filter(move |row| row.workload == workload.name && !is_control(&row.engine))
        };
        let best = best_peer(of_workload())?;
        let bars = of_workload().map(|row| (row, multiple(row, best))).collect();
        Some(Self { workload, best, bars })
    }

    fn height(&self) -> usize {
        PANEL_TITLE + self.bars.len() * STEP
    }

    fn draw(&self, left: usize, top: usize) -> String {
        let longest = self.bars.iter().map(|(_, times)| *times).fold(1.0, f64::max);
        let unit = (PANEL - LABEL - FIGURES) as f64 / longest;
        let (axis, bars_top) = (left + LABEL, top + PANEL_TITLE - 8);
        let bottom = bars_top + self.bars.len() * STEP - (STEP - BAR) + 4;
        let mut out = text(left, top + 10, "title", self.workload.title);
        // Before the figures, which may lie on the dashed line.
        for (class, x) in [("axis", axis as f64), ("best-line", axis as f64 + unit)] {
            out.push_str(&format!(
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\n",
                bars_top - 4
            ));
        }
        for (place, (row, times)) in self.bars.iter().enumerate() {
            let y = bars_top + place * STEP;
            let class = match row.engine.as_str() {
                "txinbox" => " ours",
                name if name == self.best.engine => " best",
                _ => "",
            };
            let length = (times * unit).max(1.0);
            out.push_str(&text(axis - 8, y + 12, &format!("name{class}"), &row.engine));
            out.push_str(&format!(
                "<rect class=\"bar{class}\" x=\"{axis}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>\n\
                 <text x=\"{:.1}\" y=\"{}\"><tspan class=\"figure{class}\">{}×</tspan>\
                 <tspan class=\"note\" dx=\"7\">{}/s</tspan></text>\n",
                axis as f64 + length + 7.0,
                y + 12,
                rounded(*times),
                grouped(row.events_per_s),
            ));
        }
        out
    }
}

pub fn render(rows: &[Row], workloads: &[Workload], machine: &Machine) -> String {
    let panels: Vec<_> =
        workloads.iter().filter_map(|workload| Panel::new(workload, rows)).collect();
    let mut body = String::new();
    let mut top = HEADER;
    for pair in panels.chunks(COLUMNS) {
        for (column, panel) in pair.iter().enumerate() {
            body.push_str(&panel.draw(MARGIN + column * (PANEL + GAP), top));
        }
        top += pair.iter().map(Panel::height).max().unwrap_or(0) + PANEL_GAP;
    }
    let footer = [wrap(&machine.caption()), wrap(&machine.command)].concat();
    for line in &footer {
        body.push_str(&text(MARGIN, top, "note", line));
        top += LINE;
    }
    let claims = rows.first().map_or(0.0, |row| row.claims as f64);
    let head = format!("Events handled once and durably, {} claims retained", grouped(claims));
    let notes = [
        "Multiples of the best peer's events per second (dashed line; medians over the rounds of one run). \
         Longer is better; each panel has its own scale.",
        "16-byte random ids, 5 % repeats of any retained claim, each new event adds one to a counter, synced before \
         its answer. One caller unless said otherwise.",
    ];
    let (width, height) = (WIDTH - 1, top + 3);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" width=\"{WIDTH}\" height=\"{0}\" \
         role=\"img\" aria-label=\"{1}\">\n{STYLE}\
         <rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n{2}{3}{4}{body}</svg>\n",
        height + 1,
        escape(&head),
        text(MARGIN, 38, "head", &head),
        text(MARGIN, 58, "note", notes[0]),
        text(MARGIN, 58 + LINE, "note", notes[1]),
    )
}

/// Enough digits to tell 0.04 from 0.08, no more than are meant.
fn rounded(times: f64) -> String {
    match times {
        times if times < 0.095 => format!("{times:.2}"),
        times if times < 9.95 => format!("{times:.1}"),
        times => format!("{times:.0}"),
    }
}

/// Breaks at spaces.
fn wrap(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        if let Some(last) = lines.last_mut()
            && (last.is_empty() || last.len() + word.len() < FOOTER_CHARS)
        {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
            continue;
        }
        lines.push(word.to_owned());
    }
    lines
}

fn text(x: usize, y: usize, class: &str, content: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(content))
}

fn escape(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

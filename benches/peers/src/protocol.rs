//! What parent and child say to each other: one JSON value a line, one answer to each request.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Load the claims and counters.
    Load,
    /// Run one window of a workload; one that warms up need not contain the engine's periodic work.
    Window { workload: String, seconds: f64, warm_up: bool },
    /// Compare the counters with what was applied.
    Verify,
    /// Close the store and end.
    Quit,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Response {
    Done,
    Opened { version: String },
    Measured(Sample),
    Failed(String),
}

/// One window of one engine.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    pub events_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub written_bytes_per_event: f64,
    pub disk_bytes: u64,
    pub rss_bytes: u64,
    /// Groups that held something new; none where the engine groups by itself.
    pub commits: Option<u64>,
    /// Syncs that the engine issued, where they can be counted.
    pub syncs: Option<u64>,
    /// Flushes and bytes an event that the device saw from the whole machine.
    pub device_flushes: Option<u64>,
    pub device_bytes_per_event: Option<f64>,
}

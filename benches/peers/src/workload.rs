//! The workloads: how events are grouped, who calls, and what an event changes.

use anyhow::{Result, bail};

/// Counters that the ordinary workloads spread over.
pub const NARROW: u64 = 10_000;
/// Counters that `wide` spreads over; their keys start at [`WIDE_START`].
pub const WIDE: u64 = 2_000_000;
pub const WIDE_START: u64 = 1 << 32;

/// Where a duplicate's first delivery is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The newest 10,000 claims.
    Recent,
    /// The older half of the retained claims.
    Sealed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 95 % new events that add one to a counter, 5 % duplicates of any retained claim.
    Mixed { first_counter: u64, counters: u64 },
    /// The same, but a new event changes nothing except its claim.
    ClaimsOnly,
    /// Nothing but duplicates.
    Duplicates(Age),
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub title: &'static str,
    pub group: usize,
    pub threads: usize,
    pub kind: Kind,
}

const MIXED: Kind = Kind::Mixed { first_counter: 0, counters: NARROW };

pub const ALL: [Workload; 9] = [
    one_caller("g1", "groups of 1, one caller", 1, MIXED),
    one_caller("g16", "groups of 16, one caller", 16, MIXED),
    one_caller("g100", "groups of 100, one caller", 100, MIXED),
    one_caller("g1000", "groups of 1000, one caller", 1000, MIXED),
    Workload {
        name: "t64",
        title: "64 threads, one event a call",
        group: 1,
        threads: 64,
        kind: MIXED,
    },
    one_caller(
        "dup-recent",
        "duplicates only, of the newest claims",
        1,
        Kind::Duplicates(Age::Recent),
    ),
    one_caller(
        "dup-sealed",
        "duplicates only, of the older half",
        1,
        Kind::Duplicates(Age::Sealed),
    ),
    one_caller("claims", "claims only, groups of 1000", 1000, Kind::ClaimsOnly),
    one_caller(
        "wide",
        "2 million counters, groups of 100",
        100,
        Kind::Mixed { first_counter: WIDE_START, counters: WIDE },
    ),
];

const fn one_caller(name: &'static str, title: &'static str, group: usize, kind: Kind) -> Workload {
    Workload { name, title, group, threads: 1, kind }
}

/// The named workloads in the order asked for; `dup` stands for both kinds of duplicates.
pub fn select(names: Option<&[String]>) -> Result<Vec<Workload>> {
    let Some(names) = names else {
        return Ok(ALL.to_vec());
    };
    let mut chosen = Vec::new();
    for name in names {
        let before = chosen.len();
        chosen.extend(
            ALL.iter().filter(|w| w.name == name || (name == "dup" && w.name.starts_with("dup-"))),
        );
        if chosen.len() == before {
            bail!("no workload {name}; there are {}", ALL.map(|w| w.name).join(", "));
        }
    }
    Ok(chosen)
}

pub fn by_name(name: &str) -> Result<Workload> {
    match ALL.iter().find(|w| w.name == name) {
        Some(workload) => Ok(*workload),
        None => bail!("no workload {name}"),
    }
}

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
    /// All retained claims but the newest million (or the newer half, if there are fewer than two million), which an
    /// engine may still hold in memory: of 20 million, mostly such as no processor's cache holds.
    Sealed,
}

/// What an engine's own work behind the events (sealing, merging, forgetting) does during a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing: whenever some has piled up, the window stands still until it is done.
    Rests,
    /// It never ends: retention is so short that a bucket's time comes all the time.
    NeverEnds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 95 % new events that add one to a counter, 5 % duplicates of any retained claim.
    Mixed { first_counter: u64, counters: u64 },
    /// The same, but a new event changes nothing except its claim.
    ClaimsOnly,
    /// Nothing but duplicates.
    Duplicates(Age),
    /// Nothing but new events, each adding one to one of the ordinary counters.
    New(Upkeep),
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub title: &'static str,
    pub group: usize,
    pub threads: usize,
    pub kind: Kind,
    /// Whether a caller may hand over its next group before it has the answers to the last, where the engine has a form
    /// for that.
    pub tickets: bool,
    /// Groups offered each second; none: the next one as soon as the last is answered.
    pub groups_per_s: Option<u32>,
}

const MIXED: Kind = Kind::Mixed { first_counter: 0, counters: NARROW };

const WIDE_MIXED: Kind = Kind::Mixed { first_counter: WIDE_START, counters: WIDE };

/// What `wide-paced` offers: 30,000 events a second.
const PACED_GROUPS_PER_S: u32 = 300;

#[rustfmt::skip]
pub const ALL: [Workload; 17] = [
    one_caller("g1", "one event a call", 1, MIXED),
    one_caller("g16", "groups of 16", 16, MIXED),
    one_caller("g64", "groups of 64", 64, MIXED),
    with_tickets(one_caller("g100", "groups of 100 (txinbox: two under way)", 100, MIXED)),
    one_caller("g100-call", "groups of 100, each waited for", 100, MIXED),
    with_tickets(one_caller("g1000", "groups of 1000 (txinbox: two under way)", 1000, MIXED)),
    one_caller("g1000-call", "groups of 1000, each waited for", 1000, MIXED),
    Workload { threads: 64, ..one_caller("t64", "64 threads, one event a call", 1, MIXED) },
    one_caller("claims", "claims only, no state, groups of 1000", 1000, Kind::ClaimsOnly),
    one_caller("dup-recent", "repeats of the newest claims, one a call", 1, Kind::Duplicates(Age::Recent)),
    one_caller("dup-recent-1000", "repeats of the newest claims, groups of 1000", 1000, Kind::Duplicates(Age::Recent)),
    one_caller("dup-sealed", "repeats of old claims, one a call", 1, Kind::Duplicates(Age::Sealed)),
    one_caller("dup-sealed-1000", "repeats of old claims, groups of 1000", 1000, Kind::Duplicates(Age::Sealed)),
    one_caller("wide", "2 million counters, groups of 100", 100, WIDE_MIXED),
    Workload { groups_per_s: Some(PACED_GROUPS_PER_S), ..one_caller("wide-paced", "2 million counters, 300 groups of 100 offered a second", 100, WIDE_MIXED) },
    one_caller("calm", "upkeep rests, groups of 100", 100, Kind::New(Upkeep::Rests)),
    one_caller("busy", "upkeep never ends, groups of 100", 100, Kind::New(Upkeep::NeverEnds)),
];

const fn one_caller(name: &'static str, title: &'static str, group: usize, kind: Kind) -> Workload {
    Workload { name, title, group, threads: 1, kind, tickets: false, groups_per_s: None }
}

const fn with_tickets(workload: Workload) -> Workload {
    Workload { tickets: true, ..workload }
}

/// Claims that duplicates are drawn from, counted from the newest: all that are retained but the oldest 13,000. Those
/// may be a little older than their number says, by the events under way and by one group of loading, and so may have
/// been forgotten already.
pub fn drawn_from(claims: u64) -> u64 {
    claims - (claims / 2).min(13_000)
}

/// The newest claims, which an engine may still hold in memory and has not sealed: a million, or half of all.
pub fn maybe_unsealed(claims: u64) -> u64 {
    (claims / 2).min(1_000_000)
}

impl Workload {
    /// Whether its events are new or mostly so: whether groups have to be made durable.
    pub fn writes(&self) -> bool {
        !matches!(self.kind, Kind::Duplicates(_))
    }

    pub fn is_wide(&self) -> bool {
        matches!(self.kind, Kind::Mixed { first_counter: WIDE_START, .. })
    }
}

/// The named workloads in the order asked for, those of nothing but new events last: what they leave behind is not
/// retained, so that no duplicate of it may be drawn. `dup` stands for all whose names begin so.
pub fn select(names: Option<&[String]>) -> Result<Vec<Workload>> {
    let Some(names) = names else {
        return Ok(ALL.to_vec());
    };
    let mut chosen: Vec<Workload> = Vec::new();
    for name in names {
        let before = chosen.len();
        chosen.extend(
            ALL.iter().filter(|w| w.name == name || (name == "dup" && w.name.starts_with("dup-"))),
        );
        if chosen.len() == before {
            bail!("no workload {name}; there are {}", ALL.map(|w| w.name).join(", "));
        }
    }
    chosen.sort_by_key(|workload| matches!(workload.kind, Kind::New(_)));
    Ok(chosen)
}

pub fn by_name(name: &str) -> Result<Workload> {
    match ALL.iter().find(|w| w.name == name) {
        Some(workload) => Ok(*workload),
        None => bail!("no workload {name}"),
    }
}

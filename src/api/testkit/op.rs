//! The steps of a driven run: what a property test, a fuzz target or a scripted workload consists of.
//!
//! Owns no behaviour. A step prints as the Rust expression that makes it, so that a failing run can be
//! pasted into a test.

use super::{Keep, Loss};

/// One delivery of a made-up event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Names the event.
    pub id: u16,
    /// Name its aliases.
    pub aliases: Vec<u16>,
    /// Its fingerprint, if repeats are compared.
    pub fingerprint: Option<u64>,
    /// Its own time, in milliseconds from [`WALL_MS`](super::WALL_MS).
    pub time_ms: Option<i64>,
    /// What its handler writes besides the consumer's counter: a key, and a value or a removal.
    pub writes: Vec<(u8, Option<u64>)>,
    /// How many bytes of result its handler leaves.
    pub result_bytes: Option<u16>,
    /// How its handler ends.
    pub end: End,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It succeeds.
    #[default]
    Ok,
    /// It turns the event down; the result's bytes say why.
    Refuse,
    /// It remembers nothing.
    Skip,
    /// It returns an error.
    Fail,
    /// It panics.
    Panic,
}

/// What goes wrong at a call of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The call fails.
    Error,
    /// It and every later call fail until the step is over.
    Errors,
    /// A read ends early.
    ShortRead(u16),
    /// A write ends early.
    ShortWrite(u16),
    /// The disk is full for one write or growth.
    Full,
    /// The disk is full until the step is over.
    Fulls,
    /// A sync fails and loses what was not synced.
    LostSync(Loss),
}

/// One step. Consumers are named by their place in [`CONSUMERS`](super::CONSUMERS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// One delivery.
    Process(u8, Item),
    /// Several in one call.
    Batch(u8, Vec<Item>),
    /// So many events that never came before, in one call.
    Fill(u8, u16),
    /// Forgetting by hand.
    Forget(u8, u16),
    /// All maintenance that is due.
    Sweep,
    /// Time passes.
    Advance(u64),
    /// The wall clock jumps.
    Wall(i64),
    /// The boot clock jumps.
    Boot(i64),
    /// Closing and opening again, with so many milliseconds between.
    Reopen(u64),
    /// The process dies and is started again.
    Kill,
    /// The power fails and comes back.
    PowerCut(Keep),
    /// The power fails at the n-th disk call of that step, if it makes so many.
    CrashIn(u64, Keep, Box<Op>),
    /// Something goes wrong at the n-th disk call of that step.
    TroubleIn(u64, Trouble, Box<Op>),
    /// A consumer gets a retention of so many seconds, if that is longer.
    Retain(u8, u16),
}

//! Numbers about what is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::error::Error;
use crate::engine::Engine;

/// What is stored for one destination of messages, and what happened to it since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestinationStats {
    /// Messages that are neither settled nor given up, as of the newest group.
    pub waiting: u64,
    /// Of those, how many are out with a relay.
    pub handed_out: u64,
    /// Age of the first of them, by the wall clock.
    pub oldest: Option<Duration>,
    /// Dead letters.
    pub dead_letters: u64,
    /// Messages of durable events.
    pub enqueued: u64,
    /// Messages sent by [rebuilds](crate::generation::Rebuild), which are not kept.
    pub muted: u64,
    /// Hand-outs, repeated ones included.
    pub deliveries: u64,
    /// Messages settled.
    pub acknowledged: u64,
    /// Attempts that failed, those without an answer included.
    pub failed: u64,
    /// Hand-outs that were not answered in time.
    pub overdue: u64,
    /// Messages given up as dead letters.
    pub died: u64,
    /// Messages given up without one.
    pub dropped: u64,
    /// Dead letters put back.
    pub requeued: u64,
    /// Messages and dead letters thrown away by hand.
    pub discarded: u64,
}

pub(super) fn all(engine: &Engine) -> Result<BTreeMap<String, DestinationStats>, Error> {
    let destinations = engine.registry.read().destinations.clone();
    let wall_ms = engine.clock.wall_ms();
    destinations
        .into_iter()
        .map(|(name, id)| {
            let (now, counters) = (engine.lane_counts(id)?, engine.counters.destination(id));
            let age = |wall_ms_then: i64| {
                let ms = u64::try_from(wall_ms.saturating_sub(wall_ms_then)).unwrap_or_default();
                Duration::from_millis(ms)
            };
            let stats = DestinationStats {
                waiting: now.waiting,
                handed_out: now.handed_out,
                oldest: now.oldest.map(|wall| age(wall.0)),
                dead_letters: now.dead,
                enqueued: counters.enqueued.get(),
                muted: counters.muted.get(),
                deliveries: counters.handed_out.get(),
                acknowledged: counters.acknowledged.get(),
                failed: counters.failed.get(),
                overdue: counters.overdue.get(),
                died: counters.dead.get(),
                dropped: counters.dropped.get(),
                requeued: counters.requeued.get(),
                discarded: counters.discarded.get(),
            };
            Ok((name, stats))
        })
        .collect()
}

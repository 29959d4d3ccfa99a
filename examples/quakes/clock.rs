//! A clock that shows the feed's time: a week passes in seconds, and retention counts that week.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use txinbox::Clock;

/// Set by the example at each poll; the store only reads it.
///
/// It never goes back. A run that starts over with the polls of last week is still a run *after*
/// last week: the clock waits where the store had got to until the feed catches up. Otherwise each
/// run would age all claims by another week, and after enough runs they would be forgotten while
/// the feed still delivers their events.
#[derive(Debug, Clone)]
pub(crate) struct FeedClock(Arc<Readings>);

#[derive(Debug)]
struct Readings {
    now_ms: AtomicI64,
    started_ms: AtomicI64,
    stopwatch: Instant,
}

impl FeedClock {
    #[allow(clippy::disallowed_methods)] // a clock of its own
    pub(crate) fn starting_at(now_ms: i64) -> Self {
        Self(Arc::new(Readings {
            now_ms: AtomicI64::new(now_ms),
            started_ms: AtomicI64::new(now_ms),
            stopwatch: Instant::now(),
        }))
    }

    /// Takes up where an earlier run had got to, as if no time had passed since.
    pub(crate) fn resume_at(&self, now_ms: i64) {
        self.0.now_ms.store(now_ms, Relaxed);
        self.0.started_ms.store(now_ms, Relaxed);
    }

    /// Follows the feed forward, and returns the time it shows then.
    pub(crate) fn follow(&self, feed_ms: i64) -> i64 {
        self.0.now_ms.fetch_max(feed_ms, Relaxed).max(feed_ms)
    }
}

impl Clock for FeedClock {
    fn wall_ms(&self) -> i64 {
        self.0.now_ms.load(Relaxed)
    }

    fn boot_ms(&self) -> u64 {
        let up = self.0.now_ms.load(Relaxed) - self.0.started_ms.load(Relaxed);
        u64::try_from(up).unwrap_or(0)
    }

    fn stopwatch_us(&self) -> u64 {
        u64::try_from(self.0.stopwatch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

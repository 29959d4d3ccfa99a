//! The one clock seam: wall time for people, boot time for retention, a stopwatch for budgets.
//!
//! What must hold: retention never counts by the wall clock (guarantee 8), so the two are separate
//! calls with separate units and nothing converts between them here.

use std::fmt::Debug;

/// The readings a store takes from the machine it runs on.
///
/// Every reading may lie: stand still, jump, go backwards. The store must stay safe all the same;
/// it documents what each lie can cost.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Milliseconds since 1970 by the wall clock; negative before.
    fn wall_ms(&self) -> i64;

    /// Milliseconds since the machine started, including sleep where the platform can tell.
    fn boot_ms(&self) -> u64;

    /// Microseconds on a stopwatch with an arbitrary start, for budgets and statistics.
    fn stopwatch_us(&self) -> u64;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn wall_ms(&self) -> i64 {
        (**self).wall_ms()
    }

    fn boot_ms(&self) -> u64 {
        (**self).boot_ms()
    }

    fn stopwatch_us(&self) -> u64 {
        (**self).stopwatch_us()
    }
}

/// The machine's own clocks.
#[derive(Debug)]
pub(crate) struct SystemClock {
    #[cfg(not(unix))]
    started: std::time::Instant,
}

impl SystemClock {
    #[cfg_attr(not(unix), allow(clippy::disallowed_methods))]
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(unix))]
            started: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the seam itself
    fn wall_ms(&self) -> i64 {
        use std::time::{SystemTime, UNIX_EPOCH};
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }

    fn boot_ms(&self) -> u64 {
        #[cfg(unix)]
        {
            millis(rustix::time::clock_gettime(boot_clock()))
        }
        #[cfg(not(unix))]
        {
            u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
        }
    }

    fn stopwatch_us(&self) -> u64 {
        #[cfg(unix)]
        {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let whole = u64::try_from(t.tv_sec).unwrap_or(0).saturating_mul(1_000_000);
            whole.saturating_add(u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000)
        }
        #[cfg(not(unix))]
        {
            u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(unix)]
fn boot_clock() -> rustix::time::ClockId {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        rustix::time::ClockId::Boottime
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        rustix::time::ClockId::Monotonic
    }
}

#[cfg(unix)]
fn millis(t: rustix::time::Timespec) -> u64 {
    let whole = u64::try_from(t.tv_sec).unwrap_or(0).saturating_mul(1_000);
    whole.saturating_add(u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000_000)
}

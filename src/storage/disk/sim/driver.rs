//! Cuts the power at every call of a workload, in many ways, and has each image checked.
//!
//! What must hold: W1. A failure names workload, ordinal and plan, and these alone replay it, as
//! long as the workload makes the same calls every time. W2. A workload that makes fewer calls than
//! its first run is checked at its end instead, never skipped.

use std::fmt;
use std::str::FromStr;

use super::keep::bits;
use super::plans::{Budget, plans};
use super::{Fault, Keep, SimDisk, UnknownPlan};

/// One power cut: at which call, and what was kept.
///
/// Its text form, such as `17 only 3`, reads back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crash {
    /// The call during which the power went; one more than there are if it went after the last.
    pub ordinal: u64,
    /// What survived of the unsynced operations.
    pub keep: Keep,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ordinal, self.keep)
    }
}

impl FromStr for Crash {
    type Err = UnknownPlan;

    fn from_str(text: &str) -> Result<Self, UnknownPlan> {
        let unknown = || UnknownPlan(text.to_owned());
        let (ordinal, keep) = text.split_once(' ').ok_or_else(unknown)?;
        Ok(Self { ordinal: ordinal.parse().map_err(|_| unknown())?, keep: keep.parse()? })
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// The calls of a run without a power cut.
    pub calls: u64,
    /// The calls at which the power was cut.
    pub ordinals: u64,
    /// The images that were checked.
    pub images: u64,
}

/// An image that failed its check; its `Debug` form is the line to replay it from.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The workload's name.
    pub workload: String,
    /// Where and how the power was cut.
    pub crash: Crash,
    /// The driver's seed.
    pub seed: u64,
    /// What the check said.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, crash, seed, reason } = self;
        write!(
            f,
            "power loss in workload {workload:?}, seed {seed}: {reason}; replay it with \
             .only(\"{crash}\".parse()?)"
        )
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Runs a workload again and again, each time cutting the power at another call.
///
/// The workload must do the same on every run, and return when its disk fails. The images of
/// each cut, bounded by a budget, are: nothing of the unsynced operations kept, everything, the
/// lengths or the bytes alone, seeded subsets, exactly one operation, all but one, and every write
/// torn at each 512-byte boundary and at some bytes.
#[derive(Debug, Clone)]
pub struct PowerLoss {
    name: String,
    start: SimDisk,
    seed: u64,
    stride: u64,
    budget: Budget,
    only: Option<Crash>,
}

#[cfg_attr(not(feature = "testkit"), allow(dead_code))] // users' tests call them
impl PowerLoss {
    /// A driver for the workload of that name, from an empty directory.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            start: SimDisk::new(),
            seed: 0,
            stride: 1,
            budget: Budget { plans: 64, subsets: 4, torn: true },
            only: None,
        }
    }

    /// Starts every run from a copy of this disk, unsynced operations included.
    #[must_use]
    pub fn start(self, disk: &SimDisk) -> Self {
        Self { start: disk.kill(), ..self }
    }

    /// Draws other subsets and, where the budget is short, other plans.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Cuts the power at every n-th call only.
    #[must_use]
    pub fn stride(self, n: u64) -> Self {
        Self { stride: n.max(1), ..self }
    }

    /// At most so many images a call, and among them twice `subsets` seeded ones: of whole operations
    /// and of 512-byte sectors.
    #[must_use]
    pub fn budget(mut self, images: usize, subsets: u64) -> Self {
        self.budget.plans = images;
        self.budget.subsets = subsets;
        self
    }

    /// Whether to tear writes (yes unless told otherwise).
    #[must_use]
    pub fn torn(mut self, torn: bool) -> Self {
        self.budget.torn = torn;
        self
    }

    /// Tries that one power cut alone.
    #[must_use]
    pub fn only(self, crash: Crash) -> Self {
        Self { only: Some(crash), ..self }
    }

    /// Tries all power cuts and checks what is left by each.
    ///
    /// Calls that change nothing on the disk, such as reads, are passed over: a cut there leaves
    /// what a cut at the next other call leaves.
    ///
    /// # Errors
    /// The first image that fails its check.
    pub fn run(
        &self,
        mut workload: impl FnMut(&SimDisk),
        mut check: impl FnMut(&SimDisk, &Crash) -> Result<(), String>,
    ) -> Result<Report, Failure> {
        let mut report = Report::default();
        if let Some(crash) = self.only {
            let disk = self.crash_at(crash.ordinal, &mut workload);
            report.calls = disk.calls();
            self.check_images(&disk, crash.ordinal, &[crash.keep], &mut report, &mut check)?;
            return Ok(report);
        }
        let whole = self.start.kill();
        whole.record(true);
        workload(&whole);
        report.calls = whole.calls();
        let changing = whole.trace().into_iter().filter(|t| t.call.changes());
        let after_last = report.calls.saturating_add(1);
        let ordinals = changing.map(|t| t.ordinal).chain([after_last]);
        for ordinal in ordinals.step_by(usize::try_from(self.stride).unwrap_or(usize::MAX)) {
            let disk = self.crash_at(ordinal, &mut workload);
            let seed = bits(self.seed, ordinal);
            let tried = plans(&disk.unsynced(), self.budget, seed);
            self.check_images(&disk, ordinal, &tried, &mut report, &mut check)?;
        }
        Ok(report)
    }

    fn crash_at(&self, ordinal: u64, workload: &mut impl FnMut(&SimDisk)) -> SimDisk {
        let disk = self.start.kill();
        disk.inject(Fault::crash(ordinal));
        workload(&disk);
        disk
    }

    fn check_images(
        &self,
        disk: &SimDisk,
        ordinal: u64,
        tried: &[Keep],
        report: &mut Report,
        check: &mut impl FnMut(&SimDisk, &Crash) -> Result<(), String>,
    ) -> Result<(), Failure> {
        report.ordinals += 1;
        for keep in tried {
            let crash = Crash { ordinal, keep: *keep };
            report.images += 1;
            check(&disk.power_cut(*keep), &crash).map_err(|reason| Failure {
                workload: self.name.clone(),
                crash,
                seed: self.seed,
                reason,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::Disk;

    /// Appends two records and reports the first as durable before the second is written.
    fn two_records(disk: &SimDisk, sync: bool, acknowledged: &mut u64) {
        *acknowledged = 0;
        let mut run = || {
            let file = disk.open("log", true)?;
            disk.sync_dir()?;
            for record in 0..2 {
                file.write_at(record * 600, &[7; 600])?;
                if sync {
                    file.sync()?;
                }
                *acknowledged = record + 1;
            }
            std::io::Result::Ok(())
        };
        let _ = run();
    }

    fn drive(driver: &PowerLoss, sync: bool) -> Result<Report, Failure> {
        let acknowledged = std::cell::Cell::new(0);
        driver.run(
            |disk| {
                let mut count = 0;
                two_records(disk, sync, &mut count);
                acknowledged.set(count);
            },
            |image, _| {
                let found = image.contents("log").unwrap_or_default();
                let whole = found.iter().take_while(|byte| **byte == 7).count() as u64 / 600;
                if whole < acknowledged.get() {
                    return Err(format!("{whole} of {} records", acknowledged.get()));
                }
                Ok(())
            },
        )
    }

    #[test]
    fn a_log_that_syncs_survives_and_one_that_does_not_is_caught_and_replayed() {
        let driver = PowerLoss::new("log").seed(5);
        let report = drive(&driver, true).unwrap();
        assert_eq!((report.calls, report.ordinals), (6, 7));
        assert!(report.images > 40, "{report:?}");

        let failure = drive(&driver, false).unwrap_err();
        assert_eq!(failure.reason, "0 of 1 records");
        let crash: Crash = failure.crash.to_string().parse().unwrap();
        let again = drive(&driver.only(crash), false).unwrap_err();
        assert_eq!(again, failure);
        assert!(again.to_string().contains(&crash.to_string()));
    }

    #[test]
    fn a_crash_reads_back_from_its_text() {
        for bad in ["", "17", "x nothing", "17 all"] {
            assert!(bad.parse::<Crash>().is_err());
        }
        let crash: Crash = "17 only 3".parse().unwrap();
        assert_eq!((crash.ordinal, crash.keep), (17, Keep::Only(3)));
    }
}

//! What a published figure has to name: machine, file system, commit and command.

use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::args::RunOptions;

#[derive(Clone, Debug)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub file_system: String,
    pub kernel: String,
    pub commit: String,
    pub date: String,
    pub command: String,
}

impl Machine {
    pub fn describe(dir: &Path, options: &RunOptions) -> Result<Self> {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            cpu: proc_value("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: memory_gib().unwrap_or(0),
            file_system: file_system(&dir.canonicalize()?).unwrap_or_else(|| "unknown".to_owned()),
            kernel: kernel.trim().to_owned(),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            date: date(crate::events::now_ms() / 86_400_000),
            command: command(options),
        })
    }

    pub fn caption(&self) -> String {
        let Self { cpu, cores, memory_gib, file_system, kernel, commit, date, .. } = self;
        format!(
            "{cpu}, {cores} cores, {memory_gib} GiB, {file_system}, Linux {kernel}, commit {commit}, {date}"
        )
    }
}

fn proc_value(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) = text.lines().find(|line| line.starts_with(key))?.split_once(':')?;
    Some(value.trim().to_owned())
}

fn memory_gib() -> Option<u64> {
    let kib: u64 = proc_value("/proc/meminfo", "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(kib.div_ceil(1 << 20))
}

/// The type of the file system that `dir` is on: the mount point with the longest matching prefix.
fn file_system(dir: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let candidates = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        dir.starts_with(point).then(|| (point.len(), kind.to_owned()))
    });
    candidates.max_by_key(|(len, _)| *len).map(|(_, kind)| kind)
}

/// The commit that was checked out, with a plus sign if files differ from it.
fn commit() -> Option<String> {
    let id = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if changed { format!("{id}+") } else { id })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR")])
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The date of a day since 1970-01-01, in the proleptic Gregorian calendar.
fn date(days: u64) -> String {
    // Years begin in March here, so that a leap day is the last of its year; 719,468 days lead from 0000-03-01 to 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + next_year;
    format!("{year:04}-{month:02}-{day:02}")
}

/// The command that repeats the run, without the paths that only say where things went.
fn command(options: &RunOptions) -> String {
    let features = if cfg!(feature = "rocksdb") { "--features rocksdb " } else { "" };
    let mut text = format!("cd benches/peers && cargo run --release {features}--");
    text.push_str(&format!(" --claims {} --seconds {}", options.claims, options.seconds));
    text.push_str(&format!(" --seed {} --cache-mib {}", options.seed, options.cache_mib));
    for (flag, names) in [("--engines", &options.engines), ("--workloads", &options.workloads)] {
        if let Some(names) = names {
            text.push_str(&format!(" {flag} {}", names.join(",")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_become_dates() {
        let dates = [0, 59, 11_016, 20_788, 47_540].map(date);
        let expected = ["1970-01-01", "1970-03-01", "2000-02-29", "2026-12-01", "2100-02-28"];
        assert_eq!(dates, expected);
    }
}

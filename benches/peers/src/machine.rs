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
            command: command(options),
        })
    }

    pub fn caption(&self) -> String {
        let Self { cpu, cores, memory_gib, file_system, kernel, commit, .. } = self;
        format!(
            "{cpu}, {cores} cores, {memory_gib} GiB, {file_system}, Linux {kernel}, commit {commit}"
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

fn commit() -> Option<String> {
    let source = env!("CARGO_MANIFEST_DIR");
    let output =
        Command::new("git").args(["-C", source, "rev-parse", "--short", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The command that repeats the run, without the paths that only say where things went.
fn command(options: &RunOptions) -> String {
    let features = if cfg!(feature = "rocksdb") { "--features rocksdb " } else { "" };
    let mut text =
        format!("cargo run --release --manifest-path benches/peers/Cargo.toml {features}--");
    text.push_str(&format!(" --claims {} --seconds {}", options.claims, options.seconds));
    text.push_str(&format!(" --seed {} --cache-mib {}", options.seed, options.cache_mib));
    for (flag, names) in [("--engines", &options.engines), ("--workloads", &options.workloads)] {
        if let Some(names) = names {
            text.push_str(&format!(" {flag} {}", names.join(",")));
        }
    }
    text
}

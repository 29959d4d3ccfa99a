//! The command line: what is measured, for how long, and where the figures go.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

use crate::engine::Mode;

pub const HELP: &str = "\
usage: txinbox-peers --claims N [options]

  --claims N          claims retained before the first window (default 1000000)
  --engines a,b       engines to run, in this order (default: all that are built in); sqlite-N has a log of N pages
  --workloads x,y     workloads to run, in this order, calm and busy last (default: all)
  --seconds S         length of one window; three are run, the median counts (default 5)
  --json FILE         write the figures as JSON
  --svg FILE          draw the figures
  --dir DIR           where the stores live; must be on the file system to measure (default ./peers-data)
  --seed N            seed of ids and choices (default 1)
  --cache-mib N       cache of each engine that has one (default 256)
";

/// What one run of the parent does.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub claims: u64,
    pub engines: Option<Vec<String>>,
    pub workloads: Option<Vec<String>>,
    pub seconds: f64,
    pub json: Option<PathBuf>,
    pub svg: Option<PathBuf>,
    pub dir: PathBuf,
    pub seed: u64,
    pub cache_mib: usize,
}

/// What one child process does.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub engine: String,
    pub mode: Mode,
    pub claims: u64,
    pub dir: PathBuf,
    pub seed: u64,
    pub cache_mib: usize,
    /// Whether the counters of the `wide` workload are loaded too.
    pub wide: bool,
}

#[derive(Clone, Debug)]
pub enum Invocation {
    Help,
    Run(RunOptions),
    Worker(WorkerOptions),
}

pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Invocation> {
    let mut run = RunOptions {
        claims: 1_000_000,
        engines: None,
        workloads: None,
        seconds: 5.0,
        json: None,
        svg: None,
        dir: PathBuf::from("peers-data"),
        seed: 1,
        cache_mib: 256,
    };
    let (mut worker, mut mode, mut wide) = (None, Mode::Serve, false);
    let mut arguments = arguments;
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--help" | "-h" => return Ok(Invocation::Help),
            "--claims" => run.claims = number(&value()?)?,
            "--engines" => run.engines = Some(list(&value()?)),
            "--workloads" => run.workloads = Some(list(&value()?)),
            "--seconds" => run.seconds = value()?.parse().context("--seconds")?,
            "--json" => run.json = Some(value()?.into()),
            "--svg" => run.svg = Some(value()?.into()),
            "--dir" => run.dir = value()?.into(),
            "--seed" => run.seed = number(&value()?)?,
            "--cache-mib" => run.cache_mib = value()?.parse().context("--cache-mib")?,
            "--worker" => worker = Some(value()?),
            "--load" => mode = Mode::Load,
            "--wide" => wide = true,
            _ => bail!("unknown argument {flag}\n\n{HELP}"),
        }
    }
    if run.claims == 0 || !run.seconds.is_finite() || run.seconds <= 0.0 {
        bail!("--claims and --seconds must be above zero");
    }
    Ok(match worker {
        None => Invocation::Run(run),
        Some(engine) => Invocation::Worker(WorkerOptions {
            engine,
            mode,
            claims: run.claims,
            dir: run.dir,
            seed: run.seed,
            cache_mib: run.cache_mib,
            wide,
        }),
    })
}

/// A whole number; `_` may group its digits.
fn number(text: &str) -> Result<u64> {
    text.replace('_', "").parse().with_context(|| format!("{text} is not a whole number"))
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

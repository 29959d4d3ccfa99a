//! Measures txinbox next to the stores that an inbox could be built on.
//!
//! The parent process sequences the windows; every engine lives in a child process of its own, so that caches and
//! resident memory do not mix. See `README.md` for the workloads, the peers' settings and how to read the figures.

mod args;
mod child;
mod engine;
mod events;
mod group_commit;
mod machine;
mod parent;
mod probe;
mod protocol;
mod report;
mod window;
mod worker;
mod workload;

use anyhow::Result;
use args::Invocation;

fn main() -> Result<()> {
    match args::parse(std::env::args().skip(1))? {
        Invocation::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        Invocation::Worker(options) => worker::serve(&options),
        Invocation::Run(options) => parent::run(&options),
    }
}

//! The parent's handle on a child process that runs one engine.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};

use crate::args::RunOptions;
use crate::engine::Mode;
use crate::protocol::{Request, Response};

/// A running engine; dropping it ends the process.
pub struct Child {
    engine: String,
    pub version: String,
    process: Process,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

/// The directory of one engine's store.
pub fn store_dir(options: &RunOptions, engine: &str) -> PathBuf {
    options.dir.join(format!("txinbox-peers-{engine}"))
}

impl Child {
    pub fn spawn(options: &RunOptions, engine: &str, mode: Mode, wide: bool) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--worker", engine, "--claims", &options.claims.to_string()]);
        command.args([
            "--seed",
            &options.seed.to_string(),
            "--cache-mib",
            &options.cache_mib.to_string(),
        ]);
        command.arg("--dir").arg(store_dir(options, engine));
        command.args((mode == Mode::Load).then_some("--load"));
        command.args(wide.then_some("--wide"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = process.stdin.take().context("no standard input")?;
        let responses = BufReader::new(process.stdout.take().context("no standard output")?);
        let mut child = Self {
            engine: engine.to_owned(),
            version: String::new(),
            process,
            requests,
            responses,
        };
        match child.response()? {
            Response::Opened { version } => child.version = version,
            other => bail!("{engine}: unexpected answer {other:?}"),
        }
        Ok(child)
    }

    pub fn ask(&mut self, request: &Request) -> Result<Response> {
        serde_json::to_writer(&mut self.requests, request)?;
        self.requests.write_all(b"\n")?;
        self.requests.flush()?;
        self.response()
    }

    /// Closes the store and waits for the process to end.
    pub fn quit(mut self) -> Result<()> {
        self.ask(&Request::Quit)?;
        let status = self.process.wait()?;
        if !status.success() {
            bail!("{}: {status}", self.engine);
        }
        Ok(())
    }

    fn response(&mut self) -> Result<Response> {
        let mut line = String::new();
        if self.responses.read_line(&mut line)? == 0 {
            bail!("{}: the process ended early ({})", self.engine, self.process.wait()?);
        }
        match serde_json::from_str(&line)? {
            Response::Failed(error) => bail!("{}: {error}", self.engine),
            response => Ok(response),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Either it has ended already, or the run failed and it must not outlive the parent.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

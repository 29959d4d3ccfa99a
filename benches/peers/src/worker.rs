//! The child process: one engine, driven by the parent's requests.

use anyhow::{Result, ensure};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::args::WorkerOptions;
use crate::engine::{self, Engine, Settings};
use crate::events::Stream;
use crate::probe::{self, Device};
use crate::protocol::{Request, Response, Sample};
use crate::window::{self, Tally};
use crate::workload::{self, Kind, NARROW, WIDE, WIDE_START, Workload};

struct Worker<'a> {
    options: &'a WorkerOptions,
    engine: Box<dyn Engine>,
    stream: Stream,
    /// Index of the next new event.
    next: AtomicU64,
    /// What the counters must add up to.
    counted: u64,
}

/// Answers requests from standard input until told to quit.
pub fn serve(options: &WorkerOptions) -> Result<()> {
    let settings = Settings {
        mode: options.mode,
        claims: options.claims,
        cache_bytes: options.cache_mib * 1024 * 1024,
    };
    let mut worker = match engine::open(&options.engine, &options.dir, &settings) {
        Err(error) => return answer(&Response::Failed(format!("{error:#}"))),
        Ok(engine) => Worker {
            options,
            engine,
            stream: Stream::new(options.seed),
            next: AtomicU64::new(options.claims),
            counted: 0,
        },
    };
    answer(&Response::Opened { version: worker.engine.version()? })?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        if matches!(request, Request::Quit) {
            break;
        }
        let outcome = worker.handle(&request);
        answer(&outcome.unwrap_or_else(|error| Response::Failed(format!("{error:#}"))))?;
    }
    drop(worker);
    answer(&Response::Done)
}

fn answer(response: &Response) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, response)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

impl Worker<'_> {
    fn handle(&mut self, request: &Request) -> Result<Response> {
        match request {
            Request::Load => self.load().map(|()| Response::Done),
            Request::Window { workload, seconds } => self
                .measure(&workload::by_name(workload)?, Duration::from_secs_f64(*seconds))
                .map(Response::Measured),
            Request::Verify => self.verify().map(|()| Response::Done),
            Request::Quit => Ok(Response::Done),
        }
    }

    /// Loads claims in large batches, each sorted by id: fast for every engine, and the trees end up as full as under
    /// random insertion, not packed as by one sorted pass.
    fn load(&self) -> Result<()> {
        let (claims, start) = (self.options.claims, Instant::now());
        let batch = (claims / 16).clamp(1000, 1_000_000);
        let mut first = 0;
        while first < claims {
            let end = claims.min(first + batch);
            let mut events: Vec<_> =
                (first..end).map(|index| self.stream.event(index, None)).collect();
            events.sort_unstable_by_key(|event| event.id);
            self.engine.load_claims(&events)?;
            first = end;
            let seconds = start.elapsed().as_secs();
            eprintln!("{}: {first} of {claims} claims loaded, {seconds} s", self.options.engine);
        }
        self.engine.load_counters(&(0..NARROW).collect::<Vec<_>>())?;
        if self.options.wide {
            self.engine.load_counters(&(WIDE_START..WIDE_START + WIDE).collect::<Vec<_>>())?;
        }
        self.engine.finish_load()
    }

    fn measure(&mut self, workload: &Workload, length: Duration) -> Result<Sample> {
        let dir = &self.options.dir;
        let (written, device) = (probe::written_bytes()?, Device::below(dir));
        let syncs = self.engine.syncs();
        let tally = window::run(&*self.engine, self.stream, &self.next, workload, length)?;
        let syncs = self.engine.syncs().zip(syncs).map(|(after, before)| after - before);
        let flushed = Device::below(dir).zip(device).map(|(after, before)| after.since(before));
        if matches!(workload.kind, Kind::Mixed { .. }) {
            self.counted += tally.fresh;
        }
        check_syncs(&tally, syncs)?;
        // What the window left to be done in the background is charged to its events.
        self.engine.settle()?;
        let written = probe::written_bytes()? - written;
        let device = Device::below(dir).zip(device).map(|(after, before)| after.since(before));
        let per_event = |bytes: u64| bytes as f64 / tally.events as f64;
        let micros = |quantile| tally.latency.value_at_quantile(quantile) as f64 / 1000.0;
        Ok(Sample {
            events_per_s: tally.events as f64 / tally.elapsed.as_secs_f64(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            max_us: tally.latency.max() as f64 / 1000.0,
            written_bytes_per_event: per_event(written),
            disk_bytes: probe::allocated_bytes(dir)?,
            rss_bytes: probe::resident_bytes()?,
            commits: tally.commits,
            syncs,
            device_flushes: flushed.map(|device| device.flushes),
            device_bytes_per_event: device.map(|device| per_event(device.written_bytes)),
        })
    }

    fn verify(&self) -> Result<()> {
        let Some(total) = self.engine.counter_total()? else {
            return Ok(());
        };
        let (counted, made) =
            (self.counted, self.next.load(Ordering::Relaxed) - self.options.claims);
        ensure!(
            total == counted,
            "{counted} of {made} new events were counted, the counters add up to {total}"
        );
        Ok(())
    }
}

/// Where syncs can be counted, every group that held something new must have had one.
fn check_syncs(tally: &Tally, syncs: Option<u64>) -> Result<()> {
    let Some(syncs) = syncs else { return Ok(()) };
    let least = tally.commits.unwrap_or(u64::from(tally.fresh > 0));
    ensure!(syncs >= least, "{least} groups, but only {syncs} syncs");
    Ok(())
}

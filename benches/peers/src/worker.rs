//! The child process: one engine, driven by the parent's requests.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::args::WorkerOptions;
use crate::engine::{self, Engine, PeriodicWork, Settings};
use crate::events::Stream;
use crate::group_commit::{FORMS, Form};
use crate::probe::{self, Device};
use crate::protocol::{Request, Response, Sample};
use crate::window::{self, Plan, Tally};
use crate::workload::{self, Kind, NARROW, Upkeep, WIDE, WIDE_START, Workload};

struct Worker<'a> {
    options: &'a WorkerOptions,
    engine: Box<dyn Engine>,
    stream: Stream,
    /// Index of the next new event.
    next: AtomicU64,
    /// What the counters must add up to.
    counted: u64,
    /// Who commits for many callers; the warm-up finds out which is faster.
    form: Form,
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
            form: Form::Writer,
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
            Request::Window { workload, seconds, warm_up } => {
                let workload = workload::by_name(workload)?;
                let length = Duration::from_secs_f64(*seconds);
                if *warm_up && workload.threads > 1 && !self.engine.commits_concurrently() {
                    return self.choose_form(&workload, length).map(Response::Measured);
                }
                self.measure(&workload, length, *warm_up).map(Response::Measured)
            }
            Request::Verify => self.verify().map(|()| Response::Done),
            Request::Quit => Ok(Response::Done),
        }
    }

    /// Loads claims in sixteen large batches, each sorted by id unless the engine has no use for that: fast for every
    /// engine, and the trees end up as full as under random insertion, not packed as by one sorted pass.
    fn load(&self) -> Result<()> {
        let (claims, start) = (self.options.claims, Instant::now());
        let batch = claims.div_ceil(16).max(1000);
        let mut first = 0;
        while first < claims {
            let end = claims.min(first + batch);
            let mut events: Vec<_> =
                (first..end).map(|index| self.stream.event(index, None)).collect();
            if !self.engine.loads_in_order() {
                events.sort_unstable_by_key(|event| event.id);
            }
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

    /// Warms up in each form of group commit, and goes on with the faster.
    fn choose_form(&mut self, workload: &Workload, length: Duration) -> Result<Sample> {
        let mut best: Option<(Form, Sample)> = None;
        // Each twice, as the first window of all is the slowest.
        for form in [FORMS, FORMS].concat() {
            self.form = form;
            let sample = self.measure(workload, length, true)?;
            if best.is_none_or(|(_, best)| sample.events_per_s > best.events_per_s) {
                best = Some((form, sample));
            }
        }
        let (form, sample) = best.context("there is no form")?;
        eprintln!("{} {}: commits by {form:?}", workload.name, self.options.engine);
        self.form = form;
        Ok(sample)
    }

    fn measure(&mut self, workload: &Workload, length: Duration, warm_up: bool) -> Result<Sample> {
        let dir = &self.options.dir;
        self.engine.prepare(workload)?;
        let periodic = self.engine.periodic_work()?;
        let (written, device) = (probe::written_bytes()?, Device::below(dir));
        let syncs = self.engine.syncs();
        let plan = Plan { length, warm_up, form: self.form };
        let claims = self.options.claims;
        let tally = window::run(&*self.engine, self.stream, &self.next, claims, workload, plan)?;
        if let (Some(before), Some(after)) = (periodic, self.engine.periodic_work()?) {
            self.check_upkeep(workload, after.since(before), warm_up)?;
        }
        let syncs = self.engine.syncs().zip(syncs).map(|(after, before)| after - before);
        let flushed = Device::below(dir).zip(device).map(|(after, before)| after.since(before));
        if matches!(workload.kind, Kind::Mixed { .. } | Kind::New(_)) && self.engine.keeps_claims()
        {
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

    /// Says what sealing and forgetting was done in a window, and fails if it should have contained both and did not.
    fn check_upkeep(&self, workload: &Workload, did: PeriodicWork, warm_up: bool) -> Result<()> {
        let PeriodicWork { sealed, forgotten, slices } = did;
        eprintln!(
            "{} {}: {sealed} claims sealed, {forgotten} forgotten in the window, in {slices} slices",
            workload.name, self.options.engine
        );
        let busy = workload.kind == Kind::New(Upkeep::NeverEnds);
        let wanted = !warm_up && (busy || self.engine.min_window_events(workload) > 0);
        ensure!(!wanted || (sealed > 0 && forgotten > 0), "there should have been both");
        Ok(())
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

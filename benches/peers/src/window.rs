//! One window: callers deliver events for some seconds, and every call is timed.

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::events::{Generator, Stream};
use crate::group_commit::GroupCommit;
use crate::workload::{Kind, Workload};

/// What the callers of a window did together.
pub struct Tally {
    pub events: u64,
    pub fresh: u64,
    /// Groups that held something new; none where the engine groups by itself.
    pub commits: Option<u64>,
    pub elapsed: Duration,
    /// Nanoseconds from a call to its durable answer.
    pub latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, 600_000_000_000, 3)?;
        Ok(Self { events: 0, fresh: 0, commits: Some(0), elapsed: Duration::ZERO, latency })
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        self.events += other.events;
        self.fresh += other.fresh;
        self.elapsed = self.elapsed.max(other.elapsed);
        Ok(self.latency.add(&other.latency)?)
    }

    fn record(&mut self, since: Instant) {
        self.latency
            .saturating_record(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

/// When a caller may stop.
#[derive(Clone, Copy)]
struct Until {
    start: Instant,
    length: Duration,
    events: u64,
}

impl Until {
    fn reached(self, events: u64) -> bool {
        events >= self.events && self.start.elapsed() >= self.length
    }
}

pub fn run(
    engine: &dyn Engine,
    stream: Stream,
    next: &AtomicU64,
    workload: &Workload,
    length: Duration,
) -> Result<Tally> {
    let threads = u64::try_from(workload.threads)?;
    let events = engine.min_window_events(workload.group).div_ceil(threads);
    let retained = engine.retained_claims();
    let until = Until { start: Instant::now(), length, events };
    let first_new = next.load(Ordering::Relaxed);
    let generator = |salt| Generator::new(stream, workload, next, retained, salt);
    let tally = if workload.threads == 1 {
        one_caller(engine, generator(0), workload.group, until)?
    } else if engine.commits_concurrently() {
        let call = |event| {
            let mut fresh = Vec::with_capacity(1);
            engine.apply(&[event], &mut fresh)?;
            fresh.first().copied().context("no answer")
        };
        Tally { commits: None, ..many_callers(threads, generator, until, call)? }
    } else {
        let group = GroupCommit::new(engine);
        let tally = many_callers(threads, generator, until, |event| group.call(event))?;
        Tally { commits: Some(group.commits()), ..tally }
    };
    if engine.keeps_claims() {
        check_answers(&tally, workload, next.load(Ordering::Relaxed) - first_new)?;
    }
    Ok(tally)
}

fn one_caller(
    engine: &dyn Engine,
    mut generator: Generator<'_>,
    len: usize,
    until: Until,
) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let (mut group, mut fresh, mut commits) = (Vec::with_capacity(len), Vec::with_capacity(len), 0);
    while !until.reached(tally.events) {
        generator.fill(&mut group, len);
        let start = Instant::now();
        engine.apply(&group, &mut fresh)?;
        tally.record(start);
        ensure!(fresh.len() == group.len(), "an event got no answer");
        let new = u64::try_from(fresh.iter().filter(|new| **new).count())?;
        tally.events += u64::try_from(group.len())?;
        tally.fresh += new;
        commits += u64::from(new > 0);
    }
    Ok(Tally { commits: Some(commits), elapsed: until.start.elapsed(), ..tally })
}

fn many_callers<'a>(
    threads: u64,
    generator: impl Fn(u64) -> Generator<'a> + Sync,
    until: Until,
    call: impl Fn(crate::events::Event) -> Result<bool> + Sync,
) -> Result<Tally> {
    let caller = |salt| -> Result<Tally> {
        let (mut tally, mut generator) = (Tally::new()?, generator(salt));
        while !until.reached(tally.events) {
            let event = generator.delivery();
            let start = Instant::now();
            let new = call(event)?;
            tally.record(start);
            tally.events += 1;
            tally.fresh += u64::from(new);
        }
        Ok(Tally { elapsed: until.start.elapsed(), ..tally })
    };
    let mut total = Tally::new()?;
    std::thread::scope(|scope| {
        let caller = &caller;
        let callers: Vec<_> = (0..threads).map(|salt| scope.spawn(move || caller(salt))).collect();
        for caller in callers {
            total.add(&caller.join().map_err(|_| anyhow!("a caller panicked"))??)?;
        }
        Ok(total)
    })
}

/// Every new event must have been answered "new" exactly once, and every duplicate "duplicate".
fn check_answers(tally: &Tally, workload: &Workload, made: u64) -> Result<()> {
    let expected = if matches!(workload.kind, Kind::Duplicates(_)) { 0 } else { made };
    ensure!(tally.fresh == expected, "{expected} events were new, the engine says {}", tally.fresh);
    Ok(())
}

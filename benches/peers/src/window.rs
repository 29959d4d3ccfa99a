//! One window: callers deliver events for some seconds, and every call is timed.

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Engine, Pending};
use crate::events::{Generator, Stream};
use crate::group_commit::{self, Form};
use crate::workload::{Kind, Upkeep, Workload};

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

/// How a window is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub length: Duration,
    /// It need not contain the engine's periodic work.
    pub warm_up: bool,
    /// Who commits for many callers, where the engine does not see to that.
    pub form: Form,
}

/// Runs one window on a store that retains `claims`.
pub fn run(
    engine: &dyn Engine,
    stream: Stream,
    next: &AtomicU64,
    claims: u64,
    workload: &Workload,
    plan: Plan,
) -> Result<Tally> {
    let Plan { length, warm_up, form } = plan;
    let threads = u64::try_from(workload.threads)?;
    let events = if warm_up { 0 } else { engine.min_window_events(workload) };
    let until = Until { start: Instant::now(), length, events: events.div_ceil(threads) };
    let first_new = next.load(Ordering::Relaxed);
    let generator = |salt| Generator::new(stream, workload, next, claims, salt);
    let tally = if workload.threads == 1 {
        one_caller(engine, generator(0), workload, until)?
    } else if engine.commits_concurrently() {
        let call = |event| {
            let mut fresh = Vec::with_capacity(1);
            engine.apply(&[event], &mut fresh)?;
            fresh.first().copied().context("no answer")
        };
        Tally { commits: None, ..many_callers(threads, generator, until, call)? }
    } else {
        group_commit::serve(form, engine, |group| {
            let tally = many_callers(threads, generator, until, |event| group.call(event))?;
            Ok(Tally { commits: Some(group.commits()), ..tally })
        })?
    };
    if engine.keeps_claims() {
        check_answers(&tally, workload, next.load(Ordering::Relaxed) - first_new)?;
    }
    Ok(tally)
}

/// Hands groups over one after another; with tickets, as many are under way as the engine takes from one caller. A call
/// lasts from handing a group over to having its answers, whatever else was done in between. Where groups are offered at
/// a pace it lasts from the time its turn came, so that those who wait behind a pause count as well.
fn one_caller(
    engine: &dyn Engine,
    mut generator: Generator<'_>,
    workload: &Workload,
    until: Until,
) -> Result<Tally> {
    let in_flight = if workload.tickets { engine.tickets() } else { 1 };
    let mut turn = 0;
    let rests = workload.kind == Kind::New(Upkeep::Rests);
    let (mut tally, mut commits) = (Tally::new()?, 0);
    let mut group = Vec::with_capacity(workload.group);
    let mut pending = VecDeque::with_capacity(in_flight);
    let mut stood_still = Duration::ZERO;
    loop {
        let more = !until.reached(tally.events);
        if more {
            generator.fill(&mut group, workload.group);
            let start = match workload.groups_per_s {
                None => Instant::now(),
                Some(rate) => wait_for_turn(until.start, turn, rate),
            };
            turn += 1;
            let answers = if workload.tickets {
                engine.submit(&group)?
            } else {
                let mut fresh = Vec::with_capacity(group.len());
                engine.apply(&group, &mut fresh)?;
                Pending::Settled(fresh)
            };
            pending.push_back((start, answers));
            if pending.len() < in_flight {
                continue;
            }
        }
        let Some((start, answers)) = pending.pop_front() else {
            break;
        };
        let fresh = answers.wait()?;
        tally.record(start);
        ensure!(fresh.len() == workload.group, "an event got no answer");
        let new = u64::try_from(fresh.iter().filter(|new| **new).count())?;
        tally.events += u64::try_from(workload.group)?;
        tally.fresh += new;
        commits += u64::from(new > 0);
        if rests {
            let start = Instant::now();
            engine.catch_up()?;
            stood_still += start.elapsed();
        }
    }
    Ok(Tally {
        commits: Some(commits),
        elapsed: until.start.elapsed().saturating_sub(stood_still),
        ..tally
    })
}

/// Sleeps until the group numbered `turn` is to be offered, and says when that was.
fn wait_for_turn(start: Instant, turn: u64, rate: u32) -> Instant {
    let due = start + Duration::from_secs_f64(turn as f64 / f64::from(rate));
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    due
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

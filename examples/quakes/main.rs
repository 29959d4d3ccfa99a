//! A week of real earthquakes, polled hourly: 142,884 deliveries of 1,707 quakes, each handled once.
//!
//! `cargo run --release --example quakes [-- --dir DIR] [--json]`
//!
//! The feed is asked each hour for the whole past week, so nearly every delivery is a repeat; a
//! quake first comes with an estimate, sometimes under another id, and is revised later. Consumer
//! `quakes` counts each quake once, consumer `revisions` replaces its magnitude once per revision.
//! At the end the state is compared, row for row, with a single pass over the file. Kill it at any
//! moment and start it again: the feed begins anew and what was handled is a duplicate.

pub(crate) mod clock;
mod feed;
mod plain;
mod report;
mod state;

use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use txinbox::{Batch, BoxError, Inbox, Outcome, Retention};

use clock::FeedClock;
use feed::{Feed, POLLS};
use report::Counters;
use state::Books;

const USAGE: &str = "usage: quakes [--dir DIR] [--json]

  --dir DIR  where the store lies, or is made (./quakes-store)
  --json     print one line of JSON in place of the table
  --help     print this";

/// What the command line asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) json: bool,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { dir: PathBuf::from("quakes-store"), json: false };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--dir" => options.dir = args.next().ok_or("--dir needs a directory")?.into(),
                "--json" => options.json = true,
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
        Ok(options)
    }
}

/// A claim must outlive every delivery of its event. The feed brings a quake for seven days; a run
/// that starts over brings them all again, from the first.
fn retention() -> Retention {
    let days = |n: u64| Duration::from_secs(n * 24 * 3_600);
    Retention::covering().broker(days(7)).retries(days(1)).recovery(days(2)).replay(days(14))
}

/// Plays every poll to both consumers; returns this run's counters.
fn play(
    inbox: &Inbox,
    books: &Books,
    feed: &Feed,
    clock: &FeedClock,
) -> Result<Counters, BoxError> {
    let quakes = inbox.consumer("quakes")?;
    let revisions = inbox.consumer("revisions")?;
    let mut counters = Counters::default();
    for n in 0..POLLS {
        let poll_ms = feed.poll_time_ms(n);
        let now_ms = clock.follow(poll_ms);
        let reports = feed.poll(poll_ms)?;
        let counted = quakes.process_batch(
            &reports,
            |report| report.happened(),
            |tx, report| books.count(tx, report, now_ms),
        );
        tally(counted, &mut counters)?;
        let revised = revisions.process_batch(
            &reports,
            |report| report.revised(),
            |tx, report| books.revise(tx, report, now_ms),
        );
        tally(revised, &mut counters)?;
        report::progress(n, poll_ms, &counters);
    }
    Ok(counters)
}

/// Adds up a batch. The next poll brings everything again, so a consumer of a real feed would count
/// errors and go on; here the first one ends the run, to be seen.
fn tally(batch: Batch<i64>, counters: &mut Counters) -> Result<(), BoxError> {
    for result in batch {
        counters.deliveries += 1;
        match result? {
            Outcome::Applied(alerts, _) => {
                counters.applied += 1;
                counters.alerts += alerts;
            }
            Outcome::Duplicate(_) => counters.duplicates += 1,
            Outcome::Mismatch(_) => counters.mismatches += 1,
            other => return Err(format!("unexpected answer {other:?}").into()),
        }
    }
    Ok(())
}

/// The whole job; `false` if the state differs from that of a single pass.
pub(crate) fn run(options: &Options) -> Result<bool, Box<dyn StdError>> {
    let feed = Feed::load()?;
    let clock = FeedClock::starting_at(feed.poll_time_ms(0));
    let inbox = Inbox::builder(retention()).clock(clock.clone()).open(&options.dir)?;
    let books = Books::open(&inbox)?;
    if let Some(earlier_ms) = books.feed_time_ms(&inbox)? {
        clock.resume_at(earlier_ms);
    }
    let counters = play(&inbox, &books, &feed, &clock).map_err(|e| e as Box<dyn StdError>)?;

    let state = inbox.read(|view| books.whole(view))?;
    let differences = plain::differences(&plain::single_pass(&feed.quakes), &state);
    inbox.close()?;
    for line in &differences {
        eprintln!("{line}");
    }
    if options.json {
        println!("{}", report::json(&counters, differences.is_empty()));
    } else {
        println!("{}", report::table(&state, &counters, &differences));
    }
    Ok(differences.is_empty())
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quakes: {error}");
            ExitCode::FAILURE
        }
    }
}

//! A consumer that is going to be killed: it prints an id only once its event is durable.
//!
//! Started by `tests/kill.rs` as `kill_victim DIR FIRST`: processes the ids from FIRST on, each twice,
//! singly and in batches, until somebody ends it.

use std::io::Write;
use std::time::Duration;

use txinbox::{BoxError, Event, EventId, Inbox, Map, Retention};

const BATCH: u64 = 16;

fn main() -> Result<(), BoxError> {
    let mut args = std::env::args().skip(1);
    let (Some(dir), Some(first)) = (args.next(), args.next()) else {
        return Err("usage: kill_victim DIR FIRST".into());
    };
    let inbox = Inbox::builder(Retention::at_least(Duration::from_secs(3_600)))
        .recent_max_claims(1_024)
        .cache_bytes(4 << 20)
        .open(dir)?;
    let consumer = inbox.consumer("victim")?;
    let counts: Map<u64, u64> = inbox.map("counts")?;
    let event = |id: &u64| {
        Event::unchecked(EventId::bytes(&id.to_be_bytes()).unwrap_or_else(|_| unreachable!()))
    };
    let mut out = std::io::stdout().lock();
    let mut next: u64 = first.parse()?;
    loop {
        let ids: Vec<u64> = (next..next + BATCH).collect();
        let batch = consumer.process_batch(&ids, event, |tx, id| {
            tx.update(&counts, &0, |n| Some(n.unwrap_or(0) + 1))?;
            tx.insert(&counts, &(1 + id), &1)?;
            Ok(())
        });
        for (id, answer) in ids.iter().zip(batch) {
            answer?;
            writeln!(out, "{id}")?;
        }
        out.flush()?;
        let one = next + BATCH;
        let outcome = consumer.process(&event(&one), |tx| {
            tx.update(&counts, &0, |n| Some(n.unwrap_or(0) + 1))?;
            tx.insert(&counts, &(1 + one), &1)?;
            Ok(())
        })?;
        drop(outcome);
        writeln!(out, "{one}")?;
        out.flush()?;
        next = one + 1;
    }
}

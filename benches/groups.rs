//! From a handler's writes to a commit, in memory: staging, applying, and both through `process`.
//!
//! `cargo bench --features testkit --bench groups`. No device is waited for; what a sync costs is
//! measured by `benches/peers`.

#![allow(clippy::expect_used)] // a benchmark that cannot begin may stop

use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use txinbox::testkit::internals::{Group, Target};
use txinbox::{Event, EventId, Inbox, Map, Retention};

const COUNTERS: u64 = 10_000;

fn event(n: u64) -> Event<'static> {
    let id = EventId::bytes(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    Event::unchecked(id.expect("eight bytes are an id"))
}

fn inbox() -> Inbox {
    let retention = Retention::at_least(Duration::from_secs(3_600));
    Inbox::builder(retention).no_threads().open_in_memory().expect("memory has room")
}

/// One event whose writes are staged and dropped again: the look-up, the handler, the overlay.
fn staging(c: &mut Criterion) {
    let inbox = inbox();
    let counters: Map<u64, u64> = inbox.map("counters").expect("a new keyspace");
    let consumer = inbox.consumer("c").expect("a new consumer");
    let mut group = c.benchmark_group("staging");
    for writes in [0, 1, 10] {
        let event = event(1);
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("an event of {writes} updates, skipped"), |b| {
            b.iter(|| {
                consumer.process(&event, |tx| {
                    for n in 0..writes {
                        tx.update(&counters, &n, |old| Some(old.unwrap_or(0) + 1))?;
                    }
                    tx.skip();
                    Ok(())
                })
            });
        });
    }
    group.finish();
}

/// A group's rows into the database, committed.
fn apply(c: &mut Criterion) {
    let mut group = c.benchmark_group("apply");
    for claims in [1_u32, 100, 1_000] {
        let target = Target::new().expect("memory has room");
        let mut seq = 0;
        group.throughput(Throughput::Elements(claims.into()));
        group.bench_function(format!("a group of {claims}"), |b| {
            b.iter_batched(
                || {
                    seq += 1;
                    (seq, Group::new(seq * u64::from(claims), claims))
                },
                |(seq, group)| target.apply(seq, &group, COUNTERS),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// The whole way, batch by batch.
fn process(c: &mut Criterion) {
    let inbox = inbox();
    let counters: Map<u64, u64> = inbox.map("counters").expect("a new keyspace");
    let consumer = inbox.consumer("c").expect("a new consumer");
    let mut next = 0;
    let mut group = c.benchmark_group("process_batch");
    for size in [1_u64, 100, 1_000] {
        group.throughput(Throughput::Elements(size));
        group.bench_function(format!("{size} new events, a counter each"), |b| {
            b.iter(|| {
                let items: Vec<u64> = (next..next + size).collect();
                next += size;
                let batch = consumer.process_batch(
                    &items,
                    |n| event(*n),
                    |tx, n| {
                        tx.update(&counters, &(n % COUNTERS), |old| Some(old.unwrap_or(0) + 1))?;
                        Ok(())
                    },
                );
                assert_eq!(batch.settled_prefix(), items.len());
            });
        });
    }
    group.finish();
}

criterion_group!(groups, staging, apply, process);
criterion_main!(groups);

//! The inner parts of claims: hashing, the table in memory, packed rows, filters, sealed runs.
//!
//! `cargo bench --features testkit --bench claims`. Numbers of the whole are in `benches/peers`.

#![allow(clippy::expect_used)] // a benchmark that cannot begin may stop

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use txinbox::testkit::internals::{Group, Hashed, Sealed, Table, fingerprint, identity};

const CLAIMS: u64 = 100_000;
const GROUP: u32 = 1_000;

fn hashing(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash");
    for bytes in [16, 64, 1_024] {
        let input = vec![7; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("identity of {bytes} bytes"), |b| {
            b.iter(|| identity(black_box(&input)));
        });
        group.bench_function(format!("fingerprint of {bytes} bytes"), |b| {
            b.iter(|| fingerprint(black_box(&input)));
        });
    }
    group.finish();
}

fn packed(c: &mut Criterion) {
    let mut group = c.benchmark_group("packed rows");
    group.throughput(Throughput::Elements(GROUP.into()));
    let claims = Group::new(0, GROUP);
    group.bench_function("encode 1000 claims", |b| b.iter(|| black_box(&claims).encode()));
    let chunks = claims.encode();
    group.bench_function("decode 1000 claims", |b| b.iter(|| Group::decode(black_box(&chunks))));
    group.finish();
}

fn recent(c: &mut Criterion) {
    let groups: Vec<Group> =
        (0..CLAIMS / u64::from(GROUP)).map(|n| Group::new(n * u64::from(GROUP), GROUP)).collect();
    let fill = |table: &mut Table| {
        for (seq, group) in (1..).zip(&groups) {
            table.insert(seq, group);
        }
    };
    let mut group = c.benchmark_group("recent table");
    group.throughput(Throughput::Elements(CLAIMS));
    group.bench_function("insert 100,000 claims", |b| {
        let table = || Table::new(CLAIMS as usize);
        b.iter_batched_ref(table, fill, BatchSize::LargeInput);
    });
    let mut table = Table::new(CLAIMS as usize);
    fill(&mut table);
    group.throughput(Throughput::Elements(1));
    look_up(&mut group, "find", |event| table.has(event));
    group.finish();
}

fn runs(c: &mut Criterion) {
    let run = Sealed::build(CLAIMS).expect("100,000 claims fit one partition");
    let mut group = c.benchmark_group("sealed run");
    group.throughput(Throughput::Elements(1));
    look_up(&mut group, "filter probe", |event| run.maybe(event));
    look_up(&mut group, "look-up", |event| run.has(event));
    group.finish();
}

/// Measures a look-up on events that are there and on events that are not, in scattered order.
fn look_up(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: &str,
    ask: impl Fn(Hashed) -> bool,
) {
    for (kind, first) in [("hit", 0), ("miss", CLAIMS)] {
        let events: Vec<Hashed> =
            (0..4_096).map(|n| Hashed::new(first + n * 7_919 % CLAIMS)).collect();
        let mut next = events.iter().cycle();
        group.bench_function(format!("{name}, {kind}"), |b| {
            b.iter(|| next.next().map(|event| ask(black_box(*event))));
        });
    }
}

criterion_group!(claims, hashing, packed, recent, runs);
criterion_main!(claims);

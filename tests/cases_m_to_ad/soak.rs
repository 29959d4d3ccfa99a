//! Case P7: constant load for many retention periods: rows, tables, memory and file stay flat.

use txinbox::{Map, Retention, minutes};

use crate::checker;
use crate::kit::{Lab, event, id, sized};

/// The sizes of a store at one moment.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    claims: u64,
    runs: u64,
    buckets: u64,
    file_bytes: u64,
    memory_bytes: u64,
    table_rows: usize,
}

/// Runs `periods` retentions at `per_period` events each; sizes at the end of every period.
fn soak(per_period: u64, periods: u64) -> Vec<Sizes> {
    let lab = Lab::new(Retention::at_least(minutes(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let counts: Map<u64, u64> = inbox.map("counts").unwrap();
    let mut sizes = Vec::new();
    let batch = per_period / 32;
    for step in 0..periods * 32 {
        let numbers: Vec<u64> = (step * batch..(step + 1) * batch).collect();
        let answers = consumer.process_batch(
            &numbers,
            |n| event(*n).alias(id(*n | 1 << 40)),
            |tx, n| {
                tx.update(&counts, &(n % 100), |count| Some(count.unwrap_or(0) + 1))?;
                if n % 8 == 0 {
                    tx.set_result(vec![7; 100])?;
                }
                Ok(())
            },
        );
        assert_eq!(answers.settled_prefix(), numbers.len());
        lab.clock.advance(minutes(1));
        inbox.sweep().unwrap();
        if step % 32 == 31 {
            let stats = inbox.stats().unwrap();
            sizes.push(Sizes {
                claims: stats.consumers["c"].claims,
                runs: stats.runs,
                buckets: stats.buckets,
                file_bytes: stats.file_bytes,
                memory_bytes: stats.recent_memory_bytes + stats.filter_memory_bytes,
                table_rows: checker::tables(&inbox).values().map(Vec::len).sum(),
            });
        }
    }
    let total: u64 = inbox
        .read(|view| view.scan(&counts, .., 100))
        .unwrap_or_else(|error: txinbox::Error| panic!("{error}"))
        .iter()
        .map(|(_, count)| count)
        .sum();
    assert_eq!(total, periods * 32 * batch);
    checker::check(&inbox);
    sizes
}

fn p7_is_flat(per_period: u64) {
    let sizes = soak(per_period, 20);
    let (early, late) = sizes[2..].split_at(6);
    let most = |of: fn(&Sizes) -> u64, all: &[Sizes]| all.iter().map(of).max().unwrap();
    for (what, of) in [
        ("claims", (|s| s.claims) as fn(&Sizes) -> u64),
        ("runs", |s| s.runs),
        ("buckets", |s| s.buckets),
        ("file", |s| s.file_bytes),
        ("memory", |s| s.memory_bytes),
        ("rows", |s| s.table_rows as u64),
    ] {
        let (before, after) = (most(of, early), most(of, late));
        assert!(after <= before + before / 8 + 1, "{what} grew from {before} to {after}");
    }
    // Claims are kept for the retention, and an eighth or two until their bucket goes.
    let kept = most(|s| s.claims, late);
    assert!((per_period..=per_period * 5 / 4 + 1).contains(&kept), "{kept} of {per_period}");
    let last = sizes[sizes.len() - 1];
    assert!(last.buckets <= 9 && last.runs <= 16, "{last:?}");
    let per_row = last.file_bytes / (2 * last.claims);
    assert!(per_row < 1_000 || last.file_bytes < 8 << 20, "{per_row} bytes of file a row");
}

#[test]
fn p7_twenty_retentions_of_constant_load_stay_flat() {
    p7_is_flat(sized(3_200, 16_000));
}

#[test]
#[ignore = "ten million events; run by the deep suite: cargo test --release -- --ignored"]
fn p7_twenty_retentions_of_half_a_million_stay_flat() {
    p7_is_flat(512_000);
}

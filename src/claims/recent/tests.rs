//! The recent tables against a plain list of all rows.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::base::ids::{
    BucketId, ClassId, ConsumerId, Fingerprint, Generation, Place, StoreMs, WallMs,
};
use crate::base::limits::{ALIASES_MAX, GROUP_MAX_EVENTS, RECENT_MAX_CLAIMS};
use crate::base::random::Random;
use crate::claims::packed::tests::{any_claim, cpu_ns};
use crate::claims::row::{ClaimRow, RecentClaim, RowKind, StoredResult};

/// One step of a history: a group of rows, or a freezing of the young table.
#[derive(Clone, Debug)]
enum Step {
    Group(Vec<PackedRow>),
    Rotate,
    DropTables(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let head = (0..3_u64, 0..2_u16, any::<u64>(), any::<i64>());
    let claims = prop::collection::vec(any_claim(), 0..30);
    let row = (head, claims).prop_map(|((bucket, class, at, wall), claims)| PackedRow {
        bucket: BucketId(bucket),
        class: ClassId(class),
        at: StoreMs(at),
        wall: WallMs(wall),
        claims,
    });
    prop_oneof![
        6 => prop::collection::vec(row, 1..4).prop_map(Step::Group),
        1 => Just(Step::Rotate),
        1 => (0..4_usize).prop_map(Step::DropTables),
    ]
}

/// The obviously right table: a list of all rows.
#[derive(Default)]
struct Naive(Vec<(Hit, RecentClaim)>);

impl Naive {
    fn insert(&mut self, seq: Seq, row: &PackedRow) {
        for claim in &row.claims {
            let hit = Hit {
                position: (seq, claim.place),
                class: row.class,
                bucket: row.bucket,
                row: ClaimRow { hash: claim.hash, at: row.at, wall: row.wall, kind: claim.kind },
            };
            self.0.push((hit, *claim));
        }
    }

    fn aggregates(&self, through: Seq) -> Aggregates {
        let mut sums = Aggregates::new();
        for (hit, claim) in self.0.iter().filter(|(hit, _)| hit.position.0 <= through) {
            let bucket = sums.entry(hit.bucket).or_default();
            bucket.entry(claim.scope).or_default().add(claim);
        }
        sums
    }
}

fn sorted(hits: impl IntoIterator<Item = Hit>) -> Vec<String> {
    let mut all: Vec<_> = hits.into_iter().map(|hit| format!("{hit:?}")).collect();
    all.sort_unstable();
    all
}

fn found(recent: &Recent, hash: IdHash) -> Vec<Hit> {
    let mut hits = Vec::new();
    recent.find(hash, &mut |hit| hits.push(hit));
    hits
}

fn assert_same(recent: &Recent, naive: &Naive) {
    assert_eq!(recent.len(), naive.0.len());
    let tables = recent.frozen_tables();
    for pair in tables.windows(2) {
        assert!(pair[0].last_seq() < pair[1].first_seq(), "N1");
    }
    let through = tables.last().map_or(Seq(0), |t| t.last_seq());
    let sealed = naive.0.iter().map(|(hit, _)| *hit);
    assert_eq!(sorted(rows_of(&tables)), sorted(sealed.filter(|hit| hit.position.0 <= through)));
    assert_eq!(aggregates_of(&tables), naive.aggregates(through));
    let mut newest = BTreeMap::new();
    for (hit, claim) in &naive.0 {
        let same = naive.0.iter().filter(|(o, _)| o.row.hash == hit.row.hash);
        let hits = found(recent, hit.row.hash);
        assert_eq!(sorted(hits), sorted(same.map(|(hit, _)| *hit)), "N2");
        let time = newest.entry(claim.scope).or_insert(None);
        *time = claim.event_time.max(*time);
    }
    for (scope, time) in newest {
        assert_eq!(recent.newest_event_time(scope), time);
    }
    assert!(found(recent, IdHash(u128::MAX / 3)).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_a_list_of_all_rows(
        max_claims in 1..200_usize,
        expected in 0..300_usize,
        steps in prop::collection::vec(any_step(), 1..12),
    ) {
        let mut recent = Recent::with_expected(max_claims, expected);
        let mut naive = Naive::default();
        for (n, step) in (1..).zip(steps) {
            match step {
                Step::Group(rows) => rows.iter().for_each(|row| {
                    recent.insert_row(Seq(n), row);
                    naive.insert(Seq(n), row);
                }),
                Step::Rotate => {
                    recent.rotate();
                    prop_assert_eq!(recent.young_len(), 0);
                }
                Step::DropTables(count) => {
                    let tables = recent.frozen_tables();
                    let last = tables.iter().take(count).next_back();
                    let seq = last.map_or(Seq(0), |t| t.last_seq());
                    let dropped = recent.drop_through(seq).len();
                    prop_assert_eq!(dropped, count.min(tables.len()));
                    naive.0.retain(|(hit, _)| hit.position.0 > seq);
                }
            }
        }
        assert_same(&recent, &naive);
    }
}

fn plain_row(first: u64, claims: usize) -> PackedRow {
    let random = Random::seeded(first);
    let bits = || random.next_u64().unwrap();
    PackedRow {
        bucket: BucketId(1),
        class: ClassId(0),
        at: StoreMs(first),
        wall: WallMs(0),
        claims: (0..claims)
            .map(|n| RecentClaim {
                hash: IdHash(u128::from(bits()) << 64 | u128::from(bits())),
                place: Place(n as u32),
                scope: Scope { consumer: ConsumerId(1), generation: Generation(0) },
                event_time: None,
                kind: RowKind::Claim {
                    fingerprint: Some(Fingerprint(bits())),
                    result: StoredResult::None,
                },
            })
            .collect(),
    }
}

/// N3: small stores stay small, big ones reach tables of half the maximum and stay there.
#[test]
fn tables_grow_from_small_to_half_of_the_maximum() {
    let mut recent = Recent::new(40_000);
    assert_eq!(recent.bytes(), 0);
    for seq in 1..=100 {
        recent.insert_row(Seq(seq), &plain_row(seq, 1_000));
        if seq == 1 {
            assert!(recent.bytes() < 200_000, "{}", recent.bytes());
        }
    }
    let sizes: Vec<_> = recent.frozen_tables().iter().map(|t| t.len()).collect();
    assert_eq!(sizes, [8_000, 20_000, 20_000, 20_000, 20_000]);
    assert_eq!(recent.young_len(), 12_000);
    let expecting = {
        let mut recent = Recent::with_expected(40_000, 18_000);
        (1..=18).for_each(|seq| recent.insert_row(Seq(seq), &plain_row(seq, 1_000)));
        recent
    };
    assert_eq!((expecting.young_len(), expecting.frozen_tables().len()), (18_000, 0));
    assert!(expecting.bytes() < 18_000 * 41);
}

/// T1: the largest group there can be arrives in page-sized rows at a small table.
#[test]
fn a_group_larger_than_a_table_stays_in_one_table() {
    let rows = GROUP_MAX_EVENTS * (1 + ALIASES_MAX) / 130;
    let mut recent = Recent::new(1_000);
    recent.insert_row(Seq(1), &plain_row(1, 100));
    for row in 0..rows as u64 {
        recent.insert_row(Seq(2), &plain_row(10 + row, 130));
    }
    recent.insert_row(Seq(3), &plain_row(3, 1));
    let tables = recent.frozen_tables();
    assert_eq!(tables.len(), 1);
    assert_eq!((tables[0].first_seq(), tables[0].last_seq()), (Seq(1), Seq(2)));
    assert_eq!(tables[0].len(), 100 + rows * 130);
    assert!(tables[0].bytes() < tables[0].len() * 80);
    for claim in &plain_row(10 + rows as u64 / 2, 130).claims {
        assert_eq!(found(&recent, claim.hash).len(), 1);
    }
}

#[test]
fn a_frozen_table_outlives_its_dropping_for_whoever_reads_it() {
    let mut recent = Recent::new(100);
    recent.insert_row(Seq(1), &plain_row(1, 10));
    recent.rotate();
    recent.rotate();
    let reading = recent.frozen_tables();
    assert_eq!(reading.len(), 1);
    drop(recent.drop_through(Seq(1)));
    assert!(recent.is_empty() && recent.frozen_tables().is_empty());
    assert_eq!(rows_of(&reading).count(), 10);
}

/// Nanoseconds an item over slices of 10,000: the median, and the best, which neighbours on the
/// same machine disturb least.
#[cfg(unix)]
fn timed<T>(items: &[T], mut f: impl FnMut(&[T])) -> String {
    let mut times: Vec<_> = items
        .chunks_exact(10_000)
        .map(|slice| {
            let start = cpu_ns();
            f(slice);
            (cpu_ns() - start) as f64 / slice.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1})", times[times.len() / 2], times[0])
}

/// `cargo test --release measure_recent -- --ignored --nocapture`
#[cfg(unix)]
#[test]
#[ignore = "a measurement"]
fn measure_recent() {
    println!("ns an item, median of slices (best):");
    for (group, grown) in [(1, true), (1, false), (1_000, true), (1_000, false)] {
        let rows: Vec<_> =
            (1..=(RECENT_MAX_CLAIMS / group) as u64).map(|seq| plain_row(seq, group)).collect();
        let claims: Vec<_> = rows.iter().flat_map(|r| &r.claims).map(|c| c.hash).collect();
        let missing = plain_row(0, 1_000_000).claims;
        let expected = if grown { 0 } else { RECENT_MAX_CLAIMS };
        let mut recent = Recent::with_expected(RECENT_MAX_CLAIMS, expected);
        let start = cpu_ns();
        for (seq, row) in (1..).zip(&rows) {
            recent.insert_row(Seq(seq), row);
        }
        let insert = (cpu_ns() - start) as f64 / claims.len() as f64;
        let mut hits = 0;
        let miss = timed(&missing, |slice| {
            for claim in slice {
                recent.find(claim.hash, &mut |_| hits += 1);
            }
        });
        let touched = timed(&missing, |slice| {
            for batch in slice.chunks(1_000) {
                batch.iter().for_each(|claim| recent.touch(claim.hash));
                for claim in batch {
                    recent.find(claim.hash, &mut |_| hits += 1);
                }
            }
        });
        assert_eq!(hits, 0);
        let hit = timed(&claims, |slice| {
            for hash in slice {
                recent.find(*hash, &mut |hit| hits += hit.position.0.0.min(1));
            }
        });
        recent.rotate();
        let tables = recent.frozen_tables();
        let start = cpu_ns();
        let listed: u64 = rows_of(&tables).map(|h| h.position.0.0.min(1)).sum();
        let list = (cpu_ns() - start) as f64 / listed as f64;
        let bytes = recent.bytes() as f64 / recent.len() as f64;
        println!(
            "{listed} rows in {} tables by groups of {group}: insert {insert:.1}, miss {miss}, \
             miss after touching 1000 {touched}, hit {hit}, list {list:.1}; {bytes:.1} bytes a row",
            tables.len(),
        );
    }
}

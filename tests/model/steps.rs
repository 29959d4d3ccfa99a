//! Draws runs of steps.

use proptest::collection::vec;
use proptest::prelude::*;
use txinbox::testkit::{End, Item, Keep, Loss, Op, Trouble};

const IDS: u16 = 24;

fn item() -> impl Strategy<Value = Item> {
    let writes = vec((0..6_u8, prop::option::weighted(0.8, 0..100_u64)), 0..3);
    let end = prop_oneof![
        12 => Just(End::Ok),
        1 => Just(End::Refuse),
        1 => Just(End::Skip),
        1 => Just(End::Fail),
    ];
    let time_ms = prop_oneof![
        3 => Just(None),
        3 => (-120_000..4_000_i64).prop_map(Some),
        1 => (0..200_000_i64).prop_map(Some),
    ];
    let result_bytes =
        prop_oneof![4 => Just(None), 1 => Just(Some(0)), 3 => (1..40_u16).prop_map(Some)];
    let fingerprint = prop::option::weighted(0.6, 0..2_u64);
    let aliases = prop_oneof![4 => Just(Vec::new()), 1 => vec(0..IDS, 1..3)];
    (0..IDS, aliases, fingerprint, time_ms, writes, result_bytes, end).prop_map(
        |(id, aliases, fingerprint, time_ms, writes, result_bytes, end)| Item {
            id,
            aliases,
            fingerprint,
            time_ms,
            writes,
            result_bytes,
            end,
        },
    )
}

fn panicking() -> impl Strategy<Value = Item> {
    item().prop_map(|item| Item { end: End::Panic, ..item })
}

fn ask() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..4_u8, item()).prop_map(|(c, item)| Op::Process(c, item)),
        6 => (0..4_u8, vec(item(), 2..12)).prop_map(|(c, items)| Op::Batch(c, items)),
        1 => (0..4_u8, panicking()).prop_map(|(c, item)| Op::Process(c, item)),
        1 => (0..4_u8, vec(item(), 1..4), panicking()).prop_map(|(c, mut items, last)| {
            items.push(last);
            Op::Batch(c, items)
        }),
        2 => (0..4_u8, 50..300_u16).prop_map(|(c, n)| Op::Fill(c, n)),
        2 => (0..4_u8, 0..IDS).prop_map(|(c, id)| Op::Forget(c, id)),
        5 => Just(Op::Sweep),
    ]
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![
        Just(Keep::Nothing),
        Just(Keep::Everything),
        Just(Keep::Lengths),
        Just(Keep::Writes),
        (0..6_usize).prop_map(Keep::Only),
        (0..6_usize).prop_map(Keep::AllBut),
        any::<u64>().prop_map(Keep::Subset),
        any::<u64>().prop_map(Keep::Sectors),
        (0..8_usize, 1..4_096_usize, any::<bool>(), any::<bool>())
            .prop_map(|(op, at, prefix, rest)| Keep::Torn { op, at, prefix, rest }),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        Just(Trouble::Error),
        Just(Trouble::Errors),
        (0..4_096_u16).prop_map(Trouble::ShortRead),
        (0..4_096_u16).prop_map(Trouble::ShortWrite),
        Just(Trouble::Full),
        Just(Trouble::Fulls),
        Just(Trouble::LostSync(Loss::All)),
        any::<u64>().prop_map(|seed| Trouble::LostSync(Loss::Part(seed))),
    ]
}

fn time() -> impl Strategy<Value = Op> {
    let advance = prop_oneof![1..50_u64, 500..4_000_u64, 4_000..12_000_u64, 15_000..80_000_u64];
    prop_oneof![
        8 => advance.prop_map(Op::Advance),
        1 => prop_oneof![-100_000..100_000_i64, Just(-10_000_000_000), Just(315_000_000_000)]
            .prop_map(Op::Wall),
        1 => (-20_000..20_000_i64).prop_map(Op::Boot),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let opening = prop_oneof![Just(Op::Kill), keep().prop_map(Op::PowerCut)];
    prop_oneof![
        30 => ask(),
        8 => time(),
        1 => prop_oneof![Just(0), 1..100_000_u64].prop_map(Op::Reopen),
        1 => Just(Op::Kill),
        1 => keep().prop_map(Op::PowerCut),
        2 => (1..30_u64, keep(), ask())
            .prop_map(|(n, keep, op)| Op::CrashIn(n, keep, Box::new(op))),
        1 => (1..60_u64, keep(), opening)
            .prop_map(|(n, keep, op)| Op::CrashIn(n, keep, Box::new(op))),
        2 => (1..20_u64, trouble(), ask())
            .prop_map(|(n, trouble, op)| Op::TroubleIn(n, trouble, Box::new(op))),
        1 => (0..4_u8, 10..90_u16).prop_map(|(c, secs)| Op::Retain(c, secs)),
    ]
}

/// Up to 200 steps and a seed.
pub(crate) fn runs() -> impl Strategy<Value = (u64, Vec<Op>)> {
    (any::<u64>(), vec(op(), 1..200))
}

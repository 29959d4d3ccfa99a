//! The workloads.

use txinbox::testkit::{End, Item, Loss, Op, Trouble};

fn item(id: u16) -> Item {
    Item { id, writes: vec![((id % 5) as u8, Some(u64::from(id)))], ..Item::default() }
}

fn timed(id: u16, time_ms: i64) -> Item {
    Item { time_ms: Some(time_ms), ..item(id) }
}

/// Single events and batches, all answers, several consumers.
pub(crate) fn mixed() -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..14_u16 {
        let id = round * 5;
        ops.push(Op::Process(0, Item { result_bytes: Some(20), ..timed(id, -1_000) }));
        ops.push(Op::Process(1, Item { fingerprint: Some(1), ..item(id) }));
        ops.push(Op::Process(1, Item { fingerprint: Some(2), ..item(id) }));
        ops.push(Op::Batch(
            2,
            vec![
                item(id),
                item(id),
                Item { end: End::Fail, ..item(id + 1) },
                Item { end: End::Skip, ..item(id + 2) },
                Item { end: End::Refuse, ..item(id + 500) },
                Item { writes: vec![(0, None)], ..item(id + 3) },
            ],
        ));
        ops.push(Op::Batch(0, vec![item(id), Item { end: End::Panic, ..item(id + 4) }]));
        ops.push(Op::Advance(700));
        ops.push(Op::Process(0, timed(id, -1_000)));
    }
    ops
}

/// Enough claims and time that they are sealed, merged and forgotten.
pub(crate) fn ageing() -> Vec<Op> {
    let mut ops = vec![Op::Process(1, timed(0, -5_000))];
    for round in 0..3 {
        ops.push(Op::Process(1, timed(1 + round, -4_000)));
        ops.push(Op::Fill(1, 270));
        ops.push(Op::Fill(1, 270));
        ops.push(Op::Sweep);
    }
    ops.extend([Op::Advance(3_000), Op::Sweep, Op::Forget(1, 2), Op::Sweep]);
    ops.extend([Op::Process(1, timed(5, -3_000)), Op::Advance(26_000), Op::Sweep]);
    ops.extend([Op::Process(1, timed(0, -5_000)), Op::Process(1, item(1)), Op::Sweep]);
    ops
}

/// Aliases, results that expire before their claims, and forgetting by hand.
pub(crate) fn aliases() -> Vec<Op> {
    let alias = |id, aliases: &[u16]| Item {
        aliases: aliases.to_vec(),
        result_bytes: Some(30),
        ..item(id)
    };
    let mut ops = Vec::new();
    for base in [0, 10] {
        ops.push(Op::Process(2, alias(base, &[base + 1, base + 2])));
        ops.push(Op::Process(2, alias(base + 2, &[base + 3])));
        ops.push(Op::Batch(2, vec![alias(base + 5, &[base + 6]), alias(base + 6, &[base + 7])]));
        ops.push(Op::Forget(2, base + 3));
        ops.push(Op::Process(2, alias(base + 1, &[])));
        ops.push(Op::Advance(6_000));
        ops.push(Op::Sweep);
        ops.push(Op::Process(2, item(base + 7)));
        ops.push(Op::Forget(2, base + 7));
        ops.push(Op::Process(2, item(base + 5)));
    }
    ops.extend([Op::Advance(8_000), Op::Sweep, Op::Advance(9_000), Op::Sweep]);
    ops
}

/// Failing calls that the store heals from while it is open.
pub(crate) fn troubled() -> Vec<Op> {
    let mut ops = vec![Op::Process(0, item(0)), Op::Fill(0, 60)];
    for (n, trouble) in [
        Trouble::LostSync(Loss::All),
        Trouble::Error,
        Trouble::LostSync(Loss::Part(5)),
        Trouble::ShortWrite(100),
        Trouble::Full,
    ]
    .into_iter()
    .enumerate()
    {
        let id = 1 + n as u16 * 2;
        let calls = 1 + n as u64 % 3;
        ops.push(Op::TroubleIn(calls, trouble, Box::new(Op::Process(0, item(id)))));
        ops.push(Op::Process(0, item(id)));
        ops.push(Op::Process(1, timed(id, -10)));
    }
    ops
}

/// A little of everything.
pub(crate) fn short() -> Vec<Op> {
    let both = Item { aliases: vec![2], result_bytes: Some(9), ..timed(1, -100) };
    vec![
        Op::Process(0, both),
        Op::Batch(1, vec![item(3), item(4), item(3)]),
        Op::Forget(0, 2),
        Op::Fill(1, 40),
        Op::Advance(4_000),
        Op::Sweep,
        Op::Process(0, item(5)),
    ]
}

/// What the next process does.
pub(crate) fn after() -> Vec<Op> {
    vec![Op::Process(0, item(1)), Op::Process(1, item(3)), Op::Sweep, Op::Process(0, item(6))]
}

//! J4: many ids, and ids that weak hashes take for one another.
//!
//! Identity is a keyed hash of 128 bits (`EventId`), so neither chance nor a sender makes two ids
//! one. Each family here is checked to clash under its weak hash before it is used.

use std::collections::HashSet;

use txinbox::{Event, EventId, Inbox, Retention, days};

use crate::support::{everywhere, never};

fn adler32(bytes: &[u8]) -> u32 {
    let add = |(a, b): (u32, u32), byte: &u8| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (a + b) % 65_521)
    };
    let (a, b) = bytes.iter().fold((1, 0), add);
    b << 16 | a
}

fn crc32_register(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |register, byte| {
        (0..8).fold(register ^ u32::from(*byte), |r, _| {
            (r >> 1) ^ (0xedb8_8320 & (r & 1).wrapping_neg())
        })
    })
}

fn fnv1a_64(bytes: &[u8]) -> u64 {
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn fnv1_64(bytes: &[u8]) -> u64 {
    let step = |h: u64, byte: &u8| h.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Hash of strings as Java has it.
fn times_31(bytes: &[u8]) -> u64 {
    let step = |h: u32, byte: &u8| h.wrapping_mul(31).wrapping_add(u32::from(*byte));
    u64::from(bytes.iter().fold(0, step))
}

/// A weak hash, and distinct byte strings that it cannot tell apart.
type Family = (fn(&[u8]) -> u64, Vec<Vec<u8>>);

fn families() -> Vec<Family> {
    // Triples with one sum and one weighted sum: neither sum of Adler-32 moves.
    let triple = |k: u8| [k, 200 - 2 * k, k];
    let adler = (0..900).map(|n: u32| [triple((n % 30) as u8), triple((n / 30) as u8)].concat());
    // Four bytes behind any number bring the register of CRC-32 to one value.
    let crc = (0..2_000_u64).map(|n| {
        let mut bytes = n.to_be_bytes().to_vec();
        let patch = crc32_register(&bytes) ^ 0x1234_5678;
        bytes.extend(patch.to_le_bytes());
        bytes
    });
    // Strings that both FNVs take to zero; more zeros keep it there.
    let behind_zero =
        |zero: &[u8]| -> Vec<Vec<u8>> { (0..500).map(|n| [zero, &vec![0; n]].concat()).collect() };
    let to_zero_1a = [0xd5, 0x6b, 0xb9, 0x53, 0x42, 0x87, 0x08, 0x36];
    let to_zero_1 = [0x92, 0x06, 0x77, 0x4c, 0xe0, 0x2f, 0x89, 0x2a, 0xd2];
    let pairs = [
        ["8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"],
        ["gMPflVXtwGDXbIhP73TX", "LtHf1prlU1bCeYZEdqWf"],
    ];
    let words = (0..1_024).map(|n: u32| {
        let word = |bit: u32| if n >> bit & 1 == 1 { "Aa" } else { "BB" };
        (0..10).flat_map(|bit| word(bit).bytes()).collect()
    });
    let mut families: Vec<Family> = vec![
        (|bytes| u64::from(adler32(bytes)), adler.collect()),
        (|bytes| u64::from(crc32_register(bytes)), crc.collect()),
        (fnv1a_64, behind_zero(&to_zero_1a)),
        (fnv1_64, behind_zero(&to_zero_1)),
        (times_31, words.collect()),
    ];
    families.extend(
        pairs.map(|pair| -> Family {
            (fnv1a_64, pair.map(|text| text.as_bytes().to_vec()).to_vec())
        }),
    );
    families
}

#[test]
fn j4_crafted_clashes_of_weak_hashes_are_distinct_events() {
    let families = families();
    for (hash, members) in &families {
        let hashes: HashSet<u64> = members.iter().map(|member| hash(member)).collect();
        assert_eq!(hashes.len(), 1, "they clash");
        assert_eq!(members.iter().collect::<HashSet<_>>().len(), members.len(), "they differ");
    }
    let ids: HashSet<EventId> =
        families.iter().flat_map(|(_, m)| m).map(|bytes| EventId::bytes(bytes).unwrap()).collect();
    let ids: Vec<EventId> = ids.into_iter().collect();
    assert!(ids.len() > 4_900);
    everywhere(|place, set| {
        for delivery in 0..2 {
            // A small table in memory, so that most of them are looked up in sorted runs.
            let inbox = place.open_with(|builder| set(builder).recent_max_claims(1 << 10));
            let consumer = inbox.consumer("c").unwrap();
            for chunk in ids.chunks(500) {
                let batch =
                    consumer.process_batch(chunk, |id| Event::unchecked(id.clone()), |_, _| Ok(()));
                for answer in batch {
                    let outcome = answer.unwrap();
                    assert_eq!(outcome.is_applied(), delivery == 0);
                    assert_eq!(outcome.is_duplicate(), delivery == 1);
                }
            }
            inbox.sweep().unwrap();
            assert!(inbox.stats().unwrap().sealed_claims > 2_000);
        }
    });
}

/// A million ids (fifty thousand in a debug build), each delivered twice, and as many that never were.
#[test]
fn j4_a_million_ids_are_distinct_events() {
    let ids: u32 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let numbers: Vec<u32> = (0..ids).collect();
    // Dense numbers, sparse bits, text and parts, in turn.
    let id = |n: u32| {
        match n % 4 {
            0 => EventId::bytes(&n.to_le_bytes()),
            1 => EventId::bytes(&(1_u128 << (n % 64) | u128::from(n) << 64).to_be_bytes()),
            2 => EventId::text(&format!("order-{n}")),
            _ => EventId::parts(&[&n.to_be_bytes(), b"\0"]),
        }
        .unwrap()
    };
    let inbox = Inbox::builder(Retention::at_least(days(7)))
        .recent_max_claims(ids as usize / 4)
        .open_in_memory()
        .unwrap();
    let consumer = inbox.consumer("c").unwrap();
    for delivery in 0..2 {
        for chunk in numbers.chunks(4_000) {
            let batch = consumer.process_batch(
                chunk,
                |n| Event::unchecked(id(*n)),
                |tx, _| if delivery == 0 { Ok(()) } else { never(tx) },
            );
            for (n, answer) in chunk.iter().zip(batch) {
                let outcome = answer.unwrap();
                assert_eq!(outcome.is_duplicate(), delivery == 1, "{n}: a false answer");
            }
        }
    }
    for n in ids..2 * ids {
        assert!(consumer.lookup(&id(n)).unwrap().is_none(), "{n} was never delivered");
    }
    let stats = inbox.stats().unwrap();
    assert!(stats.sealed_claims > u64::from(ids) / 2, "{stats:?}");
    let consumer = &stats.consumers["c"];
    assert_eq!([consumer.applied, consumer.duplicates], [u64::from(ids); 2]);
}

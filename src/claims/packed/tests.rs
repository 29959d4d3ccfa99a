//! Packed rows against their golden bytes, a naive reader and every kind of damage.

use proptest::prelude::*;

use super::*;

/// Processor time of this thread in nanoseconds, which busy neighbours distort least.
#[cfg(unix)]
pub(crate) fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub(crate) fn any_claim() -> impl Strategy<Value = RecentClaim> {
    let hash = prop_oneof![any::<u128>(), (0..4_u128).prop_map(|h| h)].prop_map(IdHash);
    let result = prop_oneof![
        Just(StoredResult::None),
        any::<bool>().prop_map(|refused| StoredResult::Empty { refused }),
        any::<(u64, bool)>()
            .prop_map(|(k, refused)| StoredResult::Key { key: ResultKey(k), refused })
    ];
    let claim = (any::<Option<u64>>(), result)
        .prop_map(|(f, result)| RowKind::Claim { fingerprint: f.map(Fingerprint), result });
    let alias = hash.clone().prop_map(|primary| RowKind::Alias { primary });
    let scope = prop_oneof![Just((0, 0)), Just((1, 0)), any::<(u32, u32)>()];
    let place = prop_oneof![0..9_u32, 0..=PLACE_MAX];
    let kind = prop_oneof![3 => claim, 1 => alias];
    (hash, place, scope, any::<Option<i64>>(), kind).prop_map(|(hash, place, scope, time, kind)| {
        RecentClaim {
            hash,
            place: Place(place),
            scope: Scope { consumer: ConsumerId(scope.0), generation: Generation(scope.1) },
            event_time: time.map(EventMs),
            kind,
        }
    })
}

fn any_row(claims: std::ops::Range<usize>) -> impl Strategy<Value = PackedRow> {
    let claims = prop::collection::vec(any_claim(), claims);
    (any::<(u64, u16, u64, i64)>(), claims).prop_map(|((bucket, class, at, wall), claims)| {
        PackedRow {
            bucket: BucketId(bucket),
            class: ClassId(class),
            at: StoreMs(at),
            wall: WallMs(wall),
            claims,
        }
    })
}

/// What a busy consumer writes: claims with fingerprints at consecutive places of one scope.
fn plain_row(claims: u32) -> PackedRow {
    PackedRow {
        bucket: BucketId(9),
        class: ClassId(0),
        at: StoreMs(3_600_000),
        wall: WallMs(1_796_083_200_000),
        claims: (0..claims)
            .map(|n| RecentClaim {
                hash: IdHash(u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)),
                place: Place(n),
                scope: Scope { consumer: ConsumerId(1), generation: Generation(0) },
                event_time: None,
                kind: RowKind::Claim {
                    fingerprint: Some(Fingerprint(u64::from(n) << 40)),
                    result: StoredResult::None,
                },
            })
            .collect(),
    }
}

/// The chunks put together again.
fn join(chunks: impl IntoIterator<Item = Vec<u8>>) -> Option<PackedRow> {
    let mut rows = chunks.into_iter().map(|chunk| decode(&chunk).unwrap());
    let mut whole = rows.next()?;
    for part in rows {
        let head = |r: &PackedRow| (r.bucket, r.class, r.at, r.wall);
        assert_eq!(head(&whole), head(&part));
        whole.claims.extend(part.claims);
    }
    Some(whole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn rows_round_trip_and_no_chunk_exceeds_a_page(row in any_row(1..250)) {
        for chunk in encode_chunks(&row) {
            prop_assert!(chunk.len() <= CHUNK_MAX_BYTES);
        }
        prop_assert_eq!(join(encode_chunks(&row)), Some(row));
    }

    /// K3: one row, one encoding, however the bytes came about.
    #[test]
    fn whatever_decodes_encodes_to_the_same_bytes(
        row in any_row(1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..3),
    ) {
        let chunk = encode_chunks(&row).next().unwrap();
        let mut body = unseal(&chunk).unwrap().to_vec();
        for (place, bit) in changes {
            let place = place.index(body.len());
            body[place] ^= 1 << bit;
        }
        let mut w = Writer::new();
        w.raw(&body);
        let forged = w.seal();
        if let Ok(row) = decode(&forged) {
            prop_assert_eq!(encode_chunks(&row).collect::<Vec<_>>(), vec![forged]);
        }
    }

    #[test]
    fn keys_round_trip_in_order(a in any::<(u64, u16)>(), b in any::<(u64, u16)>()) {
        let key = |(seq, chunk)| chunk_key(Seq(seq), chunk);
        prop_assert_eq!(read_chunk_key(&key(a)), Ok((Seq(a.0), a.1)));
        prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
    }
}

#[test]
fn golden_bytes_of_a_row_with_every_kind_of_claim() {
    let scope = |consumer, generation| Scope {
        consumer: ConsumerId(consumer),
        generation: Generation(generation),
    };
    let claim = |hash, place, scope, time: Option<i64>, kind| RecentClaim {
        hash: IdHash(hash),
        place: Place(place),
        scope,
        event_time: time.map(EventMs),
        kind,
    };
    let settled = |fingerprint: Option<u64>, result| RowKind::Claim {
        fingerprint: fingerprint.map(Fingerprint),
        result,
    };
    let empty = |refused| StoredResult::Empty { refused };
    let key = |key| StoredResult::Key { key: ResultKey(key), refused: false };
    let alias = |primary| RowKind::Alias { primary: IdHash(primary) };
    let row = PackedRow {
        bucket: BucketId(300),
        class: ClassId(2),
        at: StoreMs(5),
        wall: WallMs(-1),
        claims: vec![
            claim(1, 0, scope(0, 0), None, settled(None, StoredResult::None)),
            claim(2, 1, scope(7, 1), Some(-3), settled(Some(9), key(256))),
            claim(3, 2, scope(7, 1), Some(-2), alias(2)),
            claim(4, 5, scope(7, 1), None, alias(1)),
            claim(5, 6, scope(7, 1), None, settled(None, key(257))),
            claim(6, 7, scope(7, 1), None, settled(Some(1), empty(false))),
            claim(7, 8, scope(7, 1), None, settled(None, empty(true))),
        ],
    };
    let le = |n: u128| n.to_le_bytes();
    let expected = [
        &[2, 0xac, 2, 2, 5, 1][..], // version, bucket, class, at, wall
        &[0b0000_0000],
        &le(1),
        &[0b0011_1010, 7, 1, 3], // scope, event time -2 from the wall time
        &le(2),
        &9_u64.to_le_bytes(),
        &[0x80, 2], // result key
        &[0b0001_0011, 2],
        &le(3),
        &[0b0100_0001, 3], // three places on
        &le(4),
        &le(1),
        &[0b0000_1000],
        &le(5),
        &[1], // one result key on
        &[0b0000_0110],
        &le(6),
        &1_u64.to_le_bytes(),
        &[0b1000_0100],
        &le(7),
    ]
    .concat();
    let chunks: Vec<_> = encode_chunks(&row).collect();
    assert_eq!(chunks.len(), 1);
    assert_eq!(unseal(&chunks[0]), Ok(&expected[..]));
    assert_eq!(chunks[0][expected.len()..], GOLDEN_CRC);
    assert_eq!(decode(&chunks[0]), Ok(row));
    assert_eq!(chunk_key(Seq(0x0102_0304), 5), [0, 0, 0, 0, 1, 2, 3, 4, 0, 5]);
}

const GOLDEN_CRC: [u8; 4] = [162, 124, 131, 9];

#[test]
fn every_flipped_bit_and_every_truncation_is_refused() {
    for row in [plain_row(1), plain_row(40)] {
        let chunk = encode_chunks(&row).next().unwrap();
        for bit in 0..chunk.len() * 8 {
            let mut bad = chunk.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..chunk.len() {
            assert!(decode(&chunk[..len]).is_err(), "length {len}");
        }
    }
    for len in (0..20).filter(|len| *len != KEY_BYTES) {
        assert!(read_chunk_key(&vec![0; len]).is_err(), "key of {len}");
    }
}

/// Damage below the checksum (a writer's bug, or a forged file) is refused too, never a panic.
#[test]
fn malformed_bodies_under_a_good_checksum_are_refused() {
    let seal = |body: &[u8]| {
        let mut w = Writer::new();
        w.raw(body);
        w.seal()
    };
    let chunk = encode_chunks(&plain_row(3)).next().unwrap();
    let body = unseal(&chunk).unwrap();
    let mut ends = Vec::new(); // a cut between two claims leaves a shorter row
    for len in 0..body.len() {
        if let Ok(row) = decode(&seal(&body[..len])) {
            ends.push((len, row.claims.len()));
        }
    }
    let per_claim = 1 + 16 + 8;
    assert_eq!(ends, [(body.len() - 2 * per_claim, 1), (body.len() - per_claim, 2)]);
    let head = [2, 0, 0, 0, 0];
    let tail = [0; 64];
    for tag in [REFUSED, ALIAS | REFUSED, ALIAS | FINGERPRINT_OR_NEAR, ALIAS | 4, RESULT_MASK] {
        assert!(decode(&seal(&[&head[..], &[tag], &tail[..]].concat())).is_err());
    }
    for (tag, spelled) in [(PLACE, &[1][..]), (SCOPE, &[0, 0]), (PLACE, &[0])] {
        assert!(decode(&seal(&[&head[..], &[tag], spelled, &[0; 16]].concat())).is_err());
    }
    assert!(decode(&seal(&[3, 0, 0, 0, 0, 0])).is_err(), "newer version");
    assert!(decode(&seal(&head)).is_err(), "no claims");
    assert!(decode(&seal(&[2, 0, 0x80, 0x80, 4, 0, 0])).is_err(), "class");
}

#[test]
fn a_row_of_one_claim_is_small_and_a_thousand_fill_their_pages() {
    let one: Vec<_> = encode_chunks(&plain_row(1)).collect();
    assert_eq!(one.iter().map(Vec::len).collect::<Vec<_>>(), [44]);
    let many: Vec<_> = encode_chunks(&plain_row(1000)).collect();
    assert_eq!(many.len(), 7);
    for chunk in &many[..6] {
        assert!(chunk.len() > CHUNK_MAX_BYTES - CLAIM_MAX_BYTES);
    }
    assert_eq!(encode_chunks(&plain_row(0)).count(), 0);
}

#[test]
fn chunks_of_a_group_are_numbered_through_its_classes() {
    let mut other = plain_row(3);
    other.class = ClassId(1);
    let rows = [plain_row(300), other];
    let stored: Vec<_> = encode_group(Seq(8), &rows).collect();
    let keys: Vec<_> = stored.iter().map(|(k, _)| read_chunk_key(k)).collect();
    assert_eq!(keys, [Ok((Seq(8), 0)), Ok((Seq(8), 1)), Ok((Seq(8), 2))]);
    let class = |n: usize| decode(&stored[n].1).unwrap().class;
    assert_eq!([class(0), class(1), class(2)], [ClassId(0), ClassId(0), ClassId(1)]);
}

/// K2 against the database itself: each chunk costs one page, not two.
#[test]
fn a_chunk_and_its_key_take_one_page_of_the_database() {
    use crate::storage::db::Db;
    use crate::storage::disk::{Disk, MemoryDisk};
    let pages = |value_bytes: usize| {
        let disk = MemoryDisk::default();
        let db = Db::open(disk.open("db", true).unwrap(), 1 << 20).unwrap();
        let value = vec![7; value_bytes];
        let keys: Vec<_> = (0..2_000).map(|n| chunk_key(Seq(n), 0)).collect();
        let txn = db.write(true).unwrap();
        let rows = keys.iter().map(|k| (&k[..], &value[..]));
        txn.table("t").unwrap().append(rows).unwrap();
        txn.commit().unwrap();
        drop(db);
        disk.open("db", true).unwrap().len().unwrap()
    };
    assert!(pages(CHUNK_MAX_BYTES + 1) > pages(CHUNK_MAX_BYTES) * 3 / 2);
}

/// `cargo test --release measure_packed -- --ignored --nocapture`
#[cfg(unix)]
#[test]
#[ignore = "a measurement"]
fn measure_packed() {
    let row = plain_row(1000);
    let rounds = 2_000;
    let start = cpu_ns();
    let mut bytes = 0;
    for _ in 0..rounds {
        bytes += encode_chunks(std::hint::black_box(&row)).map(|c| c.len()).sum::<usize>();
    }
    let encoded = cpu_ns() - start;
    let chunks: Vec<_> = encode_chunks(&row).collect();
    let start = cpu_ns();
    for _ in 0..rounds {
        for chunk in &chunks {
            std::hint::black_box(decode(std::hint::black_box(chunk))).unwrap();
        }
    }
    let decoded = cpu_ns() - start;
    let per = |ns: u64| ns as f64 / (f64::from(rounds) * 1e3);
    println!(
        "packed: encode {:.1} ns, decode {:.1} ns, {:.2} bytes a claim",
        per(encoded),
        per(decoded),
        bytes as f64 / (f64::from(rounds) * 1e3),
    );
}

//! Blocks: golden bytes, limits, damage, and every kind of row against plain rows.

use proptest::prelude::*;

use super::super::merge::order;
use super::*;
use crate::base::ids::{Fingerprint, IdHash, ResultKey};
use crate::claims::row::{ClaimRow, RowKind, StoredResult};

const OWNER: u32 = 0x0403_0201;

fn plain(hash: u128, at: u64, wall: i64) -> ClaimRow {
    ClaimRow {
        hash: IdHash(hash),
        at: StoreMs(at),
        wall: WallMs(wall),
        kind: RowKind::Claim {
            fingerprint: Some(Fingerprint(0x1122_3344_5566_7788)),
            result: StoredResult::None,
        },
    }
}

fn with_kind(hash: u128, kind: RowKind) -> ClaimRow {
    ClaimRow { kind, ..plain(hash, 1000, 5000) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn k2_golden_bytes_of_plain_rows_never_change() {
    let rows = [plain(1, 1000, 5000), plain(2, 1300, 5301)];
    let bytes = encode(&rows, IdHash(9), OWNER);
    let golden = [
        "02 01020304 02000000 09000000000000000000000000000000 12 00",
        "e803000000000000 a00f000000000000",
        "01000000000000000000000000000000 02000000000000000000000000000000",
        "8877665544332211 8877665544332211 0000 2c01 00 01",
        "c562cd18",
    ];
    assert_eq!(hex(&bytes), golden.concat().replace(' ', ""));
}

#[test]
fn k2_golden_bytes_of_mixed_rows_never_change() {
    let claim = |fingerprint, result| RowKind::Claim { fingerprint, result };
    let empty = |refused| StoredResult::Empty { refused };
    let keyed = StoredResult::Key { key: ResultKey(0x1234), refused: false };
    let rows = [
        with_kind(1, claim(None, StoredResult::None)),
        with_kind(2, claim(Some(Fingerprint(7)), empty(false))),
        with_kind(3, claim(Some(Fingerprint(8)), keyed)),
        with_kind(3, RowKind::Alias { primary: IdHash(0x0b << 64 | 0x0a) }),
        with_kind(4, claim(None, empty(true))),
    ];
    let bytes = encode(&rows, IdHash(u128::MAX), OWNER);
    let golden = [
        "02 01020304 05000000 ffffffffffffffffffffffffffffffff 00 80",
        "e803000000000000 a00f000000000000",
        "01000000000000000000000000000000 02000000000000000000000000000000",
        "03000000000000000000000000000000 03000000000000000000000000000000",
        "04000000000000000000000000000000",
        "0000000000000000 0700000000000000 0800000000000000 0a00000000000000",
        "0000000000000000",
        "01 02 04 08 13 3412000000000000 0b00000000000000",
        "ccf40147",
    ];
    assert_eq!(hex(&bytes), golden.concat().replace(' ', ""));
    let mut found = Vec::new();
    Block::open(&bytes, OWNER).unwrap().find(IdHash(3), &mut found).unwrap();
    assert_eq!(found, rows[2..4]);
}

#[test]
fn k1_damaged_blocks_are_refused() {
    let rows: Vec<_> = (1..5).map(|i| plain(i << 100, i as u64, 7)).collect();
    let bytes = encode(&rows, IdHash(u128::MAX), OWNER);
    assert!(Block::open(&bytes, OWNER).is_ok());
    assert!(Block::open(&bytes, OWNER + 1).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Block::open(&bad, OWNER).is_err());
    }
    for len in 0..bytes.len() {
        assert!(Block::open(&bytes[..len], OWNER).is_err());
    }
}

/// Behind a right checksum no byte may make the decoder panic, or read what was not written.
#[test]
fn k1_contradictions_behind_a_right_checksum_never_panic() {
    let rows: Vec<_> = (1..5).map(|i| plain(i << 100, i as u64, 7)).collect();
    let bytes = encode(&rows, IdHash(u128::MAX), OWNER);
    let body = &bytes[..bytes.len() - CRC_BYTES];
    for at in 0..HEAD_BYTES {
        for value in 0..=255_u8 {
            let mut w = crate::base::codec::Writer::new();
            w.raw(&body[..at]);
            w.u8(value);
            w.raw(&body[at + 1..]);
            let sealed = w.seal();
            if let Ok(block) = Block::open(&sealed, OWNER) {
                let mut out = Vec::new();
                let _any = block.find(IdHash(2 << 100), &mut out);
                let _any = block.rows();
            }
        }
    }
    let mut w = crate::base::codec::Writer::new();
    w.raw(body);
    w.raw(&[0; 8]);
    let longer = w.seal();
    assert!(Block::open(&longer, OWNER).unwrap().rows().is_err());
}

/// With times of two bytes and equal lags, a page has room for this many plain rows.
const FULL: usize = (BLOCK_MAX_BYTES - HEAD_BYTES - CRC_BYTES) / 26;

#[test]
fn a_block_takes_as_many_rows_as_its_page_at_n_minus_1_n_and_n_plus_1() {
    let rows: Vec<_> = (0..=FULL as u64).map(|i| plain(u128::from(i), i * 300, 0)).collect();
    let rows: Vec<_> =
        rows.into_iter().map(|r| ClaimRow { wall: WallMs(r.at.0 as i64), ..r }).collect();
    let ends = |rows: &[ClaimRow]| cut(rows).iter().map(|r| r.end).collect::<Vec<_>>();
    assert!(ends(&rows[..0]).is_empty());
    assert_eq!(ends(&rows[..1]), [1]);
    assert_eq!(ends(&rows[..FULL - 1]), [FULL - 1]);
    assert_eq!(ends(&rows[..FULL]), [FULL]);
    assert_eq!(ends(&rows), [FULL, FULL + 1]);
    let full = encode(&rows[..FULL], IdHash(u128::MAX), OWNER);
    assert!(full.len() <= BLOCK_MAX_BYTES && full.len() + 26 > BLOCK_MAX_BYTES);
}

#[test]
fn k3_rows_of_one_hash_stay_together_and_may_outgrow_the_page() {
    let alias = |hash, primary| with_kind(hash, RowKind::Alias { primary: IdHash(primary) });
    let mut rows: Vec<_> = (0..100).map(|i| plain(i, 1000, 5000)).collect();
    rows.extend((0..80).map(|i| alias(100, i)));
    assert_eq!(cut(&rows), [0..100, 100..180]);
    rows.extend((80..1000).map(|i| alias(100, i)));
    rows.extend((101..110).map(|i| plain(i, 1000, 5000)));
    assert_eq!(cut(&rows), [0..100, 100..1100, 1100..1109]);
    let bytes = encode(&rows[100..1100], IdHash(100), OWNER);
    assert!(bytes.len() > BLOCK_MAX_BYTES);
    let mut found = Vec::new();
    Block::open(&bytes, OWNER).unwrap().find(IdHash(100), &mut found).unwrap();
    assert_eq!(found, rows[100..1100]);
}

pub(in super::super) fn any_kind() -> impl Strategy<Value = RowKind> {
    let result = prop_oneof![
        4 => Just(StoredResult::None),
        1 => any::<bool>().prop_map(|refused| StoredResult::Empty { refused }),
        1 => any::<(u64, bool)>()
            .prop_map(|(k, refused)| StoredResult::Key { key: ResultKey(k), refused }),
    ];
    let claim = (any::<Option<u64>>(), result)
        .prop_map(|(word, result)| RowKind::Claim { fingerprint: word.map(Fingerprint), result });
    let alias = any::<u128>().prop_map(|h| RowKind::Alias { primary: IdHash(h) });
    prop_oneof![4 => claim, 1 => alias]
}

prop_compose! {
    /// Rows with times close together or anywhere at all.
    pub(in super::super) fn any_row(hashes: std::ops::RangeInclusive<u128>)(
        hash in hashes,
        at in prop_oneof![0..70_000_u64, any::<u64>()],
        wall in prop_oneof![0..70_000_i64, any::<i64>()],
        kind in any_kind(),
    ) -> ClaimRow {
        ClaimRow { hash: IdHash(hash), at: StoreMs(at), wall: WallMs(wall), kind }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn blocks_give_back_what_they_were_made_of(
        rows in prop::collection::vec(any_row(0..=200), 1..500),
    ) {
        let mut rows = rows;
        rows.sort_by(order);
        rows.dedup();
        let mut end = 0;
        for range in cut(&rows) {
            prop_assert_eq!(range.start, end);
            end = range.end;
            let part = &rows[range];
            let bytes = encode(part, IdHash(1000), OWNER);
            prop_assert!(bytes.len() <= BLOCK_MAX_BYTES);
            let block = Block::open(&bytes, OWNER).unwrap();
            prop_assert_eq!(block.rows().unwrap(), part);
            for hash in (0..=201).map(IdHash) {
                let mut found = Vec::new();
                block.find(hash, &mut found).unwrap();
                let naive: Vec<_> = part.iter().filter(|r| r.hash == hash).copied().collect();
                prop_assert_eq!(found, naive);
            }
        }
        prop_assert_eq!(end, rows.len());
    }
}

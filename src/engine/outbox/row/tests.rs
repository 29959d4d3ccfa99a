//! Golden bytes of the outbox's rows, and that no other bytes pass for one.

use super::*;

const PLACE: MessagePlace = MessagePlace { seq: Seq(0x0102), ordinal: 3 };
const KEY: [u8; 16] = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3];

fn body() -> MessageBody {
    MessageBody {
        id: 0x0100,
        scope: Scope { consumer: ConsumerId(1), generation: Generation(300) },
        wall: WallMs(4),
        due: Some(WallMs(5)),
        key: Some(b"k".to_vec()),
        headers: vec![("a".to_owned(), b"b".to_vec())],
        payload: b"payload".to_vec(),
    }
}

#[test]
fn golden_keys() {
    assert_eq!(key(DestinationId(7), PLACE), KEY);
    assert_eq!(decode_key(&KEY), Ok((DestinationId(7), PLACE)));
    assert!(decode_key(&KEY[1..]).is_err());
    let index = index_key(DestinationId(7), 0x0f, PLACE);
    let golden = [&KEY[..4], &[0; 15], &[0x0f], &KEY[4..]].concat();
    assert_eq!(index[..], golden);
    assert_eq!(decode_index_key(&index), Ok(PLACE));
    assert!(decode_index_key(&index[1..]).is_err());
    let last = MessagePlace { ordinal: u32::MAX, ..PLACE };
    assert_eq!(last.next(), MessagePlace { seq: Seq(0x0103), ordinal: 0 });
    assert_eq!(PLACE.next(), MessagePlace { ordinal: 4, ..PLACE });
}

#[test]
fn golden_bytes_of_a_message() {
    let le = |n: u64| n.to_le_bytes();
    let golden = [
        &[1, 3][..],
        &0x0100_u128.to_le_bytes(),
        &[1, 0xac, 2],
        &le(4),
        &le(5),
        &[1, b'k', 1, 1, b'a', 1, b'b'],
        b"payload",
    ]
    .concat();
    assert_eq!(body().encode(), golden);
    assert_eq!(MessageBody::decode(&golden), Ok(body()));
    let bare =
        MessageBody { due: None, key: None, headers: Vec::new(), payload: Vec::new(), ..body() };
    assert_eq!(bare.encode(), [&[1, 0][..], &golden[2..29], &[0]].concat());
    assert_eq!(MessageBody::decode(&bare.encode()), Ok(bare));
    for len in 0..golden.len() - 7 {
        assert!(MessageBody::decode(&golden[..len]).is_err(), "cut to {len}");
    }
}

#[test]
fn golden_bytes_of_the_other_rows() {
    let attempts = Attempts { failed: 2, until_ms: 9, blocks: true, error: "e".to_owned() };
    let row = attempts.encode(&KEY);
    assert_eq!(row[..row.len() - 4], [1, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 1, b'e']);
    assert_eq!(Attempts::decode(&KEY, &row), Ok(attempts));
    let dead = DeadRow {
        attempts: 2,
        wall: WallMs(9),
        error: "e".to_owned(),
        body: Some(b"body".to_vec()),
    };
    let row = dead.encode(&KEY);
    let golden = [1, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, b'e', 1, b'b', b'o', b'd', b'y'];
    assert_eq!(row[..row.len() - 4], golden);
    assert_eq!(DeadRow::decode(&KEY, &row), Ok(dead.clone()));
    let blocking = DeadRow { body: None, ..dead };
    assert_eq!(DeadRow::decode(&KEY, &blocking.encode(&KEY)), Ok(blocking));
    let tally = Tally { waiting: 1, dead: 2 };
    let row = tally.encode(&KEY);
    assert_eq!(row[..17], [1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Tally::decode(&KEY, &row), Ok(tally));
    assert_eq!(index_row(&KEY)[..1], [1]);
    assert_eq!(check_index_row(&KEY, &index_row(&KEY)), Ok(()));
}

#[test]
fn mr2_every_flip_and_every_other_place_is_refused() {
    let attempts = Attempts { failed: 2, until_ms: 9, blocks: false, error: "e".to_owned() };
    let row = attempts.encode(&KEY);
    for bit in 0..row.len() * 8 {
        let mut bad = row.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Attempts::decode(&KEY, &bad).is_err());
    }
    let sealed = seal(&KEY, body().encode());
    assert_eq!(unseal(&KEY, &sealed), Ok(&body().encode()[..]));
    let elsewhere = key(DestinationId(7), PLACE.next());
    assert!(unseal(&elsewhere, &sealed).is_err());
    assert!(unseal(&KEY, &sealed[..3]).is_err());
}

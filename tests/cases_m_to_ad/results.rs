//! Cases Y6 and Z2: stored results come back byte for byte, and are the caller's to understand.

use txinbox::codec::{Key, Value};
use txinbox::{Claim, Consumer, Error, Event, EventId, Inbox, Map, Outcome, Retention, hours};

use crate::kit::{Lab, deliver, event, id};

/// The results of Y6; `None` is an event without one.
fn results() -> Vec<Option<Vec<u8>>> {
    let megabyte = (0..1_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vec![
        None,
        Some(Vec::new()),
        Some(vec![0]),
        Some(b"x".to_vec()),
        Some(vec![0; 300]),
        Some(b"a\0b\0\0".to_vec()),
        Some(vec![0xff, 0xfe, 0xc3, 0x28]),
        Some("gr\u{fc}n".as_bytes().to_vec()),
        Some(vec![7; 4_096]),
        Some(megabyte),
    ]
}

fn duplicate(consumer: &Consumer, n: u64) -> Claim {
    match consumer.process(&event(n), |_| Ok(())).unwrap() {
        Outcome::Duplicate(claim) => claim,
        other => panic!("{n}: {other:?}"),
    }
}

/// Y6: 0 bytes, 1 byte, NULs, not UTF-8, 1 MB: equal in the first answer, in every repeat, after
/// reopening and after sealing. None differs from empty, and neither is expired.
#[test]
fn y6_results_come_back_byte_for_byte() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let mut inbox = lab.open();
    for stage in ["first", "again", "reopened", "sealed", "sealed and reopened"] {
        if stage.starts_with("sealed") {
            lab.clock.advance(hours(8));
            inbox.sweep().unwrap();
            assert_eq!(inbox.stats().unwrap().recent_claims, 0);
        }
        if stage.ends_with("reopened") {
            inbox.close().unwrap();
            inbox = lab.open();
        }
        let consumer = inbox.consumer("c").unwrap();
        for (n, result) in (0..).zip(results()) {
            let outcome = consumer.process(&event(n), |tx| {
                if let Some(result) = &result {
                    tx.set_result(&b"an earlier one"[..])?;
                    tx.set_result(result.clone())?;
                }
                Ok(())
            });
            let outcome = outcome.unwrap();
            assert_eq!(outcome.is_applied(), stage == "first", "{stage}, result {n}");
            for claim in [outcome.claim().unwrap(), &consumer.lookup(&id(n)).unwrap().unwrap()] {
                assert_eq!(claim.result(), result.as_deref(), "{stage}, result {n}");
                assert!(!claim.is_result_expired());
            }
        }
    }
}

/// Y6: a result kept for less time than its claim: told as expired, never as none, and the claim
/// still counts. One too large is refused, and nothing is kept.
#[test]
fn y6_expired_and_oversized_results_are_told_apart() {
    let lab = Lab::new(Retention::at_least(hours(31 * 24)));
    let inbox = lab.builder().result_max_bytes(100).open_on(&lab.disk).unwrap();
    let consumer = inbox.consumer("c").unwrap().result_retention(hours(8));
    for n in 0..3_u8 {
        let applied = consumer.process(&event(u64::from(n)), |tx| {
            if n > 0 {
                tx.set_result(vec![7; usize::from(n - 1)])?;
            }
            Ok(())
        });
        assert!(applied.unwrap().is_applied());
    }
    let too_large = consumer.process(&event(9), |tx| Ok(tx.set_result(vec![0; 101])?));
    assert!(too_large.unwrap_err().is_limit());
    assert!(consumer.lookup(&id(9)).unwrap().is_none());
    lab.clock.advance(hours(10));
    inbox.sweep().unwrap();
    let told = [0, 1, 2].map(|n| {
        let claim = duplicate(&consumer, n);
        (claim.result().map(<[u8]>::len), claim.is_result_expired())
    });
    assert_eq!(told, [(None, false), (Some(0), false), (None, true)]);
}

/// Z2: a result that the caller cannot decode any more. The answer is Duplicate with the raw bytes; the
/// decoding error is the caller's own, and the handler does not run.
#[test]
fn z2_an_undecodable_result_is_still_a_duplicate() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let old = b"version 1: 10 EUR";
    consumer.process(&event(1), |tx| Ok(tx.set_result(&old[..])?)).unwrap().claim().unwrap();
    let mut ran = false;
    let outcome = consumer.process(&event(1), |_| {
        ran = true;
        Ok(())
    });
    let Outcome::Duplicate(claim) = outcome.unwrap() else { panic!() };
    let bytes = claim.result().unwrap();
    assert!(<(u64, String) as Value>::decode(bytes).unwrap_err().is_decode());
    assert_eq!(bytes, old);
    assert!(!ran);
}

/// A value that changed its encoding under the same name, which no type should.
struct Changed;

impl Value for Changed {
    type Owned = Self;

    fn name() -> std::borrow::Cow<'static, str> {
        <u64 as Value>::name()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(1);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        <[u8; 1] as Value>::decode(bytes).map(|_| Self)
    }
}

/// Z2: the same for state. Other types under a keyspace's name are refused when it is opened; bytes
/// that do not decode fail the event, which stays unclaimed, even if the handler swallows the error.
#[test]
fn z2_undecodable_state_fails_the_event_and_keeps_it_unclaimed() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let counts: Map<u64, u64> = inbox.map("counts").unwrap();
    let consumer = inbox.consumer("c").unwrap();
    consumer.process(&event(1), |tx| Ok(tx.insert(&counts, &7, &5)?)).unwrap().claim().unwrap();
    let error = inbox.map::<u64, i64>("counts").unwrap_err();
    assert!(error.is_type_mismatch() && error.to_string().contains("counts"), "{error}");
    assert!(error.to_string().contains(&*<u64 as Key>::name()), "{error}");

    let changed: Map<u64, Changed> = inbox.map("counts").unwrap();
    let error = consumer
        .process(&event(2), |tx| {
            let _ = tx.get(&changed, &7); // swallowed
            Ok(tx.insert(&counts, &7, &6)?)
        })
        .unwrap_err();
    assert!(error.is_decode(), "{error}");
    assert_eq!(inbox.read(|view| view.get(&counts, &7)).unwrap(), Some(5));
    assert_eq!(deliver(&consumer, [1, 2]), (1, 1));
}

#[test]
fn a_map_of_another_store_is_refused_everywhere() {
    let retention = || Retention::at_least(hours(1));
    let [mine, other] = [(); 2].map(|()| Inbox::in_memory(retention()).unwrap());
    let (own, foreign) = (mine.map::<u64, u64>("n").unwrap(), other.map::<u64, u64>("n").unwrap());
    let consumer = mine.consumer("c").unwrap();
    for which in 0..4 {
        let id = EventId::parts(&[b"e", &[which]]).unwrap();
        let event = Event::unchecked(id.clone());
        let refused = consumer.process(&event, |tx| {
            tx.insert(&own, &1, &1)?;
            match which {
                0 => tx.get(&foreign, &1).map(drop)?,
                1 => tx.insert(&foreign, &1, &2)?,
                2 => tx.remove(&foreign, &1)?,
                _ => tx.scan(&foreign, .., 1).map(drop)?,
            }
            Ok(())
        });
        assert!(refused.unwrap_err().to_string().contains("another store"), "{which}");
        assert!(consumer.lookup(&id).unwrap().is_none(), "{which}");
    }
    assert_eq!(mine.read(|view| view.get(&own, &1)).unwrap(), None);
    assert!(mine.read(|view| view.get(&foreign, &1)).is_err());
    assert!(mine.read(|view| view.scan(&foreign, .., 1)).is_err());
    assert!(mine.read(|view| view.len(&foreign)).is_err());
}

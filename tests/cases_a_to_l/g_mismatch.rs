//! G: one id with different payloads.

use txinbox::{Claim, Consumer, Event, Outcome};

use crate::support::{
    Counts, Place, Way, bump, claim_of, count, event, everywhere, id, is_mismatch, never,
};

fn deliver(way: Way, consumer: &Consumer, name: &str, payload: &str) -> Outcome<()> {
    way.deliver(consumer, &Event::new(id(name), payload), never::<()>).unwrap()
}

/// Checks a repeat of `x` with its payload and with others, in every way.
fn check_repeats(consumer: &Consumer, name: &str, payload: &str, first: &Claim) {
    for way in Way::ALL {
        let same = deliver(way, consumer, name, payload);
        assert!(same.is_duplicate(), "{way:?}: {same:?}");
        for other in ["", "pb", &format!("{payload} "), &payload[1..]] {
            let changed = deliver(way, consumer, name, other);
            assert!(is_mismatch(&changed), "{way:?}, {other:?}: {changed:?}");
            assert_eq!(changed.advice(), txinbox::Advice::Quarantine);
            for claim in [claim_of(&same), claim_of(&changed)] {
                assert_eq!(claim.fingerprint(), first.fingerprint());
                assert_eq!(claim.committed_at(), first.committed_at());
                assert_eq!(claim.result(), first.result());
            }
        }
    }
}

/// After a cold start, a repeat with the same payload gets the result, one with another is a mismatch.
#[test]
fn g3_payload_and_result_are_remembered_over_a_cold_start() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let consumer = inbox.consumer("c").unwrap();
        let results: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"r"), Some(&[0xff; 100_000])];
        let mut claims = Vec::new();
        for (i, result) in results.into_iter().enumerate() {
            let name = format!("x{i}");
            let applied = consumer.process(&Event::new(id(&name), "payload"), |tx| {
                Ok(result.map_or(Ok(()), |result| tx.set_result(result))?)
            });
            claims.push(claim_of(&applied.unwrap()).clone());
        }
        drop(consumer);
        inbox.close().unwrap();
        for _ in 0..2 {
            let inbox = place.open_with(set);
            let consumer = inbox.consumer("c").unwrap();
            for (i, result) in results.into_iter().enumerate() {
                assert_eq!(claims[i].result(), result);
                check_repeats(&consumer, &format!("x{i}"), "payload", &claims[i]);
            }
            let stats = inbox.stats().unwrap().consumers["c"].clone();
            assert_eq!((stats.duplicates, stats.mismatches, stats.applied), (12, 48, 0));
        }
    });
}

/// Mismatches change nothing: the first payload stays the one that counts.
#[test]
fn g4_alternating_payloads_keep_the_first() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let consumer = inbox.consumer("c").unwrap();
        for way in Way::ALL {
            let name = format!("{way:?}");
            let applied = way
                .deliver(&consumer, &Event::new(id(&name), "pa"), |tx| Ok(tx.set_result("of pa")?));
            let applied = applied.unwrap();
            assert!(applied.is_applied());
            for payload in ["pb", "pa", "pb", "pc", "pa"] {
                let outcome = deliver(way, &consumer, &name, payload);
                assert_eq!(outcome.is_duplicate(), payload == "pa");
                assert_eq!(is_mismatch(&outcome), payload != "pa");
                assert_eq!(claim_of(&outcome).result(), Some(&b"of pa"[..]));
            }
        }
        // All four in one batch, so in one group.
        let payloads = ["pa", "pb", "pa", "pb"];
        let batch = consumer.process_batch(
            &payloads,
            |payload| Event::new(id("batch"), *payload),
            |tx, payload| Ok(tx.set_result(*payload)?),
        );
        let kinds: Vec<_> = batch
            .iter()
            .map(|answer| answer.as_ref().unwrap())
            .map(|o| (o.is_applied(), is_mismatch(o), claim_of(o).result()))
            .collect();
        let pa = Some(&b"pa"[..]);
        let expected = [(true, false), (false, true), (false, false), (false, true)];
        assert_eq!(kinds, expected.map(|(applied, mismatch)| (applied, mismatch, pa)));
    });
}

/// One byte more, less or other; the state is as it was.
#[test]
fn g5_a_payload_of_one_byte_more_is_loud_and_changes_nothing() {
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let (consumer, counts) = (inbox.consumer("c").unwrap(), inbox.map("n").unwrap());
        let json = r#"{"account":7,"amount":100}"#;
        let applied = consumer.process(&Event::new(id("x"), json), |tx| {
            bump(tx, &counts, "x")?;
            Ok(tx.set_result("first")?)
        });
        let first = claim_of(&applied.unwrap()).clone();
        let mut others: Vec<Vec<u8>> = (0..json.len())
            .map(|at| {
                let mut other = json.as_bytes().to_vec();
                other[at] ^= 1;
                other
            })
            .collect();
        others.push([json.as_bytes(), b"\0"].concat());
        others.push(br#"{"account":7,"amount":100,"note":""}"#.to_vec());
        others.push(json.as_bytes()[1..].to_vec());
        for way in Way::ALL {
            for other in &others {
                let event = Event::new(id("x"), other);
                let outcome = way.deliver(&consumer, &event, never::<()>).unwrap();
                assert!(is_mismatch(&outcome));
                let seen = claim_of(&outcome);
                assert_eq!(
                    (seen.fingerprint(), seen.result()),
                    (first.fingerprint(), Some(&b"first"[..]))
                );
                assert_eq!(seen.committed_at(), first.committed_at());
            }
        }
        assert_eq!(count(&inbox, &counts, "x"), 1);
        assert_eq!(inbox.stats().unwrap().consumers["c"].claims, 1);
        check_repeats(&consumer, "x", json, &first);
    });
}

/// The type of an event belongs to what it is recognised by: given with the payload or as an own
/// fingerprint, another type under one id is a mismatch, and the first record stays whole.
#[test]
fn g6_another_event_type_under_one_id_is_a_mismatch() {
    let place = Place::dir();
    let kind = |kind: &str| Event::unchecked(id("x")).fingerprint(kind.len() as u64);
    let typed = |kind: &str| format!("{kind}\n{{}}");
    for round in 0..2 {
        let inbox = place.open();
        let consumer = inbox.consumer("c").unwrap();
        let by_payload = inbox.consumer("by payload").unwrap();
        let counts: Counts = inbox.map("n").unwrap();
        let (created, cancelled) = (typed("created"), typed("cancelled"));
        let handler = |tx: &mut txinbox::Tx<'_>| {
            bump(tx, &counts, "x")?;
            Ok(tx.set_result("created")?)
        };
        let outcomes = [
            consumer.process(&kind("created"), handler),
            by_payload.process(&Event::new(id("x"), &created), handler),
        ];
        for outcome in outcomes {
            let outcome = outcome.unwrap();
            assert_eq!((outcome.is_applied(), outcome.is_duplicate()), (round == 0, round == 1));
            assert_eq!(claim_of(&outcome).result(), Some(&b"created"[..]));
        }
        for way in Way::ALL {
            let cancelled = Event::new(id("x"), &cancelled);
            for (consumer, event) in [(&consumer, kind("cancelled")), (&by_payload, cancelled)] {
                let outcome = way.deliver(consumer, &event, never::<()>).unwrap();
                assert!(is_mismatch(&outcome));
                assert_eq!(claim_of(&outcome).result(), Some(&b"created"[..]));
            }
        }
        assert_eq!(count(&inbox, &counts, "x"), 2);
        // An event that is not checked is recognised by its id alone.
        assert!(consumer.process(&event("x"), never::<()>).unwrap().is_duplicate());
    }
}

//! Keys, values, results, and what one event stages.

use txinbox::{Consumer, Error, Tx};

use super::{builder, event, inbox};

const KEY_MAX: usize = 64 << 10;
const VALUE_MAX: usize = 64 << 20;
const RESULT_MAX: usize = 16 << 20;
const STAGED_MAX: usize = 256 << 20;
/// What a staged value takes besides its bytes: its checksum.
const SEAL: usize = 4;

/// Runs the handler and lets nothing of it be committed, so that large events cost no disk.
fn staged(
    consumer: &Consumer,
    handler: impl FnOnce(&mut Tx<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let run = consumer.process(&event(0), |tx| {
        tx.skip();
        Ok(handler(tx)?)
    });
    run.map(drop)
}

#[test]
fn keys_hold_at_most_64_kib() {
    let inbox = inbox();
    let (consumer, map) = (inbox.consumer("c").unwrap(), inbox.map::<[u8], u8>("m").unwrap());
    let key = vec![7; KEY_MAX + 1];
    for (n, len) in [0, 1, KEY_MAX - 1, KEY_MAX].into_iter().enumerate() {
        let put = consumer.process(&event(n + 1), |tx| Ok(tx.insert(&map, &key[..len], &1)?));
        assert!(put.unwrap().is_applied());
        assert_eq!(inbox.read(|view| view.get(&map, &key[..len])).unwrap(), Some(1));
    }
    assert!(staged(&consumer, |tx| tx.insert(&map, &key[..], &1)).unwrap_err().is_limit());
    assert!(staged(&consumer, |tx| tx.remove(&map, &key[..])).unwrap_err().is_limit());
    // The error sticks even if the handler swallows it.
    let swallowed = staged(&consumer, |tx| {
        let _ = tx.insert(&map, &key[..], &1);
        Ok(())
    });
    assert!(swallowed.unwrap_err().is_limit());
    assert!(inbox.read(|view| view.get(&map, &key[..])).unwrap().is_none());
}

#[test]
fn values_hold_at_most_64_mib() {
    let inbox = inbox();
    let (consumer, map) = (inbox.consumer("c").unwrap(), inbox.map::<u8, [u8]>("m").unwrap());
    let value = vec![7; VALUE_MAX + 1];
    for len in [0, 1, VALUE_MAX - 1, VALUE_MAX] {
        staged(&consumer, |tx| tx.insert(&map, &1, &value[..len])).unwrap();
    }
    assert!(staged(&consumer, |tx| tx.insert(&map, &1, &value[..])).unwrap_err().is_limit());
    let put = consumer.process(&event(1), |tx| {
        tx.insert(&map, &0, &value[..0])?;
        Ok(tx.insert(&map, &1, &value[..VALUE_MAX])?)
    });
    assert!(put.unwrap().is_applied());
    assert_eq!(inbox.read(|view| view.get(&map, &0)).unwrap().unwrap(), b"");
    assert_eq!(inbox.read(|view| view.get(&map, &1)).unwrap().unwrap().len(), VALUE_MAX);
}

#[test]
fn an_event_stages_at_most_256_mib() {
    let inbox = inbox();
    let (consumer, map) = (inbox.consumer("c").unwrap(), inbox.map::<u8, [u8]>("m").unwrap());
    let value = vec![7; VALUE_MAX];
    // After three whole values, a fourth with its key takes up what is left, or a byte more.
    let left = STAGED_MAX - 3 * (1 + VALUE_MAX + SEAL) - 1;
    for (len, fits) in [(left - 1, true), (left, true), (left + 1, false)] {
        let run = staged(&consumer, |tx| {
            for key in 0..3 {
                tx.insert(&map, &key, &value)?;
            }
            tx.insert(&map, &3, &value[..len])
        });
        assert_eq!(run.is_ok(), fits, "{len}");
        assert!(fits || run.unwrap_err().is_limit());
    }
}

#[test]
fn a_result_counts_among_what_is_staged_whichever_comes_first() {
    let inbox = inbox();
    let (consumer, map) = (inbox.consumer("c").unwrap(), inbox.map::<u8, [u8]>("m").unwrap());
    let value = vec![7; VALUE_MAX];
    let fourth = 54 << 20;
    let left = STAGED_MAX - 3 * (1 + VALUE_MAX + SEAL) - (1 + fourth + SEAL);
    for (len, fits) in [(left - 1, true), (left, true), (left + 1, false)] {
        for result_first in [true, false] {
            let run = staged(&consumer, |tx| {
                let set = |tx: &mut Tx<'_>| {
                    tx.set_result(&value[..len / 2])?; // the last one counts
                    tx.set_result(&value[..len])
                };
                if result_first {
                    set(tx)?;
                }
                for key in 0..3 {
                    tx.insert(&map, &key, &value)?;
                }
                tx.insert(&map, &3, &value[..fourth])?;
                if result_first { Ok(()) } else { set(tx) }
            });
            // What is inserted last is checked without its checksum.
            let fits = fits || result_first;
            assert_eq!(run.is_ok(), fits, "{len}, result first: {result_first}");
        }
    }
}

#[test]
fn results_hold_at_most_what_the_builder_says() {
    for limit in [0, 10, RESULT_MAX] {
        let inbox = builder().result_max_bytes(limit).open_in_memory().unwrap();
        let consumer = inbox.consumer("c").unwrap();
        let bytes = vec![7; limit + 1];
        let mut lens = vec![0, limit.saturating_sub(1), limit];
        lens.dedup();
        for (n, len) in lens.into_iter().enumerate() {
            let event = event(n + 1);
            let set = consumer.process(&event, |tx| Ok(tx.set_result(&bytes[..len])?));
            assert!(set.unwrap().is_applied());
            let repeat = consumer.process(&event, |_| Ok(())).unwrap();
            assert_eq!(repeat.claim().unwrap().result().unwrap().len(), len);
        }
        assert!(staged(&consumer, |tx| tx.set_result(&bytes[..])).unwrap_err().is_limit());
    }
    assert!(builder().result_max_bytes(RESULT_MAX - 1).open_in_memory().is_ok());
    assert!(builder().result_max_bytes(RESULT_MAX + 1).open_in_memory().unwrap_err().is_limit());
}

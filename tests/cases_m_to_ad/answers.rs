//! Case AD: counters that are exact, questions about one id, and repeats that are no errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, UNIX_EPOCH};

use txinbox::stats::ConsumerStats;
use txinbox::{BoxError, Error, Event, Inbox, Outcome, Retention, Tx, hours};

use crate::child;
use crate::kit::{Lab, Numbers, WALL_MS, deliver, event, id, secs};

/// What a consumer's counters should say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    applied: u64,
    duplicates: u64,
    mismatches: u64,
    too_late: u64,
    refused: u64,
    skipped: u64,
    handler_errors: u64,
    panics: u64,
    other_errors: u64,
    lookups: u64,
    forgotten: u64,
}

impl Counts {
    fn of(stats: &ConsumerStats) -> Self {
        Self {
            applied: stats.applied,
            duplicates: stats.duplicates,
            mismatches: stats.mismatches,
            too_late: stats.too_late,
            refused: stats.refused,
            skipped: stats.skipped,
            handler_errors: stats.handler_errors,
            panics: stats.panics,
            other_errors: stats.other_errors,
            lookups: stats.lookups,
            forgotten: stats.forgotten,
        }
    }

    fn note(&mut self, answer: &Result<Outcome<()>, Error>) {
        match answer {
            Ok(Outcome::Applied(..)) => self.applied += 1,
            Ok(Outcome::Duplicate(_)) => self.duplicates += 1,
            Ok(Outcome::Mismatch(_)) => self.mismatches += 1,
            Ok(Outcome::TooLate { .. }) => self.too_late += 1,
            Ok(Outcome::Refused(..)) => self.refused += 1,
            Ok(Outcome::Skipped(())) => self.skipped += 1,
            Err(error) if error.is_handler() => self.handler_errors += 1,
            Err(_) => self.other_errors += 1,
            Ok(other) => panic!("{other:?}"),
        }
    }
}

fn counts(inbox: &Inbox, name: &str) -> Counts {
    Counts::of(&inbox.stats().unwrap().consumers[name])
}

/// One delivery of the mix, drawn from numbers: which id, which payload, what the handler does.
#[derive(Clone)]
struct Step {
    n: u64,
    payload: [u8; 1],
    at_ms: i64,
    verdict: u64,
}

impl Step {
    fn draw(numbers: &mut Numbers, now_ms: i64) -> Self {
        let at_ms = match numbers.below(20) {
            0 => now_ms + 40 * 86_400_000, // too far ahead
            1 => now_ms - 20 * 86_400_000, // late, once anything was forgotten
            _ => now_ms,
        };
        let payload = [u8::from(numbers.below(10) == 0)];
        Self { n: numbers.below(300), payload, at_ms, verdict: numbers.below(20) }
    }

    fn event(&self) -> Event<'_> {
        Event::new(id(self.n), &self.payload).at_ms(self.at_ms)
    }

    fn handle(&self, tx: &mut Tx<'_>) -> Result<(), BoxError> {
        match self.verdict {
            0 => Err("not today".into()),
            1 => {
                tx.skip();
                Ok(())
            }
            2 => Ok(tx.set_result(vec![0; 101])?), // above the limit
            3 => Ok(tx.refuse("never")?),
            _ => Ok(()),
        }
    }
}

/// AD1: a random mix of all outcomes and errors, in single calls, batches and tickets. Every counter equals
/// what the callers were told.
#[test]
fn ad1_every_counter_is_exact_in_a_random_mix() {
    let lab = Lab::new(Retention::at_least(hours(24 * 8)));
    let inbox = lab.builder().result_max_bytes(100).open_on(&lab.disk).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    inbox.consumer("idle").unwrap();
    let (mut expected, mut numbers) = (Counts::default(), Numbers(1));
    let mut forgotten_claims = 0;
    for round in 0..400_i64 {
        let now_ms = WALL_MS + round * 3_600_000;
        let steps: Vec<Step> = (0..8).map(|_| Step::draw(&mut numbers, now_ms)).collect();
        match round % 3 {
            0 => {
                for step in &steps {
                    expected.note(&consumer.process(&step.event(), |tx| step.handle(tx)));
                }
            }
            1 => {
                let batch = consumer.process_batch(&steps, Step::event, |tx, s| s.handle(tx));
                batch.iter().for_each(|answer| expected.note(answer));
            }
            _ => {
                let tickets: Vec<_> =
                    steps.iter().map(|s| consumer.submit(&s.event(), |tx| s.handle(tx))).collect();
                for ticket in tickets {
                    expected.note(&ticket.and_then(txinbox::Ticket::wait));
                }
            }
        }
        if round % 10 == 0 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                consumer.process(&event(5_000), |_| -> Result<(), BoxError> { panic!("at last") })
            }));
            expected.panics += u64::from(panicked.is_err());
            expected.forgotten += u64::from(consumer.forget(&id(numbers.below(300))).unwrap());
            expected.lookups += 1;
            consumer.lookup(&id(numbers.below(300))).unwrap();
        }
        lab.clock.advance(hours(1));
        forgotten_claims += inbox.sweep().unwrap().claims_forgotten;
        assert_eq!(counts(&inbox, "c"), expected, "round {round}");
    }
    assert_eq!(counts(&inbox, "idle"), Counts::default());
    let stats = inbox.stats().unwrap();
    assert_eq!(stats.claims_expired, forgotten_claims);
    let ages: u64 = stats.consumers["c"].duplicate_ages_ms.iter().map(|(_, count)| count).sum();
    assert_eq!(ages, expected.duplicates, "each duplicate has an age in the histogram");
    let kinds = [
        expected.applied,
        expected.duplicates,
        expected.mismatches,
        expected.too_late,
        expected.refused,
        expected.skipped,
        expected.handler_errors,
        expected.panics,
        expected.other_errors,
        expected.forgotten,
        forgotten_claims,
    ];
    assert!(kinds.iter().all(|kind| *kind > 0), "a kind never came: {expected:?}");
}

/// AD1: groups and the events in them are counted once each, whoever shares them.
#[test]
fn ad1_groups_and_their_events_are_counted_once() {
    let lab = Lab::new(Retention::at_least(hours(24)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let before = inbox.stats().unwrap();
    deliver(&consumer, 0..500); // one group of new events
    deliver(&consumer, 0..500); // repeats alone: no group
    deliver(&consumer, 400..600); // repeats and new ones: one group
    let stats = inbox.stats().unwrap();
    assert_eq!(stats.groups - before.groups, 2);
    assert_eq!(stats.grouped_events - before.grouped_events, 700);
    assert_eq!(stats.consumers["c"].claims, 600);
    assert_eq!(stats.failed_commits, 0);
}

/// AD4: what can be asked of one id: first seen, kept how long, result; by hand forgotten. A repeat
/// writes nothing, so there is no count of repeats for each id; the consumer's total is exact.
#[test]
fn ad4_an_id_can_be_looked_up_and_forgotten_online() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    let other = inbox.consumer("other").unwrap();
    let event = Event::new(id(1), "payload").alias(id(2));
    for consumer in [&consumer, &other] {
        let applied = consumer.process(&event, |tx| Ok(tx.set_result(vec![7; 40])?));
        assert!(applied.unwrap().is_applied());
    }
    let first = consumer.lookup(&id(1)).unwrap().unwrap();
    lab.clock.advance(hours(3));
    let written = inbox.stats().unwrap().written_bytes;
    for _ in 0..50 {
        assert!(consumer.process(&event, |_| Ok(())).unwrap().is_duplicate());
    }
    assert_eq!(inbox.stats().unwrap().written_bytes, written, "a repeat writes nothing");
    for name in [1, 2] {
        let claim = consumer.lookup(&id(name)).unwrap().unwrap();
        assert_eq!(claim.committed_at(), UNIX_EPOCH + Duration::from_millis(WALL_MS as u64));
        assert_eq!((claim.age(), claim.kept_for()), (hours(3), Some(hours(29))));
        assert_eq!(claim.result().map(<[u8]>::len), Some(40));
        assert_eq!(claim.fingerprint(), first.fingerprint());
        assert!(claim.fingerprint().is_some());
    }
    assert!(consumer.lookup(&id(3)).unwrap().is_none());
    assert!(consumer.forget(&id(2)).unwrap(), "by its alias");
    assert!(!consumer.forget(&id(1)).unwrap(), "it is gone under all its ids");
    assert!(consumer.lookup(&id(1)).unwrap().is_none());
    assert!(other.lookup(&id(1)).unwrap().is_some(), "another consumer's is untouched");
    let own = counts(&inbox, "c");
    assert_eq!((own.lookups, own.forgotten, own.duplicates), (5, 1, 50));
    assert!(consumer.process(&event, |_| Ok(())).unwrap().is_applied());
}

/// AD4: the same while other threads write: look-ups and forgetting wait for none of them for long.
#[test]
fn ad4_lookups_work_while_others_write() {
    let inbox = Inbox::in_memory(Retention::at_least(hours(31))).unwrap();
    let consumer = inbox.consumer("c").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let consumer = &consumer;
            scope.spawn(move || deliver(consumer, writer * 10_000..writer * 10_000 + 3_000));
        }
        let begun = std::time::Instant::now();
        for n in 50_000..50_200 {
            deliver(&consumer, [n]);
            assert!(consumer.lookup(&id(n)).unwrap().is_some());
            assert!(consumer.forget(&id(n)).unwrap());
            assert!(consumer.lookup(&id(n)).unwrap().is_none());
        }
        assert!(begun.elapsed() < secs(60));
    });
    assert_eq!(counts(&inbox, "c").forgotten, 200);
    assert_eq!(counts(&inbox, "c").applied, 9_200);
}

/// AD5: ten thousand repeats, in a process of their own: each is an `Ok` value, and not one line comes
/// out on standard error.
#[test]
fn ad5_repeats_are_answers_and_not_noise() {
    let dir = tempfile::tempdir().unwrap();
    let (lines, errors) = child::start("repeats", dir.path(), 0, &[]).end();
    assert_eq!(lines, ["duplicates 10000"]);
    assert!(errors.is_empty(), "{errors}");
}

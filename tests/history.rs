//! Many threads fight for the same ids while maintenance seals, merges and frees under them.
//!
//! One `Applied` for each id; every `Duplicate` returned after the commit that applied it; the counter
//! in the state equals the number of distinct ids; no call is lost. A debug build makes fewer claims.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test fails as the test does

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use txinbox::testkit::{Keep, SimClock, SimDisk, audit};
use txinbox::{BatchTicket, Consumer, Event, EventId, Inbox, Map, Outcome, Retention};

const RETENTION: Duration = Duration::from_secs(3_600);

/// The first in a debug build, and the second in a release build.
fn scaled<T>(debug: T, release: T) -> T {
    if cfg!(debug_assertions) { debug } else { release }
}

fn open(disk: &SimDisk, threads: bool) -> Inbox {
    let builder = Inbox::builder(Retention::at_least(RETENTION))
        .clock(SimClock::new(1_800_000_000_000))
        .seed(11)
        .recent_max_claims(1_024)
        .cache_bytes(4 << 20);
    let builder = if threads { builder } else { builder.no_threads() };
    builder.open_on(disk).unwrap()
}

fn event(id: u64) -> Event<'static> {
    Event::unchecked(EventId::bytes(&id.to_be_bytes()).unwrap())
}

/// What one thread saw, in a common order of moments.
#[derive(Default)]
struct Log {
    applied: Vec<(u64, u64, u64)>,
    duplicates: Vec<(u64, u64)>,
}

struct Fight {
    consumer: Consumer,
    map: Map<u64, u64>,
    /// Moments: each call takes one before it starts and one after it has returned.
    moments: AtomicU64,
    distinct: u64,
    calls: u64,
}

impl Fight {
    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, log: &mut Log, id: u64, began: u64, outcome: &Outcome<()>) {
        match outcome {
            Outcome::Applied((), _) => log.applied.push((id, began, self.moment())),
            Outcome::Duplicate(_) => log.duplicates.push((id, self.moment())),
            other => panic!("{other:?}"),
        }
    }

    /// One thread: single calls, batches and tickets waited for later, over its own walk through the ids.
    fn run(&self, thread: u64) -> Log {
        let mut log = Log::default();
        let mut at = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut next = || {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (at >> 33) % self.distinct
        };
        let mut made = 0;
        let mut waiting = VecDeque::new();
        while made < self.calls {
            let began = self.moment();
            if made % 7 == 3 {
                let ids: Vec<u64> = (0..9).map(|_| next()).collect();
                let handle = |tx: &mut txinbox::Tx<'_>, id: &u64| Ok(self.count(tx, *id)?);
                let ticket = self.consumer.submit_batch(&ids, |id| event(*id), handle);
                waiting.push_back((ids, began, ticket));
                made += 9;
            } else if made % 7 == 0 {
                let ids: Vec<u64> = (0..40).map(|_| next()).collect();
                let batch = self.consumer.process_batch(
                    &ids,
                    |id| event(*id),
                    |tx, id| {
                        self.count(tx, *id)?;
                        Ok(())
                    },
                );
                for (id, answer) in ids.iter().zip(batch.iter()) {
                    self.note(&mut log, *id, began, answer.as_ref().unwrap());
                }
                made += 40;
            } else {
                let id = next();
                let answer = self.consumer.process(&event(id), |tx| Ok(self.count(tx, id)?));
                self.note(&mut log, id, began, &answer.unwrap());
                made += 1;
            }
            if waiting.len() > 2 {
                self.note_ticket(&mut log, waiting.pop_front().unwrap());
            }
        }
        waiting.into_iter().for_each(|ticket| self.note_ticket(&mut log, ticket));
        log
    }

    fn note_ticket(&self, log: &mut Log, (ids, began, ticket): (Vec<u64>, u64, BatchTicket<()>)) {
        for (id, answer) in ids.iter().zip(ticket.wait().iter()) {
            self.note(log, *id, began, answer.as_ref().unwrap());
        }
    }

    fn count(&self, tx: &mut txinbox::Tx<'_>, id: u64) -> Result<(), txinbox::Error> {
        tx.update(&self.map, &0, |n| Some(n.unwrap_or(0) + 1))?;
        tx.update(&self.map, &(1 + id), |n| Some(n.unwrap_or(0) + 1))?;
        Ok(())
    }
}

/// Runs the threads and judges the whole history.
fn fight(threads: u64, claims: u64, own_threads: bool) {
    let disk = SimDisk::new();
    let inbox = open(&disk, own_threads);
    let calls = claims / threads;
    let fight = Fight {
        consumer: inbox.consumer("c").unwrap(),
        map: inbox.map("counts").unwrap(),
        moments: AtomicU64::new(0),
        distinct: claims / 4,
        calls,
    };
    let logs: Vec<Log> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn({
                    let fight = &fight;
                    move || fight.run(n)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let distinct = judge(&logs, fight.distinct);
    let total: usize = logs.iter().map(|log| log.applied.len() + log.duplicates.len()).sum();
    println!("{threads} threads: {total} claims, {distinct} distinct");
    assert!(total as u64 >= claims);

    let map = fight.map.clone();
    let shows = |inbox: &Inbox, map: &Map<u64, u64>| {
        assert_eq!(inbox.read(|view| view.get(map, &0)).unwrap(), Some(distinct));
        let counts = inbox.read(|view| view.scan(map, 1.., usize::MAX)).unwrap();
        assert_eq!(counts.len() as u64, distinct);
        assert!(counts.iter().all(|(_, n)| *n == 1));
    };
    shows(&inbox, &map);
    inbox.sweep().unwrap();
    audit(&inbox, false).unwrap();
    let stats = inbox.stats().unwrap();
    assert_eq!(stats.consumers["c"].claims, distinct);
    assert!(stats.sealed_claims > 0 && stats.grouped_events >= distinct, "{stats:?}");
    // Everything that was answered survives the power.
    let after = open(&disk.power_cut(Keep::Nothing), false);
    shows(&after, &after.map("counts").unwrap());
    audit(&after, false).unwrap();
}

/// One `Applied` for each id, and no `Duplicate` that returned before the call which applied it began.
fn judge(logs: &[Log], distinct: u64) -> u64 {
    let mut began = vec![None; distinct as usize];
    for (id, moment, _) in logs.iter().flat_map(|log| &log.applied) {
        assert_eq!(began[*id as usize].replace(*moment), None, "id {id} was applied twice");
    }
    for (id, returned) in logs.iter().flat_map(|log| &log.duplicates) {
        let applied = began[*id as usize];
        assert!(applied.is_some_and(|began| began < *returned), "id {id}: a repeat of nothing");
    }
    began.iter().flatten().count() as u64
}

#[test]
fn eight_threads_with_the_stores_own_maintenance_thread() {
    fight(8, scaled(40_000, 120_000), true);
}

#[test]
fn sixteen_threads_that_do_the_maintenance_themselves() {
    fight(16, scaled(20_000, 80_000), false);
}

/// A repeat is told only once the first is durable: power is cut at the moment of each repeat.
#[test]
fn a_repeat_returns_only_after_the_commit_it_repeats() {
    let disk = SimDisk::new();
    let inbox = open(&disk, true);
    let consumer = inbox.consumer("c").unwrap();
    let rounds = scaled(40_u64, 400);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for id in 0..rounds {
                    if consumer.process(&event(id), |_| Ok(())).unwrap().is_duplicate()
                        && id % 8 == 0
                    {
                        let image = open(&disk.power_cut(Keep::Nothing), false);
                        let again = image.consumer("c").unwrap();
                        assert!(again.process(&event(id), |_| Ok(())).unwrap().is_duplicate());
                    }
                }
            });
        }
    });
}

/// Whoever waits for a ticket is answered, however the store is closed meanwhile; what he was told stays.
#[test]
fn closing_amid_tickets_answers_everybody() {
    for round in 0..scaled(40, 400_u64) {
        let disk = SimDisk::new();
        let inbox = open(&disk, true);
        let (consumer, map) =
            (inbox.consumer("c").unwrap(), inbox.map::<u64, u64>("counts").unwrap());
        let submit = |thread: u64| {
            let mut told = Vec::new();
            for n in 0_u64.. {
                let id = n * 8 + thread;
                let handle = |tx: &mut txinbox::Tx<'_>| Ok(tx.insert(&map, &id, &1)?);
                let ticket = match consumer.submit(&event(id), handle) {
                    Ok(ticket) => ticket,
                    Err(error) => {
                        assert!(error.is_closed(), "{error}");
                        break;
                    }
                };
                if n % 3 == thread % 3 {
                    drop(ticket); // committed all the same, but nobody is told
                } else if ticket.wait().is_ok_and(|outcome| outcome.is_applied()) {
                    told.push(id);
                }
            }
            told
        };
        let told: Vec<u64> = thread::scope(|scope| {
            let submit = &submit;
            let running: Vec<_> = (0..4).map(|n| scope.spawn(move || submit(n))).collect();
            (0..round * 50).for_each(|_| thread::yield_now());
            inbox.close().unwrap();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let inbox = open(&disk, false);
        let (consumer, map) =
            (inbox.consumer("c").unwrap(), inbox.map::<u64, u64>("counts").unwrap());
        for id in told {
            assert!(consumer.process(&event(id), |_| Ok(())).unwrap().is_duplicate(), "{id}");
            assert_eq!(inbox.read(|view| view.get(&map, &id)).unwrap(), Some(1), "{id}");
        }
    }
}

//! A source read to its end through failing devices, full disks, kills and power cuts: each of its positions
//! is applied exactly once, none is lost and none comes twice.

use txinbox::Inbox;
use txinbox::ordered::Ordered;
use txinbox::testkit::{Call, Fault, Keep, Loss};

use crate::machine::{Done, Machine, count, done, handled, source};

const POSITIONS: u64 = 60;

/// splitmix64
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// A consumer as it should be: it delivers in order from the source's position on, in batches or singly, and
/// begins there anew after any answer that settles nothing. Its handler fails now and then.
struct Reader {
    log: Ordered,
    done: Done,
}

impl Reader {
    fn new(inbox: &Inbox) -> Self {
        Self { log: source(inbox), done: done(inbox) }
    }

    /// Whether the end is reached. What was acknowledged is raised to what was answered.
    fn poll(&self, numbers: &mut Numbers, acknowledged: &mut u64) -> bool {
        let Ok(at) = self.log.position() else { return false };
        let next = at.next();
        assert!(next >= *acknowledged, "{acknowledged} were acknowledged, it stands before {next}");
        let from = at.next().saturating_sub(numbers.below(3)); // the broker's own offset lags
        let end = (from + 1 + numbers.below(8)).min(POSITIONS);
        let bad = from + numbers.below(12);
        let positions: Vec<u64> = (from..end).collect();
        if numbers.below(2) == 0 {
            let batch = self.log.process_batch(
                &positions,
                |position| (*position, None),
                |tx, position| {
                    count(tx, &self.done, (0, 1), *position)?;
                    if *position == bad { Err("no".into()) } else { Ok(()) }
                },
            );
            *acknowledged = (*acknowledged).max(from + batch.settled_prefix() as u64);
        } else {
            for position in positions {
                let answer = self.log.process(position, |tx| {
                    count(tx, &self.done, (0, 1), position)?;
                    if position == bad { Err("no".into()) } else { Ok(()) }
                });
                // It goes on behind a failure, as it should not: nothing may be lost even so.
                if answer.is_ok_and(|outcome| outcome.advice() == txinbox::Advice::Ack) {
                    *acknowledged = (*acknowledged).max(position + 1);
                }
            }
        }
        at.next() == POSITIONS
    }
}

fn read_to_the_end(seed: u64) {
    let mut numbers = Numbers(seed);
    let mut machine = Machine::new();
    let mut inbox = machine.open();
    let mut reader = Reader::new(&inbox);
    let (mut acknowledged, mut polls) = (0, 0);
    loop {
        let calls = machine.disk.calls() + numbers.below(8);
        match numbers.below(9) {
            0 => machine.disk.inject(Fault::error(calls, &[Call::Write])),
            1 => machine.disk.inject(Fault::error(calls, &[Call::Sync])),
            2 => machine.disk.inject(Fault::lost_sync(calls, Loss::Part(seed))),
            3 => machine.disk.inject(Fault::full(calls, &[Call::Write, Call::SetLen])),
            4 => machine.disk.inject(Fault::short_write(calls, 100)),
            5 => machine.disk.inject(Fault::crash(calls)),
            _ => {}
        }
        let is_over = reader.poll(&mut numbers, &mut acknowledged);
        machine.disk.clear_faults();
        let dies = match numbers.below(6) {
            0 => Some(machine.kill()),
            1 => Some(machine.cut(Keep::Subset(seed))),
            2 => Some(machine.cut(Keep::Nothing)),
            _ if machine.disk.has_crashed() => Some(machine.cut(Keep::Everything)),
            _ => None,
        };
        if let Some(next) = dies {
            machine = next;
            drop((reader, inbox));
            inbox = machine.open();
            reader = Reader::new(&inbox);
        }
        machine.clock.advance(std::time::Duration::from_secs(1)); // a full disk is tried again
        polls += 1;
        assert!(polls < 2_000, "seed {seed}: it does not end");
        if is_over {
            break;
        }
    }
    let all: Vec<(u64, u64)> = (0..POSITIONS).map(|position| (position, 1)).collect();
    assert_eq!(handled(&inbox), all, "seed {seed}");
    let at = reader.log.position().unwrap();
    assert_eq!((at.gaps, at.last), (0, Some(POSITIONS - 1)), "seed {seed}");
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice() {
    for seed in 0..if cfg!(debug_assertions) { 120 } else { 3_000 } {
        read_to_the_end(seed);
    }
}

/// A batch of several groups, of which the first cannot be made durable: the store recovers by itself, and
/// what comes behind must not be handled as if the first had been.
#[test]
fn a_group_lost_in_the_middle_of_a_batch_blocks_the_rest() {
    let positions: Vec<u64> = (1..9_000).collect();
    let mut lost = 0;
    for call in [Call::Write, Call::Sync] {
        for later in 0..4 {
            let machine = Machine::new();
            let inbox = machine.open();
            let (log, done) = (source(&inbox), done(&inbox));
            assert!(log.process(0, |tx| count(tx, &done, (0, 1), 0)).unwrap().is_applied());
            let deliver = || {
                log.process_batch(
                    &positions,
                    |position| (*position, None),
                    |tx, position| count(tx, &done, (0, 1), *position),
                )
            };
            machine.disk.inject(Fault::error(machine.disk.calls() + later, &[call]));
            let batch = deliver();
            lost += usize::from(batch.settled_prefix() < positions.len());
            let next = log.position().unwrap().next();
            assert!(next > batch.settled_prefix() as u64);
            let rows = inbox.read(|view| view.len(&done)).unwrap();
            assert_eq!(rows, next, "{call:?} {later}: positions were passed over");
            assert_eq!(deliver().settled_prefix(), positions.len());
            assert_eq!(inbox.read(|view| view.len(&done)).unwrap(), 9_000);
            assert_eq!(log.position().unwrap().gaps, 0);
        }
    }
    assert!(lost > 2, "no group was lost");
}

//! A store used, stopped, failed and cut off at any moment, against a plain count.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Input;
use crate::api::consumer::Consumer;
use crate::api::event::Event;
use crate::api::event_id::EventId;
use crate::api::inbox::Inbox;
use crate::api::map::Map;
use crate::api::outcome::Outcome;
use crate::api::testkit::{Call, Fault, Keep, Loss, SimClock, SimDisk};
use crate::base::error::Error;
use crate::claims::policy::Retention;

const START_MS: i64 = 1_800_000_000_000;
const WINDOW_MS: u64 = 3_100_000;

/// What is known of one id, without the store.
#[derive(Debug, Default, Clone, Copy)]
struct Fact {
    /// How often its handler's work was kept for certain.
    kept: u64,
    /// How many failed calls may have been kept all the same.
    unsure: u64,
    /// When it was last settled, by a clock that never lies; `None` if it was forgotten by hand.
    settled_ms: Option<u64>,
}

/// A machine, the open store on it, and what should be in that.
struct Run {
    disk: SimDisk,
    clock: SimClock,
    passed_ms: u64,
    inbox: Option<Inbox>,
    facts: BTreeMap<u8, Fact>,
}

/// Each byte is an operation, with its arguments behind it; see `Run::step`.
///
/// Broken promises panic: an acknowledged event that is new again while its retention lasts, one
/// that is applied twice or whose state disagrees with that, an image that does not open.
pub fn operations(data: &[u8]) {
    let mut input = Input(data);
    let (disk, clock) = (SimDisk::new(), SimClock::new(START_MS));
    let mut run = Run { disk, clock, passed_ms: 0, inbox: None, facts: BTreeMap::new() };
    // Long inputs only repeat themselves.
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        run.step(&mut input);
    }
    run.disk.clear_faults();
    run.inbox = None;
    run.check();
}

fn id(n: u8) -> Result<EventId, Error> {
    EventId::bytes(&[n])
}

impl Run {
    fn open(&self) -> Result<Inbox, Error> {
        Inbox::builder(Retention::at_least(Duration::from_millis(WINDOW_MS)))
            .clock(self.clock.clone())
            .seed(3)
            .no_threads()
            .recent_max_claims(1_024)
            .cache_bytes(1 << 20)
            .open_on(&self.disk)
    }

    /// The consumer and the counts, opening the store if need be; `None` if a fault forbids it.
    fn parts(&mut self) -> Option<(Consumer, Map<u8, u64>)> {
        if self.inbox.is_none() {
            self.inbox = self.open().ok();
        }
        let inbox = self.inbox.as_ref()?;
        Some((inbox.consumer("c").ok()?, inbox.map("counts").ok()?))
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0..=4 => self.deliver(input.u8() % 32, input.u8()),
            5 => self.batch(input.u8() % 32, input.u8()),
            6 => self.forget(input.u8() % 32),
            7 => {
                let _ = self.inbox.as_ref().map(Inbox::sweep); // it may fail, and go on later
            }
            8 => self.pass(u64::from(input.u16()) * 30),
            9 => {
                self.disk.clear_faults();
                self.inbox = None; // closes it
                self.check();
            }
            10 => self.restart(|disk, _| disk.kill(), 0),
            11 | 12 => self.restart(|disk, seed| disk.power_cut(keep(seed)), input.u16()),
            13 => self.fault(input.u8(), input.u8()),
            14 => self.disk.clear_faults(),
            _ => self.check(),
        }
    }

    fn pass(&mut self, ms: u64) {
        self.passed_ms += ms;
        self.clock.advance(Duration::from_millis(ms));
    }

    fn fault(&mut self, kind: u8, after: u8) {
        let at = self.disk.calls() + u64::from(after);
        self.disk.inject(match kind % 6 {
            0 => Fault::error(at, &[Call::Write]),
            1 => Fault::error(at, &[Call::Sync]),
            2 => Fault::full(at, &[Call::Write, Call::SetLen]),
            3 => Fault::lost_sync(at, Loss::Part(u64::from(after))),
            4 => Fault::error(at, &[Call::Read]),
            _ => Fault::short_write(at, usize::from(after)),
        });
    }

    /// The machine goes on from an image of its disk, and the old process is no more.
    fn restart(&mut self, image: impl FnOnce(&SimDisk, u16) -> SimDisk, seed: u16) {
        let image = image(&self.disk, seed);
        // What the dying process still does is done to a disk that nobody will see again.
        self.inbox = None;
        self.disk = image;
        self.check();
    }

    fn deliver(&mut self, n: u8, how: u8) {
        let Some((consumer, counts)) = self.parts() else { return };
        let Ok(id) = id(n) else { return };
        let outcome = consumer.process(&Event::unchecked(id), |tx| {
            tx.update(&counts, &n, |old| Some(old.unwrap_or(0) + 1))?;
            match how % 8 {
                0 => Err("the handler says no".into()),
                1 => {
                    tx.skip();
                    Ok(())
                }
                2 => Ok(tx.set_result(vec![n; 9])?),
                _ => Ok(()),
            }
        });
        self.note(n, outcome);
    }

    fn batch(&mut self, first: u8, len: u8) {
        let Some((consumer, counts)) = self.parts() else { return };
        let numbers = (0..len % 8).map(|n| first.wrapping_add(n) % 32);
        let items: Vec<(u8, EventId)> = numbers.filter_map(|n| Some((n, id(n).ok()?))).collect();
        let batch = consumer.process_batch(
            &items,
            |(_, id)| Event::unchecked(id.clone()),
            |tx, (n, _)| {
                tx.update(&counts, n, |old| Some(old.unwrap_or(0) + 1))?;
                Ok(())
            },
        );
        for ((n, _), outcome) in items.into_iter().zip(batch) {
            self.note(n, outcome);
        }
    }

    fn note(&mut self, n: u8, outcome: Result<Outcome<()>, Error>) {
        let now_ms = self.passed_ms;
        let fact = self.facts.entry(n).or_default();
        let young = fact.settled_ms.is_some_and(|at| now_ms - at < WINDOW_MS);
        match outcome {
            Ok(Outcome::Applied((), _)) => {
                assert!(!young, "event {n} was handled again: {fact:?} at {now_ms}");
                *fact = Fact { kept: fact.kept + 1, settled_ms: Some(now_ms), ..*fact };
            }
            Ok(Outcome::Duplicate(_)) => {
                assert!(fact.kept + fact.unsure > 0, "event {n} was never handled");
            }
            Ok(Outcome::Skipped(())) => assert!(!young, "event {n} was handled again"),
            // Events without payload and time never mismatch and are never too late.
            Ok(other) => assert!(other.is_applied(), "event {n} cannot be {other:?}"),
            Err(error) if error.is_handler() => assert!(!young, "event {n} was handled again"),
            Err(_) => fact.unsure += 1,
        }
    }

    fn forget(&mut self, n: u8) {
        let Some((consumer, _)) = self.parts() else { return };
        let Ok(id) = id(n) else { return };
        let _ = consumer.forget(&id); // after a failure it may be forgotten or not
        if let Some(fact) = self.facts.get_mut(&n) {
            fact.settled_ms = None;
        }
    }

    /// Compares the state with what must be there, and takes over what could not be known.
    fn check(&mut self) {
        if self.parts().is_none() {
            self.disk.clear_faults();
            self.inbox = None;
        }
        let parts = self.parts();
        assert!(parts.is_some(), "without faults, the store does not open");
        let (Some((_, counts)), Some(inbox)) = (parts, &self.inbox) else { return };
        for (n, fact) in &mut self.facts {
            let Ok(found) = inbox.read(|view| view.get(&counts, n)) else { return };
            let (found, most) = (found.unwrap_or(0), fact.kept + fact.unsure);
            assert!(fact.kept <= found && found <= most, "event {n}: {found} of {fact:?}");
            if found > fact.kept {
                fact.settled_ms = None; // when it was settled is not known
            }
            *fact = Fact { kept: found, unsure: 0, ..*fact };
        }
    }
}

fn keep(seed: u16) -> Keep {
    match seed % 5 {
        0 => Keep::Nothing,
        1 => Keep::Everything,
        2 => Keep::Lengths,
        3 => Keep::Subset(u64::from(seed)),
        _ => Keep::Sectors(u64::from(seed)),
    }
}

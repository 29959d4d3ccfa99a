//! Case S4: damage to a closed store. Whatever was flipped, cut, swapped or zeroed: never a panic,
//! never a hang, never a wrong answer; only right answers and typed errors that name a place.
//!
//! One gap is known. redb does not check its pages as it reads them, so a point read of application
//! state can miss a row whose leaf was replaced by another sound one, or whose stored key was hit.
//! The test counts such misses, takes no wrong value, and has `verify` tell each such store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use txinbox::testkit::{Call, SimDisk};
use txinbox::{Consumer, Error, Inbox, Map, Outcome, Retention, hours};

use crate::kit::{Lab, Numbers, event, id, sized, within};

const DATABASE: &str = "txinbox.redb";
const EVENTS: u64 = 4_000;

fn result_of(n: u64) -> Option<Vec<u8>> {
    n.is_multiple_of(5).then(|| vec![n as u8; (n % 90) as usize])
}

/// A closed store with two keyspaces, sealed runs, recent rows, results, aliases and a tombstone.
fn store() -> Lab {
    let lab = Lab::new(Retention::at_least(hours(24 * 31)));
    let inbox = lab.open();
    let counts: Map<u64, u64> = inbox.map("counts").unwrap();
    let names: Map<str, str> = inbox.map("names").unwrap();
    let consumer = inbox.consumer("c").unwrap();
    inbox.consumer("other").unwrap();
    for n in (0..EVENTS).step_by(500) {
        let numbers: Vec<u64> = (n..n + 500).collect();
        let batch = consumer.process_batch(
            &numbers,
            |n| event(*n).at_ms(crate::kit::WALL_MS).alias(id(*n | 1 << 40)),
            |tx, n| {
                if let Some(result) = result_of(*n) {
                    tx.set_result(result)?;
                }
                tx.insert(&counts, n, &(n * 3))?;
                tx.insert(&names, &format!("name {n}"), &format!("value {n}"))?;
                Ok(())
            },
        );
        assert_eq!(batch.settled_prefix(), 500);
        lab.clock.advance(hours(20));
        inbox.sweep().unwrap();
    }
    assert!(consumer.forget(&id(77)).unwrap());
    let stats = inbox.stats().unwrap();
    assert!(stats.recent_claims > 100 && stats.sealed_claims > 100 && stats.runs > 1, "{stats:?}");
    inbox.close().unwrap();
    lab
}

/// What using a damaged store came to.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Used {
    errors: u64,
    corrupt: u64,
    /// Point reads of state that found nothing where there was something.
    missed: u64,
}

impl Used {
    /// Takes a right answer, or an error of a kind that damage may cause.
    fn take<T>(&mut self, what: &str, answer: Result<T, Error>) -> Option<T> {
        let error = match answer {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        // A header whose version was hit names that version; a name that was hit is no store.
        let typed = error.is_corrupt() || error.is_newer_format() || error.is_io();
        let typed = typed || error.is_unknown_outcome() || error.is_not_a_store();
        assert!(typed, "{what}: {error:?}");
        let text = error.to_string();
        if error.is_corrupt() {
            let places = [
                "file",
                "row",
                "table",
                "run",
                "claim",
                "keyspace",
                "tombstone",
                "filter",
                "journal",
            ];
            assert!(places.iter().any(|place| text.contains(place)), "no place in {text}");
        }
        self.errors += 1;
        self.corrupt += u64::from(error.is_corrupt());
        None
    }
}

/// Opens the store and uses all of it.
fn open_and_use(lab: &Lab, disk: &SimDisk, step: usize) -> Used {
    let mut used = Used::default();
    let Some(inbox) = used.take("opening", lab.builder().open_on(disk)) else { return used };
    let consumer = used.take("consumer", inbox.consumer("c"));
    let counts = used.take("counts", inbox.map::<u64, u64>("counts"));
    let names = used.take("names", inbox.map::<str, str>("names"));
    let mut numbers: Vec<u64> = (0..EVENTS).step_by(step).filter(|n| *n != 77).collect();
    numbers.push(EVENTS - 1);
    if let Some(consumer) = &consumer {
        deliveries(&mut used, consumer, &numbers);
    }
    if let (Some(counts), Some(names)) = (&counts, &names) {
        states(&mut used, &inbox, counts, names, &numbers);
    }
    used.take("verify", inbox.verify());
    used.take("sweep", inbox.sweep());
    if let (Some(consumer), Some(counts)) = (&consumer, &counts) {
        used.take(
            "a new event",
            consumer.process(&event(1 << 50), |tx| {
                tx.insert(counts, &(1 << 50), &1)?;
                Ok(())
            }),
        );
    }
    lab.clock.advance(Duration::from_millis(600)); // past the pause before the next recovery
    used.take("stats", inbox.stats());
    used.take("closing", inbox.close());
    used
}

fn deliveries(used: &mut Used, consumer: &Consumer, numbers: &[u64]) {
    for n in numbers {
        for event in [event(*n), event(*n | 1 << 40)] {
            let outcome = consumer.process(&event, |_| Ok(()));
            match used.take("a repeat", outcome) {
                Some(Outcome::Duplicate(claim)) => {
                    assert_eq!(claim.result(), result_of(*n).as_deref(), "of {n}");
                }
                None => {}
                other => panic!("{n} was acknowledged, and is now {other:?}"),
            }
        }
        if let Some(claim) = used.take("a look-up", consumer.lookup(&id(*n))) {
            let claim = claim.unwrap_or_else(|| panic!("{n} is not known any more"));
            assert_eq!(claim.result(), result_of(*n).as_deref(), "of {n}");
        }
    }
    if let Some(claim) = used.take("the forgotten", consumer.lookup(&id(77))) {
        assert_eq!(claim, None, "what was forgotten came back");
    }
}

fn states(
    used: &mut Used,
    inbox: &Inbox,
    counts: &Map<u64, u64>,
    names: &Map<str, str>,
    numbers: &[u64],
) {
    for n in numbers {
        if let Some(count) = used.take("a count", inbox.read(|view| view.get(counts, n))) {
            used.missed += u64::from(count.is_none());
            assert!(count.is_none_or(|count| count == n * 3), "count of {n}: {count:?}");
        }
        let name = inbox.read(|view| view.get(names, &format!("name {n}")));
        if let Some(name) = used.take("a name", name) {
            used.missed += u64::from(name.is_none());
            let right = format!("value {n}");
            assert!(name.as_ref().is_none_or(|name| *name == right), "name of {n}: {name:?}");
        }
    }
    let all: Result<Vec<(u64, u64)>, Error> = inbox.read(|view| view.scan(counts, .., usize::MAX));
    if let Some(all) = used.take("a scan", all) {
        let expected: Vec<(u64, u64)> = (0..EVENTS).map(|n| (n, n * 3)).collect();
        assert!(all == expected, "a scan met {} of {EVENTS} rows", all.len());
    }
}

/// One piece of damage.
#[derive(Debug, Clone)]
enum Harm {
    Flip(&'static str, u64),
    Truncate(&'static str, u64),
    Zero(u64),
    Swap(u64, u64),
    Noise(u64, u64),
}

impl Harm {
    fn draw(numbers: &mut Numbers, disk: &SimDisk) -> Self {
        let len = disk.contents(DATABASE).unwrap().len() as u64;
        let used = used_pages(disk);
        let mut page = || used[numbers.below(used.len() as u64) as usize];
        let (a, b) = (page(), page());
        match numbers.below(10) {
            0 => Self::Truncate(DATABASE, numbers.below(len)),
            1 => Self::Zero(a),
            2 => Self::Swap(a, b),
            3 => Self::Noise(a, numbers.next()),
            4 => Self::Flip("txinbox.header", numbers.below(60 * 8)),
            5 => Self::Flip(DATABASE, numbers.below(4096 * 8)), // the roots
            _ => Self::Flip(DATABASE, a * 4096 * 8 + numbers.below(4096 * 8)),
        }
    }

    fn apply(&self, disk: &SimDisk) {
        match *self {
            Self::Flip(name, bit) => disk.flip_bit(name, bit).unwrap(),
            Self::Truncate(name, len) => disk.truncate(name, len).unwrap(),
            Self::Zero(page) => disk.zero_page(DATABASE, page).unwrap(),
            Self::Swap(a, b) => disk.swap_pages(DATABASE, a, b).unwrap(),
            Self::Noise(page, seed) => {
                let mut numbers = Numbers(seed);
                let bytes: Vec<u8> = (0..4096).map(|_| numbers.next() as u8).collect();
                disk.overwrite(DATABASE, page * 4096, &bytes).unwrap();
            }
        }
    }
}

/// Pages with anything in them: harm to the others says little.
fn used_pages(disk: &SimDisk) -> Vec<u64> {
    let bytes = disk.contents(DATABASE).unwrap();
    let pages = (0..).zip(bytes.chunks(4096));
    pages.filter(|(_, p)| p.len() == 4096 && p.iter().any(|b| *b != 0)).map(|(n, _)| n).collect()
}

/// Uses the store, and has what it missed confirmed by `verify`.
fn judge(lab: &Lab, disk: &SimDisk, step: usize) -> Used {
    let untouched = disk.kill();
    let used = open_and_use(lab, disk, step);
    if used.missed > 0 {
        let told = lab.builder().open_on(&untouched).and_then(|inbox| inbox.verify());
        assert!(
            told.is_err_and(|e| e.is_corrupt()),
            "missed {}, and verify says well",
            used.missed
        );
    }
    used
}

/// Damages the store `files` times, each time afresh, and uses it.
fn s4_damage(files: u64, seed: u64) {
    let step = 41;
    let lab = store();
    let whole = open_and_use(&lab, &lab.disk.kill(), 1);
    assert_eq!(whole, Used::default(), "without damage");
    let mut numbers = Numbers(seed);
    let (mut seen, mut corrupt, mut missed, mut wrong) = (0, 0, 0, Vec::new());
    for file in 0..files {
        let disk = lab.disk.kill();
        let harm = Harm::draw(&mut numbers, &disk);
        harm.apply(&disk);
        match catch_unwind(AssertUnwindSafe(|| judge(&lab, &disk, step))) {
            Ok(used) => {
                seen += u64::from(used.errors > 0);
                corrupt += u64::from(used.corrupt > 0);
                missed += u64::from(used.missed > 0);
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                wrong.push(format!("seed {seed}, file {file}, {harm:?}: {text}"));
            }
        }
    }
    println!(
        "{files} damaged stores: {seen} told an error, {corrupt} as damage; {missed} missed state"
    );
    assert!(wrong.is_empty(), "{} wrong of {files}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(corrupt * 2 > seen && seen * 3 > files, "{seen} of {files} were noticed");
}

#[test]
fn s4_damage_is_a_typed_error_and_never_a_wrong_answer() {
    within(Duration::from_secs(120), || {
        s4_damage(sized(250, 1_000), 4);
    });
}

#[test]
#[ignore = "20,000 damaged stores; run by the deep suite: cargo test --release -- --ignored"]
fn s4_twenty_thousand_damaged_stores() {
    (0..20).for_each(|seed| s4_damage(1_000, 400 + seed));
}

/// S4: opening a damaged store reads at most what opening a whole one could: no number in a damaged
/// page makes it read or write without end.
#[test]
fn s4_opening_damage_does_bounded_work() {
    let lab = store();
    let calls = |disk: &SimDisk| {
        disk.reset_calls();
        disk.record(true);
        drop(lab.builder().open_on(disk));
        let bytes =
            disk.trace().iter().filter(|t| t.call == Call::Read).map(|t| t.len).sum::<u64>();
        (disk.calls(), bytes)
    };
    let len = lab.disk.contents(DATABASE).unwrap().len() as u64;
    let mut numbers = Numbers(44);
    for _ in 0..100 {
        let disk = lab.disk.kill();
        let harm = Harm::draw(&mut numbers, &disk);
        harm.apply(&disk);
        let (made, read_bytes) = calls(&disk);
        assert!(made < 4 * (len / 4096) + 1_000, "{harm:?}: {made} calls");
        assert!(read_bytes < 8 * len + (1 << 20), "{harm:?}: {read_bytes} bytes read");
    }
}

/// S4: what stands beside the database: a header that is gone, cut, empty or another store's.
#[test]
fn s4_a_header_that_is_missing_or_foreign_is_named() {
    let (lab, other) = (store(), Lab::new(Retention::at_least(hours(1))));
    drop(other.builder().seed(99).open_on(&other.disk).unwrap());
    let header = "txinbox.header";
    let foreign = other.disk.contents(header).unwrap();
    for (what, bytes, cut) in [
        ("empty", None, Some(0)),
        ("cut", None, Some(20)),
        ("foreign", Some(foreign), None),
        ("endless", Some(vec![7; 5_000]), None),
    ] {
        let disk = lab.disk.kill();
        if let Some(bytes) = bytes {
            disk.overwrite(header, 0, &bytes).unwrap();
        }
        if let Some(len) = cut {
            disk.truncate(header, len).unwrap();
        }
        let before = disk.contents(DATABASE);
        let error = lab.builder().open_on(&disk).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains("header"), "{what}: {error}");
        if what != "foreign" {
            assert_eq!(disk.contents(DATABASE), before, "{what}: the database was touched");
        }
    }
}

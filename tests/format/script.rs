//! What the fixture's store went through, and what it must answer for ever.
//!
//! The script is part of the fixture: it may be read, but not changed, as long as a fixture written
//! by it is kept. It leaves a floor, sealed runs of two retention classes, recent claims of every
//! kind, a refusal, results, a tombstone, state of two keyspaces, and a version of the state.

use std::path::Path;
use std::time::Duration;

use txinbox::testkit::SimClock;
use txinbox::{Consumer, Error, Event, EventId, Inbox, Map, Outcome, Retention, Tx};

const START_MS: i64 = 1_800_000_000_000;
const WINDOW: Duration = Duration::from_secs(3_100);
const EVENTS: u32 = 30;
const SPAN: Duration = Duration::from_secs(400);

fn text(group: &str, n: u32) -> EventId {
    EventId::text(&format!("{group}-{n}")).unwrap()
}

fn payload(n: u32) -> String {
    format!("payload of {n}")
}

/// One event of each kind, in turn.
fn event<'p>(group: &str, n: u32, payload: &'p str) -> Event<'p> {
    match n % 5 {
        0 => Event::new(text(group, n), payload),
        1 => Event::unchecked(text(group, n)),
        2 => Event::new(text(group, n), payload).alias(text(group, n + 1_000)),
        3 => Event::unchecked(text(group, n)).fingerprint(u64::from(n) << 40),
        _ => Event::new(text(group, n), payload)
            .at_ms(START_MS + i64::from(n))
            .alias(text(group, n + 1_000))
            .alias(text(group, n + 2_000)),
    }
}

fn result(n: u32) -> Option<Vec<u8>> {
    match n % 4 {
        0 => Some(Vec::new()),
        1 => Some(vec![0xff; n as usize * 7]),
        _ => None,
    }
}

fn refusal() -> Event<'static> {
    Event::unchecked(text("refused", 0)).at_ms(START_MS)
}

struct Maps {
    balances: Map<u64, i64>,
    names: Map<(u32, String), [u8]>,
}

fn name(n: u32, text: &str) -> (u32, String) {
    (n, text.to_owned())
}

fn maps(inbox: &Inbox) -> Maps {
    Maps { balances: inbox.map("balances").unwrap(), names: inbox.map("names").unwrap() }
}

fn handle(tx: &mut Tx<'_>, maps: &Maps, n: u32) -> Result<(), txinbox::BoxError> {
    tx.update(&maps.balances, &u64::from(n % 3), |old| Some(old.unwrap_or(0) - i64::from(n)))?;
    if let Some(bytes) = result(n) {
        tx.set_result(bytes)?;
    }
    Ok(())
}

fn settle(inbox: &Inbox, consumer: &Consumer, group: &str) {
    let maps = maps(inbox);
    for n in 0..EVENTS {
        let payload = payload(n);
        let outcome =
            consumer.process(&event(group, n, &payload), |tx| handle(tx, &maps, n)).unwrap();
        assert!(outcome.is_applied(), "{group} {n}");
    }
}

fn open(clock: SimClock, dir: &Path) -> Result<Inbox, Error> {
    Inbox::builder(Retention::at_least(WINDOW))
        .clock(clock)
        .seed(0x5eed)
        .no_threads()
        .recent_max_claims(1_024)
        .journal_segment_bytes(16 << 10)
        .ballast_bytes(0) // no part of the format, and the fixture is kept under version control
        .state_version(3, |from, _| if from == 0 { Ok(()) } else { Err("not new".into()) })
        .open(dir)
}

pub(crate) fn opened(clock: SimClock, dir: &Path) -> Result<Inbox, Error> {
    open(clock, dir)
}

/// The clock as it stood when the script ended.
pub(crate) fn clock_after() -> SimClock {
    SimClock::new(START_MS + 4_400_000)
}

/// Writes the store, and leaves it open.
pub(crate) fn write(dir: &Path) -> Inbox {
    let clock = SimClock::new(START_MS);
    let inbox = open(clock.clone(), dir).unwrap();
    let billing = inbox.consumer("billing").unwrap();
    let longer = Retention::at_least(WINDOW * 10);
    let audit = inbox.consumer_with("audit", longer).unwrap();
    let Maps { names, .. } = maps(&inbox);
    let old = Event::unchecked(text("old", 0)).at_ms(START_MS - 5);
    assert!(billing.process(&old, |_| Ok(())).unwrap().is_applied());
    clock.advance(SPAN * 9);
    inbox.sweep().unwrap();

    settle(&inbox, &billing, "sealed");
    settle(&inbox, &audit, "sealed");
    clock.advance(SPAN);
    inbox.sweep().unwrap();
    assert!(billing.forget(&text("sealed", 8)).unwrap());

    clock.advance(SPAN);
    settle(&inbox, &billing, "recent");
    let naming = Event::unchecked(EventId::parts(&[b"naming", &[0, 255]]).unwrap());
    let named = audit.process(&naming, |tx| {
        tx.insert(&names, &name(7, "seven"), &b"\0value\xff"[..])?;
        tx.insert(&names, &name(8, "eight"), &b""[..])?;
        Ok(tx.remove(&names, &name(7, "absent"))?)
    });
    assert!(named.unwrap().is_applied());
    let refused = billing.process(&refusal(), |tx| Ok(tx.refuse("no cover")?)).unwrap();
    assert!(matches!(refused, Outcome::Refused((), _)));
    let stats = inbox.stats().unwrap();
    assert!(stats.runs >= 1 && stats.recent_claims > 0 && stats.claims_expired > 0, "{stats:?}");
    inbox
}

/// Everything that the store must answer; may be asked again and again.
pub(crate) fn check(inbox: &Inbox) {
    let billing = inbox.consumer("billing").unwrap();
    let audit = inbox.consumer("audit").unwrap();
    for (consumer, group) in [(&billing, "sealed"), (&audit, "sealed"), (&billing, "recent")] {
        for n in 0..EVENTS {
            if (consumer.name(), group, n) != ("billing", "sealed", 8) {
                check_event(consumer, group, n);
            }
        }
    }
    assert!(billing.lookup(&text("sealed", 8)).unwrap().is_none(), "forgotten by hand");
    let old = Event::unchecked(text("old", 0)).at_ms(START_MS - 5);
    assert!(matches!(billing.process(&old, |_| Ok(())).unwrap(), Outcome::TooLate { .. }));
    let Outcome::Duplicate(claim) = billing.process(&refusal(), |_| Ok(())).unwrap() else {
        panic!("a refusal was handled again");
    };
    assert!(claim.is_refused() && claim.result() == Some(b"no cover"));
    check_state(inbox);
}

fn check_event(consumer: &Consumer, group: &str, n: u32) {
    let payload = payload(n);
    let repeat = event(group, n, &payload);
    let Outcome::Duplicate(claim) = consumer.process(&repeat, |_| Ok(())).unwrap() else {
        panic!("{group} {n} was handled again");
    };
    assert_eq!(claim.result(), result(n).as_deref(), "{group} {n}");
    assert!(!claim.is_refused());
    assert_eq!(claim.fingerprint().is_some(), n % 5 != 1);
    let kept = claim.kept_for().unwrap();
    assert!(kept > Duration::from_secs(1_000) && !claim.is_result_expired());
    if n % 5 == 2 || n % 5 == 4 {
        let alias = Event::new(text(group, n + 1_000), &payload);
        assert!(consumer.process(&alias, |_| Ok(())).unwrap().is_duplicate());
    }
    if n.is_multiple_of(5) {
        let other = Event::new(text(group, n), "another payload");
        let mismatch = consumer.process(&other, |_| Ok(())).unwrap();
        assert!(matches!(mismatch, Outcome::Mismatch(_)), "{mismatch:?}");
    }
    let unknown = text(group, n + 3_000);
    assert!(consumer.lookup(&unknown).unwrap().is_none());
}

fn check_state(inbox: &Inbox) {
    let Maps { balances, names } = maps(inbox);
    // Three times 0 + 3 + .. 27, and so on.
    let expected = [(0, -3 * 135), (1, -3 * 145), (2, -3 * 155)];
    inbox
        .read(|view| {
            assert_eq!(view.scan(&balances, .., 9)?, expected);
            assert_eq!(view.get(&names, &name(7, "seven"))?.as_deref(), Some(&b"\0value\xff"[..]));
            assert_eq!(view.get(&names, &name(8, "eight"))?.as_deref(), Some(&b""[..]));
            assert_eq!(view.len(&names)?, 2);
            Ok::<_, Error>(())
        })
        .unwrap();
    let error = inbox.map::<u64, u64>("balances").unwrap_err();
    assert!(error.is_type_mismatch(), "{error}");
}

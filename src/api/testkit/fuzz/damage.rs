//! A store whose files were damaged at rest.

use std::time::Duration;

use super::Input;
use crate::api::event::Event;
use crate::api::event_id::EventId;
use crate::api::inbox::Inbox;
use crate::api::map::Map;
use crate::api::testkit::{PAGE_BYTES, SimClock, SimDisk};
use crate::base::error::Error;
use crate::claims::policy::Retention;

const FILES: [&str; 2] = ["txinbox.redb", "txinbox.header"];
const EVENTS: u32 = 20;
const START_MS: i64 = 1_800_000_000_000;

fn id(n: u32) -> Result<EventId, Error> {
    EventId::text(&format!("event-{n}"))
}

fn open(disk: &SimDisk) -> Result<Inbox, Error> {
    Inbox::builder(Retention::at_least(Duration::from_secs(3_100)))
        .clock(SimClock::new(START_MS))
        .seed(5)
        .no_threads()
        .cache_bytes(1 << 20)
        .open_on(disk)
}

fn state(inbox: &Inbox) -> Result<Map<u32, [u8]>, Error> {
    inbox.map("state")
}

fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(40)
}

fn write(disk: &SimDisk) -> Result<(), Error> {
    let inbox = open(disk)?;
    let (consumer, state) = (inbox.consumer("c")?, state(&inbox)?);
    for n in 0..EVENTS {
        let settled = consumer.process(&Event::unchecked(id(n)?), |tx| {
            tx.set_result(value(n))?;
            Ok(tx.insert(&state, &n, &value(n))?)
        });
        assert!(settled?.is_applied());
    }
    inbox.close()
}

/// Damage in any number of places; then no panic, and every answer is an error or the truth. What is
/// new or was lost is never called a duplicate, and no value is read that was not written.
pub fn damage(data: &[u8]) {
    let disk = SimDisk::new();
    assert!(write(&disk).is_ok(), "an undamaged store is written");
    let mut input = Input(data);
    while !input.is_empty() {
        // Damage past a file's end does not exist.
        let _ = harm(&disk, &mut input);
    }
    let Ok(inbox) = open(&disk) else { return };
    let _ = answers(&inbox);
    let _ = inbox.verify();
    let _ = inbox.close();
}

fn harm(disk: &SimDisk, input: &mut Input<'_>) -> std::io::Result<()> {
    let kind = input.u8();
    let file = FILES.get(usize::from(kind >> 7)).copied().unwrap_or_default();
    let len = disk.contents(file).map_or(0, |bytes| bytes.len() as u64);
    let place = u64::from(input.u16()) << 8 | u64::from(input.u8());
    let page = place % (len / PAGE_BYTES as u64).max(1);
    match kind & 0x7f {
        0..0x50 => disk.flip_bit(file, place % (len * 8).max(1)),
        0x50..0x60 => disk.overwrite(file, place % len.max(1), input.bytes(64)),
        0x60..0x68 => disk.truncate(file, place % len.max(1)),
        0x68..0x70 => disk.zero_page(file, page),
        _ => disk.swap_pages(file, page, u64::from(input.u8())),
    }
}

fn answers(inbox: &Inbox) -> Result<(), Error> {
    let state = state(inbox)?;
    for n in 0..EVENTS {
        if let Ok(Some(read)) = inbox.read(|view| view.get(&state, &n)) {
            assert_eq!(read, value(n), "a value that was never written");
        }
        let consumer = inbox.consumer("c")?;
        if let Ok(Some(claim)) = consumer.lookup(&id(n)?) {
            assert_eq!(claim.result(), Some(&value(n)[..]), "a result that was never stored");
        }
        let stranger = consumer.lookup(&id(n + 1_000)?);
        assert!(!matches!(stranger, Ok(Some(_))), "a claim that was never made");
    }
    let fresh = Event::unchecked(id(9_999)?);
    let settled = inbox.consumer("c")?.process(&fresh, |tx| Ok(tx.insert(&state, &9_999, b"x")?));
    if settled.is_ok_and(|outcome| outcome.is_applied()) {
        inbox.sweep()?;
    }
    Ok(())
}

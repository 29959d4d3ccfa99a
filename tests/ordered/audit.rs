//! What is recorded of work by hand, and for how long.

use std::time::Duration;

use txinbox::audit::{Action, Reason};
use txinbox::testkit::Keep;
use txinbox::{Event, EventId, Outcome};

use crate::machine::{Machine, START_MS, fail, source};

fn id(n: u32) -> EventId {
    EventId::text(&format!("order-{n}")).unwrap()
}

#[test]
fn what_was_forgotten_and_given_up_is_on_record_after_a_power_cut() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    assert!(consumer.process(&Event::unchecked(id(1)), |_| Ok(())).unwrap().is_applied());
    assert!(!consumer.forget_with_reason(&id(2), "not there").unwrap());
    assert!(consumer.forget_with_reason(&id(1), Reason::new("twice").by("anna")).unwrap());
    machine.clock.advance(Duration::from_secs(5));
    assert!(fail(&inbox, 4).is_handler());
    assert_eq!(source(&inbox).skip(4, "poison").unwrap(), Outcome::Skipped(()));
    assert!(source(&inbox).skip(4, "poison").unwrap().is_duplicate());

    let inbox = machine.cut(Keep::Nothing).open();
    let all = inbox.audit(None, 10).unwrap();
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[0].action(), &Action::Forgot { id: id(1) });
    assert_eq!((all[0].who(), all[0].reason(), all[0].consumer()), ("anna", "twice", "c"));
    let since = all[0].at().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(since, Duration::from_millis(START_MS as u64));
    let action = Action::Skipped { source: b"s0".to_vec(), incarnation: 1, position: 4 };
    assert_eq!(all[1].action(), &action);
    assert_eq!((all[1].who(), all[1].reason(), all[1].generation()), ("", "poison", 0));
    assert_eq!(all[1].at().duration_since(all[0].at()).unwrap(), Duration::from_secs(5));
    inbox.verify().unwrap();
}

#[test]
fn records_are_read_in_pages_and_go_with_the_retention() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let forget = |n: u32| {
        assert!(consumer.process(&Event::unchecked(id(n)), |_| Ok(())).unwrap().is_applied());
        assert!(consumer.forget_with_reason(&id(n), "so").unwrap());
    };
    (0..10).for_each(forget);
    assert!(consumer.process(&Event::unchecked(id(0)), |_| Ok(())).unwrap().is_applied());
    assert!(consumer.forget(&id(0)).unwrap()); // without a record
    let mut seen = Vec::new();
    let mut last = None;
    loop {
        let page = inbox.audit(last.as_ref(), 4).unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|record| record.action().clone()));
        last = page.last().cloned();
    }
    assert_eq!(seen, (0..10).map(|n| Action::Forgot { id: id(n) }).collect::<Vec<_>>());

    // R is 3,200 seconds for a window of 3,100.
    machine.clock.advance(Duration::from_secs(3_100));
    forget(10);
    assert_eq!(inbox.audit(None, 99).unwrap().len(), 11);
    machine.clock.advance(Duration::from_secs(100));
    (11..14).for_each(forget);
    let left = inbox.audit(None, 99).unwrap();
    let first = &left.first().unwrap().action().clone();
    assert_eq!((left.len(), first), (4, &Action::Forgot { id: id(10) }));
}

#[test]
fn a_reason_holds_1_024_bytes_and_a_name_255() {
    let inbox = Machine::new().open();
    let consumer = inbox.consumer("c").unwrap();
    for len in [0, 1_023, 1_024] {
        assert!(!consumer.forget_with_reason(&id(1), "r".repeat(len)).unwrap());
    }
    assert!(consumer.forget_with_reason(&id(1), "r".repeat(1_025)).unwrap_err().is_limit());
    let by = |len| Reason::new("r").by("n".repeat(len));
    for len in [254, 255] {
        assert!(!consumer.forget_with_reason(&id(1), by(len)).unwrap());
    }
    assert!(consumer.forget_with_reason(&id(1), by(256)).unwrap_err().is_limit());
    assert!(source(&inbox).skip(1, by(256)).unwrap_err().is_limit());
}

//! What must hold of messages.

use txinbox::outbox::{Delivery, Destination, Message};
use txinbox::testkit::{PowerLoss, SimDisk};
use txinbox::{Consumer, Error, Inbox};

use super::store::{Machine, counter, event, id};

fn open(machine: &Machine) -> Result<(Inbox, Consumer, Destination), Error> {
    let inbox = machine.open_without_journal()?;
    let (consumer, to) = (inbox.consumer("c")?, inbox.destination("to")?);
    Ok((inbox, consumer, to))
}

fn send(consumer: &Consumer, to: &Destination, n: u32) -> Result<(), Error> {
    let outcome = consumer.process(&event(n), |tx| {
        tx.enqueue(to, Message::new(n.to_string()).key("k"))?;
        Ok(())
    })?;
    assert!(outcome.is_applied());
    Ok(())
}

fn payloads(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|d| std::str::from_utf8(d.payload()).unwrap()).collect()
}

/// Guarantee 1: no power cut parts a message from its event's claim.
pub(crate) fn a_message_is_there_with_its_event_or_not_at_all() {
    let made = Machine::new();
    let (inbox, ..) = open(&made).unwrap();
    counter(&inbox);
    inbox.close().unwrap();
    let workload = |disk: &SimDisk| {
        let Ok((_inbox, consumer, to)) = open(&Machine::with(disk.clone())) else { return };
        let _ = send(&consumer, &to, 0).and_then(|()| send(&consumer, &to, 1));
    };
    let check = |image: &SimDisk| {
        let (_inbox, consumer, to) =
            open(&Machine::with(image.clone())).map_err(|e| e.to_string())?;
        let known = |n: &u32| consumer.lookup(&id(*n)).is_ok_and(|claim| claim.is_some());
        let claims = (0..2).filter(known).count();
        let messages = to.waiting(None, 9).map_err(|e| e.to_string())?.len();
        let alike = claims == messages;
        if alike { Ok(()) } else { Err(format!("{messages} messages beside {claims} claims")) }
    };
    let driver = PowerLoss::new("two messages").start(&made.disk).budget(6, 1).torn(false);
    let report = driver.run(workload, |image, _| check(image)).unwrap();
    assert!(report.images > 20, "{report:?}");
}

/// Guarantee 2: what a relay is handed, it will have sent, whatever the power does.
pub(crate) fn only_durable_messages_are_handed_out() {
    let machine = Machine::new();
    let inbox = machine.open();
    let (consumer, to) = (inbox.consumer("c").unwrap(), inbox.destination("to").unwrap());
    let ticket = consumer.submit(&event(1), |tx| Ok(tx.enqueue(&to, Message::new("1"))?)).unwrap();
    let handed = to.take(9).unwrap().len();
    let left = machine.cut().open().destination("to").unwrap().take(9).unwrap().len();
    assert!(handed <= left, "{handed} handed out, {left} left by the power cut");
    drop(ticket);
}

/// What was acknowledged is never handed out again, in no later process either.
pub(crate) fn what_was_acknowledged_is_gone() {
    let machine = Machine::new();
    let (inbox, consumer, to) = open(&machine).unwrap();
    send(&consumer, &to, 1).unwrap();
    let taken = to.take(9).unwrap();
    assert_eq!(to.acknowledge(&taken).unwrap(), 1);
    inbox.close().unwrap();
    let (_inbox, _, to) = open(&machine).unwrap();
    assert_eq!(payloads(&to.take(9).unwrap()), [""; 0]);
}

/// U1: each of a key only once the one before it is settled.
pub(crate) fn u1_messages_of_a_key_go_in_order() {
    let machine = Machine::new();
    let (_inbox, consumer, to) = open(&machine).unwrap();
    for n in 0..3 {
        send(&consumer, &to, n).unwrap();
    }
    for n in ["0", "1", "2"] {
        let taken = to.take(9).unwrap();
        assert_eq!(payloads(&taken), [n]);
        to.acknowledge(&taken).unwrap();
    }
}

/// W2: one id at every hand-out, and when the event is handled anew.
pub(crate) fn w2_a_message_has_one_id_for_ever() {
    let machine = Machine::new();
    let (inbox, consumer, to) = open(&machine).unwrap();
    send(&consumer, &to, 1).unwrap();
    let first = to.take(1).unwrap()[0].id();
    assert!(consumer.forget(&id(1)).unwrap());
    machine.pass(std::time::Duration::from_secs(1));
    send(&consumer, &to, 1).unwrap();
    inbox.close().unwrap();
    let (_inbox, _, to) = open(&machine).unwrap();
    let again = to.waiting(None, 9).unwrap();
    assert_eq!(again.iter().map(|m| m.id()).collect::<Vec<_>>(), [first, first]);
}

/// History handled anew has sent its messages before; what comes after the promotion has not.
pub(crate) fn a_rebuild_sends_nothing_until_it_is_promoted() {
    let machine = Machine::new();
    let (inbox, consumer, to) = open(&machine).unwrap();
    send(&consumer, &to, 1).unwrap();
    let rebuild = consumer.next_generation().unwrap();
    send(rebuild.consumer(), &to, 1).unwrap();
    assert_eq!(to.waiting(None, 9).unwrap().len(), 1);
    let new = rebuild.promote().unwrap();
    send(&new, &to, 2).unwrap();
    assert_eq!(to.waiting(None, 9).unwrap().len(), 2);
    let stats = inbox.stats().unwrap().destinations["to"].clone();
    assert_eq!((stats.enqueued, stats.muted), (2, 1));
}

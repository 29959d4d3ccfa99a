//! What must hold of leases.

use std::time::Duration;

use txinbox::lease::{Begun, Lease};
use txinbox::testkit::Keep;
use txinbox::{Consumer, Map, Outcome};

use super::store::{Machine, event};

const TIME: Duration = Duration::from_secs(10);

fn begin(consumer: &Consumer) -> Lease {
    match consumer.begin(&event(1), TIME).unwrap() {
        Begun::Lease(lease) => lease,
        Begun::Settled(outcome) => panic!("{outcome:?}"),
    }
}

/// F2: an attempt that ends after another has taken its event over is told so, and changes nothing.
pub(crate) fn f2_a_late_finisher_changes_nothing() {
    let machine = Machine::new();
    let inbox = machine.open();
    let consumer = inbox.consumer("c").unwrap();
    let map: Map<u32, u32> = inbox.map("late").unwrap();
    let mut late = begin(&consumer);
    machine.clock.advance(TIME);
    let next = begin(&consumer);
    let outcome = late.complete(|tx| Ok(tx.insert(&map, &1, &1)?)).unwrap();
    assert_eq!(outcome, Outcome::Fenced { epoch: next.token() });
    assert_eq!(inbox.read(|view| view.get(&map, &1)).unwrap(), None);
}

/// A worker has used its token outside: no later one may have the same, whatever the power does.
pub(crate) fn a_token_that_was_given_out_survives_a_power_cut() {
    let machine = Machine::new();
    let consumer = machine.open().consumer("c").unwrap();
    let token = begin(&consumer).token();
    let after = Machine::with(machine.disk.power_cut(Keep::Nothing));
    let consumer = after.open().consumer("c").unwrap();
    let begun = consumer.begin(&event(1), TIME).unwrap();
    assert!(matches!(begun, Begun::Settled(Outcome::InProgress { attempt: 1, .. })), "{begun:?}");
    after.clock.advance(TIME);
    assert!(begin(&consumer).token() > token);
}

/// LS6: a call of the worker that died may still be under way.
pub(crate) fn an_opening_leaves_a_live_lease() {
    let machine = Machine::new();
    let inbox = machine.open();
    drop(begin(&inbox.consumer("c").unwrap()));
    inbox.close().unwrap();
    let consumer = machine.open().consumer("c").unwrap();
    let begun = consumer.begin(&event(1), TIME).unwrap();
    assert!(matches!(begun, Begun::Settled(Outcome::InProgress { attempt: 1, .. })), "{begun:?}");
}

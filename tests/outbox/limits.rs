//! Every limit of a message, one below, at and one above.

use txinbox::outbox::Message;

use crate::kit::{Desk, Lab, event};

fn tries(desk: &Desk, what: &str, message: Message, fits: bool) {
    let sent = desk.consumer.process(&event(what), |tx| Ok(tx.enqueue(&desk.to, message)?));
    match sent {
        Ok(outcome) => assert!(fits && outcome.is_applied(), "{what}"),
        Err(error) => assert!(!fits && error.is_limit(), "{what}: {error}"),
    }
}

#[test]
fn sizes_of_a_message() {
    let lab = Lab::new();
    let desk = Desk::at(lab.builder().journal_segment_bytes(1 << 20).open_in_memory().unwrap());
    for (n, fits) in [(-1_isize, true), (0, true), (1, false)] {
        let of = |limit: usize| limit.checked_add_signed(n).unwrap();
        tries(&desk, &format!("payload{n}"), Message::new(vec![0; of(16 << 20)]), fits);
        tries(&desk, &format!("key{n}"), Message::new("").key("k".repeat(of(1_024))), fits);
        tries(&desk, &format!("name{n}"), Message::new("").named("n".repeat(of(1_024))), fits);
        let many = (0..of(64)).fold(Message::new(""), |m, _| m.header("", ""));
        tries(&desk, &format!("headers{n}"), many, fits);
        let long = Message::new("").header("four", vec![0; of(64 << 10) - 4]);
        tries(&desk, &format!("header bytes{n}"), long, fits);
    }
    for empty in [Message::new("").key(""), Message::new("").named("")] {
        let sent = desk.consumer.process(&event("e"), |tx| Ok(tx.enqueue(&desk.to, empty)?));
        assert!(sent.unwrap_err().is_invalid());
    }
    let taken = desk.take();
    assert_eq!(taken.len(), 10);
    assert_eq!(desk.to.acknowledge(&taken).unwrap(), 10);
}

#[test]
fn messages_of_an_event_and_of_a_call() {
    let lab = Lab::new();
    let desk = Desk::at(lab.builder().open_in_memory().unwrap());
    for (n, fits) in [(4_095, true), (4_096, true), (4_097, false)] {
        let sent = desk.consumer.process(&event(&n.to_string()), |tx| {
            (0..n).try_for_each(|_| tx.enqueue(&desk.to, Message::new("")).map(drop))?;
            Ok(())
        });
        assert_eq!(sent.is_ok(), fits, "{n}");
        assert!(fits || sent.unwrap_err().is_limit());
    }
    assert_eq!(desk.to.take(4_097).unwrap().len(), 4_096);
    assert_eq!(desk.to.take(4_095).unwrap().len(), 4_095);
    lab.clock.advance(std::time::Duration::from_secs(60));
    let mut all = desk.to.take(4_096).unwrap();
    all.extend(desk.to.take(4_096).unwrap());
    assert_eq!(all.len(), 8_191);
    assert_eq!(desk.to.acknowledge(&all).unwrap(), 8_191, "more than one call takes");
    assert_eq!(desk.waiting(), 0);
}

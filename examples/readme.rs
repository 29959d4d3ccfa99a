//! The README's loop, whole: a consumer that keeps balances, fed by a source that repeats itself.
//!
//! Run it with `cargo run --example readme`. The source stands for a broker: it delivers at least
//! once, here one message twice and one without an id.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::time::Duration;

use txinbox::{Advice, Event, EventId, Inbox, Map, Retention};

/// A delivery, as a broker's client would give it.
struct Message {
    id: String,
    body: String,
    account: u64,
    amount: i64,
}

impl Message {
    fn new(id: &str, account: u64, amount: i64) -> Self {
        let body = format!("{{\"account\":{account},\"amount\":{amount}}}");
        Self { id: id.to_owned(), body, account, amount }
    }

    fn ack(&self) {
        println!("{:8} acknowledged", self.id);
    }

    fn nack(&self, delay: Duration) {
        println!("{:8} again in {delay:?}", self.id);
    }

    fn park(&self, why: &dyn Debug) {
        println!("{:8} set aside: {why:?}", self.id);
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

fn main() -> Result<(), Box<dyn StdError>> {
    let dir = tempfile::tempdir()?;
    let retention = Retention::covering()
        .broker(hours(7 * 24)) // how long the broker keeps messages
        .retries(hours(24)) // how long a sender goes on trying
        .recovery(hours(48)) // how long you may be down
        .replay(hours(14 * 24)); // how far back you rewind on purpose

    let inbox = Inbox::builder(retention).open(dir.path().join("orders"))?;
    let billing = inbox.consumer("billing")?;
    let balances: Map<u64, i64> = inbox.map("balances")?;

    let source = [
        Message::new("order-1", 7, 100),
        Message::new("order-2", 7, -30),
        Message::new("order-1", 7, 100), // delivered again: changes nothing
        Message::new("order-2", 7, -99), // the same id with another payload: a mistake upstream
        Message::new("", 7, 1),          // without an id: refused, never taken for a duplicate
    ];
    for m in source {
        let answer = EventId::text(&m.id).and_then(|id| {
            billing.process(&Event::new(id, &m.body), |tx| {
                let balance = tx.get(&balances, &m.account)?.unwrap_or(0);
                tx.insert(&balances, &m.account, &(balance + m.amount))?;
                Ok(())
            })
        });
        match answer {
            Ok(outcome) => match outcome.advice() {
                Advice::Ack => m.ack(),
                Advice::RetryAfter(delay) => m.nack(delay),
                Advice::Quarantine => m.park(&outcome),
            },
            Err(e) if e.is_retryable() => m.nack(e.backoff()),
            Err(e) => m.park(&e),
        }
    }

    let balance = inbox.read(|view| view.get(&balances, &7))?;
    println!("balance  {balance:?}");
    assert_eq!(balance, Some(70));
    inbox.close()?;
    Ok(())
}

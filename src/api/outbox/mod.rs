//! Messages that leave together with the state they speak of.
//!
//! A handler that sends by itself sends again when it runs again, and sends for what is never committed. Instead
//! it [enqueues](crate::Tx::enqueue) in its transaction: the message becomes durable with the event's claim,
//! or not at all. A *relay*, any thread of yours, then takes messages of durable events, sends them, and
//! acknowledges them.
//!
//! ```
//! # use std::time::Duration;
//! # use txinbox::{Event, EventId, Inbox, Map, Retention};
//! use txinbox::outbox::Message;
//!
//! # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(3600)))?;
//! # let mut post = |_id: String, _body: &[u8]| Ok::<(), std::io::Error>(());
//! let balances: Map<u64, i64> = inbox.map("balances")?;
//! let receipts = inbox.destination("receipts")?;
//! let billing = inbox.consumer("billing")?;
//!
//! billing.process(&Event::new(EventId::text("order-1")?, "7 pays 10"), |tx| {
//!     tx.update(&balances, &7, |b| Some(b.unwrap_or(0) - 10))?;
//!     tx.enqueue(&receipts, Message::new("10 paid").key("7"))?;
//!     Ok(())
//! })?;
//!
//! // The relay: usually a thread, in a loop until the program ends.
//! let delivered = receipts.deliver(500, Duration::from_secs(1), |message| {
//!     post(message.id().idempotency_key(), message.payload())?;
//!     Ok(())
//! })?;
//! assert_eq!(delivered.sent, 1);
//! # Ok::<(), txinbox::Error>(())
//! ```
//!
//! # What holds
//!
//! - Every message of a durable event is sent once or more, never zero times, always under the same
//!   [id](MessageId). What was acknowledged durably is never handed out again.
//! - A repeat of an event sends nothing, for as long as its claim is kept.
//! - Messages of one key are handed out in the order of their commits, each once the one before it is
//!   settled; keys do not wait for each other, nor does a message without a key. Each destination goes by
//!   itself.
//! - A message that fails is tried again later and later, then becomes a [dead letter](DeadLetter), with what the
//!   last attempt said. What that means for its key [you choose](Destination::when_exhausted).
//! - Handing out takes no write slot, and costs the same whether a thousand messages wait or a million.
//!
//! # What does not
//!
//! The other side may see a message twice: after a crash between sending and acknowledging, or when an answer
//! comes later than [agreed](Destination::answer_within). Let it drop repeats by the id. Times before which a message is not to go
//! are the wall clock's; pauses between attempts are counted in time for which the store is open. Who
//! has what is known to one process only, so after a crash everything that is not settled is handed out at once.
//! At most about a million messages of one destination can be out, or wait for a time, together; others behind
//! them wait.

mod delivery;
mod destination;
mod message;
mod relay;

pub use delivery::{DeadLetter, Delivery, Waiting, WaitsFor};
pub use destination::{Destination, Exhausted, Failed};
pub use message::{Message, MessageId};
pub use relay::Delivered;

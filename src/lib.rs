//! An embedded transactional inbox: handle each event once, in one transaction with your state.
//!
//! Brokers deliver again when a consumer crashes or an acknowledgement is lost. Hand each delivery to
//! [`Consumer::process`]: the event's *claim* and everything the handler writes become durable
//! together or not at all, and a second delivery of the same event changes nothing. Claims are kept
//! for as long as duplicates can come, and forgotten in time. One directory, one process, no server.
//!
//! ```
//! use txinbox::{Advice, Event, EventId, Inbox, Map, Retention, hours};
//!
//! # let dir = tempfile::tempdir()?;
//! # struct Delivery { id: &'static str, body: &'static str, account: u64, amount: i64 }
//! # let (mut acknowledged, mut parked) = (0, 0);
//! # let orders = [
//! #     Delivery { id: "order-1", body: "7 pays 10", account: 7, amount: 10 },
//! #     Delivery { id: "order-2", body: "7 pays 5", account: 7, amount: 5 },
//! #     Delivery { id: "order-1", body: "7 pays 10", account: 7, amount: 10 },
//! #     Delivery { id: "order-1", body: "7 pays 99", account: 7, amount: 99 },
//! # ];
//! let inbox = Inbox::builder(
//!     Retention::covering().broker(hours(7 * 24)).retries(hours(24)).recovery(hours(48)),
//! )
//! .open(dir.path().join("orders"))?;
//! let billing = inbox.consumer("billing")?;
//! let balances: Map<u64, i64> = inbox.map("balances")?;
//!
//! for m in &orders {
//!     let event = Event::new(EventId::text(m.id)?, m.body);
//!     let outcome = billing.process(&event, |tx| {
//!         let b = tx.get(&balances, &m.account)?.unwrap_or(0);
//!         tx.insert(&balances, &m.account, &(b + m.amount))?;
//!         Ok(())
//!     });
//!     match outcome {
//!         Ok(outcome) => match outcome.advice() { // reached once all it says is durable
//!             Advice::Ack => acknowledged += 1,
//!             Advice::RetryAfter(_later) => {}
//!             Advice::Quarantine => parked += 1,
//!         },
//!         Err(e) if e.is_retryable() => {} // let it come again after `e.backoff()`
//!         Err(_) => parked += 1,           // nothing was kept: no claim, no state
//!     }
//! }
//! assert_eq!(inbox.read(|view| view.get(&balances, &7))?, Some(15));
//! assert_eq!((acknowledged, parked), (3, 1)); // same id, other payload: put aside
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it guarantees
//!
//! - A claim and its state are one durable commit, over any crash, power cut, full disk or panic.
//! - Every answer waits until all it rests on is durable.
//! - Of two deliveries of one id, in one batch or in two threads, exactly one is applied.
//! - Nothing is forgotten before its time, not for memory, not for a clock that lies.
//! - An event whose claim may have been forgotten is [`Outcome::TooLate`], never silently new, if it
//!   carries its own [time](Event::at).
//!
//! # What it is not
//!
//! It is not exactly-once across systems. The handler may run again if nothing was kept, so effects
//! outside its transaction may be repeated. All deliveries of an event must reach the same store.
//! Two ids for one logical event are two events, unless one is named as an [alias](Event::alias). It is not for
//! state that already lives in an SQL database: a unique index there does the same.
//!
//! # Limits
//!
//! One writer at a time; a handler holds up all others while it runs. An event id has 1 to 65,535
//! bytes, an event at most 64 aliases, a state key 64 KiB, a value 64 MiB, an event's writes 256 MiB.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `serde`: [`codec::Json`] values; brings in `serde` and `serde_json`.
//! - `testkit`: a simulated disk and clock for tests of your own consumers; no dependencies.
//!
//! Work that cannot run inside a transaction is the subject of [`lease`] and `docs/leases.md`.
//!
//! Which field of a delivery is its id, and how long it can come again, is listed for the
//! well-known sources in `docs/sources.md`; the design is in `docs/design.md`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod base;
mod claims;
mod engine;
mod storage;

pub use api::audit;
pub use api::batch::{Batch, BatchTicket};
pub use api::builder::{Builder, Durability};
pub use api::claim::Claim;
pub use api::codec;
pub use api::consumer::{Consumer, generation, ordered};
pub use api::event::Event;
pub use api::event_id::EventId;
pub use api::http;
pub use api::inbox::Inbox;
pub use api::lease;
pub use api::map::Map;
pub use api::outbox;
pub use api::outcome::{Advice, Outcome};
pub use api::stats;
#[cfg(feature = "testkit")]
pub use api::testkit;
pub use api::ticket::Ticket;
pub use api::tx::Tx;
pub use api::view::View;
pub use base::clock::Clock;
pub use base::error::{BoxError, Error};
pub use claims::policy::{Retention, days, hours, minutes};

#[cfg(doctest)]
#[doc = include_str!("../docs/sources.md")]
struct SourcesPage;

#[cfg(doctest)]
#[doc = include_str!("../docs/ordered.md")]
struct OrderedPage;

#[cfg(doctest)]
#[doc = include_str!("../docs/leases.md")]
struct LeasesPage;

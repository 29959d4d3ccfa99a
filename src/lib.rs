//! txinbox
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports)] // while the layers are being put together

mod api;
mod base;
mod claims;
mod engine;
mod storage;

pub use api::batch::Batch;
pub use api::builder::Builder;
pub use api::claim::Claim;
pub use api::codec;
pub use api::consumer::Consumer;
pub use api::event::Event;
pub use api::event_id::EventId;
pub use api::inbox::Inbox;
pub use api::map::Map;
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

//! txinbox
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports)] // while the layers are being put together

mod api;
mod base;
mod claims;
mod storage;

pub use api::codec;
pub use api::event::Event;
pub use api::event_id::EventId;
pub use base::clock::Clock;
pub use base::error::{BoxError, Error};

#[cfg(doctest)]
#[doc = include_str!("../docs/sources.md")]
struct SourcesPage;

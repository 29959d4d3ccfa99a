//! What users see.
//!
//! Owns the public types and their promises; every rule behind them lives in the layers below.
//! Nothing calls this layer.

pub mod audit;
pub(crate) mod batch;
pub(crate) mod builder;
pub(crate) mod claim;
pub mod codec;
pub(crate) mod consumer;
pub(crate) mod event;
pub(crate) mod event_id;
pub(crate) mod finish;
pub mod http;
pub(crate) mod inbox;
pub mod lease;
pub(crate) mod map;
pub mod outbox;
pub(crate) mod outcome;
pub mod stats;
#[cfg(feature = "testkit")]
pub mod testkit;
pub(crate) mod ticket;
pub(crate) mod tx;
pub(crate) mod view;

//! The outbox: messages and their relays, held against a plain reference, power cuts, kills and the cases.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // tests, helpers included
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // these are tests, not the crate

mod basics;
mod failures;
mod kill;
mod kit;
mod limits;
mod model;
mod order;
mod power;
mod reference;

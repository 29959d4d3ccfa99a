//! Leases: work outside a transaction, held against a plain reference, power cuts, races and the cases.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::panic)] // tests, helpers included
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // these are tests, not the crate

mod aliases;
mod cases;
mod kit;
mod limits;
mod model;
mod power;
mod races;
mod reference;
mod rules;
mod upkeep;

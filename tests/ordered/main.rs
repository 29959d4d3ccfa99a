//! Ordered sources: positions, failures that block, incarnations, owners; and what is recorded of work by
//! hand.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests, helpers included

mod audit;
mod basics;
mod batches;
mod cases;
mod generations;
mod machine;
mod model;
mod power;
mod trouble;

//! Cases M to AD: what people who run consumers have met, each as a test named after its row.
//!
//! The table "Cases M to AD" of docs/testing.md says what each test shows. Sizes that take minutes
//! stand in tests marked `ignore`; the deep suite runs them in release.
#![cfg(feature = "testkit")]
// Tests assert by panicking; some measure real time, or wait for a real process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod checker;
mod child;
mod kit;

mod answers;
mod clocks;
mod crashes;
mod damage;
mod durability;
mod failing_device;
mod forgetting;
mod formats;
mod full_disk;
mod opening;
mod panics;
mod processes;
mod results;
mod retention;
mod soak;
mod space;
mod sweeping;
mod upkeep;
mod waiting;

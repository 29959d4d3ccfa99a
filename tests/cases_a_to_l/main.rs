//! Cases that people who run consumers have met, A to L: one module a letter.
//!
//! Every test bears the name of its row in docs/testing.md. Where a row speaks of outgoing messages,
//! it is tested without them: this release has no outbox yet.

// Without the simulated disk some modules shrink to less than they import.
#![cfg_attr(not(feature = "testkit"), allow(unused_imports, dead_code))]
// A test may fail by panicking, and it may use the machine's clocks, sleep and lock plainly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod a_claim_kept;
mod b_effect_kept;
mod c_races;
#[cfg(feature = "testkit")]
mod d_commit_fails;
#[cfg(feature = "testkit")]
mod d_faults;
#[cfg(feature = "testkit")]
mod d_told_the_truth;
mod e_settings;
mod e_stuck;
mod f_sweeping;
mod g_mismatch;
mod h_stable;
mod i_missing_id;
mod j_clashes;
mod j_ids;
mod k_scopes;
mod k_stores;
mod l_batches;
mod support;

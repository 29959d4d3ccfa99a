//! Claims: which events were settled, when, and with what; and how they are forgotten in time.
//!
//! Owns recent claims, sealed runs, buckets, floors and store time. Called by `engine`; calls
//! `storage` and `base`.

pub(crate) mod build;
pub(crate) mod catalogue;
#[cfg(feature = "testkit")]
pub(crate) mod decoders;
pub(crate) mod packed;
pub(crate) mod pending;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod recent;
pub(crate) mod resolve;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod store_time;

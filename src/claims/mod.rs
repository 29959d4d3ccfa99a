//! Claims: which events were settled, when, and with what; and how they are forgotten in time.
//!
//! Owns recent claims, sealed runs, buckets, floors and store time. Called by `engine`; calls
//! `storage` and `base`.

pub(crate) mod packed;
pub(crate) mod policy;
pub(crate) mod recent;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod store_time;

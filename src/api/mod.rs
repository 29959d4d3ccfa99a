//! What users see.

pub mod codec;
pub(crate) mod event;
pub(crate) mod event_id;

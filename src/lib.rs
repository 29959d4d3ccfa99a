//! txinbox
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports)] // while the layers are being put together

mod base;
mod claims;
mod storage;

pub use base::clock::Clock;
pub use base::error::{BoxError, Error};

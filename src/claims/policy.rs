//! stub
use crate::base::error::Error;
use crate::base::ids::*;
use std::time::Duration;
/// stub
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    r: Option<u64>,
    shorter: bool,
}
impl Retention {
    /// x
    pub fn at_least(d: Duration) -> Self {
        Self { r: Some(d.as_millis() as u64 * 32 / 31 + 1), shorter: false }
    }
    /// x
    pub fn forever() -> Self {
        Self { r: None, shorter: false }
    }
    pub(crate) fn policy(&self) -> Result<Policy, Error> {
        Ok(Policy { retention_ms: self.r })
    }
    pub(crate) fn allows_shorter(&self) -> bool {
        self.shorter
    }
}
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) retention_ms: Option<u64>,
}
pub(crate) fn bucket_bounds(r: Option<u64>, now: StoreMs) -> (StoreMs, StoreMs) {
    match r {
        None => (StoreMs(0), StoreMs(u64::MAX)),
        Some(r) => {
            let s = r.div_ceil(8);
            (StoreMs(now.0 / s * s), StoreMs((now.0 / s + 1) * s))
        }
    }
}

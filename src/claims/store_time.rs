//! stub
use crate::base::codec::*;
use crate::base::ids::*;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) now: StoreMs,
    pub(crate) wall_at_save: WallMs,
}
impl Saved {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u64(self.now.0);
        w.i64(self.wall_at_save.0);
        w.finish()
    }
    pub(crate) fn decode(b: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(b);
        Ok(Self { now: StoreMs(r.u64()?), wall_at_save: WallMs(r.i64()?) })
    }
}
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreClock {
    base: u64,
    boot: u64,
}
impl StoreClock {
    pub(crate) fn new(boot: u64) -> Self {
        Self { base: 0, boot }
    }
    pub(crate) fn resume(s: Saved, r: Option<u64>, wall: i64, boot: u64) -> Self {
        let gap = wall.saturating_sub(s.wall_at_save.0).max(0) as u64;
        Self { base: s.now.0 + gap.min(r.unwrap_or(u64::MAX) / 32), boot }
    }
    pub(crate) fn now(&mut self, boot: u64) -> StoreMs {
        StoreMs(self.base + boot.saturating_sub(self.boot))
    }
    pub(crate) fn save(&mut self, wall: i64, boot: u64) -> Saved {
        Saved { now: self.now(boot), wall_at_save: WallMs(wall) }
    }
}

//! stub
use crate::base::codec::Malformed;
use crate::base::error::Error;
use crate::base::ids::{Epoch, Seq};
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) seq: Seq,
    pub(crate) epoch: Epoch,
    pub(crate) crc: u32,
    pub(crate) segment: u8,
    pub(crate) offset: u64,
}
impl End {
    pub(crate) fn through(mut self, seq: Seq) -> Self {
        self.seq = seq;
        self
    }
    pub(crate) fn encode(&self) -> Vec<u8> {
        Vec::new()
    }
    pub(crate) fn decode(_: &[u8]) -> Result<Self, Malformed> {
        Ok(Self::default())
    }
}
pub(crate) struct Replayed {
    pub(crate) seq: Seq,
    pub(crate) payload: Vec<u8>,
}
#[derive(Debug)]
pub(crate) struct Journal {
    end: End,
}
#[derive(Debug)]
pub(crate) struct Prepared;
impl Journal {
    pub(crate) fn set_epoch(&mut self, _epoch: Epoch) {}
    pub(crate) fn fits(&self, _b: usize) -> bool {
        false
    }
    pub(crate) fn fits_empty(&self, _b: usize) -> bool {
        false
    }
    pub(crate) fn current(&self) -> u8 {
        0
    }
    pub(crate) fn used_bytes(&self) -> u64 {
        0
    }
    pub(crate) fn switch(&mut self) {}
    pub(crate) fn skip_to(&mut self, seq: Seq) -> End {
        self.end = self.end.through(seq);
        self.end
    }
    pub(crate) fn prepare(&mut self, _seq: Seq, _durable: Seq, _payload: &[u8]) -> Prepared {
        Prepared
    }
    pub(crate) fn end(&self) -> End {
        self.end
    }
    pub(crate) fn stub(end: End) -> Self {
        Self { end }
    }
}
impl Prepared {
    pub(crate) fn write_and_sync(&self) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) fn bytes(&self) -> usize {
        0
    }
}

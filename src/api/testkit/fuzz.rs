//! What the fuzz targets run: ordinary functions over any bytes, so that their corpora are replayed
//! by `cargo test` too. Each returns if all is well, and panics if a promise is broken.

mod damage;
mod decoders;
mod ids;
mod operations;

pub use damage::damage;
pub use decoders::decoders;
pub use ids::ids;
pub use operations::operations;

/// Takes numbers off the front of a fuzzer's bytes; past their end come zeros.
#[derive(Debug)]
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = usize::from(self.u8()).min(most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

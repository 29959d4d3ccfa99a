//! Damage to a closed store: what a medium or a careless hand does to bytes that were durable.

use std::io;

use super::SimDisk;
use super::pages::Pages;

impl SimDisk {
    /// The bytes of a file as processes see them; `None` if there is no such file.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.0.lock();
        let file = state.names.get(name)?;
        Some(state.files.get(file)?.cache.to_vec())
    }

    /// Flips one bit, counted from the file's first byte, lowest bit first.
    ///
    /// # Errors
    /// If there is no such file, or it ends before that bit. So for all damage here.
    pub fn flip_bit(&self, name: &str, bit: u64) -> io::Result<()> {
        self.damage(name, |pages| {
            let mut byte = [0_u8];
            if pages.read(bit / 8, &mut byte) == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let [old] = byte;
            pages.write(bit / 8, &[old ^ (1 << (bit % 8))])
        })
    }

    /// Writes over bytes of a file.
    ///
    /// # Errors
    /// See [`flip_bit`](Self::flip_bit).
    pub fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.damage(name, |pages| pages.write(offset, bytes))
    }

    /// Cuts a file.
    ///
    /// # Errors
    /// See [`flip_bit`](Self::flip_bit).
    pub fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        self.damage(name, |pages| pages.set_len(len))
    }

    /// Makes a whole 4 KiB page zeros.
    ///
    /// # Errors
    /// See [`flip_bit`](Self::flip_bit).
    pub fn zero_page(&self, name: &str, page: u64) -> io::Result<()> {
        self.damage(name, |pages| {
            inside(pages, page)?;
            pages.zero(page);
            Ok(())
        })
    }

    /// Swaps two whole 4 KiB pages.
    ///
    /// # Errors
    /// See [`flip_bit`](Self::flip_bit).
    pub fn swap_pages(&self, name: &str, a: u64, b: u64) -> io::Result<()> {
        self.damage(name, |pages| {
            inside(pages, a)?;
            inside(pages, b)?;
            pages.swap(a, b);
            Ok(())
        })
    }

    /// Applies the same damage to what processes see and to what is durable.
    fn damage(&self, name: &str, harm: impl Fn(&mut Pages) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.0.lock();
        let file = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let file = state.files.get_mut(&file).ok_or(io::ErrorKind::NotFound)?;
        harm(&mut file.cache)?;
        file.durable = file.cache.clone();
        state.unsynced.clear();
        Ok(())
    }
}

/// Refuses a page that does not lie inside the file as a whole.
fn inside(pages: &Pages, page: u64) -> io::Result<()> {
    if page < pages.len() / super::PAGE_BYTES as u64 {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

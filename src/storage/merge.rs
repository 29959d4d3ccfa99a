//! One scan over several layers: an event's own rows, the memtable's generations, redb.
//!
//! What must hold: MG1. Each key comes once, from the newest layer that has it, and not at all if that removed
//! it. MG2. Rows come in the scan's order. MG3. A generation is read a chunk at a time, so that no lock is
//! kept between two rows.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;

use super::db::{Bounds, ReadTable, Rows};
use super::memtable::{Generation, MemRow, rest};
use super::snapshot::StoredRow;
use super::tables::TableId;
use crate::base::error::Error;
use crate::base::ids::Seq;
use crate::base::sync::Arc;

/// Every key.
pub(super) const ALL: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);
/// Rows taken from a generation at first; each chunk is twice the one before, up to a limit.
const FIRST_CHUNK_ROWS: usize = 16;
const CHUNK_MAX_ROWS: usize = 1_024;

/// What one layer still has to give.
enum Layer {
    Own(VecDeque<MemRow>),
    Staged(Staged),
    Stored(Box<Stored>),
}

/// A table of redb being scanned.
struct Stored {
    rows: Rows,
    next: Option<StoredRow>,
    last: Option<Vec<u8>>,
}

/// A generation being scanned.
struct Staged {
    generation: Arc<Generation>,
    table: TableId,
    at: Seq,
    reverse: bool,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    buffer: VecDeque<MemRow>,
    chunk_rows: usize,
    is_over: bool,
}

impl Staged {
    fn fill(&mut self) {
        if !self.buffer.is_empty() || self.is_over {
            return;
        }
        let bounds = (as_slice(&self.from), as_slice(&self.to));
        if is_empty_range(bounds) {
            self.is_over = true;
            return;
        }
        let rows =
            self.generation.chunk(self.table, bounds, self.at, self.reverse, self.chunk_rows);
        self.is_over = rows.len() < self.chunk_rows;
        self.chunk_rows = (self.chunk_rows * 2).min(CHUNK_MAX_ROWS);
        if let Some((last, _)) = rows.last() {
            let (from, to) = rest(bounds, last, self.reverse);
            (self.from, self.to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        }
        self.buffer = rows.into();
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Whether no key lies between the bounds; ordered maps panic on some such.
pub(crate) fn is_empty_range(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        _ => false,
    }
}

impl Layer {
    fn peek(&mut self, reverse: bool) -> Result<Option<&[u8]>, Error> {
        match self {
            Self::Own(rows) => Ok(rows.front().map(|(key, _)| key.as_slice())),
            Self::Staged(staged) => {
                staged.fill();
                Ok(staged.buffer.front().map(|(key, _)| key.as_slice()))
            }
            Self::Stored(stored) => {
                let Stored { rows, next, last } = &mut **stored;
                if next.is_none() {
                    let step = if reverse { rows.next_back() } else { rows.next() };
                    *next = step
                        .transpose()?
                        .map(|(key, value)| (key.bytes().to_vec(), value.bytes().to_vec()));
                    check_order(last.as_deref(), next.as_ref(), reverse)?;
                }
                Ok(next.as_ref().map(|(key, _)| key.as_slice()))
            }
        }
    }

    fn pop(&mut self) -> Option<MemRow> {
        match self {
            Self::Own(rows) => rows.pop_front(),
            Self::Staged(staged) => staged.buffer.pop_front(),
            Self::Stored(stored) => {
                let (key, value) = stored.next.take()?;
                stored.last.get_or_insert_default().clone_from(&key);
                Some((key, Some(value)))
            }
        }
    }
}

/// Redb does not check its pages as it reads them: where damage has put one sound page in the place of
/// another, rows come out of order.
fn check_order(last: Option<&[u8]>, next: Option<&StoredRow>, reverse: bool) -> Result<(), Error> {
    let order = if reverse { Ordering::Less } else { Ordering::Greater };
    match (last, next) {
        (Some(last), Some((next, _))) if next.as_slice().cmp(last) != order => Err(Error::corrupt(
            format!("the database file, key {}", next.escape_ascii()),
            "it is out of order: a page lies in another's place",
        )),
        _ => Ok(()),
    }
}

/// See the module. After an error it is over.
pub(crate) struct Merged {
    /// Newest first.
    layers: Vec<Layer>,
    reverse: bool,
}

impl Merged {
    pub(super) fn new(
        own: Vec<MemRow>,
        generations: impl Iterator<Item = Arc<Generation>>,
        stored: Option<&ReadTable>,
        table: TableId,
        at: Seq,
        bounds: Bounds<'_>,
        reverse: bool,
    ) -> Result<Self, Error> {
        if is_empty_range(bounds) {
            return Ok(Self { layers: Vec::new(), reverse });
        }
        let mut layers = vec![Layer::Own(own.into())];
        layers.extend(generations.map(|generation| {
            Layer::Staged(Staged {
                generation,
                table,
                at,
                reverse,
                from: bounds.0.map(<[u8]>::to_vec),
                to: bounds.1.map(<[u8]>::to_vec),
                buffer: VecDeque::new(),
                chunk_rows: FIRST_CHUNK_ROWS,
                is_over: false,
            })
        }));
        if let Some(stored) = stored {
            let rows = if bounds == ALL { stored.whole()? } else { stored.range(bounds)? };
            layers.push(Layer::Stored(Box::new(Stored { rows, next: None, last: None })));
        }
        Ok(Self { layers, reverse })
    }

    /// The rows of the generations alone.
    pub(super) fn staged(
        generations: impl Iterator<Item = Arc<Generation>>,
        table: TableId,
        at: Seq,
    ) -> Result<Self, Error> {
        Self::new(Vec::new(), generations, None, table, at, ALL, false)
    }

    /// The next key, and what its newest layer makes of it.
    pub(super) fn next_put(&mut self) -> Result<Option<MemRow>, Error> {
        let mut first: Option<Vec<u8>> = None;
        let wanted = if self.reverse { Ordering::Greater } else { Ordering::Less };
        for layer in &mut self.layers {
            if let Some(key) = layer.peek(self.reverse)?
                && first.as_deref().is_none_or(|first| key.cmp(first) == wanted)
            {
                first = Some(key.to_vec());
            }
        }
        let Some(first) = first else { return Ok(None) };
        let mut newest = None;
        for layer in &mut self.layers {
            if layer.peek(self.reverse)? == Some(&first[..]) {
                let row = layer.pop();
                newest = newest.or(row);
            }
        }
        Ok(newest)
    }

    fn next_row(&mut self) -> Result<Option<StoredRow>, Error> {
        loop {
            match self.next_put()? {
                Some((key, Some(value))) => return Ok(Some((key, value))),
                Some((_, None)) => {}
                None => return Ok(None),
            }
        }
    }
}

impl Iterator for Merged {
    type Item = Result<StoredRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.next_row();
        if row.is_err() {
            self.layers.clear(); // told once
        }
        row.transpose()
    }
}

//! The journal: a sequence of records in two files, each of which makes one group durable with one sync.
//!
//! Owns the two segments and the rule by which an opening tells the end of the journal from damage. Called
//! by `engine` alone, which sees to it that at most one record is being written at a time, and that a
//! segment is used again only once a durable redb commit holds all its records.
//!
//! What must hold:
//! JN1. What was synced is replayed, in order, without a hole, over any crash. JN2. Nothing else is replayed: a
//!     record counts only if it is whole, of this store, and names the checksum of the one accepted before it.
//!     JN3. What `open` returns is durable when it returns. JN4. A record that was durable and is gone is an error
//!     that names its place. JN5. Segments are filled with zeros before they are used: a record changes no
//!     length and needs no block.
//!
//! JN4 rests on this: every record names the last group that was durable before it was written, and only one
//! record is under way at a time. So if the chain ends at n, and an intact record with a higher sequence says that
//! n + 1 was durable, then the record of n + 1 was synced once, and is damaged now. A record that was never
//! synced cannot be named so, and sequences are used again only for such.

mod record;
mod scan;
mod segment;
#[cfg(test)]
mod tests;

use super::disk::{Disk, DiskFile};
use crate::base::canary::planted;
use crate::base::codec::{Malformed, Reader, Writer, unseal};
use crate::base::error::Error;
use crate::base::ids::{Epoch, Seq};
use crate::base::sync::Arc;
use record::{Header, record_bytes};
use segment::Segment;

pub(crate) use scan::Replayed;
#[cfg(feature = "testkit")]
pub(crate) use scan::scan_bytes;

/// The names of the two segments.
pub(super) const NAMES: [&str; 2] = ["txinbox.journal-0", "txinbox.journal-1"];

const END_VERSION: u8 = 1;

/// The end of a record: where the chain goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The last group at or before it.
    pub(crate) seq: Seq,
    /// The checksum of the record.
    pub(crate) crc: u32,
    pub(crate) segment: u8,
    pub(crate) offset: u64,
}

impl End {
    /// The same place, for a store whose redb holds all up to `seq`.
    pub(crate) fn through(self, seq: Seq) -> Self {
        Self { seq, ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(END_VERSION);
        w.u64(self.seq.0);
        w.u32(self.crc);
        w.u8(self.segment);
        w.u64(self.offset);
        w.seal()
    }

    pub(crate) fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(unseal(row)?);
        if r.u8()? != END_VERSION {
            return Err(Malformed("unknown version of the journal's row"));
        }
        let end = Self { seq: Seq(r.u64()?), crc: r.u32()?, segment: r.u8()?, offset: r.u64()? };
        r.finish()?;
        if usize::from(end.segment) >= NAMES.len() {
            return Err(Malformed("there is no such segment"));
        }
        Ok(end)
    }
}

/// The open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    segments: [Segment; 2],
    store_id: u128,
    epoch: Epoch,
    end: End,
}

/// A record, and where it is to be written. Needs no lock of the journal.
#[derive(Debug)]
pub(crate) struct Prepared {
    file: Arc<dyn DiskFile>,
    name: &'static str,
    offset: u64,
    bytes: Vec<u8>,
}

impl Prepared {
    /// Writes the record and makes it durable. After an error it may or may not be.
    pub(crate) fn write_and_sync(&self) -> Result<(), Error> {
        let doing = |e| Error::io(format!("writing a record to {}", self.name), e);
        self.file.write_at(self.offset, &self.bytes).map_err(doing)?;
        if planted("no-sync-at-all") {
            return Ok(());
        }
        self.file.sync().map_err(|e| Error::io(format!("syncing {}", self.name), e))
    }

    /// Bytes of the record, padding included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Journal {
    /// Opens both segments, making what is absent, and returns the records behind `from`, durable.
    ///
    /// A crash in here leaves segments that are absent, short or zero, and are filled the next time, or
    /// accepted records with the bytes that they had.
    pub(crate) fn open(
        disk: &dyn Disk,
        store_id: u128,
        segment_bytes: u64,
        from: End,
    ) -> Result<(Self, Vec<Replayed>), Error> {
        let segments = segment::open_both(disk, segment_bytes)?;
        let contents = [segments[0].contents()?, segments[1].contents()?];
        let views = [&contents[0][..], &contents[1][..]];
        let found = scan::scan(store_id, views, from);
        if let Some(lost) = found.damage {
            let place = NAMES.get(usize::from(found.end.segment & 1)).copied().unwrap_or_default();
            return Err(Error::corrupt(
                format!("{}/{place}, byte {}", disk.describe(), found.end.offset),
                format!(
                    "the record of group {} should be there: it was durable before group {lost} \
                     was written. Inbox::salvage gives up what the journal holds behind it",
                    found.end.seq.next(),
                ),
            ));
        }
        if !planted("journal-replay-trusts-the-page-cache") {
            for (segment, range) in segments.iter().zip(&found.accepted) {
                let contents = views.get(usize::from(segment.number)).copied().unwrap_or_default();
                segment.rewrite(contents, range)?;
            }
        }
        let journal = Self { segments, store_id, epoch: Epoch::default(), end: found.end };
        Ok((journal, found.records))
    }

    /// Names the opening that writes from now on.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// Whether the current segment has room for a record with such a payload.
    pub(crate) fn fits(&self, payload_bytes: usize) -> bool {
        let end = self.end.offset.saturating_add(record_bytes(payload_bytes) as u64);
        end <= self.segment().bytes
    }

    /// Whether a segment has room for it at all.
    pub(crate) fn fits_empty(&self, payload_bytes: usize) -> bool {
        record_bytes(payload_bytes) as u64 <= self.segment().bytes
    }

    fn segment(&self) -> &Segment {
        let [zero, one] = &self.segments;
        if self.end.segment == 0 { zero } else { one }
    }

    /// The segment that the next record goes to.
    pub(crate) fn current(&self) -> u8 {
        self.end.segment
    }

    /// Bytes of the current segment that are in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.end.offset
    }

    /// Makes the length of both segments durable, whoever filled them.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        self.segments.iter().try_for_each(|segment| {
            let doing = |e| Error::io(format!("syncing {}", segment.name()), e);
            segment.file.sync().map_err(doing)
        })
    }

    /// Bytes of a segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment().bytes
    }

    /// Goes on at the head of the other segment. A durable redb commit must hold all its records.
    pub(crate) fn switch(&mut self) {
        self.end.segment = 1 - (self.end.segment & 1);
        self.end.offset = 0;
    }

    /// Notes that groups up to `seq` became durable without a record; returns where the chain goes on.
    pub(crate) fn skip_to(&mut self, seq: Seq) -> End {
        self.end.seq = seq;
        self.end
    }

    /// The record of the next group, to be written where it says. It must fit.
    pub(crate) fn prepare(&mut self, seq: Seq, durable: Seq, payload: &[u8]) -> Prepared {
        debug_assert_eq!(seq, self.end.seq.next(), "groups come in order");
        let header = Header {
            crc: 0,
            previous_crc: self.end.crc,
            epoch: self.epoch,
            seq,
            durable,
            payload_bytes: payload.len(),
        };
        let (bytes, crc) = record::write(self.store_id, &header, payload);
        let segment = self.segment();
        let (file, name, offset) = (segment.file.clone(), segment.name(), self.end.offset);
        self.end.seq = seq;
        self.end.crc = crc;
        self.end.offset = offset.saturating_add(bytes.len() as u64);
        Prepared { file, name, offset, bytes }
    }

    /// Where the chain goes on behind the last record that was prepared.
    pub(crate) fn end(&self) -> End {
        self.end
    }
}

/// The name of a segment that is not in a directory with these names.
pub(super) fn missing(names: &[String]) -> Option<&'static str> {
    NAMES.into_iter().find(|segment| names.iter().all(|name| name != segment))
}

/// The name and the length of a segment that is shorter than it must be.
pub(super) fn cut(disk: &dyn Disk, least_bytes: u64) -> Result<Option<(&'static str, u64)>, Error> {
    for name in NAMES {
        let doing = |e| Error::io(format!("looking at {}/{name}", disk.describe()), e);
        let bytes = disk.open(name, false).and_then(|file| file.len()).map_err(doing)?;
        if bytes < least_bytes {
            return Ok(Some((name, bytes)));
        }
    }
    Ok(None)
}

/// Makes both segments empty, durably: all that no checkpoint holds is given up.
pub(super) fn erase(disk: &dyn Disk) -> Result<(), Error> {
    for segment in segment::open_both(disk, 0)? {
        segment.erase()?;
    }
    Ok(())
}

//! The calls a program makes on a disk, each with its ordinal.

use std::fmt;
use std::sync::Arc;

/// A kind of call on a disk or one of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// Making the directory.
    CreateDir,
    /// Listing the directory.
    List,
    /// Opening a file, or making one.
    Open,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Making names durable.
    SyncDir,
    /// Taking the directory for one process.
    Lock,
    /// Asking for a file's length.
    Len,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Cutting or growing a file.
    SetLen,
    /// Making a file's bytes and length durable.
    Sync,
}

impl Call {
    /// Whether a power cut at this call can leave another image than one at the call before.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(self, Self::List | Self::Lock | Self::Len | Self::Read)
    }

    /// This kind as a bit of a set.
    pub(super) fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// One call as a [trace](super::SimDisk::trace) keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traced {
    /// Its place among all calls on this disk, from 1.
    pub ordinal: u64,
    /// What was asked.
    pub call: Call,
    /// The file it was asked of; empty for the directory.
    pub name: Arc<str>,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How many bytes, or the new length.
    pub len: u64,
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ordinal, call, name, offset, len } = self;
        write!(f, "{ordinal} {call:?} {name} at {offset} of {len} bytes")
    }
}

//! Storage: the directory, its files and its one redb database, behind a disk seam.
//!
//! Owns everything durable. Called by `claims` and `engine`; calls only `base`. redb's types do not
//! leave this folder.

pub(crate) mod ballast;
pub(crate) mod batch;
pub(crate) mod db;
#[cfg(feature = "testkit")]
pub(crate) mod decoders;
pub(crate) mod directory;
pub(crate) mod disk;
pub(crate) mod header;
pub(crate) mod journal;
pub(crate) mod memtable;
pub(crate) mod merge;
mod redb_file;
mod shadow;
pub(crate) mod small;
pub(crate) mod snapshot;
pub(crate) mod tables;

//! Storage: the directory, its files and its one redb database, behind a disk seam.
//!
//! Owns everything durable. Called by `claims` and `engine`; calls only `base`. redb's types do not
//! leave this folder.

pub(crate) mod db;
pub(crate) mod disk;
mod redb_file;
pub(crate) mod snapshot;

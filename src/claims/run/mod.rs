//! Runs: immutable sorted tables of sealed claims, with a filter in memory for each.
//!
//! A run is split into partitions by equal ranges of the hash space. A partition is one table of
//! packed blocks, each filling one page of the database, followed by the chunks of the stored
//! filter; freeing it is one `delete_table`.
//!
//! What must hold:
//! U1. A table is written once, front to back, by one builder whose epoch is in its name, and never
//!     changes afterwards. Nobody reads it before a catalogue names it.
//! U2. Rows stand in (hash, kind) order, no two alike; all rows of one hash stand in one block.
//! U3. The blocks of a partition cover, without gap or overlap, every hash from the partition's
//!     first row to its end. So a look-up or scan that damage leads elsewhere is found out, and
//!     never takes what is stored for absent.
//! U4. A filter has no false negatives: one that cannot be built, is not loaded yet, or failed its
//!     checks answers "maybe".
//! U5. Nothing is held in memory beyond one partition's encoded rows and the keys of its filter,
//!     whatever the run's size.
//!
//! Called by sealing, look-up, maintenance and checks inside `claims`; this file is the whole
//! interface.

mod block;
#[cfg(feature = "testkit")]
pub(crate) mod decoders;
mod filter;
mod merge;
mod meta;
mod name;
mod open;
mod page;
mod prepare;
mod records;
mod scan;
mod space;

#[cfg(test)]
mod tests;

pub(crate) use filter::Filter;
pub(crate) use merge::merge_rows;
#[cfg(any(test, feature = "testkit"))]
pub(crate) use merge::split_rows;
pub(crate) use meta::{PartitionMeta, RunMeta};
pub(crate) use name::{RunName, parse_table_name};
pub(crate) use open::Run;
pub(crate) use prepare::{PartitionBuilder, PreparedPartition, Progress, Workbench};
pub(crate) use scan::prefetch;
pub(crate) use space::{partition_of, partitions_for, range_of};

//! The names of a run's tables.
//!
//! What must hold: N1. A name tells who built the table: an epoch that is not this opening's, on a
//! table that no catalogue names, marks what a crash left half-built. N2. Every block and filter
//! carries its table's tag, so that a page of another table is never taken for one of this.

use crate::base::codec::Writer;
use crate::base::ids::{Epoch, RunId};

const PREFIX: &str = "run-";

/// One building of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunName {
    pub(crate) epoch: Epoch,
    pub(crate) id: RunId,
}

impl RunName {
    /// The table of one partition.
    pub(crate) fn table(self, partition: u32) -> String {
        format!("{PREFIX}{:016x}-{}-{partition}", self.epoch.0, self.id.0)
    }
}

/// Which run and partition a table belongs to; `None` for any name that [`RunName::table`] does not
/// give.
pub(crate) fn parse_table_name(table: &str) -> Option<(RunName, u32)> {
    let mut parts = table.strip_prefix(PREFIX)?.splitn(3, '-');
    let epoch = Epoch(u64::from_str_radix(parts.next()?, 16).ok()?);
    let id = RunId(parts.next()?.parse().ok()?);
    let partition = parts.next()?.parse().ok()?;
    let name = RunName { epoch, id };
    (name.table(partition) == table).then_some((name, partition))
}

/// The tag that ties what a table holds to the table: the CRC-32 of its name.
pub(super) fn owner_tag(table: &str) -> u32 {
    let mut w = Writer::with_capacity(table.len().saturating_add(4));
    w.raw(table.as_bytes());
    let sealed = w.seal();
    sealed.last_chunk::<4>().map_or(0, |crc| u32::from_le_bytes(*crc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n1_names_are_golden_and_only_they_parse() {
        let name = RunName { epoch: Epoch(0xabc), id: RunId(7) };
        let table = name.table(12);
        assert_eq!(table, "run-0000000000000abc-7-12");
        assert_eq!(owner_tag(&table), 0xa31a_a925);
        assert_eq!(parse_table_name(&table), Some((name, 12)));
        for other in [
            "",
            "run-",
            "run-abc-7-12",
            "run-0000000000000ABC-7-12",
            "run-0000000000000abc-07-12",
            "run-0000000000000abc-7-+12",
            "run-0000000000000abc-7",
            "run-0000000000000abc-7-12-",
            "run-0000000000000abc-7-4294967296",
            "rows-0000000000000abc-7-12",
        ] {
            assert_eq!(parse_table_name(other), None, "{other}");
        }
    }
}

//! A checker that shares no code with the store: it reads a backup and compares what lies in the
//! tables with what the catalogue names.
//!
//! C1. Every table of results is named by a catalogue row, every table of a run by a bucket. C2. Every
//! result is of a claim's size class: its key lies in its own table's range. C3. Nothing else is there.

use std::collections::BTreeMap;
use std::fs;

use txinbox::Inbox;

/// The rows of every table, by its name.
pub(crate) type Tables = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// All rows of the last durable group.
pub(crate) fn tables(inbox: &Inbox) -> Tables {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup");
    inbox.backup(&file).unwrap();
    read_backup(&fs::read(&file).unwrap())
}

/// Frames of length, body, checksum; a body begins with its kind.
fn read_backup(bytes: &[u8]) -> Tables {
    let mut tables = Tables::new();
    let mut name = String::new();
    let mut rest = bytes.strip_prefix(b"txinbox backup 1").expect("the magic");
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let (body, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        rest = &after[4..];
        match body[0] {
            1 => {
                name = String::from_utf8(body[1..].to_vec()).unwrap();
                tables.entry(name.clone()).or_default();
            }
            2 => tables.get_mut(&name).unwrap().extend(read_rows(&body[1..])),
            _ => {}
        }
    }
    tables
}

fn read_rows(mut body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    while !body.is_empty() {
        let key = take_bytes(&mut body);
        rows.push((key, take_bytes(&mut body)));
    }
    rows
}

fn take_bytes(body: &mut &[u8]) -> Vec<u8> {
    let (mut len, mut shift) = (0_usize, 0);
    loop {
        let (byte, after) = body.split_first().unwrap();
        *body = after;
        len |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (bytes, after) = body.split_at(len);
    *body = after;
    bytes.to_vec()
}

fn of_kind(tables: &Tables, prefix: &str) -> Vec<String> {
    tables.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
}

/// Catalogue rows with that first byte and so many bytes behind it.
fn catalogue(tables: &Tables, kind: u8, more: usize) -> Vec<&[u8]> {
    let rows = tables.get("catalogue").into_iter().flatten();
    rows.map(|(key, _)| &key[..]).filter(|k| k.len() == 1 + more && k[0] == kind).collect()
}

/// Sweeps, closes what is open, and checks that no table is without its owner nor an owner without
/// its table. The store must be idle.
pub(crate) fn check(inbox: &Inbox) -> Tables {
    inbox.sweep().unwrap();
    // What slices freed becomes visible with the next commit.
    inbox.consumer("checker").unwrap();
    inbox
        .map::<u64, u64>(&format!("checked at {:?}", inbox.stats().unwrap().written_bytes))
        .unwrap();
    inbox.verify().unwrap();
    let (tables, stats) = (tables(inbox), inbox.stats().unwrap());
    let named: Vec<String> = catalogue(&tables, b'x', 4)
        .iter()
        .map(|key| format!("results-{}", u32::from_be_bytes(key[1..5].try_into().unwrap())))
        .collect();
    for table in of_kind(&tables, "results-") {
        assert!(named.contains(&table), "{table} has no owner; named are {named:?}");
        let bucket: u64 = table.trim_start_matches("results-").parse().unwrap();
        for (key, _) in &tables[&table] {
            let key = u64::from_be_bytes(key[..].try_into().unwrap());
            assert_eq!(key >> 40, bucket, "result {key} lies in {table}");
        }
    }
    let runs = of_kind(&tables, "run-");
    assert_eq!(runs.len() as u64, stats.runs, "tables of runs against runs: {runs:?}");
    assert_eq!(catalogue(&tables, b'b', 8).len() as u64, stats.buckets);
    tables
}

/// How many rows lie in tables of this kind.
pub(crate) fn rows(tables: &Tables, prefix: &str) -> usize {
    of_kind(tables, prefix).iter().map(|name| tables[name].len()).sum()
}

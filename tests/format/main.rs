//! Stores of every format this crate has written must open for ever (cases H5, Z3).
//!
//! `v1/` holds a store directory and a backup of it, written by the version that introduced format 1
//! and never again; `script.rs` is how. Each test opens a copy. To write the fixture of a *new*
//! format: give it a new directory name below, then
//! `cargo test --features testkit --test format -- --ignored write_fixture`.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests, helpers included

mod script;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use script::{check, clock_after, opened, write};
use tempfile::TempDir;
use txinbox::{Inbox, Retention};

const BACKUP: &str = "store.backup";
const HEADER: &str = "txinbox.header";
const LOCK: &str = "LOCK";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format/v1")
}

/// A copy of the fixture's store directory.
fn copy() -> TempDir {
    let dir = TempDir::new().unwrap();
    for entry in fs::read_dir(fixture()).unwrap() {
        let from = entry.unwrap().path();
        let name = from.file_name().unwrap();
        if name != BACKUP {
            fs::copy(&from, dir.path().join(name)).unwrap();
        }
    }
    dir
}

/// Names and bytes of all files but the lock, which belongs to whoever asks.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    });
    named.filter(|(name, _)| name != LOCK).collect()
}

#[test]
#[ignore = "writes the fixture; for a new format only"]
fn write_fixture() {
    let dir = fixture();
    fs::create_dir_all(&dir).unwrap();
    assert!(contents(&dir).is_empty(), "a fixture is written once");
    let store = TempDir::new().unwrap();
    let inbox = write(store.path());
    // As a kill would leave it: the last groups lie in the journal.
    let files = contents(store.path());
    inbox.backup(dir.join(BACKUP)).unwrap();
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).unwrap();
    }
}

/// Case H5: all that the former version settled is a duplicate; all it stored is read.
#[test]
fn h5_a_store_of_format_1_opens_and_knows_its_events() {
    let dir = copy();
    let inbox = opened(clock_after(), dir.path()).unwrap();
    check(&inbox);
    inbox.verify().unwrap();
    inbox.close().unwrap();
    // And once more, after this version has written to it.
    let inbox = opened(clock_after(), dir.path()).unwrap();
    check(&inbox);
    inbox.verify().unwrap();
}

#[test]
fn h5_a_backup_of_format_1_restores() {
    let dir = TempDir::new().unwrap();
    Inbox::restore(fixture().join(BACKUP), dir.path().join("copy")).unwrap();
    let inbox = opened(clock_after(), &dir.path().join("copy")).unwrap();
    check(&inbox);
    inbox.verify().unwrap();
}

/// The same script writes the same bytes as ever: every durable layout, in one comparison.
#[test]
fn golden_bytes_of_every_row() {
    let dir = TempDir::new().unwrap();
    let inbox = write(&dir.path().join("store"));
    let path = dir.path().join(BACKUP);
    inbox.backup(&path).unwrap();
    let (now, then) = (fs::read(path).unwrap(), fs::read(fixture().join(BACKUP)).unwrap());
    let differs = now.iter().zip(&then).position(|(a, b)| a != b);
    assert!(now == then, "first difference at {differs:?}, of {} and {}", now.len(), then.len());
    assert_eq!(
        fs::read(dir.path().join("store").join(HEADER)).unwrap(),
        fs::read(fixture().join(HEADER)).unwrap()
    );
}

/// Case Z3: a newer format is refused by name, and not a byte is changed.
#[test]
fn z3_a_newer_format_is_refused_untouched() {
    let dir = copy();
    let path = dir.path().join(HEADER);
    let mut header = fs::read(&path).unwrap();
    assert_eq!(header[8], 1, "the format's version stands behind the magic");
    header[8] = 2;
    fs::write(&path, &header).unwrap();
    let before = contents(dir.path());
    let builder = || Inbox::builder(Retention::forever());
    for refused in [builder().open(dir.path()), builder().open_existing(dir.path())] {
        let error = refused.unwrap_err();
        assert!(error.is_newer_format(), "{error}");
        assert!(error.to_string().contains("version 2"), "{error}");
        assert_eq!(contents(dir.path()), before);
    }
    header[8] = 1;
    fs::write(&path, &header).unwrap();
    check(&opened(clock_after(), dir.path()).unwrap());
}

/// The application's own version is kept as well.
#[test]
fn z3_newer_application_state_is_refused() {
    let dir = copy();
    let older = Inbox::builder(Retention::forever()).state_version(2, |_, _| Ok(()));
    assert!(older.open(dir.path()).unwrap_err().is_newer_format());
}

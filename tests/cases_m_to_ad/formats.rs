//! Case Z3: a store of another format. Refused by name and version, and not a byte is touched.

use txinbox::testkit::SimDisk;
use txinbox::{Retention, hours};

use crate::kit::{Lab, deliver};

const FILES: [&str; 2] = ["txinbox.header", "txinbox.redb"];

fn store() -> Lab {
    let lab = Lab::new(Retention::at_least(hours(31)));
    deliver(&lab.open().consumer("c").unwrap(), 0..100);
    lab
}

/// Opens a store that was made another format's; the error's text.
fn refused(lab: &Lab, what: &str, change: impl FnOnce(&SimDisk)) -> txinbox::Error {
    let disk = lab.disk.kill();
    change(&disk);
    let before = FILES.map(|name| disk.contents(name));
    let error = lab.builder().open_on(&disk).unwrap_err();
    assert_eq!(FILES.map(|name| disk.contents(name)), before, "{what}: a file was touched");
    error
}

/// The header with these bytes at an offset, and the checksum that closes it made right again.
fn with_header(disk: &SimDisk, offset: usize, bytes: &[u8]) {
    let mut header = disk.contents("txinbox.header").unwrap();
    header[offset..offset + bytes.len()].copy_from_slice(bytes);
    let body = header.len() - 4;
    let crc = crc32fast::hash(&header[..body]).to_le_bytes();
    header[body..].copy_from_slice(&crc);
    disk.overwrite("txinbox.header", 0, &header).unwrap();
}

/// A newer layout, with a checksum of its own kind or with ours: named before all else is read.
#[test]
fn z3_a_newer_format_is_named_and_untouched() {
    let lab = store();
    for version in [2_u32, 3, u32::MAX] {
        let error = refused(&lab, "sealed", |disk| with_header(disk, 8, &version.to_le_bytes()));
        let text = error.to_string();
        assert!(error.is_newer_format(), "{text}");
        assert!(text.contains(&format!("version {version}")) && text.contains("knows 1"), "{text}");
        let unsealed = refused(&lab, "unsealed", |disk| {
            disk.overwrite("txinbox.header", 8, &version.to_le_bytes()).unwrap();
        });
        assert!(unsealed.is_newer_format(), "{unsealed}");
    }
}

/// A feature that this program does not know and that would make it misread the store is refused; one
/// that only adds is not.
#[test]
fn z3_unknown_features_are_refused_unless_they_are_compatible() {
    let lab = store();
    let error = refused(&lab, "feature", |disk| with_header(disk, 12, &4_u64.to_le_bytes()));
    assert!(error.is_newer_format() && error.to_string().contains('4'), "{error}");
    let disk = lab.disk.kill();
    with_header(&disk, 20, &4_u64.to_le_bytes());
    let inbox = lab.builder().open_on(&disk).unwrap();
    assert_eq!(deliver(&inbox.consumer("c").unwrap(), 0..100), (0, 100));
}

/// There has been no format before 1, and no store can say so.
#[test]
fn z3_a_format_that_never_was_is_damage() {
    let lab = store();
    let error = refused(&lab, "zero", |disk| with_header(disk, 8, &[0; 4]));
    assert!(error.is_corrupt() && error.to_string().contains("header"), "{error}");
    // So for the database beneath: both of its commit slots begin with redb's format.
    for version in [1, 2, 9] {
        let error = refused(&lab, "redb", |disk| {
            for slot in [64, 192] {
                disk.overwrite("txinbox.redb", slot, &[version]).unwrap();
            }
        });
        assert!(error.is_corrupt() && error.to_string().contains("database file"), "{error}");
    }
}

/// State written by a newer program is refused by an older one, by its version, and an upgrade happens
/// once, in one transaction.
#[test]
fn z3_state_versions_upgrade_once_and_never_back() {
    let lab = store();
    let open = |version: u64, fails: bool| {
        lab.builder()
            .state_version(version, move |from, _| {
                assert!(from < version);
                if fails { Err("the migration failed".into()) } else { Ok(()) }
            })
            .open_on(&lab.disk)
    };
    assert!(open(3, true).unwrap_err().is_handler());
    drop(open(2, false).expect("a failed migration changed nothing"));
    let error = open(1, false).unwrap_err();
    let text = error.to_string();
    assert!(error.is_newer_format() && text.contains('2') && text.contains('1'), "{text}");
    drop(open(2, true).expect("the version is there: nothing is to be migrated"));
}

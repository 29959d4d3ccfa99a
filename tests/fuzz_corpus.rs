//! Replays the fuzz targets' corpora on the stable compiler, and a stretch of seeded inputs.
//!
//! The targets are ordinary functions of `testkit::fuzz`; `fuzz/` puts them before a fuzzer.
#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used)] // tests, helpers included

use std::fs;
use std::path::Path;

use txinbox::testkit::fuzz;

/// Runs a target over its corpus, in the order of names.
fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5, "the corpus of {name} is there");
    for file in files {
        println!("{}", file.display()); // the last one shown is the one that fails
        target(&fs::read(file).unwrap());
    }
}

/// The same inputs on every run, from one seed.
fn seeded(count: u64, most_bytes: u64, target: fn(&[u8])) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for n in 0..count {
        let len = next() % most_bytes;
        let input: Vec<u8> = (0..len).map(|_| (next() >> 32) as u8).collect();
        println!("input {n}: {input:?}");
        target(&input);
    }
}

#[test]
fn decoders() {
    replay("decoders", fuzz::decoders);
    seeded(20_000, 120, fuzz::decoders);
}

#[test]
fn ids() {
    replay("ids", fuzz::ids);
    seeded(20_000, 60, fuzz::ids);
}

#[test]
fn damage() {
    replay("damage", fuzz::damage);
    seeded(150, 24, fuzz::damage);
}

#[test]
fn operations() {
    replay("operations", fuzz::operations);
    seeded(300, 120, fuzz::operations);
}

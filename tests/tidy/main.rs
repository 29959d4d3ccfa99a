//! The project's own rules, where neither the compiler nor clippy can hold them.
//!
//! Each rule is a function from sources to a list of breaches; beside the test that runs it over
//! the project stands one that shows it finding a planted breach.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod layers;
mod prose;
mod source;

use source::{Source, files};

/// Files of the crate hold at most this many lines, their tests included.
const FILE_MAX_LINES: usize = 400;
/// Half of the crate's files hold at most this many.
const FILE_MEDIAN_MAX_LINES: usize = 200;

/// What code that ships may not say, the only files where it may, and what to do instead.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("SystemTime::now", &["src/base/clock.rs"], "ask base::clock for the time"),
    ("Instant::now", &["src/base/clock.rs"], "ask base::clock for the time"),
    ("thread::sleep", &[], "wait on a condition"),
    (".unwrap()", &[], "return an error"),
    (".expect(", &[], "return an error"),
    ("panic!(", &[], "return an error"),
    ("unreachable!(", &[], "return an error, or let the types say it"),
    ("todo!(", &[], "do it"),
    ("unimplemented!(", &[], "do it"),
    ("dbg!(", &[], "take it out"),
    ("println!(", &[], "a library does not print"),
    ("eprintln!(", &[], "a library does not print"),
];

fn assert_none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

fn forbidden(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for s in sources {
        for (needle, allowed, instead) in FORBIDDEN {
            if !allowed.contains(&s.path.as_str()) {
                let hits = s.hits(&s.shipped, needle, &format!("`{needle}`: {instead}"));
                found.extend(hits.into_iter().filter(|hit| !is_excused(s, hit)));
            }
        }
        if s.path != "src/base/sync.rs" {
            found.extend(std_locks(s));
        }
    }
    found
}

/// Whether one of the four lines before a hit lets clippy's lint off and says why.
fn is_excused(s: &Source, hit: &str) -> bool {
    let line = hit.split(':').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0_usize);
    let before = s.text.lines().skip(line.saturating_sub(5)).take(4);
    before.into_iter().any(|l| l.contains("#[allow(clippy::") && l.contains(")] // "))
}

/// `std::sync::Mutex` and its like, alone or inside an import's braces.
fn std_locks(s: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in s.shipped.match_indices("std::sync::") {
        let rest = &s.shipped[at + "std::sync::".len()..];
        let end =
            if rest.starts_with('{') { rest.find('}') } else { rest.find([';', '<', '(', ',']) };
        let names = &rest[..end.unwrap_or(rest.len())];
        for lock in ["Mutex", "RwLock", "Condvar"] {
            if names.split(|c: char| !c.is_alphanumeric()).any(|word| word == lock) {
                found.push(format!(
                    "{}:{}: `{lock}` of std: take it from base::sync",
                    s.path,
                    source::line_of(&s.shipped, at)
                ));
            }
        }
    }
    found
}

fn sizes(sources: &[Source]) -> Vec<String> {
    let mut lines: Vec<(usize, &str)> =
        sources.iter().map(|s| (s.text.lines().count(), s.path.as_str())).collect();
    lines.sort_unstable();
    let mut found: Vec<String> = lines
        .iter()
        .filter(|(n, _)| *n > FILE_MAX_LINES)
        .map(|(n, path)| format!("{path}: {n} lines, at most {FILE_MAX_LINES}"))
        .collect();
    if let Some((median, path)) = lines.get(lines.len() / 2)
        && *median > FILE_MEDIAN_MAX_LINES
    {
        found.push(format!("half the files are longer than {path}: {median} lines"));
    }
    found
}

/// A module says at its top what it owns.
fn heads(sources: &[Source]) -> Vec<String> {
    let headless = sources.iter().filter(|s| !s.text.starts_with("//! "));
    headless
        .map(|s| format!("{}:1: begins without a `//!` that says what it owns", s.path))
        .collect()
}

/// A test may only be left out with a reason in the attribute itself.
fn ignored(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(|s| s.hits(&s.code, "#[ignore]", "ignored without a reason")).collect()
}

#[test]
fn shipped_code_keeps_to_the_seams() {
    assert_none(&forbidden(&layers::crate_files()));
}

#[test]
fn files_are_short() {
    assert_none(&sizes(&files("src", &["rs"])));
}

#[test]
fn every_file_says_what_it_is() {
    let mut all = files("src", &["rs"]);
    all.extend(files("tests", &["rs"]));
    all.extend(files("examples", &["rs"]));
    all.extend(files("benches", &["rs"]));
    assert_none(&heads(&all));
    assert_none(&ignored(&all));
}

#[test]
fn planted_breaches_are_found() {
    let bad = [
        Source::new(
            "src/engine/a.rs",
            "use std::sync::{Arc, Mutex};\nfn f() { x.unwrap(); std::time::Instant::now(); }\n",
        ),
        Source::new("src/engine/b.rs", "#[ignore]\nfn f() { unwrap_or(1); y.expect(\"\"); }\n"),
        Source::new("src/engine/long.rs", "//! x\n".repeat(FILE_MAX_LINES + 1)),
    ];
    assert_eq!(forbidden(&bad).len(), 4, "{:?}", forbidden(&bad));
    assert_eq!(heads(&bad).len(), 2);
    assert_eq!(ignored(&bad).len(), 1);
    assert_eq!(sizes(&bad).len(), 1);
    let reason =
        "#[allow(clippy::expect_used)] // taken only by `drop`\nfn f() { x.expect(\"\"); }\n";
    assert_eq!(forbidden(&[Source::new("src/a.rs", reason)]).len(), 0);
    let tests_may = Source::new("src/a.rs", "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }\n");
    assert_eq!(forbidden(&[tests_may]).len(), 0);
}

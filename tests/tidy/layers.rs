//! The order of the layers, and that every file belongs to the crate.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::source::{Source, files, line_of};

/// From the ground up: a file may name its own layer and those before it.
const LAYERS: &[&str] = &["base", "storage", "claims", "engine", "api", "testkit"];

/// The layer of `src/<layer>/…`, or `None` for the facade.
fn layer_of(path: &str) -> Option<usize> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    LAYERS.iter().position(|l| *l == first.trim_end_matches(".rs"))
}

/// The first names that follow `prefix`, inside braces too.
fn named_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(inner) = rest.strip_prefix('{') else {
            found.push((at, leading_word(rest)));
            continue;
        };
        let mut depth = 0_usize;
        let mut start = 0;
        for (i, c) in inner.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.push((at, leading_word(inner[start..i].trim_start())));
                    start = i + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found.retain(|(_, word)| !word.is_empty());
    found
}

fn leading_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Names of higher layers, and of the facade, whose re-exports would be a way around the order.
fn upward(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for s in sources {
        let Some(own) = layer_of(&s.path) else {
            continue;
        };
        let mut names = named_after(&s.shipped, "crate::");
        let siblings = named_after(&s.shipped, "super::super::");
        names.extend(siblings.into_iter().filter(|(_, w)| LAYERS.contains(&w.as_str())));
        if s.path == format!("src/{}/mod.rs", LAYERS[own]) {
            names.extend(named_after(&s.shipped, "super::"));
        }
        for (at, word) in names {
            let allowed = match LAYERS.iter().position(|l| *l == word) {
                Some(named) => named <= own,
                None => LAYERS[own] == "testkit",
            };
            if !allowed {
                let line = line_of(&s.shipped, at);
                let layer = LAYERS[own];
                found.push(format!("{}:{line}: {layer} may not name `crate::{word}`", s.path));
            }
        }
    }
    found
}

/// The crate's files; of those that only tests reach, nothing counts as shipped.
pub(crate) fn crate_files() -> Vec<Source> {
    let mut sources = files("src", &["rs"]);
    let shipped = reached(&sources, |s| &s.shipped);
    for s in sources.iter_mut().filter(|s| !shipped.contains(&s.path)) {
        s.shipped.clear();
    }
    sources
}

/// The paths that the `mod` items in some text of each file lead to, from the facade on.
fn reached(sources: &[Source], text: impl Fn(&Source) -> &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::from(["src/lib.rs".to_owned()]);
    let mut queue = vec!["src/lib.rs".to_owned()];
    while let Some(path) = queue.pop() {
        let Some(s) = sources.iter().find(|s| s.path == path) else { continue };
        for child in declared(s, text(s)) {
            if reached.insert(child.clone()) {
                queue.push(child);
            }
        }
    }
    reached
}

/// Files that no `mod` reaches, and folders that are no layer.
fn unreached(sources: &[Source]) -> Vec<String> {
    let reached = reached(sources, |s| &s.code);
    let dead = sources.iter().filter(|s| !reached.contains(&s.path));
    let mut found: Vec<String> =
        dead.map(|s| format!("{}: no `mod` reaches this file", s.path)).collect();
    let placed = |s: &&Source| s.path == "src/lib.rs" || layer_of(&s.path).is_some();
    found.extend(
        sources
            .iter()
            .filter(|s| !placed(s))
            .map(|s| format!("{}: is in none of the layers {LAYERS:?}", s.path)),
    );
    found
}

/// The files that `mod name;` in a file's text may mean.
fn declared(s: &Source, text: &str) -> Vec<String> {
    let folder = match s.path.strip_suffix("/mod.rs").or_else(|| s.path.strip_suffix("/lib.rs")) {
        Some(folder) => folder.to_owned(),
        None => s.path.trim_end_matches(".rs").to_owned(),
    };
    let mut found = Vec::new();
    for (at, _) in text.match_indices("mod ") {
        let name = leading_word(&text[at + 4..]);
        if text[at + 4 + name.len()..].starts_with(';') {
            found.push(format!("{folder}/{name}.rs"));
            found.push(format!("{folder}/{name}/mod.rs"));
        }
    }
    found
}

#[test]
fn layers_call_downwards_only() {
    assert_none(&upward(&crate_files()));
}

#[test]
fn every_file_is_part_of_the_crate() {
    assert_none(&unreached(&crate_files()));
}

#[test]
fn planted_breaches_are_found() {
    let bad = [
        Source::new("src/lib.rs", "mod base;\nmod api;\n"),
        Source::new("src/base/mod.rs", "mod a;\nuse super::api;\n"),
        Source::new("src/base/a.rs", "use crate::{base::ids, engine::{self, group}};\n"),
        Source::new("src/base/dead.rs", "use crate::base::ids; /* crate::api */\n"),
        Source::new("src/api/mod.rs", "use crate::{engine::group, base};\nuse crate::Inbox;\n"),
        Source::new("src/other/mod.rs", ""),
    ];
    assert_eq!(
        upward(&bad),
        [
            "src/base/mod.rs:2: base may not name `crate::api`",
            "src/base/a.rs:1: base may not name `crate::engine`",
            "src/api/mod.rs:2: api may not name `crate::Inbox`",
        ]
    );
    assert_eq!(
        unreached(&bad),
        [
            "src/base/dead.rs: no `mod` reaches this file".to_owned(),
            "src/other/mod.rs: no `mod` reaches this file".to_owned(),
            format!("src/other/mod.rs: is in none of the layers {LAYERS:?}"),
        ]
    );
}

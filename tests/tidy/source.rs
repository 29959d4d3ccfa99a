//! Reads the project's files and blanks out what is not code, so that rules look at code only.
//!
//! What must hold: S1. Blanking keeps every newline, so that line numbers stay true.

use std::fs;
use std::path::{Path, PathBuf};

/// One file of the project.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the project's root, with `/` between its parts.
    pub(crate) path: String,
    /// As it stands in the file.
    pub(crate) text: String,
    /// `text` without comments, strings and characters.
    pub(crate) code: String,
    /// `code` without items under `#[cfg(test)]`.
    pub(crate) shipped: String,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let code = blank_comments_and_literals(&text);
        let shipped = blank_tests(&code);
        Self { path: path.into(), text, code, shipped }
    }

    /// `path:line: why` for every place where `found` says so.
    pub(crate) fn hits(&self, code: &str, needle: &str, why: &str) -> Vec<String> {
        code.match_indices(needle)
            .filter(|(at, _)| starts_a_word(code, *at, needle))
            .map(|(at, _)| format!("{}:{}: {why}", self.path, line_of(code, at)))
            .collect()
    }
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// `unwrap()` must not be found in `my_unwrap()`; a needle that begins with a sign is found as is.
fn starts_a_word(code: &str, at: usize, needle: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    !needle.starts_with(word) || !code[..at].ends_with(word)
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` with one of these extensions, sorted; none if there is no such folder.
pub(crate) fn files(folder: &str, extensions: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.retain(|p| p.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)));
    paths.sort();
    paths.iter().map(|p| load(p)).collect()
}

pub(crate) fn load(path: &Path) -> Source {
    let name = path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/");
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {name}: {e}"));
    Source::new(name, text)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if !path.is_dir() {
            found.push(path);
        } else if path.file_name().is_some_and(|n| n != "target" && n != ".git") {
            walk(&path, found);
        }
    }
}

/// Replaces comments, strings and characters by blanks.
fn blank_comments_and_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |i| i + 2),
            '"' => string_len(rest),
            'r' if !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') => raw_len(rest),
            '\'' => char_len(rest),
            _ => 0,
        };
        if len == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.extend(rest[..len].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[len..];
        }
    }
    out
}

fn string_len(rest: &str) -> usize {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a raw string, or 0 if this `r` begins none.
fn raw_len(rest: &str) -> usize {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    rest[body..].find(&end).map_or(rest.len(), |i| body + i + end.len())
}

/// The length of a character literal, or 0 if this quote begins a lifetime.
fn char_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let _escaped = chars.next();
            chars.find(|(_, c)| *c == '\'').map_or(0, |(i, _)| i + 1)
        }
        Some(_) => match chars.next() {
            Some((i, '\'')) => i + 1,
            _ => 0,
        },
        None => 0,
    }
}

/// Replaces every item that only tests see by blanks.
fn blank_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) =
        ["#[cfg(test)]", "#[cfg(all(test,"].iter().filter_map(|a| rest.find(a)).min()
    {
        out.push_str(&rest[..at]);
        let end = at + item_len(&rest[at..]);
        out.extend(rest[at..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// From an item's attribute to its closing brace or semicolon.
fn item_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (i, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return i + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return i + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn s1_blanking_keeps_code_and_lines() {
    let text = "let a = \"x // y\"; // unwrap()\nlet b = r#\"q\" todo!\"#; /* a\nb */ let c = 'x';\n\
                fn f<'a>(s: &'a str) {}\n#[cfg(test)]\nmod tests {\n    fn g() { h(); }\n}\nfn last() {}\n";
    let source = Source::new("a.rs", text);
    assert_eq!(source.text.lines().count(), source.code.lines().count());
    assert_eq!(source.text.lines().count(), source.shipped.lines().count());
    for gone in ["x // y", "unwrap", "todo", "'x'"] {
        assert!(!source.code.contains(gone), "{gone} is still in {}", source.code);
    }
    for kept in ["let a =", "let b =", "let c =", "fn f<'a>(s: &'a str) {}", "fn last() {}"] {
        assert!(source.shipped.contains(kept), "{kept} is not in {}", source.shipped);
    }
    assert!(source.code.contains("h();") && !source.shipped.contains("h();"));
}

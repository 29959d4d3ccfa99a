//! What documents promise about the project's own files.

use std::path::Path;

use crate::assert_none;
use crate::source::{Source, files, load, root};

/// The documents that a user reads, at the root and below `docs`.
fn documents() -> Vec<Source> {
    let mut found = files("docs", &["md"]);
    for name in ["README.md", "CHANGELOG.md"] {
        found.push(load(&root().join(name)));
    }
    found
}

/// Links of the form `](path)` that lead to no file.
fn dead_links(documents: &[Source], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for d in documents {
        let folder = Path::new(&d.path).parent().unwrap_or(Path::new("")).to_owned();
        for (n, line) in d.text.lines().enumerate() {
            for link in line.split("](").skip(1) {
                let target = link.split([')', '#']).next().unwrap_or("");
                let outside = target.is_empty() || target.contains("://");
                if !outside && !exists(&folder.join(target)) {
                    found.push(format!("{}:{}: links to `{target}`, not there", d.path, n + 1));
                }
            }
        }
    }
    found
}

/// Paths that exist on one person's machine only.
fn private_paths(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for s in sources {
        for (n, line) in s.text.lines().enumerate() {
            let words = line.split(|c: char| c.is_whitespace() || "\"'`()<>=,".contains(c));
            for word in words {
                let mut parts = word.split('/');
                let rooted = parts.next() == Some("");
                let top = parts.next().unwrap_or("");
                if rooted && ["home", "root", "work", "Users", "workspace"].contains(&top) {
                    found.push(format!("{}:{}: `{word}` is on one machine only", s.path, n + 1));
                }
            }
        }
    }
    found
}

/// The lines of the first block of Rust in a document.
fn first_rust_block(document: &str) -> Vec<&str> {
    let lines = document.lines().skip_while(|l| !l.starts_with("```rust")).skip(1);
    lines.take_while(|l| !l.starts_with("```")).map(str::trim).filter(|l| !l.is_empty()).collect()
}

#[test]
fn links_lead_somewhere() {
    assert_none(&dead_links(&documents(), |path| root().join(path).exists()));
}

#[test]
fn no_path_of_somebodys_machine() {
    let mut all = documents();
    for folder in ["src", "tests", "examples", "benches", "fuzz"] {
        all.extend(files(folder, &["rs", "toml", "md", "sh"]));
    }
    all.push(load(&root().join("Cargo.toml")));
    all.push(load(&root().join(".ci/run")));
    all.retain(|s| s.path != "tests/tidy/prose.rs");
    assert_none(&private_paths(&all));
}

/// The loop that a new user reads first is compiled and run: it stands in an example, line by line.
#[test]
fn the_readme_loop_is_the_example() {
    let readme = load(&root().join("README.md"));
    let example = load(&root().join("examples/readme.rs"));
    let wanted = first_rust_block(&readme.text);
    let lines: Vec<&str> = example.text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    assert!(wanted.len() > 10, "the README begins with a loop");
    assert!(
        lines.windows(wanted.len()).any(|w| w == wanted),
        "README.md's first block of Rust must stand in examples/readme.rs line by line"
    );
}

#[test]
fn planted_breaches_are_found() {
    let bad = [Source::new("docs/a.md", "[b](b.md) [c](c.md#x) [d](https://x/y)\n/home/me/x\n")];
    assert_eq!(
        dead_links(&bad, |p| p == Path::new("docs/b.md")),
        ["docs/a.md:1: links to `c.md`, not there"]
    );
    assert_eq!(private_paths(&bad), ["docs/a.md:2: `/home/me/x` is on one machine only"]);
    assert_eq!(first_rust_block("a\n```rust\n  x\n\ny\n```\nz"), ["x", "y"]);
}

//! What the documents promise is tested: each test that docs/security.md and the gallery of hostile guests name exists.

use std::collections::BTreeMap;

use crate::cli::agreement::{Problems, files, read, root};

/// Hostile guests that the gallery has at least.
const GALLERY: usize = 35;

/// The tests of all crates, each with the text of its file.
fn tests() -> BTreeMap<String, String> {
    let mut tests = BTreeMap::new();
    for file in files(".rs").into_iter().filter(|file| file.starts_with("runtime/") || file.starts_with("tests/")) {
        let text = std::fs::read_to_string(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            let is_test = pair[0] == "#[test]" || pair[0].starts_with("#[tokio::test");
            let name = pair[1].trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let (true, Some(name)) = (is_test, name) {
                tests.insert(name.to_owned(), text.clone());
            }
        }
    }
    assert!(tests.len() > 500, "only {} tests", tests.len());
    tests
}

/// The last cells of the rows of a table whose head ends in this.
fn last_cells<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let (mut cells, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        inside = line.starts_with('|') && (inside || line.ends_with(head));
        let is_row = inside && !line.ends_with(head) && !line.starts_with("|---");
        cells.extend(is_row.then(|| line.trim_end_matches(['|', ' ']).rsplit('|').next()).flatten());
    }
    cells
}

/// The names in code quotes.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_promise_names_tests_that_exist() {
    let (tests, mut problems) = (tests(), Problems::default());
    let security = read("docs/security.md");
    let cells = last_cells(&security, "| tested by |");
    assert!(cells.len() > 15, "docs/security.md has {} promises", cells.len());
    for cell in cells {
        if names(cell).is_empty() {
            problems.add(format!("docs/security.md: a promise names no test: {cell}"));
        }
        for name in names(cell).into_iter().filter(|name| !tests.contains_key(*name)) {
            problems.add(format!("docs/security.md names the test `{name}`, which does not exist"));
        }
    }
    problems.none();
}

#[test]
fn every_hostile_guest_has_a_test_beside_a_neighbour() {
    let (tests, mut problems) = (tests(), Problems::default());
    let sandbox = read("docs/sandbox.md");
    let cells = last_cells(&sandbox, "| test |");
    assert!(cells.len() >= GALLERY, "the gallery in docs/sandbox.md has {} guests, of {GALLERY}", cells.len());
    for cell in cells {
        let found: Vec<_> = names(cell).into_iter().map(|name| (name, tests.get(name))).collect();
        if found.is_empty() {
            problems.add(format!("docs/sandbox.md: a hostile guest names no test: {cell}"));
        }
        for (name, text) in found {
            match text {
                None => problems.add(format!("docs/sandbox.md names the test `{name}`, which does not exist")),
                Some(text) if !["neighbour", "beside", "noop"].iter().any(|word| text.contains(word)) => problems.add(
                    format!("docs/sandbox.md names the test `{name}`, whose file has no neighbour that keeps working"),
                ),
                Some(_) => {}
            }
        }
    }
    problems.none();
}

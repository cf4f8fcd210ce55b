//! Links between documents.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::agreement::{Problems, files, read, root};

/// The text of a document outside of code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    // Text between backticks is not a link.
    lines.map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("``")).collect::<Vec<_>>().join("\n")
}

/// The targets of the links in a document.
fn targets(text: &str) -> Vec<String> {
    let ends = |rest: &str| rest.split(')').next().unwrap_or_default().split(' ').next().unwrap_or_default().to_owned();
    prose(text).split("](").skip(1).map(ends).collect()
}

/// The anchors of a document: its headings as forges write them into addresses.
fn anchors(text: &str) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut inside = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        inside ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if inside || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

#[test]
fn every_link_has_a_target() {
    let mut problems = Problems::default();
    let mut links = 0;
    for document in files(".md") {
        let text = read(&document);
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            links += 1;
            // GitHub shows runs and badges of a workflow beside the files of the repository, at an address that is not
            // a file.
            let target = match target.strip_prefix("../../actions/workflows/") {
                Some(run) => format!(".github/workflows/{}", run.trim_end_matches("/badge.svg")),
                None => target,
            };
            let (path, anchor) = target.split_once('#').map_or((target.as_str(), None), |(path, to)| (path, Some(to)));
            let folder = Path::new(&document).parent().unwrap_or(Path::new(""));
            let there = if path.is_empty() { root().join(&document) } else { root().join(folder).join(path) };
            if !there.exists() {
                problems.add(format!("{document}: [..]({target}) leads to {path}, which does not exist"));
                continue;
            }
            let Some(anchor) = anchor else { continue };
            let found = anchors(&std::fs::read_to_string(&there).unwrap_or_default());
            if !found.iter().any(|known| known == anchor) {
                problems.add(format!(
                    "{document}: [..]({target}) names a heading that does not exist; the headings are {found:?}"
                ));
            }
        }
    }
    assert!(links > 50, "only {links} links were found");
    problems.none();
}

#[test]
fn headings_become_anchors_as_forges_write_them() {
    let text =
        "# The HTTP API\n```\n# no heading\n```\n## Cancel, hold, delete\n## Trying it: `windlass run`\n## Go\n## Go\n";
    assert_eq!(anchors(text), ["the-http-api", "cancel-hold-delete", "trying-it-windlass-run", "go", "go-1"]);
    assert_eq!(targets("see [a](b.md#c) and `[no](link)`\n```\n[no](link)\n```\n[d](e)"), ["b.md#c", "e"]);
}

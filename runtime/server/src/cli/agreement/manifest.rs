//! The manifest of plugins, held against the examples in the documents.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_core::plugin::manifest::Manifest;

use crate::cli::agreement::{Problems, read};

/// Where manifests are explained; together they have every field.
const DOCUMENTS: [&str; 2] = ["docs/plugins.md", "docs/plugin-guide.md"];

/// The manifests in a document.
fn examples(document: &str) -> Vec<String> {
    let text = read(document);
    let blocks = text.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The fields of a manifest, as `limits.http.total`. What is in `config` is the author's own.
fn fields(value: &Value, above: &str, found: &mut BTreeSet<String>) {
    for (name, below) in value.as_object().into_iter().flatten() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        if path != "config" {
            fields(below, &path, found);
        }
        found.insert(path);
    }
}

#[test]
fn the_manifests_in_the_documents_are_valid_and_have_every_field() {
    let mut problems = Problems::default();
    let mut shown = BTreeSet::new();
    for document in DOCUMENTS {
        let examples = examples(document);
        assert!(!examples.is_empty(), "{document} no longer has a manifest");
        for text in examples {
            if let Err(why) = toml::from_str::<Manifest>(&text) {
                problems.add(format!("{document}: the manifest is refused: {why}"));
            }
            let example: toml::Value = toml::from_str(&text).unwrap_or_else(|error| panic!("{document}: {error}"));
            fields(&serde_json::to_value(example).expect("JSON"), "", &mut shown);
        }
    }
    let mut known = BTreeSet::new();
    fields(&serde_json::to_value(Manifest::default()).expect("JSON"), "", &mut known);
    for field in known.difference(&shown) {
        problems.add(format!("no example in {DOCUMENTS:?} has `{field}`: add it, with what it means"));
    }
    assert!(known.contains("limits.http.total") && known.contains("capabilities.secrets"), "{known:?}");
    problems.none();
}

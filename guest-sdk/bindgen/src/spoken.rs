//! Whether the SDKs whose bindings are made at each build (JavaScript, Python) speak of everything in the interface.
//!
//! Their tools read `guest-sdk/wit`, so bindings that are out of date cannot be. What can be is the layer above them,
//! written by hand: a function, a field or a case that was added to the interface and that no line of the SDK names.

use std::path::Path;

use anyhow::Context;
use wit_parser::{InterfaceId, Resolve, TypeDefKind, WorldId, WorldItem};

/// An SDK: where its sources lie, and how it writes the words of the interface.
struct Sdk {
    name: &'static str,
    sources: &'static [&'static str],
    spell: &'static [fn(&str) -> String],
}

const SDKS: [Sdk; 2] = [
    Sdk { name: "js", sources: &["js/engine/run.js", "js/src", "js/index.d.ts"], spell: &[camel] },
    Sdk { name: "python", sources: &["python/windlass"], spell: &[snake, class] },
];
const ENDINGS: [&str; 3] = ["js", "ts", "py"];

/// What each of the SDKs does not speak of, one line each.
pub fn unspoken(folder: &Path, resolve: &Resolve, world: WorldId) -> anyhow::Result<Vec<String>> {
    let words = words(resolve, world);
    let mut missing = Vec::new();
    for sdk in SDKS {
        let text = read(folder, sdk.sources)?;
        for (place, word) in &words {
            let spelled = sdk.spell.iter().any(|spell| names(&text, &spell(word)));
            if !spelled && !names(&text, word) {
                missing.push(format!("guest-sdk/{} does not name `{word}` of {place}", sdk.name));
            }
        }
    }
    Ok(missing)
}

/// Interfaces, functions, fields and cases of `windlass:job`, each with where it stands. The cases of a refusal are
/// left out: what a server says in one is passed on as it is.
fn words(resolve: &Resolve, world: WorldId) -> Vec<(String, String)> {
    let world = &resolve.worlds[world];
    let mut words = Vec::new();
    for item in world.imports.values().chain(world.exports.values()) {
        let WorldItem::Interface { id, .. } = item else { continue };
        let interface = &resolve.interfaces[*id];
        let ours = interface.package.is_some_and(|package| resolve.packages[package].name.namespace == "windlass");
        if ours {
            of_interface(resolve, *id, &mut words);
        }
    }
    words
}

fn of_interface(resolve: &Resolve, id: InterfaceId, words: &mut Vec<(String, String)>) {
    let interface = &resolve.interfaces[id];
    let name = interface.name.clone().unwrap_or_default();
    let place = format!("windlass:job/{name}");
    words.extend(interface.functions.keys().map(|function| (place.clone(), function.clone())));
    for (kind, id) in &interface.types {
        let place = format!("{place}.{kind}");
        let parts: Vec<String> = match &resolve.types[*id].kind {
            TypeDefKind::Record(record) => record.fields.iter().map(|field| field.name.clone()).collect(),
            TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.clone()).collect(),
            TypeDefKind::Variant(cases) if kind != "refusal" => {
                cases.cases.iter().map(|case| case.name.clone()).collect()
            }
            _ => Vec::new(),
        };
        words.extend(parts.into_iter().map(|part| (place.clone(), part)));
    }
}

/// Whether the word stands in the text by itself, not as a part of another.
fn names(text: &str, word: &str) -> bool {
    let inside = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
        let after = text.as_bytes().get(at + word.len()).copied();
        !inside(before) && !inside(after)
    })
}

fn camel(word: &str) -> String {
    let mut parts = word.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |word, part| word + &part[..1].to_uppercase() + &part[1..])
}

fn snake(word: &str) -> String {
    word.replace('-', "_")
}

/// Cases of variants are classes in Python: `after-ms` is `Retry_AfterMs`.
fn class(word: &str) -> String {
    let word = camel(word);
    word[..1].to_uppercase() + &word[1..]
}

fn read(folder: &Path, sources: &[&str]) -> anyhow::Result<String> {
    let mut text = String::new();
    for source in sources {
        let path = folder.join(source);
        let mut files = vec![path.clone()];
        if path.is_dir() {
            files = std::fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        }
        files.retain(|file| file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)));
        for file in files {
            text += &std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_only_by_itself() {
        assert!(names("ctx.spawn(child)", "spawn") && names("max_attempts: int", "max_attempts"));
        assert!(!names("respawned", "spawn"));
        assert_eq!(
            (camel("unique-period-ms"), snake("time-left-ms")),
            ("uniquePeriodMs".into(), "time_left_ms".into())
        );
    }

    #[test]
    fn a_function_that_no_sdk_names_is_found() {
        let text = "package windlass:job@0.1.0; interface spawn { no-such-function: func(); start: func(); }
            world handler { import spawn; }";
        let mut resolve = Resolve::default();
        let package = resolve.push_str("job.wit", text).expect("an interface");
        let world = resolve.select_world(&[package], None).expect("a world");
        let found =
            unspoken(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").as_path(), &resolve, world).expect("sources");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|line| line.contains("`no-such-function` of windlass:job/spawn")), "{found:?}");
    }
}

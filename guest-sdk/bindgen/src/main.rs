//! Writes the bindings of the C and Go SDKs from `guest-sdk/wit`, or says which of them are out of date, and what of
//! the interface the JavaScript and Python SDKs do not speak of.
//!
//! usage: windlass-bindgen GUEST-SDK-FOLDER [--check]

mod spoken;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_parser::{Resolve, WorldId};

/// The Go module that the bindings are a part of.
const GO_PACKAGE: &str = "windlass.dev/go/internal/wit";
/// What the generated Go code calls for memory and for options and results: our own, so that the SDK needs no other
/// module.
const GO_SUPPORT: [(&str, &str); 2] = [
    ("go.bytecodealliance.org/pkg/wit/types", "windlass.dev/go/internal/wittypes"),
    ("go.bytecodealliance.org/pkg/wit/runtime", "windlass.dev/go/internal/witruntime"),
];

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let sdk = PathBuf::from(args.next().context("usage: windlass-bindgen GUEST-SDK-FOLDER [--check]")?);
    let check = args.next().is_some_and(|word| word == "--check");

    let mut stale = Vec::new();
    // The interface is copied first, because the bindings are generated from the copies.
    let mut copies = BTreeMap::new();
    for (source, copy) in
        [("../wit/0.1.0/job.wit", "wit/deps/job/job.wit"), ("../wit/dev/0.1.0/dev.wit", "wit/deps/dev/dev.wit")]
    {
        let source = sdk.join(source);
        copies.insert(sdk.join(copy), std::fs::read(&source).with_context(|| source.display().to_string())?);
    }
    write(&copies, check, &mut stale)?;
    let mut wanted = BTreeMap::new();
    add(&mut wanted, &sdk.join("c/bindings"), &generate(&sdk, c())?);
    add(&mut wanted, &sdk.join("go/internal/wit"), &generate(&sdk, go())?);
    write(&wanted, check, &mut stale)?;
    if !stale.is_empty() {
        bail!("out of date: {}\nrun `scripts/guests.sh bindings`", stale.join(", "));
    }
    let (resolve, world) = world(&sdk.join("wit"))?;
    let unspoken = spoken::unspoken(&sdk, &resolve, world)?;
    if check && !unspoken.is_empty() {
        bail!("the interface has grown past its SDKs:\n{}", unspoken.join("\n"));
    }
    Ok(())
}

/// Writes the files that differ, or only says which they are.
fn write(wanted: &BTreeMap<PathBuf, Vec<u8>>, check: bool, stale: &mut Vec<String>) -> anyhow::Result<()> {
    for (path, text) in wanted {
        if std::fs::read(path).is_ok_and(|found| found == *text) {
            continue;
        }
        if check {
            stale.push(path.display().to_string());
        } else {
            std::fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
            println!("wrote {}", path.display());
        }
    }
    Ok(())
}

fn c() -> Box<dyn WorldGenerator> {
    // Without the object file: `windlass plugin build` knows the world and puts its type into the module.
    wit_bindgen_c::Opts { no_object_file: true, rename_world: Some("windlass_wit".to_owned()), ..Default::default() }
        .build()
}

fn go() -> Box<dyn WorldGenerator> {
    let pkg_name = Some(GO_PACKAGE.to_owned());
    // Unformatted: what is checked in must not depend on which gofmt is installed.
    wit_bindgen_go::Opts { format: wit_bindgen_go::Format::False, pkg_name, quiet: true, ..Default::default() }.build()
}

fn generate(sdk: &Path, mut generator: Box<dyn WorldGenerator>) -> anyhow::Result<Files> {
    let (mut resolve, world) = world(&sdk.join("wit"))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    Ok(files)
}

fn world(wit: &Path) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some("handler-http"))?;
    Ok((resolve, world))
}

fn add(wanted: &mut BTreeMap<PathBuf, Vec<u8>>, folder: &Path, files: &Files) {
    for (name, text) in files.iter() {
        let mut text = text.to_vec();
        // Some generated lines end in spaces, and some files without an end of line.
        if let Ok(lines) = std::str::from_utf8(&text) {
            let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
            let mut tidy = format!("{}\n", lines.join("\n").trim_end());
            for (theirs, ours) in GO_SUPPORT {
                tidy = tidy.replace(theirs, ours);
            }
            text = tidy.into_bytes();
        }
        wanted.insert(folder.join(name), text);
    }
}

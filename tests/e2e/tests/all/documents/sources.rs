//! Every source file belongs to a crate: one that no `mod` names is neither compiled, nor linted, nor tested.

use std::fs;
use std::path::{Path, PathBuf};

/// All files below a folder, in no order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The file that has to name a module with `mod`: that of the folder in which the module's file or folder lies.
fn names_it(folder: &Path, module: &str) -> bool {
    ["mod.rs", "lib.rs", "main.rs"].iter().any(|file| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.lines().any(|line| line.trim_end().ends_with(&format!("mod {module};")))
    })
}

#[test]
fn every_source_file_is_named_by_the_module_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let crates = ["core", "store", "executor", "server", "bench"].map(|name| root.join("runtime").join(name));
    let mut sources = Vec::new();
    for folder in
        crates.iter().map(|of| of.join("src")).chain([root.join("tests/e2e/src"), root.join("tests/e2e/tests")])
    {
        sources.extend(files(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")));
    }
    assert!(sources.len() > 500, "only {} files", sources.len());
    for source in sources {
        let name = source.file_stem().and_then(|name| name.to_str()).expect("a name");
        let folder = source.parent().expect("a folder");
        let is_named = match name {
            "lib" | "main" => true,
            "mod" => {
                let module = folder.file_name().and_then(|name| name.to_str()).expect("a name");
                names_it(folder.parent().expect("a folder"), module)
            }
            _ => names_it(folder, name),
        };
        assert!(is_named, "no `mod` names {}: it is not compiled", source.display());
    }
}

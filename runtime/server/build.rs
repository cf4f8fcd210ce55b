//! Puts the SDKs and their templates into the binary: whoever has `windlass` can start a plugin with nothing else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const FOLDERS: [&str; 6] = ["c", "go", "js", "python", "rust", "wit"];
/// What building and testing leaves behind, and what only this repository needs.
const SKIPPED: [&str; 9] =
    ["target", "node_modules", "__pycache__", "dist", "build", "tests", "test", "Cargo.lock", "package-lock.json"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let sdks = here.join("../../guest-sdk");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for folder in FOLDERS {
        let path = sdks.join(folder);
        if path.is_dir() {
            walk(&path, folder, false, &mut files)?;
        }
    }
    files.sort();
    let mut code = String::from("pub static FILES: &[(&str, &[u8])] = &[\n");
    for (name, path) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(code, "    ({name:?}, include_bytes!({:?})),", path.display().to_string()).expect("a string has room");
    }
    code.push_str("];\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("embedded.rs"), code)
}

/// A template keeps its tests; an SDK's own stay here.
fn walk(folder: &Path, name: &str, template: bool, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(part) = path.file_name().and_then(|part| part.to_str()) else { continue };
        let kept_test = template && (part == "tests" || part == "test");
        // A new plugin begins with the versions that are tested here, and its tools are installed by their digests.
        let kept_lock = (template && part == "Cargo.lock") || (name == "js/tools" && part == "package-lock.json");
        if part.starts_with('.') || (SKIPPED.contains(&part) && !kept_test && !kept_lock) {
            continue;
        }
        let inner = format!("{name}/{part}");
        if path.is_dir() {
            walk(&path, &inner, template || part.starts_with("template"), files)?;
        } else {
            files.push((inner, path.canonicalize()?));
        }
    }
    Ok(())
}

//! Puts into the binary what it brings along: the SDKs and their templates, so that whoever has `windlass` can start a
//! plugin with nothing else, and the built files of the console, compressed. It never builds the console; `make ui`
//! does that.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

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
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("embedded.rs"), code)?;
    console(&here.join("../../ui/dist"), &out)
}

/// The files of the console, each with its digest and compressed.
fn console(dist: &Path, out: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut paths = fs::read_dir(dist)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let mut code = String::from("pub static FILES: &[File] = &[\n");
    for path in paths {
        let path = path.canonicalize()?;
        println!("cargo::rerun-if-changed={}", path.display());
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let bytes = fs::read(&path)?;
        let tag: String = Sha256::digest(&bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&bytes)?;
        let gzip = out.join(format!("{name}.gz"));
        fs::write(&gzip, packed.finish()?)?;
        let (plain, gzip) = (path.display().to_string(), gzip.display().to_string());
        let contents = format!("plain: include_bytes!({plain:?}), gzip: include_bytes!({gzip:?})");
        writeln!(code, "    File {{ name: {name:?}, tag: \"\\\"{tag}\\\"\", {contents} }},")
            .expect("a string has room");
    }
    code.push_str("];\n");
    fs::write(out.join("console.rs"), code)
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

//! Plugins in languages with a slow build: the runtime is built once and cached, and each save uploads the sources
//! together with it.
//!
//! The runtime is a component like any other, and the sources are a custom section at its end
//! (`executor::attach_sources`). So every save is a separate version, while the server has already compiled its code:
//! see docs/decisions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};
use windlass_core::plugin::manifest::{Lang, Manifest};
use windlass_core::quantity::Size;
use windlass_executor::attach_sources;

use crate::cli::author::build::{Product, make};
use crate::cli::author::project::Project;
use crate::cli::author::tools;

/// Memory that the runtime needs in addition to a built component: the standard library, and what is loaded of it.
const MORE_MEMORY: u64 = 64 * 1024 * 1024;
/// Files that are not part of an SDK's runtime.
const LEFT_OUT: [&str; 6] = ["__pycache__", "node_modules", "template", "template-ts", "test", "tests"];

/// Whether sources of this language are run by a runtime that is built once.
pub fn is_prepared(lang: Lang) -> bool {
    match lang {
        Lang::Python | Lang::Js | Lang::Ts => true,
        Lang::Rust | Lang::Go | Lang::C => false,
    }
}

/// The component of a save.
pub fn component(project: &Project, check: bool) -> anyhow::Result<Vec<u8>> {
    let runtime = runtime(project)?;
    let sources = project.folder.join("build").join(format!("{}.sources.json", project.name));
    make(project, &Product::Sources { check }, &sources)?;
    let text = fs::read_to_string(&sources).with_context(|| format!("cannot read {}", sources.display()))?;
    let runtime = fs::read(&runtime).with_context(|| format!("cannot read {}", runtime.display()))?;
    Ok(attach_sources(&runtime, &text))
}

/// The manifest for it. In the runtime a plugin needs more memory.
pub fn manifest(project: &Project) -> Manifest {
    let mut manifest = project.manifest.clone();
    manifest.limits.memory = manifest.limits.memory.map(|memory| Size(memory.0.saturating_add(MORE_MEMORY)));
    manifest
}

/// The runtime for a project: built once for each SDK and set of packages, and cached.
fn runtime(project: &Project) -> anyhow::Result<PathBuf> {
    let lang = match project.lang {
        Lang::Python => "python",
        _ => "js",
    };
    let folder = tools::once(&format!("dev-{lang}-{}", fingerprint(project)?), |folder| {
        tools::say(
            "building the runtime that `windlass dev` runs your sources in (once; the server also compiles it only once)",
        );
        make(project, &Product::Runtime, &folder.join("runtime.wasm"))
    })?;
    Ok(folder.join("runtime.wasm"))
}

/// Changes with everything that is part of a runtime.
fn fingerprint(project: &Project) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    let sdk = project.sdk();
    let mut files = Vec::new();
    for folder in [sdk.clone(), sdk.join("../wit")] {
        gather(&folder, &mut files).with_context(|| format!("cannot read the SDK in {}", folder.display()))?;
    }
    files.extend(["requirements.txt", "requirements.lock"].map(|name| project.folder.join(name)));
    for file in files {
        let Ok(bytes) = fs::read(&file) else { continue };
        let name = file.strip_prefix(&sdk).unwrap_or(&file).file_name().unwrap_or_default().to_owned();
        digest.update(name.as_encoded_bytes());
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(&bytes);
    }
    digest.update([u8::from(project.manifest.build.http)]);
    Ok(tools::short_hex(&digest.finalize()))
}

/// The files of a folder, in order; empty if there is no such folder.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    entries.sort();
    for path in entries {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') || LEFT_OUT.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            gather(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

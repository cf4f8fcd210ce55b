//! A plugin's folder: its manifest, its name, and the paths of its parts.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use windlass_core::plugin::manifest::{Lang, Manifest};

pub struct Project {
    pub folder: PathBuf,
    pub name: String,
    pub lang: Lang,
    pub manifest: Manifest,
}

impl Project {
    pub fn open(folder: &Path) -> anyhow::Result<Project> {
        let path = folder.join("windlass.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
                "there is no {}, which every plugin's folder has; `windlass plugin new NAME --lang rust` creates such a folder",
                path.display()
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let manifest: Manifest = toml::from_str(&text).with_context(|| path.display().to_string())?;
        manifest.check().with_context(|| path.display().to_string())?;
        let Some(lang) = manifest.build.lang else {
            bail!(
                "{} does not say how to build: add a section `[build]` with `lang = \"rust\"` (or python, js, ts, go, c)",
                path.display()
            );
        };
        // Absolute, because other programs run in other folders.
        let folder = folder.canonicalize().with_context(|| format!("cannot open {}", folder.display()))?;
        let name = match &manifest.build.name {
            Some(name) => name.clone(),
            None => folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        };
        check_name(&name)?;
        Ok(Project { folder, name, lang, manifest })
    }

    pub fn sdk(&self) -> PathBuf {
        self.folder.join(self.manifest.build.sdk.as_deref().unwrap_or("sdk"))
    }

    /// Where the component is written by default.
    pub fn component(&self) -> PathBuf {
        self.folder.join("build").join(format!("{}.wasm", self.name))
    }

    /// The queues it serves.
    pub fn queues(&self) -> Vec<String> {
        match self.manifest.queues.as_slice() {
            [] => vec![self.name.clone()],
            queues => queues.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Checks that a name is valid for a folder, a crate, a package and a plugin.
pub fn check_name(name: &str) -> anyhow::Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = name.len() <= 64 && name.bytes().all(plain) && name.starts_with(|c: char| c.is_ascii_lowercase());
    if !good || name.ends_with('-') {
        bail!(
            "`{name}` is not a name for a plugin; use at most 64 lowercase letters, digits and `-`, starting with a letter, such as `resize-images`"
        );
    }
    Ok(())
}

/// A language, as it is named on the command line.
#[derive(Clone, Copy, Debug)]
pub struct LangName(pub Lang);

impl FromStr for LangName {
    type Err = String;

    fn from_str(text: &str) -> Result<LangName, String> {
        Ok(LangName(match text {
            "rust" => Lang::Rust,
            "python" => Lang::Python,
            "js" | "javascript" => Lang::Js,
            "ts" | "typescript" => Lang::Ts,
            "go" => Lang::Go,
            "c" => Lang::C,
            _ => return Err("one of rust, python, js, ts, go, c".to_owned()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_valid_everywhere() {
        for good in ["a", "resize-images", "x2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "../a", "2a", "é"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_folder_without_a_manifest_is_told_how_to_get_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let error = Project::open(dir.path()).err().expect("nothing there").to_string();
        assert!(error.contains("windlass plugin new"), "{error}");
        std::fs::write(dir.path().join("windlass.toml"), "queues = []").expect("room");
        let error = Project::open(dir.path()).err().expect("no language").to_string();
        assert!(error.contains("[build]"), "{error}");
    }
}

//! The SDKs and templates inside this binary.

use std::fs;
use std::path::Path;

use anyhow::Context;
use windlass_core::plugin::manifest::Lang;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Writes a template into a folder, with the plugin's name filled in.
pub fn write_template(lang: Lang, name: &str, folder: &Path) -> anyhow::Result<()> {
    let prefix = template(lang);
    let mut written = 0;
    for (path, bytes) in under(prefix) {
        let path = if path == "gitignore" { ".gitignore" } else { path };
        let text = std::str::from_utf8(bytes).with_context(|| format!("the template's {path} is not text"))?;
        let text = text.replace("{{name}}", name).replace("{{ident}}", &name.replace('-', "_"));
        let text = if path == "Cargo.lock" { sorted(&text) } else { text };
        write(&folder.join(path), text.as_bytes())?;
        written += 1;
    }
    anyhow::ensure!(written > 0, "this build of windlass has no template in {prefix}");
    Ok(())
}

/// A Cargo.lock in the order in which cargo writes it, which depends on the name of the plugin.
fn sorted(lock: &str) -> String {
    const PACKAGE: &str = "[[package]]\n";
    let mut parts = lock.split(PACKAGE);
    let head = parts.next().unwrap_or_default();
    let mut packages: Vec<&str> = parts.map(str::trim_end).collect();
    packages.sort_by_key(|package| package.lines().next().map(str::to_owned));
    let packages: Vec<String> = packages.iter().map(|package| format!("{PACKAGE}{package}\n")).collect();
    format!("{head}{}", packages.join("\n"))
}

/// Writes an SDK and the interface it binds to into a folder.
pub fn write_sdk(lang: Lang, folder: &Path) -> anyhow::Result<()> {
    let sdk = sdk(lang);
    for (path, bytes) in under(sdk).filter(|(path, _)| !path.starts_with("template")) {
        if lang == Lang::Rust && path.ends_with(".rs") {
            // In the repository the interface is beside the SDKs; here it is inside.
            let text = String::from_utf8_lossy(bytes).replace("\"../wit\"", "\"wit\"");
            write(&folder.join(path), text.as_bytes())?;
        } else {
            write(&folder.join(path), bytes)?;
        }
    }
    for (path, bytes) in under("wit") {
        write(&folder.join("wit").join(path), bytes)?;
    }
    Ok(())
}

fn under(prefix: &'static str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().filter_map(move |(path, bytes)| Some((path.strip_prefix(prefix)?.strip_prefix('/')?, *bytes)))
}

fn sdk(lang: Lang) -> &'static str {
    match lang {
        Lang::Rust => "rust",
        Lang::Python => "python",
        Lang::Js | Lang::Ts => "js",
        Lang::Go => "go",
        Lang::C => "c",
    }
}

fn template(lang: Lang) -> &'static str {
    match lang {
        Lang::Rust => "rust/template",
        Lang::Python => "python/template",
        Lang::Js => "js/template",
        Lang::Ts => "js/template-ts",
        Lang::Go => "go/template",
        Lang::C => "c/template",
    }
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANGS: [Lang; 6] = [Lang::Rust, Lang::Python, Lang::Js, Lang::Ts, Lang::Go, Lang::C];

    #[test]
    fn every_language_has_a_template_with_a_manifest_that_the_server_accepts() {
        for lang in LANGS {
            let dir = tempfile::tempdir().expect("a folder");
            write_template(lang, "my-plugin", dir.path()).unwrap_or_else(|error| panic!("{lang:?}: {error:#}"));
            write_sdk(lang, &dir.path().join("sdk")).unwrap_or_else(|error| panic!("{lang:?}: {error:#}"));
            let text = fs::read_to_string(dir.path().join("windlass.toml")).expect("a manifest");
            let manifest: windlass_core::plugin::manifest::Manifest = toml::from_str(&text).expect("a manifest");
            assert_eq!((manifest.check(), manifest.build.lang), (Ok(()), Some(lang)));
            let readme = fs::read_to_string(dir.path().join("README.md")).expect("a README");
            assert!(readme.contains("my-plugin") && readme.lines().count() <= 16, "{lang:?}: {readme}");
        }
    }

    #[test]
    fn a_new_folder_in_rust_has_the_digest_of_every_crate() {
        for name in ["a-first-name", "middle", "zz-last"] {
            let dir = tempfile::tempdir().expect("a folder");
            write_template(Lang::Rust, name, dir.path()).expect("a template");
            let lock = fs::read_to_string(dir.path().join("Cargo.lock")).expect("a lock file");
            let packages: Vec<&str> = lock.split("[[package]]\n").skip(1).collect();
            let names: Vec<&str> = packages.iter().filter_map(|package| package.lines().next()).collect();
            assert!(names.is_sorted() && names.contains(&format!("name = \"{name}\"").as_str()), "{names:?}");
            let own = [format!("name = \"{name}\"\n"), "name = \"windlass\"\n".to_owned()];
            for package in packages.iter().filter(|package| !own.iter().any(|own| package.starts_with(own))) {
                assert!(package.contains("\nchecksum = \""), "{package}");
            }
            assert!(lock.ends_with('\n') && !lock.ends_with("\n\n") && !lock.contains("\n\n\n"), "{lock}");
        }
    }

    #[test]
    fn nothing_in_a_new_folder_is_left_to_fill_in_or_names_the_repository() {
        for lang in LANGS {
            let dir = tempfile::tempdir().expect("a folder");
            write_template(lang, "my-plugin", dir.path()).expect("a template");
            for (path, _) in under(template(lang)) {
                let path = if path == "gitignore" { ".gitignore" } else { path };
                let text = fs::read_to_string(dir.path().join(path)).expect("it was written");
                let blank = ["{{name", "{{ident", "guest-sdk"].iter().find(|word| text.contains(**word));
                assert_eq!(blank, None, "{lang:?}: {path}: {text}");
            }
        }
    }
}

//! `windlass plugin new`: a folder that builds without changes.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use windlass_core::plugin::manifest::Lang;

use crate::cli::author::project::{LangName, check_name};
use crate::cli::author::templates;
use crate::cli::terminal::show;

/// Create a folder for a new plugin: a manifest, a handler, a test, and the SDK
///
/// The plugin builds and runs without changes. Replace its handler with your own; sdk/README.md in the folder explains
/// what a handler can do.
#[derive(Debug, Args)]
pub struct New {
    /// The plugin's name, such as resize-images
    name: String,
    /// The language of the handler: rust, python, js, ts, go or c
    #[arg(long)]
    lang: LangName,
    /// The folder to create; it must not exist, or be empty [default: ./NAME]
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl New {
    pub fn run(self, json: bool) -> anyhow::Result<()> {
        check_name(&self.name)?;
        let folder = self.dir.unwrap_or_else(|| PathBuf::from(&self.name));
        if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file() {
            bail!("{} already exists and is not empty; choose another name, or a folder with --dir", folder.display());
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let LangName(lang) = self.lang;
        templates::write_template(lang, &self.name, &folder)?;
        templates::write_sdk(lang, &folder.join("sdk"))?;
        let dir = folder.display();
        if json {
            let test = test_command(lang, &dir.to_string());
            return show::json(&json!({ "name": self.name, "folder": dir.to_string(), "test": test }));
        }
        show::print(&format!(
            "{dir} is a plugin that counts to a number, in steps. Next:\n\n  \
             {test:<34} its test, without a server\n  \
             windlass plugin build {dir:<12} a component in {dir}/build/{name}.wasm\n  \
             windlass plugin push {dir:<13} onto the server\n  \
             windlass dev {dir:<21} both, at each save\n  \
             windlass enqueue {name} '{{\"steps\": 10}}' --watch",
            test = test_command(lang, &dir.to_string()),
            name = self.name,
        ))
    }
}

fn test_command(lang: Lang, dir: &str) -> String {
    let test = match lang {
        Lang::Rust => "cargo test",
        Lang::Python => "PYTHONPATH=sdk python3 -m unittest",
        Lang::Js | Lang::Ts => "node sdk/test.mjs",
        Lang::Go => "go test ./...",
        Lang::C => "make test",
    };
    format!("(cd {dir} && {test})")
}

//! The command line, the API and the documents must agree. These tests compare them, and say what to add where.
//!
//! `settings`: every setting of `serve` is in the table of docs/operating.md, and every row of the table is a setting.
//! `fields`: every request of the API has a command, with the same names and the same values for choices. `commands`:
//! every `windlass …` in a document, a message or a help text is a command that exists. `links`: every link has a
//! target. `manifest`: the manifests in the documents are valid and show every field. `numbers`: a limit that a
//! document names is the limit that the code has. `promises`: what is promised is tested. `help`: every command,
//! argument and flag is explained.

mod commands;
mod fields;
mod help;
mod links;
mod manifest;
mod numbers;
mod promises;
mod settings;

use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};

/// The disagreements that were found, all reported together.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "{} to fix:\n\n- {}\n", self.0.len(), self.0.join("\n\n- "));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below the root with this ending, except build products.
fn files(ending: &str) -> Vec<String> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let passed_over = ["target", "node_modules", "windlass-data", "build"].contains(&&*name);
            if path.is_dir() && !name.starts_with('.') && !passed_over {
                walk(&path, ending, found);
            } else if name.ends_with(ending) {
                found.push(path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), ending, &mut found);
    found.sort();
    found
}

/// The current documents. The changelog and the decisions are excluded, because they describe the past.
fn documents() -> Vec<String> {
    let now = |name: &String| name != "CHANGELOG.md" && !name.starts_with("docs/decisions/");
    let found: Vec<String> = files(".md").into_iter().filter(now).collect();
    assert!(found.len() > 15, "{found:?}");
    found
}

/// The whole command line.
fn program() -> Command {
    let mut program = crate::cli::Cli::command();
    program.build();
    program
}

/// A command by its name, such as `plugin push`.
fn command(words: &str) -> Option<Command> {
    let mut found = program();
    for word in words.split_whitespace() {
        found = found.find_subcommand(word)?.clone();
    }
    Some(found)
}

/// All visible commands, with their names.
fn commands() -> Vec<(String, Command)> {
    fn walk(words: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        found.push((words.to_owned(), command.clone()));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
            walk(format!("{words} {}", below.get_name()).trim(), below, found);
        }
    }
    let mut found = Vec::new();
    walk("", &program(), &mut found);
    found
}

/// All names of an argument: its flag and the flag's aliases, or the name of its value.
fn names(argument: &Arg) -> Vec<String> {
    let long = argument.get_long().map(str::to_owned);
    let others = argument.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned);
    let place = argument.is_positional().then(|| argument.get_id().to_string());
    long.into_iter().chain(others).chain(place).collect()
}

/// Whether clap adds it automatically.
fn is_builtin(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), "help" | "version")
}

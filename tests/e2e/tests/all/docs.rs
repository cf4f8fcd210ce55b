//! Every command in the documentation works as it stands there.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use windlass_e2e::{Server, windlass};

/// Runs each `curl` and `windlass` line of a document in order, on one server. An id in a line stands for the job enqueued last.
#[track_caller]
fn commands_work(document: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(document)).expect("the document");
    let server = Server::start();
    server.upload("digest", "demo.digest");
    let mut job = String::new();
    let mut commands = 0;
    for line in text.lines().filter(|line| line.starts_with("curl ") || is_ours(line)) {
        let mut command = line.replace("localhost:7070", server.url("").trim_start_matches("http://"));
        if let Ok(folder) = std::env::var("WINDLASS_PLUGINS") {
            command = command.replace("target/plugins", &folder);
        }
        if let Some(at) = command.find("job_0") {
            assert!(!job.is_empty(), "no job was enqueued before: {line}");
            command.replace_range(at..at + job.len(), &job);
        }
        let script = match command.strip_prefix("windlass ") {
            Some(rest) => format!("{:?} {rest}", windlass().get_program()),
            None => format!("{command} --silent --show-error --fail-with-body"),
        };
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(&root).env("WINDLASS_URL", server.url(""));
        let output = shell.output().expect("bash and curl");
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{line}\n{answer}{}", String::from_utf8_lossy(&output.stderr));
        if let Ok(answer) = serde_json::from_str::<Value>(&answer)
            && let Some(id) = answer["job_id"].as_str()
        {
            id.clone_into(&mut job);
        }
        commands += 1;
    }
    assert!(commands > 1, "{document} has only {commands} commands");
}

/// A server is started by the harness, on a port of its own.
fn is_ours(line: &str) -> bool {
    line.starts_with("windlass ") && !line.starts_with("windlass serve")
}

/// The commands of the plugin guide, for each language whose tools are there: bringing them takes minutes, which is for `make soak`
/// (WINDLASS_ALL_LANGUAGES=1), as are Rust and Python, which build for half a minute.
#[test]
fn the_commands_of_the_plugin_guide_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/plugin-guide.md")).expect("the document");
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mut ran = 0;
    for line in text.lines().filter(|line| is_ours(line)) {
        // The first example is in C; all others carry their language.
        let (_, rest) = line.split_once(" count").unwrap_or_else(|| panic!("not about a plugin called count: {line}"));
        let word = rest.split(' ').next().unwrap_or_default();
        if !can_build(word.strip_prefix('-').unwrap_or("c")) {
            continue;
        }
        let script = format!("{:?} {}", windlass().get_program(), line.trim_start_matches("windlass "));
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(folder.path()).env("WINDLASS_URL", server.url(""));
        let output = shell.output().expect("bash");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}\n{}{said}", String::from_utf8_lossy(&output.stdout));
        if line.starts_with("windlass enqueue") {
            assert!(String::from_utf8_lossy(&output.stdout).contains("55"), "1 + … + 10: {line}\n{said}");
        }
        ran += 1;
    }
    assert!(ran > 0, "no language has its tools here: `make plugins` brings them");
}

/// Whether building in this language takes seconds here.
fn can_build(lang: &str) -> bool {
    if std::env::var_os("WINDLASS_ALL_LANGUAGES").is_some() {
        return true;
    }
    let variable = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let ready = |tools: &str| {
        let entries = cache.as_ref().and_then(|cache| cache.join("windlass").read_dir().ok()).into_iter().flatten();
        let mut found = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(tools));
        found.any(|entry| entry.path().join(".ready").exists())
    };
    match lang {
        "c" => ready("zig-"),
        "js" | "ts" => ready("js-"),
        "go" => ready("go-") || Command::new("go").arg("version").output().is_ok(),
        _ => false,
    }
}

#[test]
fn the_commands_of_the_readme_work() {
    commands_work("README.md");
}

#[test]
fn the_commands_of_the_api_document_work() {
    commands_work("docs/http-api.md");
}

#[test]
fn the_commands_of_the_flows_document_work() {
    commands_work("docs/flows.md");
}

#[test]
fn the_commands_of_the_plugins_document_work() {
    commands_work("docs/plugins.md");
}

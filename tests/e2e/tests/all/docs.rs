//! Every command in the documentation works as it stands there.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use windlass_e2e::Server;

/// Runs each `curl` line of a document in order, on one server. An id in a line stands for the job enqueued last.
#[track_caller]
fn commands_work(document: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(document)).expect("the document");
    let server = Server::start();
    server.upload("digest", "demo.digest");
    let mut job = String::new();
    let mut commands = 0;
    for line in text.lines().filter(|line| line.starts_with("curl ")) {
        let mut command = line.replace("localhost:7070", server.url("").trim_start_matches("http://"));
        if let Ok(folder) = std::env::var("WINDLASS_PLUGINS") {
            command = command.replace("@target/plugins", &format!("@{folder}"));
        }
        if let Some(at) = command.find("job_0") {
            assert!(!job.is_empty(), "no job was enqueued before: {line}");
            command.replace_range(at..at + job.len(), &job);
        }
        let script = format!("{command} --silent --show-error --fail-with-body");
        let output = Command::new("bash").args(["-c", &script]).current_dir(&root).output().expect("bash and curl");
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{line}\n{answer}{}", String::from_utf8_lossy(&output.stderr));
        if let Ok(answer) = serde_json::from_str::<Value>(&answer)
            && let Some(id) = answer["job_id"].as_str()
        {
            id.clone_into(&mut job);
        }
        commands += 1;
    }
    assert!(commands > 2, "{document} has only {commands} commands");
}

#[test]
fn the_commands_of_the_readme_work() {
    commands_work("README.md");
}

#[test]
fn the_commands_of_the_api_document_work() {
    commands_work("docs/http-api.md");
}

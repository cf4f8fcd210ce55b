//! Every command in the documentation works as written. [`DOCUMENTS`] lists how each document is tested; a document
//! with commands that is not listed fails a test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use windlass_e2e::{Data, Server, windlass};

/// How the commands of a document are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// In order, on one server.
    OnAServer,
    /// In a folder with a component, a payload and the other files that they name.
    InAFolder,
    /// They create and build plugins.
    Building,
    /// They take minutes, or run this test: only that the commands exist.
    InForm,
}

const DOCUMENTS: [(&str, How); 18] = [
    ("README.md", How::OnAServer),
    ("CONTRIBUTING.md", How::InForm),
    ("docs/http-api.md", How::OnAServer),
    ("docs/access.md", How::OnAServer),
    ("docs/flows.md", How::OnAServer),
    ("docs/plugins.md", How::OnAServer),
    ("docs/sandbox.md", How::InAFolder),
    // They name services, webhooks and files with secrets that are not there.
    ("docs/webhooks.md", How::InForm),
    // A separate server is started by hand.
    ("docs/operating.md", How::InForm),
    ("docs/performance.md", How::InForm),
    ("docs/plugin-guide.md", How::Building),
    ("examples/README.md", How::InForm),
    ("guest-sdk/c/README.md", How::InForm),
    ("guest-sdk/go/README.md", How::InForm),
    ("guest-sdk/js/README.md", How::InForm),
    ("guest-sdk/python/README.md", How::InForm),
    ("guest-sdk/rust/README.md", How::InForm),
    ("plugins/tree-diff/README.md", How::InForm),
];

/// The words that commands begin with.
const PROGRAMS: [&str; 12] =
    ["windlass", "curl", "make", "cargo", "python3", "pip", "npm", "node", "go", "rustup", "bash", "git"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of a document's code blocks that are commands, without a prompt before them.
fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"));
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            continue;
        }
        let command = line.strip_prefix("$ ").unwrap_or(line);
        let mut words = command.split(' ').skip_while(|word| word.starts_with("WINDLASS_") && word.contains('='));
        let (program, next) = (words.next().unwrap_or_default(), words.next());
        // A line of code may begin with such a word as well.
        if inside && PROGRAMS.contains(&program) && next.is_some_and(|next| next != "=") {
            found.push(command.to_owned());
        }
    }
    found
}

/// All documents below a folder.
fn documents(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "windlass-data"].contains(&&*name) {
            documents(&path, found);
        } else if name.ends_with(".md") {
            let relative = path.strip_prefix(root()).expect("below the root");
            found.push(relative.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn every_document_with_commands_is_tested() {
    let mut all = Vec::new();
    documents(&root(), &mut all);
    assert!(all.len() > 20, "{all:?}");
    for document in all {
        let known = DOCUMENTS.iter().any(|(name, _)| *name == document);
        assert!(
            known || commands(&document).is_empty(),
            "{document} has commands: say in DOCUMENTS how they are tried"
        );
    }
    for (document, _) in DOCUMENTS {
        assert!(!commands(document).is_empty(), "{document} has no commands any more");
    }
}

/// The widest line of prose.
const WIDTH: usize = 120;

/// The lines of prose that are too long. Code and tables may be wider, and so may what cannot be wrapped.
fn too_long(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"));
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        }
        let is_code = inside || line.starts_with("    ");
        let may_be_wide = is_code || line.trim_start().starts_with(['|', '<', '[', '!']) || !line.trim().contains(' ');
        if !may_be_wide && line.chars().count() > WIDTH {
            found.push(format!("{document}:{}", number + 1));
        }
    }
    found
}

#[test]
fn lines_of_prose_are_at_most_120_characters_long() {
    let mut all = Vec::new();
    documents(&root(), &mut all);
    let found: Vec<_> = all.iter().flat_map(|document| too_long(document)).collect();
    assert!(found.is_empty(), "wrap these lines at {WIDTH} characters: {}", found.join(", "));
}

/// Runs a line in a shell, with the program under test for `windlass`.
fn shell(command: &str, folder: &Path, server: Option<&Server>) -> Output {
    let script = match command.strip_prefix("windlass ") {
        Some(rest) => format!("{:?} {rest}", windlass().get_program()),
        // The documents say once that curl needs the key.
        None if command.starts_with("curl ") && command.contains("X-API-Key") => {
            format!("{command} --silent --show-error --fail-with-body")
        }
        None if command.starts_with("curl ") => {
            format!("{command} --header \"X-API-Key: $WINDLASS_API_KEY\" --silent --show-error --fail-with-body")
        }
        None => command.to_owned(),
    };
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(folder);
    if let Some(server) = server {
        server.tell(&mut shell);
    }
    shell.output().expect("there is a bash")
}

#[track_caller]
fn went_well(line: &str, output: &Output) -> String {
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}\n{answer}{}", String::from_utf8_lossy(&output.stderr));
    answer
}

/// Runs all commands of a document in order. An id in a line is replaced by that of the job enqueued last, and a digest
/// by that of a second version.
#[track_caller]
fn commands_work(document: &str) {
    let root = root();
    let folder = tempfile::tempdir().expect("a folder to grant");
    let granted = folder.path().display().to_string();
    let server = Server::start_on(&Data::new(), &["--grant-root", &granted]);
    server.upload("digest", "demo.digest");
    let second = second_version(&server);
    let mut job = String::new();
    let mut workers = Vec::new();
    for line in commands(document).iter().filter(|line| !line.starts_with("windlass serve")) {
        let mut command = line.replace("localhost:7070", server.url("").trim_start_matches("http://"));
        command = command.replace("windlass-data", &server.data().path().display().to_string());
        command = command.replace("3fa85f64", &second[..8]).replace("/srv/data", &granted);
        if let Ok(folder) = std::env::var("WINDLASS_PLUGINS") {
            command = command.replace("target/plugins", &folder);
        }
        if let Some(at) = command.find("job_0") {
            assert!(!job.is_empty(), "no job was enqueued before: {line}");
            command.replace_range(at..at + job.len(), &job);
        }
        if command.starts_with("make ") {
            went_well(line, &in_form(&command));
        } else if command.contains("examples/worker.py") {
            workers.push(Worker::start(&command, &root, &server));
        } else {
            let answer = went_well(line, &shell(&command, &root, Some(&server)));
            if let Ok(answer) = serde_json::from_str::<Value>(&answer)
                && let Some(id) = answer["job_id"].as_str()
            {
                id.clone_into(&mut job);
            }
        }
    }
}

/// The digest of a version that is stored and not active.
fn second_version(server: &Server) -> String {
    let component = windlass_e2e::variant(&windlass_e2e::plugin("digest"), 2);
    let stored = server.put("/api/v1/plugins/digest?activate=false", &component);
    assert!(stored.status < 300, "{stored:?}");
    let plugin = server.get("/api/v1/plugins/digest").body;
    let versions = plugin["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let other = versions.iter().find(|version| version["version"] != plugin["active"]);
    other.and_then(|version| version["version"].as_str()).expect("a second version").to_owned()
}

/// A worker that a document starts, until its other commands have been run.
struct Worker(Child);

impl Worker {
    fn start(command: &str, root: &Path, server: &Server) -> Worker {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec env {command}")]).current_dir(root);
        server.tell(shell.stdout(Stdio::null()).stderr(Stdio::null()));
        Worker(shell.spawn().expect("there is a bash"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the command exists, without running it.
fn in_form(line: &str) -> Output {
    let command = line.split(" #").next().unwrap_or_default().trim_end();
    match command.split_once(' ') {
        Some(("make", rest)) => shell(&format!("make -n {rest}"), &root(), None),
        Some(("windlass", rest)) => shell(&format!("windlass {rest} --help"), &root(), None),
        _ => Command::new("bash").args(["-n", "-c", command]).output().expect("there is a bash"),
    }
}

#[test]
fn commands_that_take_minutes_exist() {
    for (document, _) in DOCUMENTS.iter().filter(|(_, how)| *how == How::InForm) {
        for line in commands(document) {
            went_well(&format!("{document}: {line}"), &in_form(&line));
        }
    }
    let wrong = in_form("windlass status --no-such-flag");
    assert!(!wrong.status.success(), "a flag that is not there is noticed");
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

#[test]
fn the_commands_of_the_sandbox_document_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("room");
    put("plugin.wasm", &windlass_e2e::plugin("digest"));
    put("order.json", br#"{"text": "hello"}"#);
    std::fs::create_dir(folder.path().join("data")).expect("room");
    for line in commands("docs/sandbox.md") {
        // The value of a secret is read from the environment.
        let output = shell(&format!("export token=a-long-and-random-value; {}", ours(&line)), folder.path(), None);
        let answer = went_well(&line, &output);
        assert!(answer.contains("2cf24dba"), "the digest of hello: {line}\n{answer}");
    }
}

/// A line that calls the program under test.
fn ours(line: &str) -> String {
    let rest = line.strip_prefix("windlass ").unwrap_or_else(|| panic!("not a command of ours: {line}"));
    format!("{:?} {rest}", windlass().get_program())
}

/// For every language; the commands themselves install what it needs besides its compiler. The folder is the same each
/// time, so that cargo finds the crates that it has already compiled.
#[test]
fn the_commands_of_the_plugin_guide_work() {
    let server = Server::start();
    let target = root().canonicalize().expect("the repository").join("target");
    let folder = target.join("guide");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut languages = 0;
    for (document, _) in DOCUMENTS.iter().filter(|(_, how)| *how == How::Building) {
        for line in commands(document) {
            let began = std::time::Instant::now();
            let built = format!("export CARGO_TARGET_DIR={:?}; {}", target.join("guests"), ours(&line));
            let answer = went_well(&line, &shell(&built, &folder, Some(&server)));
            if line.starts_with("windlass enqueue") {
                assert!(answer.contains("55"), "1 + … + 10: {line}\n{answer}");
                languages += 1;
            }
            println!("{:>8.1?}  {line}", began.elapsed());
        }
    }
    assert_eq!(languages, 6, "the guide walks every language");
}

/// `make recording` creates it again.
#[test]
fn the_recording_is_small_and_shows_a_job_that_survived_a_kill() {
    let picture = std::fs::read_to_string(root().join("docs/demo.svg")).expect("docs/demo.svg");
    assert!(picture.len() < 150_000, "{} bytes", picture.len());
    for absent in ["<script", "<foreignObject", "href=", "url(", "/home/", "/root/", "/tmp/"] {
        assert!(!picture.contains(absent), "{absent} has no place in it");
    }
    for shown in ["kill -9", "Killed", "the server stopped while this attempt ran", "step 24 of 24"] {
        assert!(picture.contains(shown), "{shown:?} is not in it");
    }
}

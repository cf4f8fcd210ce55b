//! A first handler from an SDK's README alone: its files are put into the folder that `windlass plugin new` creates,
//! and are built, do what the README says, and pass the test in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use windlass_e2e::{Server, windlass};

const SDKS: [&str; 5] = ["rust", "go", "python", "js", "c"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn readme(sdk: &str) -> String {
    fs::read_to_string(root().join("guest-sdk").join(sdk).join("README.md")).expect("every SDK has a README")
}

/// The code blocks of a document whose first line is a comment with the name of a file.
fn files(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    let named = blocks.filter_map(|block| {
        let (_, code) = block.split_once('\n')?;
        let name = code.lines().next()?.strip_prefix("# ").or_else(|| code.lines().next()?.strip_prefix("// "))?;
        (name.contains('.') && !name.contains(' ')).then(|| (name.to_owned(), code.to_owned()))
    });
    named.collect()
}

/// The commands of a document, except those that do not end. `windlass = …` is a line of a manifest.
fn commands(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("windlass "));
    lines.filter(|line| !["serve", "dev", "="].iter().any(|word| line.starts_with(word))).collect()
}

fn shell(script: &str, folder: &Path, server: &Server) -> Output {
    let mut shell = Command::new("bash");
    server.tell(shell.args(["-c", script]).current_dir(folder));
    shell.env("CARGO_TARGET_DIR", root().join("target/guests"));
    shell.output().expect("there is a bash")
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Follows the README of `sdk`, and returns the output of its first job's command.
#[track_caller]
fn follow(sdk: &str, test: &str) -> String {
    let (text, server, program) = (readme(sdk), Server::start(), windlass().get_program().to_owned());
    // The same folder each time, so that a compiler finds what it has already compiled.
    let folder = root().join("target/readmes").join(sdk);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    assert!(text.contains(test), "{sdk}: how to run the test is in the README: {test}");
    let mut answers = String::new();
    for line in commands(&text) {
        let output = shell(&format!("{program:?} {line}"), &folder, &server);
        assert!(output.status.success(), "{sdk}: windlass {line}\n{}", told(&output));
        answers = told(&output);
        if line.starts_with("plugin new") {
            let found = files(&text);
            assert!(found.len() >= 4, "{sdk}: a manifest, two files and a test, not {found:?}");
            for (name, code) in found {
                fs::write(folder.join("orders").join(name), code).expect("it can be written");
            }
        }
    }
    let tested = shell(test, &folder.join("orders"), &server);
    assert!(tested.status.success(), "{sdk}: {test}\n{}", told(&tested));
    // The second handler sends a request, which has not been granted yet.
    let refused =
        shell(&format!("{program:?} enqueue orders.price '\"pear\"' --max-attempts 1 --watch"), &folder, &server);
    assert!(told(&refused).contains("--http api.example.com"), "{sdk}: {}", told(&refused));
    answers
}

#[test]
fn a_first_handler_in_rust() {
    assert!(follow("rust", "cargo test").contains("42"));
}

#[test]
fn a_first_handler_in_go() {
    assert!(follow("go", "go test ./...").contains("42"));
}

#[test]
fn a_first_handler_in_python() {
    assert!(follow("python", "PYTHONPATH=sdk python3 -m unittest").contains("42"));
}

#[test]
fn a_first_handler_in_typescript() {
    assert!(follow("js", "npm test").contains("42"));
}

#[test]
fn a_first_handler_in_c() {
    // The sum of the bytes of `"abc"`, including the quotes.
    assert!(follow("c", "make test").contains("362"));
}

#[test]
fn all_readmes_have_the_same_sections() {
    let sections =
        |sdk| readme(sdk).lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect::<Vec<_>>();
    let first = sections("rust");
    assert!(first.len() > 10, "{first:?}");
    for sdk in SDKS {
        assert_eq!(sections(sdk), first, "guest-sdk/{sdk}/README.md");
    }
}

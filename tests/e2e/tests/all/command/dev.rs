//! `windlass dev` on a terminal, with a source that changes and keys that are pressed.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use windlass_e2e::{Server, eventually, windlass};

/// How long building and compiling a runtime may take, on a machine that is busy with other tests.
const PREPARED: Duration = Duration::from_secs(400);

/// A program on its own terminal, and everything that it has printed there.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// `script` provides the terminal, and passes on what is typed.
    fn start(line: &str, url: &str) -> Terminal {
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", line, "/dev/null"]).env("WINDLASS_URL", url);
        command.env("XDG_STATE_HOME", windlass_e2e::state_home());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program `script`");
        let (keys, mut screen) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let shown = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&shown);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                all.lock().expect("nobody panics with it").push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Terminal { child, keys, shown }
    }

    fn press(&mut self, key: &[u8]) {
        self.keys.write_all(key).and_then(|()| self.keys.flush()).expect("the terminal takes it");
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("nobody panics with it").clone()
    }

    /// Waits until the text has been printed this many times.
    #[track_caller]
    fn until(&self, text: &str, times: usize) {
        eventually(&format!("{text:?} is shown {times} times"), || self.has(text, times).then_some(()));
    }

    /// The same where a runtime may have to be built and compiled first.
    #[track_caller]
    fn until_prepared(&self, text: &str) {
        let began = Instant::now();
        while !self.has(text, 1) {
            assert!(began.elapsed() < PREPARED, "not within {PREPARED:?}: {text:?} is shown");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn has(&self, text: &str, times: usize) -> bool {
        self.shown().matches(text).count() >= times
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- what the terminal showed ---\n{}\n--------------------------------", self.shown());
        }
    }
}

fn change(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("the source");
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).expect("saved");
}

#[test]
fn each_save_builds_and_swaps_the_plugin_and_a_key_runs_the_last_job_again() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let made = windlass().args(["plugin", "new", "count", "--lang", "c"]).current_dir(folder.path()).status();
    assert!(made.expect("windlass").success());
    let source = folder.path().join("count/handler.c");
    let program = windlass().get_program().to_owned();
    let line = format!("{program:?} dev {:?} --payload '{{\"steps\": 3}}'", folder.path().join("count"));
    let mut terminal = Terminal::start(&line, &server.url(""));
    let (six, twelve) = ("completed: {\"sum\":6}", "completed: {\"sum\":12}");

    terminal.until(six, 1);
    terminal.until("3/3 counting", 1);
    terminal.press(b"r");
    terminal.until(six, 2);

    change(&source, "at.sum += at.done;", "at.sum += 2 * at.done; wl_log(ctx, WL_INFO, \"doubling\");");
    terminal.until("is active", 2);
    terminal.press(b"r");
    terminal.until(twelve, 1);
    let shown = terminal.shown();
    let (log, end) = (shown.rfind("info  doubling"), shown.rfind(twelve));
    assert!(log.is_some() && log < end, "the log comes in its place");

    change(&source, "at.done++;", "at.done++");
    terminal.until("the build failed: zig cc", 1);
    terminal.until("the version on the server stays active", 1);
    terminal.press(b"r");
    terminal.until(twelve, 2);
    change(&source, "at.done++", "at.done++;");
    terminal.until("is already active: nothing has changed", 1);
    change(&source, "at.sum += 2 * at.done; wl_log(ctx, WL_INFO, \"doubling\");", "at.sum += at.done;");
    terminal.until(", which the server had before, is active again", 1);
    terminal.press(b"r");
    terminal.until(six, 3);

    // Ctrl-C, as a terminal in raw mode sends it.
    terminal.press(b"\x03");
    let status = eventually("it ends", || terminal.child.try_wait().expect("our own child"));
    assert!(status.success(), "{status}");
}

/// A plugin whose sources are run by a prepared runtime, and what happens to its file.
struct Sample {
    lang: &'static str,
    file: &'static str,
    /// Files that do not change.
    others: &'static [(&'static str, &'static str)],
    text: &'static str,
    /// A change to the file and what the handler then returns.
    doubled: [&'static str; 2],
    /// A change that makes the handler fail, and what is shown: its own file and line.
    failing: [&'static str; 2],
    traceback: &'static [&'static str],
    /// A change that cannot be loaded, and the message about it.
    broken: [&'static str; 2],
    complaint: &'static str,
}

const PYTHON: Sample = Sample {
    lang: "python",
    file: "app.py",
    // A package without an __init__.py, a module that the SDK does not import by itself, and a file that is read on
    // import.
    others: &[
        (
            "parts/sums.py",
            "import csv, io\n\n\ndef double(text):\n    return [2 * int(cell) for cell in next(csv.reader(io.StringIO(text)))]\n",
        ),
        ("words.txt", "one two"),
    ],
    text: r#"import logging
from pathlib import Path

import windlass
from parts import sums

WORDS = Path(__file__).with_name("words.txt").read_text().split()


@windlass.handler("sums")
def work(ctx: windlass.Context, order: dict) -> list:
    logging.info("at work")
    return [len(WORDS)] + sums.double(order["text"])
"#,
    doubled: ["[len(WORDS)]", "[2 * len(WORDS)]"],
    failing: ["sums.double(order[\"text\"])", "sums.double(order[\"no\"])"],
    traceback: &["dead: KeyError: 'no'", "File \"app.py\", line 13, in work", "sums.double(order[\"no\"])"],
    broken: ["    return [", "    return [["],
    complaint: "SyntaxError: '[' was never closed",
};

const JAVASCRIPT: Sample = Sample {
    lang: "js",
    file: "app.js",
    others: &[(
        "parts/sums.js",
        "export const double = (text) =>\n  text.split(\",\").map((cell) => 2 * Number(cell));\n",
    )],
    text: r#"import { handler } from "windlass";
import { double } from "./parts/sums.js";

const WORDS = "one two".split(" ");

handler("sums", async (ctx, order) => {
  console.log("at work");
  return [WORDS.length, ...double(order.text)];
});
"#,
    doubled: ["[WORDS.length", "[2 * WORDS.length"],
    failing: ["double(order.text)", "double(order.no)"],
    traceback: &[
        "dead: TypeError: cannot read property 'split' of undefined",
        "at double (parts/sums.js:2)",
        "(app.js:8)",
    ],
    broken: ["handler(\"sums\"", "handle(\"sums\""],
    complaint: "ReferenceError: handle is not defined",
};

#[test]
fn a_save_in_python_is_swapped_in_without_a_build_and_without_a_compile() {
    prepared(&PYTHON);
}

#[test]
fn a_save_in_javascript_is_swapped_in_without_a_build_and_without_a_compile() {
    let server = prepared(&JAVASCRIPT);
    let folder = tempfile::tempdir().expect("a folder");
    let project = write(&JAVASCRIPT, folder.path());
    let pushed = windlass().args(["plugin", "push"]).arg(&project).env("WINDLASS_URL", server.url("")).status();
    assert!(pushed.expect("windlass").success());
    let plugin = server.get("/api/v1/plugins/sums").body;
    let versions = plugin["versions"].as_array().expect("a list");
    let runs_sources = |active: bool| {
        let chosen = versions.iter().filter(|version| (version["version"] == plugin["active"]) == active);
        chosen.map(|version| version["imports"].to_string().contains("windlass:dev/sources")).collect::<Vec<_>>()
    };
    assert_eq!(runs_sources(true), [false], "what is pushed is a build: {plugin:#}");
    assert!(runs_sources(false).iter().all(|runs| *runs), "{plugin:#}");
}

/// Writes the plugin into a folder.
fn write(sample: &Sample, folder: &Path) -> PathBuf {
    let made = windlass().args(["plugin", "new", "sums", "--lang", sample.lang]).current_dir(folder).status();
    assert!(made.expect("windlass").success());
    let project = folder.join("sums");
    for (name, text) in sample.others.iter().chain(&[(sample.file, sample.text)]) {
        let path = project.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("room");
    }
    project
}

/// Saves a change, one that fails, undoes it and saves one that cannot be loaded, running the last job after each.
fn prepared(sample: &Sample) -> Server {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let project = write(sample, folder.path());
    let source = project.join(sample.file);
    let program = windlass().get_program().to_owned();
    let line = format!("{program:?} dev {project:?} --rerun --payload '{{\"text\": \"1,2\"}}'");
    let mut terminal = Terminal::start(&line, &server.url(""));
    let compiled = || std::fs::read_dir(server.data().path().join("compiled")).expect("a folder").count();

    terminal.until_prepared("completed: [2,2,4]");
    assert!(terminal.shown().contains("info  at work"), "its log");
    let (built, before) = (terminal.shown().matches("building (").count(), compiled());

    change(&source, sample.doubled[0], sample.doubled[1]);
    terminal.until("completed: [4,2,4]", 1);
    change(&source, sample.failing[0], sample.failing[1]);
    for text in sample.traceback {
        terminal.until(text, 1);
    }
    change(&source, sample.failing[1], sample.failing[0]);
    terminal.until(", which the server had before, is active again", 1);
    terminal.until("completed: [4,2,4]", 2);
    change(&source, sample.broken[0], sample.broken[1]);
    terminal.until(sample.complaint, 1);
    terminal.until("the version on the server stays active", 1);
    change(&source, sample.broken[1], sample.broken[0]);
    terminal.until("is already active: nothing has changed", 1);
    terminal.until("completed: [4,2,4]", 3);

    assert_eq!((terminal.shown().matches("building (").count(), compiled()), (built, before), "a save builds nothing");
    terminal.press(b"q");
    terminal.until("`windlass plugin push` replaces it with the built component", 1);
    server
}

//! `windlass dev` as somebody uses it: on a terminal, with a source that changes and keys that are pressed.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use windlass_e2e::{Server, eventually, windlass};

/// A program on a terminal of its own, and all that it has shown there.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// `script` gives it the terminal, and hands on what is typed.
    fn start(line: &str, url: &str) -> Terminal {
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", line, "/dev/null"]).env("WINDLASS_URL", url);
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

    /// Waits until the text has been shown so many times.
    #[track_caller]
    fn until(&self, text: &str, times: usize) {
        eventually(&format!("{text:?} is shown {times} times"), || {
            (self.shown().matches(text).count() >= times).then_some(())
        });
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
fn at_each_save_the_plugin_is_built_and_swapped_and_a_key_runs_the_last_job_again() {
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
    terminal.until("what the server has stays active", 1);
    terminal.press(b"r");
    terminal.until(twelve, 2);
    change(&source, "at.done++", "at.done++;");
    terminal.until("is unchanged", 1);

    // Ctrl-C, as a terminal that gives single keys sends it.
    terminal.press(b"\x03");
    let status = eventually("it ends", || terminal.child.try_wait().expect("our own child"));
    assert!(status.success(), "{status}");
}

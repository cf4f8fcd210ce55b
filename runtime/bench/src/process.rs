//! Processes that are measured: each listens on its own port and is killed when it is dropped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

pub struct Process {
    child: Child,
    pub url: String,
}

impl Process {
    /// A Windlass server on a data folder.
    pub fn serve(dir: &Path) -> anyhow::Result<Process> {
        let mut command = Command::new(windlass()?);
        command.args(["serve", "--insecure", "--listen", "127.0.0.1:0", "--data"]).arg(dir);
        Process::start(command)
    }

    /// The same, where every request needs a key: this one is that of an admin.
    pub fn serve_with_key(dir: &Path, key: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(windlass()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir).env("WINDLASS_API_KEY", key);
        Process::start(command)
    }

    /// The bare HTTP server that Windlass is measured against.
    pub fn echo() -> anyhow::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("echo");
        Process::start(command)
    }

    /// Waits until it prints the address that it listens on.
    fn start(mut command: Command) -> anyhow::Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let stderr = child.stderr.take().context("no pipe")?;
        let mut lines = BufReader::new(stderr).lines();
        let found = |line: String| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned());
        let Some(url) = lines.by_ref().map_while(Result::ok).find_map(found) else {
            let _ = child.kill();
            bail!("{command:?} did not start; run it by hand to see why");
        };
        // Its further output is read, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Process { child, url })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program to measure: `WINDLASS_BIN`, or the `windlass` in the same folder as this program.
fn windlass() -> anyhow::Result<PathBuf> {
    let path = match std::env::var_os("WINDLASS_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("windlass"),
    };
    if !path.is_file() {
        bail!(
            "{} does not exist; build it with `cargo build --release -p windlass`, or name another in WINDLASS_BIN",
            path.display()
        );
    }
    Ok(path)
}

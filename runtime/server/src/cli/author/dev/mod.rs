//! `windlass dev`: activates each save and shows what the jobs do; on a key, or after each save, the last job runs
//! again.
//!
//! Python, JavaScript and TypeScript are not built at a save: `prepared` uploads their sources together with a runtime
//! that was built once. `jobs` shows the jobs and knows which was the last, `keys` listens to the terminal.

mod jobs;
mod keys;
mod prepared;
mod swap;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use notify::{RecursiveMode, Watcher};
use serde_json::Value;

use crate::cli::author::project::Project;
use crate::cli::client::Remote;
use jobs::Jobs;
use keys::{Keys, say};
use swap::Swapper;

/// Watch a plugin's folder: activate each save, show the jobs' log, run the last job again on a key or after each save
///
/// Rust, Go and C are built at each save. Python, JavaScript and TypeScript are not: their sources are run by a runtime
/// that is built once, so a save takes less than two seconds. `windlass plugin push` uploads the real build.
///
/// Needs a running server that is your own, because each save becomes the active version there. Keys: r runs the last
/// job again, a does so after each save, b builds again, q stops.
#[derive(Debug, Args)]
pub struct Dev {
    /// The plugin's folder, with a windlass.toml in it
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Enqueue a job with this payload at the start
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Run the last job again after each save
    #[arg(long)]
    rerun: bool,
    /// Build a whole component at each save, also for Python, JavaScript and TypeScript
    #[arg(long)]
    full_build: bool,
    /// Activate a save without first checking its types and loading its modules (Python, JavaScript, TypeScript)
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    remote: Remote,
}

/// What the command reacts to.
enum DevEvent {
    Saved,
    Key(char),
    Stop,
}

/// Several files are often saved at once.
const SETTLE: Duration = Duration::from_millis(100);
/// Folders of build and test output, whose changes do not start a build.
const IGNORED: [&str; 8] = ["build", "target", "node_modules", "__pycache__", ".git", "dist", ".venv", "zig-out"];

impl Dev {
    pub fn run(self) -> anyhow::Result<()> {
        let project = Project::open(&self.dir)?;
        let remote = Arc::new(self.remote);
        let payload: Option<Value> =
            self.payload.as_deref().map(serde_json::from_str).transpose().context("--payload is not JSON")?;
        let (sender, events) = mpsc::channel();
        let _watcher = watch(&project.folder, sender.clone())?;
        let swapper = Swapper::new(&remote, &project, self.full_build, !self.no_check)?;
        let jobs = Jobs::follow(&remote, &project);
        let mut session = Session { jobs, swapper, rerun: self.rerun };
        session.swapper.swap();
        let keys = Keys::listen(sender);
        if keys.on {
            say("watching; r runs the last job again, a does so after each save, b builds, q ends");
        } else {
            say("watching; Ctrl-C ends");
        }
        if let Some(payload) = payload {
            session.jobs.begin_with(project.queues().swap_remove(0), payload);
            session.jobs.again();
        }
        session.attend(&events);
        drop(keys);
        session.swapper.farewell();
        Ok(())
    }
}

struct Session {
    jobs: Jobs,
    swapper: Swapper,
    /// Whether the last job runs again after each save.
    rerun: bool,
}

impl Session {
    fn attend(&mut self, events: &Receiver<DevEvent>) {
        while let Ok(what) = events.recv() {
            match what {
                DevEvent::Saved => {
                    // All changes within a moment are one save; a key pressed meanwhile is handled afterwards.
                    thread::sleep(SETTLE);
                    let keys: Vec<DevEvent> =
                        events.try_iter().filter(|more| !matches!(more, DevEvent::Saved)).collect();
                    self.swap();
                    if keys.iter().any(|more| self.ends(more)) {
                        return;
                    }
                }
                other => {
                    if self.ends(&other) {
                        return;
                    }
                }
            }
        }
    }

    fn swap(&mut self) {
        if self.swapper.swap() && self.rerun && self.jobs.any() {
            self.jobs.again();
        }
    }

    /// Handles a key; true if it ends the command.
    fn ends(&mut self, what: &DevEvent) -> bool {
        match what {
            DevEvent::Key('r' | '\n' | ' ') => self.jobs.again(),
            DevEvent::Key('a') => {
                self.rerun = !self.rerun;
                let when = if self.rerun { "after each save" } else { "only when you press r" };
                say(&format!("the last job runs again {when}"));
            }
            DevEvent::Key('b') => self.swap(),
            DevEvent::Key('q') | DevEvent::Stop => return true,
            DevEvent::Key(_) | DevEvent::Saved => {}
        }
        false
    }
}

fn watch(folder: &Path, sender: Sender<DevEvent>) -> anyhow::Result<impl Watcher> {
    let root = folder.to_path_buf();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        let changed = event.kind.is_modify() || event.kind.is_create() || event.kind.is_remove();
        if changed && event.paths.iter().any(|path| is_source(path.strip_prefix(&root).unwrap_or(path))) {
            let _ = sender.send(DevEvent::Saved);
        }
    })
    .context("cannot watch files on this system")?;
    watcher.watch(folder, RecursiveMode::Recursive).with_context(|| format!("cannot watch {}", folder.display()))?;
    Ok(watcher)
}

/// Whether a change of this file should start a build.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let scratch = name.ends_with('~')
        || name.ends_with(".swp")
        || name.starts_with(".#")
        || name == "4913"
        || name.ends_with(".lock");
    !scratch && !path.components().any(|part| IGNORED.iter().any(|passed| part.as_os_str() == *passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_does_not_start_a_build() {
        for source in ["src/lib.rs", "windlass.toml", "app.py", "sdk/windlass.h"] {
            assert!(is_source(Path::new(source)), "{source}");
        }
        for product in
            ["build/x.wasm", "target/debug/x", "sdk/__pycache__/a.pyc", ".git/index", "src/lib.rs~", "Cargo.lock"]
        {
            assert!(!is_source(Path::new(product)), "{product}");
        }
    }
}

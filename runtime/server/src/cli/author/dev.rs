//! `windlass dev`: at each save, build, swap, and show what the jobs say; one key runs the last job again.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use notify::{RecursiveMode, Watcher};
use ratatui::crossterm::event::{self, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal;
use serde_json::{Value, json};

use super::build::build;
use super::project::Project;
use super::push::upload;
use crate::cli::client::{Event, Remote, part};
use crate::cli::watch::log_line;

/// Watch a plugin's folder: build and swap at each save, show the jobs' log, run the last job again on a key
#[derive(Debug, Args)]
pub struct Dev {
    /// The plugin's folder
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// A job to begin with: its payload, as JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// What happens around it.
enum Happened {
    Saved,
    Key(char),
    Stop,
}

/// Several files are often saved at once.
const SETTLE: Duration = Duration::from_millis(150);
/// How long a stream that broke is left alone before it is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// How much of a result is shown.
const RESULT_CHARACTERS: usize = 2_000;
/// What building and testing leaves behind: no reason to build again.
const PASSED_OVER: [&str; 8] = ["build", "target", "node_modules", "__pycache__", ".git", "dist", ".venv", "zig-out"];

/// The job that the key starts again.
#[derive(Clone)]
struct Last {
    queue: String,
    payload: Value,
}

impl Dev {
    pub fn run(self) -> anyhow::Result<()> {
        let project = Project::open(&self.dir)?;
        let remote = Arc::new(self.remote);
        let last = Arc::new(Mutex::new(None));
        let (tell, happened) = mpsc::channel();
        let _watcher = watch(&project.folder, tell.clone())?;
        if let Some(payload) = &self.payload {
            let payload = serde_json::from_str(payload).context("--payload is no JSON")?;
            let queue = project.queues().swap_remove(0);
            *last.lock().expect("nobody panics with it") = Some(Last { queue, payload });
        }
        follow(&remote, &project, &last);
        swap(&remote, &project.folder);
        let keys = Keys::listen(tell);
        if keys.on {
            say("watching; r runs the last job again, b builds, q ends");
        } else {
            say("watching; Ctrl-C ends");
        }
        if self.payload.is_some() {
            again(&remote, &last);
        }
        attend(&remote, &project.folder, &happened, &last);
        Ok(())
    }
}

fn attend(remote: &Remote, folder: &Path, happened: &Receiver<Happened>, last: &Mutex<Option<Last>>) {
    while let Ok(what) = happened.recv() {
        match what {
            Happened::Saved => {
                // All that comes within a moment is one save; a key pressed meanwhile is kept.
                thread::sleep(SETTLE);
                let rest: Vec<Happened> = happened.try_iter().filter(|more| !matches!(more, Happened::Saved)).collect();
                swap(remote, folder);
                if rest.into_iter().any(|more| ended(remote, folder, &more, last)) {
                    return;
                }
            }
            other => {
                if ended(remote, folder, &other, last) {
                    return;
                }
            }
        }
    }
}

/// Does what a key says; true when it says to end.
fn ended(remote: &Remote, folder: &Path, what: &Happened, last: &Mutex<Option<Last>>) -> bool {
    match what {
        Happened::Key('r' | '\n' | ' ') => again(remote, last),
        Happened::Key('b') => swap(remote, folder),
        Happened::Key('q') | Happened::Stop => return true,
        Happened::Key(_) | Happened::Saved => {}
    }
    false
}

/// Builds and uploads. What is wrong is shown, and the version before stays active.
fn swap(remote: &Remote, folder: &Path) {
    let result = Project::open(folder).and_then(|project| {
        let component = project.component();
        calm(|| build(&project, &component))?;
        upload(remote, &project, &component, None, "swap=drain")
    });
    match result {
        Ok(plugin) => {
            let version = plugin["active"].as_str().unwrap_or_default();
            let fresh = if plugin["new_version"] == true { "is active" } else { "is unchanged" };
            say(&format!("version {} {fresh}", &version[..version.len().min(12)]));
        }
        Err(error) => say(&format!("{error:#}\nwhat the server has stays active")),
    }
}

fn again(remote: &Remote, last: &Mutex<Option<Last>>) {
    let Some(Last { queue, payload }) = last.lock().expect("nobody panics with it").clone() else {
        say("no job has been seen yet; start one with `windlass enqueue`, or begin with --payload");
        return;
    };
    if let Err(error) = remote.post("/enqueue", &json!({ "queue": queue, "payload": payload })) {
        say(&format!("{error:#}"));
    }
}

fn watch(folder: &Path, tell: Sender<Happened>) -> anyhow::Result<impl Watcher> {
    let root = folder.to_path_buf();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        let changed = event.kind.is_modify() || event.kind.is_create() || event.kind.is_remove();
        if changed && event.paths.iter().any(|path| is_source(path.strip_prefix(&root).unwrap_or(path))) {
            let _ = tell.send(Happened::Saved);
        }
    })
    .context("cannot watch files on this system")?;
    watcher.watch(folder, RecursiveMode::Recursive).with_context(|| format!("cannot watch {}", folder.display()))?;
    Ok(watcher)
}

/// Whether a file within the folder is worth a build.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let scratch = name.ends_with('~')
        || name.ends_with(".swp")
        || name.starts_with(".#")
        || name == "4913"
        || name.ends_with(".lock");
    !scratch && !path.components().any(|part| PASSED_OVER.iter().any(|passed| part.as_os_str() == *passed))
}

/// Looks for jobs in the plugin's queues, on a thread of its own, for as long as the command runs. Each is shown by a thread of
/// its own, from its own stream: there its log and its events come in the order in which they happened.
fn follow(remote: &Arc<Remote>, project: &Project, last: &Arc<Mutex<Option<Last>>>) {
    let (remote, last) = (Arc::clone(remote), Arc::clone(last));
    let path = format!("/events?queues={}", part(&project.queues().join(",")));
    thread::spawn(move || {
        let (mut id, mut met) = (None, HashSet::new());
        loop {
            if let Ok(Some(mut events)) = remote.events(&path, id.as_deref()) {
                while let Some(event) = events.next() {
                    meet(&remote, &event, &last, &mut met);
                    id = event.id.or(id);
                }
            }
            thread::sleep(PAUSE);
        }
    });
}

/// Remembers a job that is seen for the first time, and shows it from there on.
fn meet(remote: &Arc<Remote>, event: &Event, last: &Mutex<Option<Last>>, met: &mut HashSet<String>) {
    let Some(job) = event.data["job_id"].as_str().map(str::to_owned) else { return };
    if !met.insert(job.clone()) {
        return;
    }
    remember(remote, &job, last);
    let before = event.id.as_ref().and_then(|id| id.parse::<u64>().ok()).map(|id| id.saturating_sub(1).to_string());
    let remote = Arc::clone(remote);
    thread::spawn(move || tail(&remote, &job, before));
}

/// The job to run again, whatever the first word of it was.
fn remember(remote: &Remote, job: &str, last: &Mutex<Option<Last>>) {
    if let Ok(seen) = remote.get(&format!("/jobs/{}", part(job))) {
        let queue = seen["queue"].as_str().unwrap_or_default().to_owned();
        let met = Last { queue, payload: seen["payload"].clone() };
        *last.lock().expect("nobody panics with it") = Some(met);
    }
}

/// Shows a job from the event after `id` to its end. A stream that breaks is opened again.
fn tail(remote: &Remote, job: &str, mut id: Option<String>) {
    let mark = format!("…{}", &job[job.len().saturating_sub(6)..]);
    let path = format!("/jobs/{}/events?logs=true", part(job));
    loop {
        match remote.events(&path, id.as_deref()) {
            Ok(Some(mut events)) => {
                while let Some(event) = events.next() {
                    if let Some(line) = line(&event) {
                        say(&format!("{mark} {line}"));
                    }
                    if matches!(event.kind.as_str(), "completed" | "dead" | "cancelled" | "deleted") {
                        return;
                    }
                    id = event.id.or(id);
                }
            }
            // The job is gone.
            Ok(None) => return,
            Err(_) => {}
        }
        thread::sleep(PAUSE);
    }
}

/// What is said of an event; nothing of most.
fn line(event: &Event) -> Option<String> {
    let data = &event.data["data"];
    Some(match event.kind.as_str() {
        "started" => "started".to_owned(),
        "log" => log_line(data).trim_start().to_owned(),
        "progress" => {
            let message = data["message"].as_str().unwrap_or_default();
            match (data["current"].as_u64(), data["total"].as_u64()) {
                (Some(current), Some(total)) => format!("{current}/{total} {message}"),
                _ => message.to_owned(),
            }
        }
        "completed" => format!("completed: {}", short(data["result"].to_string())),
        "failed" | "dead" | "cancelled" => {
            let why = data["error"].as_str().or(data["reason"].as_str()).unwrap_or_default();
            format!("{}: {why}", event.kind)
        }
        _ => return None,
    })
}

/// A result of many pages would push everything else out of sight.
fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(RESULT_CHARACTERS) {
        text.truncate(end);
        text.push_str("… (`windlass job get` shows all of it)");
    }
    text
}

/// One line. A terminal that gives us single keys does not go back to the left by itself.
fn say(text: &str) {
    let end = if terminal::is_raw_mode_enabled().unwrap_or(false) { "\r\n" } else { "\n" };
    let mut out = std::io::stderr().lock();
    let text = text.replace('\n', end);
    let _ = write!(out, "{text}{end}");
}

/// Gives the terminal back while other programs print to it.
fn calm<T>(work: impl FnOnce() -> T) -> T {
    let raw = terminal::is_raw_mode_enabled().unwrap_or(false);
    if raw {
        let _ = terminal::disable_raw_mode();
    }
    let done = work();
    if raw {
        let _ = terminal::enable_raw_mode();
    }
    done
}

/// Single keys, where there is a terminal. Dropped, it gives the terminal back.
struct Keys {
    on: bool,
}

impl Keys {
    fn listen(tell: Sender<Happened>) -> Keys {
        let on = std::io::stdin().is_terminal() && terminal::enable_raw_mode().is_ok();
        if on {
            thread::spawn(move || {
                while let Ok(event) = event::read() {
                    let event::Event::Key(key) = event else { continue };
                    let told = match key.code {
                        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Happened::Stop,
                        KeyCode::Char(letter) => Happened::Key(letter),
                        KeyCode::Enter => Happened::Key('\n'),
                        _ => continue,
                    };
                    if tell.send(told).is_err() {
                        return;
                    }
                }
            });
        }
        Keys { on }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if self.on {
            let _ = terminal::disable_raw_mode();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_result_is_cut_between_two_characters() {
        assert_eq!(short("{}".to_owned()), "{}");
        let long = short("é".repeat(3_000));
        assert!(long.starts_with("éé") && long.contains("… (`windlass job get`") && long.len() < 4_100, "{long}");
    }

    #[test]
    fn what_a_build_writes_is_no_reason_to_build() {
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

//! `windlass top`: a live dashboard in the terminal. A separate thread queries the server, so that keys work while it
//! waits.
//!
//! Reading order: `view` (what is known and what is selected), `layout` (how columns share the width), `draw` (how it
//! looks).

mod draw;
mod layout;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::{Value, json};

use self::view::{Key, Snapshot, View};
use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;

/// Show queues, running jobs, workers and plugins, live
#[derive(Debug, Args)]
pub struct Top {
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    every: f64,

    #[command(flatten)]
    remote: Remote,
}

/// How soon a key is noticed.
const KEYS: Duration = Duration::from_millis(100);
/// How many running jobs are requested.
const JOBS: usize = 100;

/// Requests to the server that keys cause.
enum KeyAction {
    Pause { queue: String, paused: bool },
}

impl Top {
    pub fn run(self) -> anyhow::Result<()> {
        if !(0.1..=3600.0).contains(&self.every) {
            bail!("--every {} is out of range; choose between 0.1 and 3600 seconds", self.every);
        }
        // The first response comes before the screen is switched, so that an error stays readable.
        let first = snapshot(&self.remote)?;
        if self.remote.json() {
            return show::json(&first);
        }
        if !std::io::stdout().is_terminal() {
            bail!("`windlass top` needs a terminal; for programs there is --output json");
        }
        let (snapshots, news) = mpsc::channel();
        let (actions, wanted) = mpsc::channel();
        let every = Duration::from_secs_f64(self.every);
        thread::spawn(move || ask(&self.remote, every, &wanted, &snapshots));
        let mut terminal = ratatui::try_init().context("the terminal cannot be switched to full screen")?;
        let ended = watch(&mut terminal, View::new(Snapshot::read(&first)), &news, &actions);
        ratatui::restore();
        ended
    }
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    mut view: View,
    news: &Receiver<anyhow::Result<Value>>,
    actions: &Sender<KeyAction>,
) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut view))?;
        if event::poll(KEYS)? {
            // Any other event, such as a new size, causes a redraw.
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let key = match key.code {
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
                    KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
                    KeyCode::Char('s') => Key::Sort,
                    KeyCode::Char('p') => Key::Pause,
                    KeyCode::Up | KeyCode::Char('k') => Key::Up,
                    KeyCode::Down | KeyCode::Char('j') => Key::Down,
                    _ => continue,
                };
                if key == Key::Quit {
                    return Ok(());
                }
                if let Some((queue, paused)) = view.press(key) {
                    let _ = actions.send(KeyAction::Pause { queue, paused });
                }
            }
        }
        while let Ok(snapshot) = news.try_recv() {
            match snapshot {
                Ok(value) => view.take(Snapshot::read(&value)),
                Err(error) => view.trouble = Some(format!("{error:#}")),
            }
        }
    }
}

/// Queries the server periodically, and immediately after a key action.
fn ask(remote: &Remote, every: Duration, wanted: &Receiver<KeyAction>, snapshots: &Sender<anyhow::Result<Value>>) {
    loop {
        match wanted.recv_timeout(every) {
            Ok(KeyAction::Pause { queue, paused }) => {
                let action = if paused { "pause" } else { "resume" };
                if let Err(error) = remote.post(&format!("/queues/{}/{action}", part(&queue)), &json!({})) {
                    let _ = snapshots.send(Err(error));
                    continue;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if snapshots.send(snapshot(remote)).is_err() {
            return;
        }
    }
}

/// Everything that is shown, as the server returns it.
fn snapshot(remote: &Remote) -> anyhow::Result<Value> {
    let info = remote.get("/info")?;
    Ok(json!({
        "server_version": info["server_version"],
        "paused": info["paused"],
        "stats": remote.get("/jobs/stats")?,
        "queues": remote.get("/queues")?,
        "jobs": remote.get(&format!("/jobs?state=active&limit={JOBS}"))?["jobs"],
        "workers": remote.get("/workers")?,
        "plugins": remote.get("/plugins")?["plugins"],
    }))
}

//! Watching a job to its end: a progress bar, the phase and the message, and the log as it is written.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::cli::client::{Event, Remote, part};
use crate::cli::terminal::interrupt::on_interrupt;
use crate::cli::terminal::show;

/// Exit statuses of commands that wait for a job.
const DEAD: u8 = 1;
const CANCELLED: u8 = 3;
pub const NOT_ENDED: u8 = 4;

/// How many times a broken stream is reopened, and the pause before each.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// Shows a job until it has ended. Waits for a server that restarts meanwhile.
pub fn watch(remote: &Remote, id: &str) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::new(remote.json());
    stopped_watching(remote, id, &screen)?;
    let (mut last, mut log_from, mut tries) = (None::<String>, 0, 0);
    loop {
        let path = format!("/jobs/{}/events?logs=true&logs_from={log_from}", part(id));
        match remote.events(&path, last.as_deref()) {
            Ok(Some(mut events)) => {
                while let Some(event) = events.next() {
                    tries = 0;
                    last = event.id.clone().or(last);
                    log_from = event.data["data"]["n"].as_u64().map_or(log_from, |n| n + 1);
                    screen.show(&event)?;
                    if let Some(code) = exit_code(&event.kind) {
                        screen.clear();
                        if event.kind == "dead" {
                            show_backtrace(remote, id);
                        }
                        return Ok(code);
                    }
                    if event.kind == "deleted" {
                        bail!("job {id} was deleted");
                    }
                }
            }
            // Its events are no longer stored, or all have been seen: its outcome is read from the job.
            Ok(None) => {
                let job = remote.get(&format!("/jobs/{}", part(id)))?;
                if let Some(code) = exit_code(job["state"].as_str().unwrap_or_default()) {
                    screen.clear();
                    show_end(remote, &job)?;
                    return Ok(code);
                }
            }
            Err(error) if tries == 0 && last.is_none() => return Err(error),
            Err(error) if tries >= TRIES => return Err(error),
            Err(_) => {}
        }
        tries += 1;
        sleep(PAUSE);
    }
}

/// Says that Ctrl-C ended the watching and not the job, and what to do next.
fn stopped_watching(remote: &Remote, id: &str, screen: &Screen) -> anyhow::Result<()> {
    let (remote, id, bar) = (remote.clone(), id.to_owned(), screen.bar.clone());
    on_interrupt(move || {
        bar.finish_and_clear();
        let job = remote.glance(&format!("/jobs/{}", part(&id))).unwrap_or_default();
        let outcome = match job["state"].as_str() {
            Some("active") => "keeps running".to_owned(),
            Some(state) if exit_code(state).is_some() => format!("is {state}"),
            Some(state) => format!("stays queued ({state})"),
            None => "continues".to_owned(),
        };
        show::note(&format!(
            "\nstopped watching; {id} {outcome}\nwatch it again:  {}\ncancel it:       {}",
            remote.command(&format!("job watch {id}")),
            remote.command(&format!("job cancel {id}")),
        ));
    })
}

/// Shows the end of a job whose events are no longer stored.
fn show_end(remote: &Remote, job: &Value) -> anyhow::Result<()> {
    if remote.json() {
        return show::line(job);
    }
    let state = job["state"].as_str().unwrap_or_default();
    match (state, job["last_error"].as_str()) {
        ("dead", Some(error)) => show::note(&format!("dead: {error}")),
        _ => show::note(state),
    }
    match state {
        "dead" => show_backtrace(remote, job["id"].as_str().unwrap_or_default()),
        "completed" if !job["result"].is_null() => show::json(&job["result"])?,
        _ => {}
    }
    Ok(())
}

/// Shows the backtrace of the last error, and the commands that show more.
fn show_backtrace(remote: &Remote, id: &str) {
    if remote.json() {
        return;
    }
    // The error itself has been shown; without a server, only the backtrace is missing.
    let job = remote.get(&format!("/jobs/{}", part(id))).unwrap_or_default();
    let last = job["errors"].as_array().and_then(|errors| errors.last());
    if let Some(backtrace) = last.and_then(|error| error["backtrace"].as_str()).filter(|text| !text.trim().is_empty()) {
        show::note(&show::indented(backtrace.trim_end()));
    }
    show::note(&format!(
        "every attempt:  {}\nits log:        {}\nrun it again:   {}",
        remote.command(&format!("job get {id}")),
        remote.command(&format!("job logs {id}")),
        remote.command(&format!("job retry {id}")),
    ));
}

/// Prints the log of a job as it is written, until the job has ended.
pub fn follow_log(remote: &Remote, id: &str, from: u64) -> anyhow::Result<()> {
    let path = format!("/jobs/{}/events?logs=true&logs_from={from}", part(id));
    let Some(mut events) = remote.events(&path, None)? else { return Ok(()) };
    while let Some(event) = events.next() {
        if event.kind == "log" {
            let line = &event.data["data"];
            if remote.json() { show::line(line)? } else { show::print(&log_line(line))? }
        }
    }
    Ok(())
}

/// The exit status for a final state.
pub fn exit_code(state: &str) -> Option<ExitCode> {
    match state {
        "completed" => Some(ExitCode::SUCCESS),
        "dead" => Some(ExitCode::from(DEAD)),
        "cancelled" => Some(ExitCode::from(CANCELLED)),
        _ => None,
    }
}

pub fn log_line(line: &Value) -> String {
    let text = |field: &str| line[field].as_str().map(show::plain).unwrap_or_default();
    format!("{:>6}  {}", text("level"), text("text"))
}

/// Where a watched job is shown: events as JSON lines, a bar on a terminal, or plain lines.
pub struct Screen {
    json: bool,
    bar: ProgressBar,
}

impl Screen {
    pub fn new(json: bool) -> Screen {
        let bar =
            if json || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::no_length() };
        // Until a job reports its amount and total, there is no bar to draw; indicatif's default style would show 0/0.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Screen { json, bar }
    }

    fn show(&mut self, event: &Event) -> anyhow::Result<()> {
        if self.json {
            return show::line(&event.data);
        }
        let data = &event.data["data"];
        match event.kind.as_str() {
            "progress" => self.progress(data),
            "log" => self.say(log_line(data)),
            "completed" => {
                self.clear();
                show::note("completed");
                if !data["result"].is_null() {
                    show::json(&data["result"])?;
                } else if data["result_omitted"] == true {
                    show::note("the result is large; `windlass job get` shows it");
                }
            }
            "dead" | "cancelled" => {
                self.clear();
                let why = data["error"].as_str().or(data["reason"].as_str()).unwrap_or_default();
                show::note(&format!("{}: {why}", event.kind));
            }
            "failed" => {
                let why = data["error"].as_str().unwrap_or_default();
                let next = data["next_attempt_at"].as_str().map(|at| format!("; next attempt at {at}"));
                self.say(format!("attempt {} failed: {why}{}", data["attempt"], next.unwrap_or_default()));
            }
            // It is frequent and not useful to people.
            "checkpoint" => {}
            kind => self.say(match data["reason"].as_str() {
                Some(reason) => format!("{kind}: {reason}"),
                None => kind.to_owned(),
            }),
        }
        Ok(())
    }

    pub fn say(&self, text: String) {
        if self.bar.is_hidden() { show::note(&text) } else { self.bar.println(show::plain(&text)) }
    }

    /// Clears the bar, so that others can print.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    pub fn progress(&mut self, data: &Value) {
        let parts: Vec<&str> = ["phase", "message"].iter().filter_map(|field| data[*field].as_str()).collect();
        let message = show::one_line(&parts.join(": ")).into_owned();
        let (at, of) = match (data["percent"].as_f64(), data["current"].as_u64(), data["total"].as_u64()) {
            (Some(percent), _, _) => (percent.clamp(0.0, 100.0) as u64, 100),
            (None, Some(current), Some(total)) => (current.min(total), total),
            (None, current, _) => (current.unwrap_or(0), 0),
        };
        if self.bar.is_hidden() {
            let share =
                at.saturating_mul(100).checked_div(of).map_or_else(String::new, |share| format!("{share:>3}% "));
            show::note(&format!("{share}{message}"));
            return;
        }
        if of > 0 {
            // The template is a constant, so this always succeeds.
            if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {percent:>3}% {msg}") {
                self.bar.set_style(style.progress_chars("=> "));
            }
            self.bar.set_length(of);
        }
        self.bar.set_position(at);
        self.bar.set_message(message);
    }
}

//! The jobs of the plugin's queues, as `windlass dev` shows them: what they report and log, how they end, and where a handler failed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::author::dev::keys::say;
use crate::cli::author::project::Project;
use crate::cli::client::{Event, Remote, part};
use crate::cli::jobs::watch::log_line;

/// How long a stream that broke is left alone before it is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// How much of a result is shown.
const RESULT_CHARACTERS: usize = 2_000;

pub struct Jobs {
    remote: Arc<Remote>,
    last: Last,
}

/// What is sent to run the last job again; none before one was seen.
type Last = Arc<Mutex<Option<Value>>>;

impl Jobs {
    /// Looks for jobs in the plugin's queues, on a thread of its own, for as long as the command runs. Each is shown by a thread of
    /// its own, from its own stream: there its log and its events come in the order in which they happened.
    pub fn follow(remote: &Arc<Remote>, project: &Project) -> Jobs {
        let jobs = Jobs { remote: Arc::clone(remote), last: Last::default() };
        let (remote, last) = (Arc::clone(remote), Arc::clone(&jobs.last));
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
        jobs
    }

    pub fn begin_with(&self, queue: String, payload: Value) {
        *lock(&self.last) = Some(again(&json!({ "queue": queue, "payload": payload })));
    }

    pub fn any(&self) -> bool {
        lock(&self.last).is_some()
    }

    /// Enqueues the last job once more.
    pub fn again(&self) {
        let Some(job) = lock(&self.last).clone() else {
            say("no job has been seen yet; start one with `windlass enqueue`, or begin with --payload");
            return;
        };
        if let Err(error) = self.remote.post("/enqueue", &job) {
            say(&format!("{error:#}"));
        }
    }
}

fn lock(last: &Mutex<Option<Value>>) -> MutexGuard<'_, Option<Value>> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job like this one. It runs once: whoever is at work on the handler wants to see the error, and starts it again by hand.
fn again(job: &Value) -> Value {
    let kept = ["queue", "payload", "tags", "scope"].into_iter();
    let mut new: Map<String, Value> =
        kept.filter(|field| !job[*field].is_null()).map(|field| (field.to_owned(), job[field].clone())).collect();
    new.insert("max_attempts".to_owned(), json!(1));
    Value::Object(new)
}

/// Remembers a job that is seen for the first time, and shows it from there on.
fn meet(remote: &Arc<Remote>, event: &Event, last: &Mutex<Option<Value>>, met: &mut HashSet<String>) {
    let Some(job) = event.data["job_id"].as_str().map(str::to_owned) else { return };
    if !met.insert(job.clone()) {
        return;
    }
    if let Ok(seen) = remote.get(&format!("/jobs/{}", part(&job))) {
        *lock(last) = Some(again(&seen));
    }
    let before = event.id.as_ref().and_then(|id| id.parse::<u64>().ok()).map(|id| id.saturating_sub(1).to_string());
    let remote = Arc::clone(remote);
    thread::spawn(move || tail(&remote, &job, before));
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
                        say(&format!("{mark} {line}{}", traceback(remote, job, &event)));
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

/// Where the handler failed, below the line that says that it did. The event tells the error alone; the rest is in the job.
fn traceback(remote: &Remote, job: &str, event: &Event) -> String {
    if !matches!(event.kind.as_str(), "failed" | "dead") {
        return String::new();
    }
    let found = remote.get(&format!("/jobs/{}", part(job))).unwrap_or_default();
    let error = found["errors"].as_array().and_then(|errors| errors.last()).cloned().unwrap_or_default();
    indented(error["backtrace"].as_str().unwrap_or_default())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("\n    {line}")).collect()
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
    fn the_last_job_runs_again_with_what_its_handler_can_see_and_only_once() {
        let seen = json!({
            "id": "x", "queue": "mail", "payload": {"to": "a"}, "tags": {"team": "b"}, "scope": null, "max_attempts": 25,
        });
        let new = again(&seen);
        assert_eq!(new, json!({"queue": "mail", "payload": {"to": "a"}, "tags": {"team": "b"}, "max_attempts": 1}));
    }

    #[test]
    fn a_traceback_stands_below_its_error() {
        assert_eq!(indented("Traceback:\n  File \"app.py\"\n"), "\n    Traceback:\n      File \"app.py\"");
        assert_eq!(indented(""), "");
    }
}

//! The jobs of the plugin's queues, as `windlass dev` shows them: what they report and log, how they end, and where a
//! handler failed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::author::dev::keys::say;
use crate::cli::author::project::Project;
use crate::cli::client::{Event, Remote, part};
use crate::cli::jobs::watch::log_line;

/// How long to wait before a broken stream is reopened.
const PAUSE: Duration = Duration::from_secs(1);
/// How much of a result is shown.
const RESULT_CHARACTERS: usize = 2_000;

pub struct Jobs {
    remote: Arc<Remote>,
    last: Last,
}

/// The request that runs the last job again; `None` before one was seen.
type Last = Arc<Mutex<Option<Value>>>;

impl Jobs {
    /// Watches for jobs in the plugin's queues, on its own thread, for as long as the command runs. Each job is shown
    /// by a separate thread from the job's own stream, in which log and events are in the order in which they happened.
    pub fn follow(remote: &Arc<Remote>, project: &Project) -> Jobs {
        let jobs = Jobs { remote: Arc::clone(remote), last: Last::default() };
        let (remote, last) = (Arc::clone(remote), Arc::clone(&jobs.last));
        let path = format!("/events?queues={}", part(&project.queues().join(",")));
        thread::spawn(move || {
            let (mut id, mut met) = (None, HashSet::new());
            loop {
                if let Ok(Some(mut events)) = remote.events(&path, id.as_deref()) {
                    while let Some(event) = events.next() {
                        notice(&remote, &event, &last, &mut met);
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
            say("no job has been seen yet; start one with `windlass enqueue`, or use --payload");
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

/// A job like this one, with one attempt: an author wants to see the error, and runs the job again by hand.
fn again(job: &Value) -> Value {
    let kept = ["queue", "payload", "tags", "scope"].into_iter();
    let mut new: Map<String, Value> =
        kept.filter(|field| !job[*field].is_null()).map(|field| (field.to_owned(), job[field].clone())).collect();
    new.insert("max_attempts".to_owned(), json!(1));
    Value::Object(new)
}

/// Remembers a job that is seen for the first time, and starts showing it.
fn notice(remote: &Arc<Remote>, event: &Event, last: &Mutex<Option<Value>>, met: &mut HashSet<String>) {
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

/// Shows a job from the event after `id` to its end. A broken stream is reopened.
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
            // The job was deleted.
            Ok(None) => return,
            Err(_) => {}
        }
        thread::sleep(PAUSE);
    }
}

/// The traceback, shown below the error. The event has only the error; the traceback is in the job.
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

/// The line for an event; `None` for most.
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

/// Truncates a long result, which would push everything else off the screen.
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
    fn a_traceback_is_shown_below_its_error() {
        assert_eq!(indented("Traceback:\n  File \"app.py\"\n"), "\n    Traceback:\n      File \"app.py\"");
        assert_eq!(indented(""), "");
    }
}

//! `windlass bulk`: one action on many jobs, named by filters, by arguments, or by ids on standard input.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, IsTerminal, Write, stdin};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::cli::client::Remote;
use crate::cli::jobs::filters::Filters;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::http::wire::PriorityName;

/// Apply one action to many jobs: `windlass search --state dead | windlass bulk retry`
///
/// The jobs are named by their ids, by filters, or by ids on standard input. Exit status: 0 done (also if no job
/// matches the filters), 1 failed or stopped, 5 standard input had no ids.
#[derive(Debug, Args)]
pub struct Bulk {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// The ids of the jobs, or of the operation to show or stop
    #[arg(value_name = "ID")]
    job_ids: Vec<String>,
    /// The queue that `move` moves to
    #[arg(long, visible_alias = "to", value_name = "QUEUE")]
    move_to_queue: Option<String>,
    /// The priority that `change-priority` sets
    #[arg(long, value_enum, value_name = "PRIORITY")]
    set_priority: Option<PriorityName>,
    /// Why, for `cancel`, `hold` and `reject`
    #[arg(long)]
    reason: Option<String>,
    /// Delete without asking
    #[arg(long)]
    yes: bool,
    /// Change nothing; show how many jobs it would affect, in which states, and how many it would pass over
    #[arg(long)]
    dry_run: bool,
    /// Return immediately; `windlass bulk show ID` shows its progress
    #[arg(long = "async")]
    in_background: bool,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Run ended jobs again with all their attempts
    Retry,
    /// Run ended jobs again from the start, after removing their descendants
    Rebuild,
    /// Give dead jobs one more attempt
    Requeue,
    /// Cancel jobs that have not ended
    Cancel,
    /// Move jobs that are not running to another queue
    Move,
    /// Change the priority of waiting jobs
    #[value(name = "change-priority", alias = "change_priority")]
    ChangePriority,
    /// Hold jobs until they are approved
    Hold,
    /// Let held jobs run
    Approve,
    /// End held jobs as dead
    Reject,
    /// Delete jobs and everything stored with them
    Delete,
    /// Run scheduled and retrying jobs now instead of at their time
    #[value(name = "run-now", alias = "run_now")]
    RunNow,
    /// List all operations that are still stored
    List,
    /// Show the progress of an operation
    Show,
    /// Stop an operation; jobs that it has handled stay as they are
    Stop,
}

/// The exit status if standard input should have named jobs and named none: the command before the pipe found nothing,
/// or failed.
const NOTHING: u8 = 5;
const OPERATION: [Column; 9] = [
    ("id", "id"),
    ("action", "action"),
    ("status", "status"),
    ("total", "total"),
    ("processed", "processed"),
    ("affected", "affected"),
    ("errors", "errors"),
    ("first error", "error"),
    ("finished", "finished_at"),
];
const LIST: [Column; 7] = [
    ("ID", "id"),
    ("ACTION", "action"),
    ("STATUS", "status"),
    ("PROCESSED", "processed"),
    ("TOTAL", "total"),
    ("ERRORS", "errors"),
    ("CREATED", "created_at"),
];
/// How many times a broken stream is reopened before we give up.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

impl Bulk {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let remote = &self.remote;
        match self.action {
            Action::List => return list(remote),
            Action::Show => return self.about(|id| remote.get(&format!("/bulk/{id}"))),
            Action::Stop => return self.about(|id| remote.post(&format!("/bulk/{id}/cancel"), &json!({}))),
            _ => {}
        }
        let Some(mut request) = self.jobs()? else { return nothing(remote, self.as_str()) };
        if !self.dry_run {
            self.confirm(&request)?;
        }
        let action = self.as_str();
        request.insert("action".to_owned(), json!(action));
        request.insert("async".to_owned(), json!(!self.dry_run));
        request.insert("dry_run".to_owned(), json!(self.dry_run));
        for (name, text) in [("move_to_queue", &self.move_to_queue), ("reason", &self.reason)] {
            if let Some(text) = text {
                request.insert(name.to_owned(), json!(text));
            }
        }
        if let Some(priority) = self.set_priority {
            request.insert("priority".to_owned(), json!(priority));
        }
        let accepted = remote.post("/jobs/bulk", &Value::Object(request))?;
        if self.dry_run {
            show_dry_run(remote, &accepted)?;
            return Ok(ExitCode::SUCCESS);
        }
        let id = accepted["bulk_operation_id"].as_str().context("the server did not say which operation it is")?;
        if self.in_background {
            show_accepted(remote, &accepted, id)?;
            return Ok(ExitCode::SUCCESS);
        }
        let ended = follow(remote, id)?;
        if remote.json() {
            show::json(&ended)?;
        } else {
            let (affected, total, errors) = (&ended["affected"], &ended["total"], &ended["errors"]);
            let status = ended["status"].as_str().unwrap_or_default();
            show::print(&format!("{action} {status}: {affected} of {total} jobs, {errors} errors"))?;
            if let Some(error) = ended["error"].as_str() {
                show::note(&format!("the first error: {error}"));
            }
        }
        Ok(if ended["status"] == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn about(&self, ask: impl Fn(&str) -> anyhow::Result<Value>) -> anyhow::Result<ExitCode> {
        let [id] = &self.job_ids[..] else {
            bail!("name one operation, such as bulk_01J9Z3N5W7C4V8K2M6QXT0B1RD; `windlass bulk list` lists them")
        };
        let operation = ask(&crate::cli::client::part(id))?;
        if self.remote.json() {
            show::json(&operation)?
        } else {
            show::fields(&operation, &OPERATION)?
        }
        Ok(ExitCode::SUCCESS)
    }

    fn as_str(&self) -> &'static str {
        match self.action {
            Action::Retry => "retry",
            Action::Rebuild => "rebuild",
            Action::Requeue => "requeue",
            Action::Cancel => "cancel",
            Action::Move => "move",
            Action::ChangePriority => "change_priority",
            Action::Hold => "hold",
            Action::Approve => "approve",
            Action::Reject => "reject",
            Action::Delete => "delete",
            Action::RunNow => "run_now",
            Action::List => "list",
            Action::Show => "show",
            Action::Stop => "stop",
        }
    }

    /// The jobs, named in exactly one of three ways. `None` if standard input should name them and is empty.
    fn jobs(&self) -> anyhow::Result<Option<Map<String, Value>>> {
        let filter = self.filters.to_json();
        if !self.job_ids.is_empty() && !filter.is_empty() {
            bail!("name the jobs either by ids or by filters, not by both");
        }
        if !filter.is_empty() {
            return Ok(Some(Map::from_iter([("filter".to_owned(), Value::Object(filter))])));
        }
        let ids = if !self.job_ids.is_empty() {
            self.job_ids.clone()
        } else if stdin().is_terminal() {
            let action = self.action.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            bail!(
                "name the jobs: by ids, by filters such as --state dead, or through a pipe: windlass search … | windlass bulk {action}"
            );
        } else {
            read_ids(&std::io::read_to_string(stdin().lock()).context("cannot read the ids on standard input")?)?
        };
        Ok((!ids.is_empty()).then(|| Map::from_iter([("job_ids".to_owned(), json!(ids))])))
    }

    /// Asks before deleting, which cannot be undone.
    fn confirm(&self, request: &Map<String, Value>) -> anyhow::Result<()> {
        if self.action != Action::Delete || self.yes {
            return Ok(());
        }
        let count = match (
            request.get("filter").and_then(Value::as_object),
            request.get("job_ids").and_then(Value::as_array),
        ) {
            (Some(filter), _) => {
                let mut search = filter.clone();
                search.insert("limit".to_owned(), json!(1));
                self.remote.post("/jobs/search", &Value::Object(search))?["total"].as_u64().unwrap_or(0)
            }
            (None, ids) => ids.map_or(0, |ids| ids.len() as u64),
        };
        // Standard input may be the list of ids.
        let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
            bail!("this would delete {count} jobs, and there is no terminal to ask on; add --yes to delete them");
        };
        write!(terminal, "delete {count} jobs for good? [y/N] ")?;
        let mut answer = String::new();
        BufReader::new(&terminal).read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            bail!("nothing was deleted");
        }
        Ok(())
    }
}

/// The output of `windlass search`: one id per line, or its whole response as JSON.
fn read_ids(text: &str) -> anyhow::Result<Vec<String>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(text.split_whitespace().map(str::to_owned).collect());
    }
    let found: Value = serde_json::from_str(text).context("neither ids nor the JSON of `windlass search`")?;
    let jobs = found.as_array().or(found["jobs"].as_array()).context("there is no list of jobs in this JSON")?;
    let id = |job: &Value| job["id"].as_str().or(job.as_str()).map(str::to_owned);
    jobs.iter().map(|job| id(job).with_context(|| format!("{job} has no id"))).collect()
}

/// Reports that no job was named, to people and to programs.
fn nothing(remote: &Remote, action: &str) -> anyhow::Result<ExitCode> {
    if remote.json() {
        show::json(&json!({ "action": action, "total": 0, "affected": 0, "errors": 0 }))?;
    }
    show::note(&format!("nothing to {}: standard input had no job ids", action.replace('_', " ")));
    Ok(ExitCode::from(NOTHING))
}

fn list(remote: &Remote) -> anyhow::Result<ExitCode> {
    let all = remote.get("/bulk")?;
    match all["bulks"].as_array().filter(|_| !remote.json()) {
        Some(rows) => show::table(rows, &LIST)?,
        None => show::json(&all)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show_dry_run(remote: &Remote, would: &Value) -> anyhow::Result<()> {
    if remote.json() {
        return show::json(would);
    }
    let action = would["action"].as_str().unwrap_or_default();
    show::print(&format!("{action} would affect {} of {} jobs", would["affected"], would["total"]))?;
    for reason in would["reasons"].as_array().into_iter().flatten() {
        show::print(&format!("passed over: {}", reason["reason"].as_str().unwrap_or_default()))?;
    }
    Ok(())
}

fn show_accepted(remote: &Remote, accepted: &Value, id: &str) -> anyhow::Result<()> {
    if remote.json() { show::json(accepted) } else { show::print(id) }
}

/// Shows the progress of an operation until it ends. Waits for a server that restarts meanwhile.
pub fn follow(remote: &Remote, id: &str) -> anyhow::Result<Value> {
    let bar =
        if remote.json() || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new(1) };
    // The template is a constant, so this always succeeds.
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {percent:>3}% {pos} of {len}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let mut tries = 0;
    loop {
        match remote.events(&format!("/bulk/{id}/progress"), None) {
            Ok(Some(mut events)) => {
                while let Some(event) = events.next() {
                    tries = 0;
                    bar.set_length(event.data["total"].as_u64().unwrap_or(1));
                    bar.set_position(event.data["processed"].as_u64().unwrap_or(0));
                }
                let now = remote.get(&format!("/bulk/{id}"));
                if let Ok(now) = now
                    && !now["finished_at"].is_null()
                {
                    bar.finish_and_clear();
                    return Ok(now);
                }
            }
            Ok(None) => {}
            Err(error) if tries >= TRIES => return Err(error),
            Err(_) => {}
        }
        tries += 1;
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_of_a_search_are_read_as_ids_and_as_json() {
        let both = vec!["job_1".to_owned(), "job_2".to_owned()];
        for text in [
            "job_1\njob_2\n",
            r#"{"jobs": [{"id": "job_1"}, {"id": "job_2"}], "total": 2}"#,
            r#"["job_1", "job_2"]"#,
            r#"[{"id": "job_1"}, {"id": "job_2"}]"#,
        ] {
            assert_eq!(read_ids(text).expect(text), both, "{text}");
        }
        assert_eq!(read_ids("").expect("none"), Vec::<String>::new());
        for wrong in ["{", r#"{"total": 2}"#, r#"[{"queue": "q"}]"#] {
            assert!(read_ids(wrong).is_err(), "{wrong}");
        }
    }
}

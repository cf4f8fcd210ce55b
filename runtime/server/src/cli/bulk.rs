//! `windlass bulk`: one action on many jobs, named by filters, by arguments, or by ids on the standard input.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, IsTerminal, Write, stdin};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use super::client::Remote;
use super::filters::Filters;
use super::show;

/// Do one thing to many jobs: `windlass search --state dead | windlass bulk retry`
#[derive(Debug, Args)]
pub struct Bulk {
    #[arg(value_enum)]
    action: Action,
    /// The jobs; without any, those of the filters, or the ids on the standard input
    ids: Vec<String>,
    /// Where `move` moves to
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// What `change-priority` changes to
    #[arg(long, value_name = "PRIORITY")]
    set_priority: Option<String>,
    /// For cancel, hold and reject
    #[arg(long)]
    reason: Option<String>,
    /// Delete without asking
    #[arg(long)]
    yes: bool,
    /// Do not wait for the end; `windlass bulk show ID` tells how far it is
    #[arg(long = "async")]
    in_background: bool,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    Retry,
    /// Run again from nothing, with all that is below made anew
    Rebuild,
    Requeue,
    Cancel,
    Move,
    #[value(name = "change-priority", alias = "change_priority")]
    ChangePriority,
    Hold,
    Approve,
    Reject,
    Delete,
    /// How far an operation is
    Show,
    /// Stop an operation
    Stop,
}

/// How often a broken stream is opened again before we give up.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

impl Bulk {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let remote = &self.remote;
        match self.action {
            Action::Show => return self.about(|id| remote.get(&format!("/bulk/{id}"))),
            Action::Stop => return self.about(|id| remote.post(&format!("/bulk/{id}/cancel"), &json!({}))),
            _ => {}
        }
        let mut request = self.jobs()?;
        self.confirm(&request)?;
        let word = self.word();
        request.insert("action".to_owned(), json!(word));
        request.insert("async".to_owned(), json!(true));
        for (name, text) in [("move_to_queue", &self.to), ("priority", &self.set_priority), ("reason", &self.reason)] {
            if let Some(text) = text {
                request.insert(name.to_owned(), json!(text));
            }
        }
        let taken = remote.post("/jobs/bulk", &Value::Object(request))?;
        let id = taken["bulk_operation_id"].as_str().context("the server did not say which operation it is")?;
        if self.in_background {
            show_taken(remote, &taken, id)?;
            return Ok(ExitCode::SUCCESS);
        }
        let ended = follow(remote, id)?;
        if remote.json() {
            show::json(&ended)?;
        } else {
            let (affected, total, errors) = (&ended["affected"], &ended["total"], &ended["errors"]);
            let status = ended["status"].as_str().unwrap_or_default();
            show::print(&format!("{word} {status}: {affected} of {total} jobs, {errors} errors"))?;
            if let Some(error) = ended["error"].as_str() {
                eprintln!("the first error: {error}");
            }
        }
        Ok(if ended["status"] == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn about(&self, ask: impl Fn(&str) -> anyhow::Result<Value>) -> anyhow::Result<ExitCode> {
        let [id] = &self.ids[..] else { bail!("name one operation: windlass bulk show bulk_…") };
        show::json(&ask(&super::client::part(id))?)?;
        Ok(ExitCode::SUCCESS)
    }

    fn word(&self) -> &'static str {
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
            Action::Show => "show",
            Action::Stop => "stop",
        }
    }

    /// Which jobs: exactly one of the three ways to say it.
    fn jobs(&self) -> anyhow::Result<Map<String, Value>> {
        let filter = self.filters.to_json();
        let mut request = Map::new();
        if !self.ids.is_empty() && !filter.is_empty() {
            bail!("name the jobs either by ids or by filters, not by both");
        }
        if !filter.is_empty() {
            request.insert("filter".to_owned(), Value::Object(filter));
            return Ok(request);
        }
        let ids = if !self.ids.is_empty() {
            self.ids.clone()
        } else if stdin().is_terminal() {
            bail!(
                "say which jobs: ids, filters such as --state dead, or `windlass search … | windlass bulk {}`",
                self.word()
            );
        } else {
            read_ids(&std::io::read_to_string(stdin().lock()).context("the ids cannot be read")?)?
        };
        request.insert("job_ids".to_owned(), json!(ids));
        Ok(request)
    }

    /// What is deleted is gone: somebody should have meant it.
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
        // The standard input may be the list of ids.
        let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
            bail!("this would delete {count} jobs, and there is nobody to ask; say --yes if that is meant");
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

/// The jobs that `windlass search` names: one id a line, or its whole answer in JSON.
fn read_ids(text: &str) -> anyhow::Result<Vec<String>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(text.split_whitespace().map(str::to_owned).collect());
    }
    let found: Value = serde_json::from_str(text).context("neither ids nor the JSON of `windlass search`")?;
    let jobs = found.as_array().or(found["jobs"].as_array()).context("there is no list of jobs in this JSON")?;
    let id = |job: &Value| job["id"].as_str().or(job.as_str()).map(str::to_owned);
    jobs.iter().map(|job| id(job).with_context(|| format!("{job} has no id"))).collect()
}

fn show_taken(remote: &Remote, taken: &Value, id: &str) -> anyhow::Result<()> {
    if remote.json() { show::json(taken) } else { show::print(id) }
}

/// Shows how far an operation is, until it is over. A server that restarts meanwhile is waited for.
pub fn follow(remote: &Remote, id: &str) -> anyhow::Result<Value> {
    let bar =
        if remote.json() || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new(1) };
    // The template is ours and fixed.
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

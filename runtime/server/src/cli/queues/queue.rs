//! `windlass queue`: the state of queues, and their settings.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::bulk;
use crate::cli::jobs::enqueue::read_json;
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::cli::terminal::units;

/// Show queues, pause and resume them, set their limits
#[derive(Debug, Args)]
pub struct Queue {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all queues with their job counts and rates
    List,
    /// Show one queue: job counts, rates, settings
    Show(Which),
    /// Pause a queue: start no more of its jobs
    Pause(Which),
    /// Resume a queue: start its jobs again
    Resume(Which),
    /// Pause a queue: start no more of its jobs, and show it as draining while those that run finish
    Drain(Which),
    /// Delete the pending and scheduled jobs of a queue
    Clear(Confirmed),
    /// Change the settings of a queue; `none` removes a limit
    Set(Set),
    /// Show the progress of a queue with rounds, round by round
    Rounds {
        #[command(flatten)]
        queue: Which,
        /// Show them again whenever they change, until all rounds have completed
        #[arg(long)]
        watch: bool,
    },
    /// Rebuild the jobs that failed or are marked, with everything below them
    Sweep(SweepArgs),
    /// Show the records that handlers have stored in a queue
    Records(RecordsArgs),
    /// Delete a queue and all its jobs
    Destroy(Confirmed),
}

/// A queue for an action that cannot be undone.
#[derive(Debug, Args)]
struct Confirmed {
    #[command(flatten)]
    queue: Which,
    /// Do not ask whether to delete the jobs
    #[arg(long)]
    confirm: bool,
}

impl Confirmed {
    /// The queue's name, if `--confirm` was given or the person at the terminal says yes. `loss` is what will be
    /// deleted.
    fn name(self, loss: &str) -> anyhow::Result<String> {
        let name = self.queue.name;
        if self.confirm {
            return Ok(name);
        }
        if !std::io::stdin().is_terminal() {
            bail!("this deletes {loss} {name}; add --confirm if that is what you want");
        }
        eprint!("This deletes {loss} {name} and cannot be undone. Continue? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(name),
            _ => bail!("nothing was deleted"),
        }
    }
}

#[derive(Debug, Args)]
struct Which {
    /// The queue's name
    name: String,
}

#[derive(Debug, Args)]
struct Set {
    #[command(flatten)]
    queue: Which,
    /// How many of its jobs may run at once
    #[arg(long, visible_alias = "concurrency", value_name = "N")]
    max_concurrency: Option<String>,
    /// How many of its jobs may start in a period, such as 100/1m
    #[arg(long, value_name = "N/DURATION")]
    rate: Option<String>,
    /// How many may run at once for each limit key
    #[arg(long, value_name = "N")]
    key_concurrency: Option<String>,
    /// How many may start in a period for each limit key
    #[arg(long, value_name = "N/DURATION")]
    key_rate: Option<String>,
    /// Raise a job's priority by one step each time it has waited this long
    #[arg(long, value_name = "DURATION")]
    ageing: Option<String>,
    /// Defaults for its jobs, as JSON: '{"max_attempts": 5}'
    #[arg(long, value_name = "JSON")]
    defaults: Option<String>,
    /// How long and how many ended jobs stay stored, as JSON: '{"completed": {"age": "1d", "count": 1000}}'
    #[arg(long, value_name = "JSON")]
    retention: Option<String>,
    /// Whether it runs in rounds: a round starts when all jobs of the round before have ended
    #[arg(long, value_name = "on|off")]
    rounds: Option<Switch>,
    /// Keep at least this many rounds behind another queue, such as src:3
    #[arg(long, value_name = "QUEUE:LEAD")]
    gate: Option<String>,
    /// The most rounds that the other queue may be ahead
    #[arg(long, value_name = "N", requires = "gate")]
    max_lead: Option<u32>,
    /// Remove the gate
    #[arg(long, conflicts_with = "gate")]
    no_gate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
struct SweepArgs {
    #[command(flatten)]
    queue: Which,
    /// Leave out jobs that are dead
    #[arg(long)]
    no_failed: bool,
    /// Leave out jobs whose records are marked
    #[arg(long)]
    no_marked: bool,
    /// Include jobs that were cancelled
    #[arg(long)]
    cancelled: bool,
    /// Return immediately; `windlass bulk show ID` shows its progress
    #[arg(long = "async")]
    in_background: bool,
}

#[derive(Debug, Args)]
struct RecordsArgs {
    #[command(flatten)]
    queue: Which,
    /// Only the record with this key, with its value
    #[arg(long)]
    key: Option<String>,
    /// Start at this key
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    from: Option<String>,
    /// The most records to list
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "key")]
    limit: usize,
    /// Only records that are marked
    #[arg(long, conflicts_with = "key")]
    marked: bool,
}

const LIST: [Column; 10] = [
    ("QUEUE", "name"),
    ("PENDING", "pending"),
    ("ACTIVE", "active"),
    ("RETRYING", "retrying"),
    ("IN (5 S, 1 MIN)", "in"),
    ("DONE (5 S, 1 MIN)", "done"),
    ("COMPLETED", "completed"),
    ("DEAD", "dead"),
    ("PAUSED", "paused"),
    ("SERVED BY", "served_by"),
];

const QUEUE: [Column; 32] = [
    ("queue", "name"),
    ("served by", "served_by"),
    ("paused", "paused"),
    ("draining", "draining"),
    ("pending", "pending"),
    ("active", "active"),
    ("scheduled", "scheduled"),
    ("retrying", "retrying"),
    ("held", "held"),
    ("blocked", "blocked"),
    ("completed", "completed"),
    ("dead", "dead"),
    ("cancelled", "cancelled"),
    ("oldest pending", "oldest_pending_at"),
    ("settings by", "settings_created_by"),
    ("rounds", "rounds.state"),
    ("round", "rounds.round"),
    ("waits for", "rounds.waits_for"),
    ("gate", "settings.gate"),
    ("enqueued", "in"),
    ("done", "done"),
    ("failing", "failing"),
    ("success rate", "stats.success_rate"),
    ("wait, ms", "stats.wait_ms"),
    ("run, ms", "stats.run_ms"),
    ("max concurrency", "settings.max_concurrency"),
    ("rate", "settings.rate"),
    ("concurrency of a key", "settings.key_concurrency"),
    ("rate of a key", "settings.key_rate"),
    ("ageing", "settings.ageing"),
    ("defaults", "settings.defaults"),
    ("retention", "settings.retention"),
];
const SETTINGS: [Column; 9] = [
    ("max concurrency", "max_concurrency"),
    ("rate", "rate"),
    ("concurrency of a key", "key_concurrency"),
    ("rate of a key", "key_rate"),
    ("ageing", "ageing"),
    ("defaults", "defaults"),
    ("retention", "retention"),
    ("rounds", "rounds"),
    ("gate", "gate"),
];

impl Queue {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let act = |name: &str, action: &str| {
            print_answer(remote, &remote.post(&format!("/queues/{}/{action}", part(name)), &json!({}))?)
        };
        match self.action {
            Action::List => {
                let queues = remote.get("/queues")?;
                match queues.as_array().filter(|_| !remote.json()) {
                    Some(rows) => {
                        let rows: Vec<Value> = rows.iter().map(|queue| with_rates(queue, &rates)).collect();
                        show::table(&rows, &LIST)
                    }
                    None => show::json(&queues),
                }
            }
            Action::Show(Which { name }) => {
                let mut queue = remote.get(&format!("/queues/{}", part(&name)))?;
                queue["stats"] = remote.get(&format!("/queues/{}/stats", part(&name)))?;
                if remote.json() { show::json(&queue) } else { show::fields(&with_rates(&queue, &labelled), &QUEUE) }
            }
            Action::Pause(Which { name }) => act(&name, "pause"),
            Action::Resume(Which { name }) => act(&name, "resume"),
            Action::Drain(Which { name }) => act(&name, "drain"),
            Action::Clear(queue) => act(&queue.name("the pending and scheduled jobs of the queue")?, "clear"),
            Action::Set(set) => {
                let body = set.body()?;
                let settings = remote.post(&format!("/queues/{}/settings", part(&set.queue.name)), &body)?;
                if remote.json() { show::json(&settings) } else { show::fields(&settings, &SETTINGS) }
            }
            Action::Rounds { queue, watch } => rounds(remote, &queue.name, watch),
            Action::Sweep(sweep) => sweep.run(remote),
            Action::Records(records) => records.run(remote),
            Action::Destroy(queue) => {
                let name = queue.name("all jobs, the records and the settings of the queue")?;
                print_answer(remote, &remote.delete(&format!("/queues/{}?confirm=true", part(&name)))?)
            }
        }
    }
}

/// A queue with its rates as text, in place of the numbers.
fn with_rates(queue: &Value, text: &impl Fn(f64, f64) -> String) -> Value {
    let mut queue = queue.clone();
    for (field, rate) in [("in", "enqueued"), ("done", "completed"), ("failing", "failed")] {
        let number = |window: &str| queue[format!("{rate}_per_second{window}")].as_f64().unwrap_or_default();
        queue[field] = json!(text(number("_5s"), number("")));
    }
    queue
}

/// Both rates below a heading that names the windows: `12/s, 9/s`.
fn rates(seconds: f64, minute: f64) -> String {
    format!("{}/s, {}/s", units::rate(seconds), units::rate(minute))
}

/// Both rates with their windows: `12/s (5 s)  9/s (1 min)`.
fn labelled(seconds: f64, minute: f64) -> String {
    format!("{}/s (5 s)  {}/s (1 min)", units::rate(seconds), units::rate(minute))
}

impl Set {
    fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        let mut put = |field: &str, value: Value| body.insert(field.to_owned(), value);
        for (field, text) in [("max_concurrency", &self.max_concurrency), ("key_concurrency", &self.key_concurrency)] {
            match text.as_deref() {
                Some("none") => drop(put(field, Value::Null)),
                Some(number) => drop(put(field, json!(number.parse::<u32>()?))),
                None => {}
            }
        }
        for (field, text) in [("rate", &self.rate), ("key_rate", &self.key_rate)] {
            match text.as_deref() {
                Some("none") => drop(put(field, Value::Null)),
                Some(text) => drop(put(field, rate(text)?)),
                None => {}
            }
        }
        if let Some(span) = &self.ageing {
            put("ageing", if span == "none" { Value::Null } else { json!(span) });
        }
        for (field, text) in [("defaults", &self.defaults), ("retention", &self.retention)] {
            if let Some(text) = text {
                put(field, read_json(text)?);
            }
        }
        if let Some(rounds) = self.rounds {
            put("rounds", json!(rounds == Switch::On));
        }
        if self.no_gate {
            put("gate", Value::Null);
        }
        if let Some(text) = &self.gate {
            let Some((queue, Ok(lead))) = text.rsplit_once(':').map(|(queue, lead)| (queue, lead.parse::<u32>()))
            else {
                bail!("`{text}` is not a gate; write a queue and how many rounds it must be ahead, such as src:3");
            };
            put("gate", json!({ "queue": queue, "lead": lead, "max_lead": self.max_lead }));
        }
        if body.is_empty() {
            bail!("nothing to set; `windlass queue set --help` lists the settings");
        }
        Ok(Value::Object(body))
    }
}

/// How often watched rounds are read.
const POLL_EVERY: Duration = Duration::from_millis(500);

const ROUNDS: [Column; 7] = [
    ("ROUND", "round"),
    ("TOTAL", "total"),
    ("OPEN", "open"),
    ("COMPLETED", "completed"),
    ("DEAD", "dead"),
    ("CANCELLED", "cancelled"),
    ("PERCENT", "percent"),
];

fn rounds(remote: &Remote, name: &str, watch: bool) -> anyhow::Result<()> {
    let mut last = Value::Null;
    loop {
        let now = all_rounds(remote, name)?;
        if now != last {
            if remote.json() {
                show::json(&now)?;
            } else {
                if watch && std::io::stdout().is_terminal() {
                    show::clear_screen()?;
                }
                draw_rounds(name, &now)?;
            }
        }
        if !watch || now["state"] == "completed" {
            return Ok(());
        }
        last = now;
        std::thread::sleep(POLL_EVERY);
    }
}

/// Every page of them, in one response.
fn all_rounds(remote: &Remote, name: &str) -> anyhow::Result<Value> {
    let mut whole = remote.get(&format!("/queues/{}/rounds", part(name)))?;
    let mut rows = whole["rounds"].as_array().cloned().unwrap_or_default();
    let mut next = whole["next"].as_u64();
    while let Some(from) = next {
        let page = remote.get(&format!("/queues/{}/rounds?from={from}", part(name)))?;
        rows.extend(page["rounds"].as_array().cloned().unwrap_or_default());
        next = page["next"].as_u64();
    }
    whole["rounds"] = Value::Array(rows);
    if let Some(whole) = whole.as_object_mut() {
        whole.remove("next");
    }
    Ok(whole)
}

fn draw_rounds(name: &str, now: &Value) -> anyhow::Result<()> {
    let state = now["state"].as_str().unwrap_or_default();
    let round = now["round"].as_u64().map(|round| format!(", round {round}")).unwrap_or_default();
    let waits = now["waits_for"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    show::print(&format!("{name}: {state}{round}{waits}"))?;
    let mut rows = now["rounds"].as_array().cloned().unwrap_or_default();
    for row in &mut rows {
        row["percent"] = json!(format!("{:.1}", row["percent"].as_f64().unwrap_or_default()));
    }
    show::table(&rows, &ROUNDS)
}

impl SweepArgs {
    fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let wanted = json!({
            "failed": !self.no_failed,
            "marked": !self.no_marked,
            "cancelled": self.cancelled,
            "async": true,
        });
        let taken = remote.post(&format!("/queues/{}/sweep", part(&self.queue.name)), &wanted)?;
        let id = taken["bulk_operation_id"].as_str().unwrap_or_default();
        if self.in_background {
            return if remote.json() { show::json(&taken) } else { show::print(id) };
        }
        let ended = bulk::follow(remote, id)?;
        if remote.json() {
            return show::json(&ended);
        }
        let (status, affected) = (ended["status"].as_str().unwrap_or_default(), &ended["affected"]);
        show::print(&format!("sweep {status}: {affected} jobs are rebuilt, {} errors", ended["errors"]))
    }
}

const RECORDS: [Column; 4] = [("KEY", "key"), ("MARK", "mark"), ("JOB", "job_id"), ("UPDATED", "updated_at")];

impl RecordsArgs {
    fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let path = format!("/queues/{}/records", part(&self.queue.name));
        if let Some(key) = &self.key {
            return show::json(&remote.get(&format!("{path}?key={}", part(key)))?);
        }
        let from = part(self.from.as_deref().unwrap_or_default());
        let page = remote.get(&format!("{path}?from={from}&limit={}&marked={}", self.limit, self.marked))?;
        match page["records"].as_array().filter(|_| !remote.json()) {
            Some(rows) => show::table(rows, &RECORDS)?,
            None => show::json(&page)?,
        }
        match page["next"].as_str().filter(|_| !remote.json()) {
            Some(next) => show::print(&format!("--from {next:?} shows more")),
            None => Ok(()),
        }
    }
}

fn rate(text: &str) -> anyhow::Result<Value> {
    match text.split_once('/').map(|(count, per)| (count.parse::<u32>(), per)) {
        Some((Ok(count), per)) => Ok(json!({ "count": count, "per": per })),
        _ => bail!("`{text}` is not a rate; write one such as 100/1m"),
    }
}

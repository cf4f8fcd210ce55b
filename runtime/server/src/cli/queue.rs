//! `windlass queue`: how queues stand, and what operators set.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::bulk;
use super::client::{Remote, part};
use super::enqueue::read_json;
use super::job::told;
use super::show::{self, Column};

/// Look at queues, stop and start them, set their limits
#[derive(Debug, Args)]
pub struct Queue {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// All queues with their counts
    List,
    /// One queue with its settings and figures
    Show { name: String },
    /// Start no more of its jobs
    Pause { name: String },
    /// Start its jobs again
    Resume { name: String },
    /// Start no more, and let what runs finish
    Drain { name: String },
    /// Remove its pending and scheduled jobs
    Clear { name: String },
    /// Change its settings; `none` takes a limit away
    Set(Set),
    /// How far it is, round by round, when it runs level by level
    Rounds {
        name: String,
        /// Show them again as they change, until the queue has completed
        #[arg(long)]
        watch: bool,
    },
    /// Take up again what failed or is marked, with all that is below it
    Sweep(SweepArgs),
    /// What handlers have noted in it
    Records(RecordsArgs),
    /// Remove the queue and all its jobs
    Destroy {
        name: String,
        /// Yes, all its jobs
        #[arg(long)]
        confirm: bool,
    },
}

#[derive(Debug, Args)]
struct Set {
    name: String,
    /// How many of its jobs run at once
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// How many start in a span, such as 100/1m
    #[arg(long, value_name = "N/SPAN")]
    rate: Option<String>,
    /// How many run at once for each limit key
    #[arg(long, value_name = "N")]
    key_concurrency: Option<String>,
    /// How many start in a span for each limit key
    #[arg(long, value_name = "N/SPAN")]
    key_rate: Option<String>,
    /// After each such span of waiting a job counts as more urgent
    #[arg(long, value_name = "SPAN")]
    ageing: Option<String>,
    /// Defaults for its jobs, as JSON: '{"max_retries": 5}'
    #[arg(long, value_name = "JSON")]
    defaults: Option<String>,
    /// What is kept of ended jobs, as JSON: '{"completed": {"age": "1d", "count": 1000}}'
    #[arg(long, value_name = "JSON")]
    retention: Option<String>,
    /// Whether it runs level by level: a round starts when all jobs of the one before have ended
    #[arg(long, value_name = "on|off")]
    rounds: Option<Switch>,
    /// Stay so many rounds behind another queue, such as src:3
    #[arg(long, value_name = "QUEUE:LEAD")]
    gate: Option<String>,
    /// And let that one be at most so many rounds ahead
    #[arg(long, value_name = "N", requires = "gate")]
    max_lead: Option<u32>,
    /// Take the gate away
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
    name: String,
    /// Leave the dead ones alone
    #[arg(long)]
    no_failed: bool,
    /// Leave those alone whose records are marked
    #[arg(long)]
    no_marked: bool,
    /// Take up the cancelled ones as well
    #[arg(long)]
    cancelled: bool,
    /// Do not wait for the end; `windlass bulk show ID` tells how far it is
    #[arg(long = "async")]
    in_background: bool,
}

#[derive(Debug, Args)]
struct RecordsArgs {
    name: String,
    /// This record alone, with its value
    #[arg(long)]
    key: Option<String>,
    /// From this key on
    #[arg(long, conflicts_with = "key")]
    from: Option<String>,
    #[arg(long, default_value_t = 50, conflicts_with = "key")]
    limit: usize,
    /// Only those that are marked
    #[arg(long, conflicts_with = "key")]
    marked: bool,
}

const LIST: [Column; 10] = [
    ("QUEUE", "name"),
    ("PENDING", "pending"),
    ("ACTIVE", "active"),
    ("RETRYING", "retrying"),
    ("IN/S", "enqueued_per_second"),
    ("DONE/S", "completed_per_second"),
    ("COMPLETED", "completed"),
    ("DEAD", "dead"),
    ("PAUSED", "paused"),
    ("SERVED BY", "served_by"),
];

const QUEUE: [Column; 30] = [
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
    ("rounds", "rounds.state"),
    ("round", "rounds.round"),
    ("waits for", "rounds.waits_for"),
    ("gate", "settings.gate"),
    ("in a second", "enqueued_per_second"),
    ("done a second", "completed_per_second"),
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
            told(remote, &remote.post(&format!("/queues/{}/{action}", part(name)), &json!({}))?)
        };
        match self.action {
            Action::List => {
                let queues = remote.get("/queues")?;
                match queues.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&queues),
                }
            }
            Action::Show { name } => {
                let mut queue = remote.get(&format!("/queues/{}", part(&name)))?;
                queue["stats"] = remote.get(&format!("/queues/{}/stats", part(&name)))?;
                if remote.json() { show::json(&queue) } else { show::fields(&queue, &QUEUE) }
            }
            Action::Pause { name } => act(&name, "pause"),
            Action::Resume { name } => act(&name, "resume"),
            Action::Drain { name } => act(&name, "drain"),
            Action::Clear { name } => act(&name, "clear"),
            Action::Set(set) => {
                let body = set.body()?;
                let settings = remote.post(&format!("/queues/{}/settings", part(&set.name)), &body)?;
                if remote.json() { show::json(&settings) } else { show::fields(&settings, &SETTINGS) }
            }
            Action::Rounds { name, watch } => rounds(remote, &name, watch),
            Action::Sweep(sweep) => sweep.run(remote),
            Action::Records(records) => records.run(remote),
            Action::Destroy { name, confirm: false } => {
                bail!("this removes queue {name} and all its jobs; add --confirm if that is meant")
            }
            Action::Destroy { name, confirm: true } => {
                told(remote, &remote.delete(&format!("/queues/{}?confirm=true", part(&name)))?)
            }
        }
    }
}

impl Set {
    fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        let mut put = |field: &str, value: Value| body.insert(field.to_owned(), value);
        for (field, text) in [("max_concurrency", &self.concurrency), ("key_concurrency", &self.key_concurrency)] {
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
                bail!("`{text}` is not a gate; write the queue and how far it is to be ahead, such as src:3");
            };
            put("gate", json!({ "queue": queue, "lead": lead, "max_lead": self.max_lead }));
        }
        if body.is_empty() {
            bail!("nothing to set; `windlass queue set --help` says what can be");
        }
        Ok(Value::Object(body))
    }
}

/// How often watched rounds are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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
                    // To the top, and everything below it away.
                    show::print("\x1b[H\x1b[2J")?;
                }
                draw_rounds(name, &now)?;
            }
        }
        if !watch || now["state"] == "completed" {
            return Ok(());
        }
        last = now;
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Every page of them, in one answer.
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
    let waits = now["waits_for"].as_str().map(|words| format!(": {words}")).unwrap_or_default();
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
        let taken = remote.post(&format!("/queues/{}/sweep", part(&self.name)), &wanted)?;
        let id = taken["bulk_operation_id"].as_str().unwrap_or_default();
        if self.in_background {
            return if remote.json() { show::json(&taken) } else { show::print(id) };
        }
        let ended = bulk::follow(remote, id)?;
        if remote.json() {
            return show::json(&ended);
        }
        let (status, affected) = (ended["status"].as_str().unwrap_or_default(), &ended["affected"]);
        show::print(&format!("sweep {status}: {affected} jobs are taken up again, {} errors", ended["errors"]))
    }
}

const RECORDS: [Column; 4] = [("KEY", "key"), ("MARK", "mark"), ("JOB", "job_id"), ("UPDATED", "updated_at")];

impl RecordsArgs {
    fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let path = format!("/queues/{}/records", part(&self.name));
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
            Some(next) => show::print(&format!("more with --from {next:?}")),
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

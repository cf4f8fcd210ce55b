//! `windlass schedule`: jobs that are enqueued at set times.

use anyhow::bail;
use chrono::DateTime;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use windlass_core::Time;
use windlass_core::schedule::local_time;

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::jobs::job_flags::{Body, Retries, TimeLimits, pair};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::http::wire::{CatchUpName, OverlapName, PriorityName};

/// Enqueue jobs at set times
#[derive(Debug, Args)]
pub struct Schedule {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a schedule, or change one with --replace
    Add(Box<Add>),
    /// List all schedules: when each runs next, in its own time zone, and the runs it has skipped
    List,
    /// Show one schedule, with its latest skipped runs and why they were skipped
    Get {
        /// The schedule's name
        name: String,
    },
    /// Enqueue no more jobs until it is resumed; runs that fall due meanwhile are skipped
    Pause {
        /// The schedule's name
        name: String,
    },
    /// Enqueue jobs again
    Resume {
        /// The schedule's name
        name: String,
    },
    /// Enqueue a job now, and print its id
    Run {
        /// The schedule's name
        name: String,
    },
    /// Remove it; the jobs it has enqueued stay
    Remove {
        /// The schedule's name
        name: String,
    },
    /// Print the next times it runs, in its own time zone
    Next {
        /// The schedule's name
        name: String,
        /// How many times to print
        #[arg(long, default_value_t = 5)]
        count: usize,
    },
    /// Print what a cron expression means and the next times it would run, without saving anything
    Preview {
        /// Minute, hour, day, month, weekday, such as '30 2 * * 1-5'; with six fields, the first is seconds; or @daily
        /// and similar
        cron: String,
        /// The zone its times are in, such as Europe/Berlin [default: UTC]
        #[arg(long, value_name = "ZONE")]
        timezone: Option<String>,
        /// How many times to print
        #[arg(long, default_value_t = 5)]
        count: usize,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// A name for it, such as nightly-report
    name: String,
    /// Minute, hour, day, month, weekday, such as '30 2 * * 1-5'; with six fields, the first is seconds; or @daily and
    /// similar
    cron: String,
    /// The queue for its jobs
    queue: String,
    /// The handler's input: JSON, `@FILE`, or `-` for standard input [default: {}]
    payload: Option<String>,
    /// The zone its times are in, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// When the job of the last run has not ended: run anyway, skip this run, or cancel that job first [default: allow]
    #[arg(long, value_enum, value_name = "POLICY")]
    overlap: Option<OverlapName>,
    /// Runs that were missed while the server was down: make up for none of them, one, or all [default: once]
    #[arg(long, value_enum, value_name = "POLICY")]
    catch_up: Option<CatchUpName>,
    /// With --catch-up all: the most missed runs to make up for, the latest ones [default: 1000]
    #[arg(long, value_name = "N")]
    catch_up_most: Option<u32>,
    /// Enqueue no jobs until it is resumed
    #[arg(long)]
    paused: bool,
    /// Change the schedule of this name, if there is one; flags that are not given leave their values unchanged
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    jobs: JobsOf,
    #[command(flatten)]
    retries: Retries,
    #[command(flatten)]
    time_limits: TimeLimits,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Its jobs")]
struct JobsOf {
    /// How urgent they are
    #[arg(long, value_enum)]
    priority: Option<PriorityName>,
    /// Skip a run while a job with this key waits or runs
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// The longest time for which the key stays reserved
    #[arg(long, value_name = "DURATION")]
    unique_period: Option<String>,
    /// A tag; may be repeated
    #[arg(long = "tag", visible_alias = "tags", value_name = "NAME=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
}

impl Add {
    fn body(&self) -> anyhow::Result<Value> {
        let mut fields = Map::new();
        let mut body = Body(&mut fields);
        body.put("name", &Some(&self.name));
        body.put("cron", &Some(&self.cron));
        body.put("queue", &Some(&self.queue));
        body.read("payload", &self.payload)?;
        body.put("timezone", &self.timezone);
        body.put("overlap", &self.overlap);
        body.put("catch_up", &self.catch_up);
        body.put("catch_up_most", &self.catch_up_most);
        body.put("paused", &self.paused.then_some(true));
        body.put("priority", &self.jobs.priority);
        body.put("unique_key", &self.jobs.unique_key);
        body.put("unique_period", &self.jobs.unique_period);
        body.put_tags(&self.jobs.tags);
        self.retries.write(&mut body);
        self.time_limits.write(&mut body);
        Ok(Value::Object(fields))
    }

    fn run(&self, remote: &Remote) -> anyhow::Result<()> {
        let body = self.body()?;
        let name = &self.name;
        let known = remote.get("/schedules")?;
        let known = known.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == json!(name)));
        let made = match (known, self.replace) {
            (true, true) => remote.put(&path(name, ""), body.to_string().as_bytes())?,
            (true, false) => bail!("schedule {name} already exists; add --replace to change it"),
            (false, _) => remote.post("/schedules", &body)?,
        };
        if remote.json() {
            return show::json(&made);
        }
        show::print(&match made["paused"].as_bool() {
            Some(true) => format!("paused; `{}` starts it", remote.command(&format!("schedule resume {name}"))),
            _ => format!("next run {}", at(&made, "next_run").unwrap_or_else(|| "never".to_owned())),
        })
    }
}

const LIST: [Column; 8] = [
    ("NAME", "name"),
    ("CRON", "cron"),
    ("ZONE", "timezone"),
    ("QUEUE", "queue"),
    ("NEXT", "next"),
    ("LAST", "last"),
    ("OVERLAP", "overlap"),
    ("SKIPPED", "skipped"),
];

const ONE: [Column; 26] = [
    ("name", "name"),
    ("queue", "queue"),
    ("cron", "cron"),
    ("runs", "words"),
    ("time zone", "timezone"),
    ("next run", "next"),
    ("last run", "last"),
    ("last job", "last_job_id"),
    ("created by", "created_by"),
    ("overlap", "overlap"),
    ("catch-up", "catch_up"),
    ("catch-up most", "catch_up_most"),
    ("payload", "payload"),
    ("tags", "tags"),
    ("unique key", "unique_key"),
    ("priority", "priority"),
    ("max attempts", "max_attempts"),
    ("backoff", "retry_backoff"),
    ("base delay", "retry_base_delay"),
    ("max delay", "retry_max_delay"),
    ("attempt timeout", "attempt_timeout"),
    ("stall timeout", "stall_timeout"),
    ("max duration", "max_duration"),
    ("expire after", "expire_after"),
    ("lease", "lease_duration"),
    ("ttl", "ttl"),
];

impl Schedule {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Add(add) => add.run(remote),
            Action::List => {
                let all = remote.get("/schedules")?;
                match all.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(&rows.iter().map(for_people).collect::<Vec<_>>(), &LIST),
                    None => show::json(&all),
                }
            }
            Action::Get { name } => {
                let one = remote.get(&path(&name, ""))?;
                if remote.json() { show::json(&one) } else { show::print(page(&one).trim_end()) }
            }
            Action::Pause { name } => print_answer(remote, &remote.post(&path(&name, "/pause"), &json!({}))?),
            Action::Resume { name } => print_answer(remote, &remote.post(&path(&name, "/resume"), &json!({}))?),
            Action::Run { name } => {
                let ran = remote.post(&path(&name, "/run"), &json!({}))?;
                match (ran["job_id"].as_str(), ran["skipped"]["message"].as_str()) {
                    _ if remote.json() => show::json(&ran),
                    (Some(id), _) => show::print(id),
                    (None, Some(why)) => show::print(&format!("skipped: {why}")),
                    (None, None) => print_answer(remote, &ran),
                }
            }
            Action::Remove { name } => print_answer(remote, &remote.delete(&path(&name, ""))?),
            Action::Next { name, count } => {
                let next = remote.get(&path(&name, &format!("/next?count={count}")))?;
                if remote.json() { show::json(&next) } else { times(&next) }
            }
            Action::Preview { cron, timezone, count } => {
                let mut asked = json!({ "cron": cron, "count": count });
                if let Some(zone) = timezone {
                    asked["timezone"] = json!(zone);
                }
                let found = remote.post("/schedules/preview", &asked)?;
                if remote.json() {
                    return show::json(&found);
                }
                show::print(&format!("runs {}", found["words"].as_str().unwrap_or_default()))?;
                times(&found)
            }
        }
    }
}

/// Prints times in the zone that they are meant in.
fn times(found: &Value) -> anyhow::Result<()> {
    let times = found["next"].as_array().map_or(&[][..], Vec::as_slice);
    times.iter().filter_map(|time| in_zone(time, found)).try_for_each(|time| show::print(&time))
}

fn path(name: &str, rest: &str) -> String {
    format!("/schedules/{}{rest}", part(name))
}

/// A schedule for display: times in its own zone, and its skipped runs in short.
fn for_people(schedule: &Value) -> Value {
    let mut shown = schedule.clone();
    let next = if schedule["paused"] == true { Some("paused".to_owned()) } else { at(schedule, "next_run") };
    shown["next"] = json!(next.unwrap_or_else(|| "never".to_owned()));
    shown["last"] = json!(at(schedule, "last_run").unwrap_or_else(|| "never".to_owned()));
    let latest = &schedule["skipped_runs"][0];
    if let Some(time) = in_zone(&latest["last"], schedule) {
        let reason = latest["reason"].as_str().unwrap_or_default();
        shown["skipped"] = json!(format!("{}, last {time} ({reason})", schedule["skipped_total"]));
    }
    if let Some(tags) = schedule["tags"].as_object() {
        let tags = tags.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
        shown["tags"] = json!(tags.collect::<Vec<_>>().join(" "));
    }
    shown
}

/// A whole schedule, as text.
fn page(schedule: &Value) -> String {
    let mut page = show::field_lines(&for_people(schedule), &ONE);
    let runs = schedule["skipped_runs"].as_array().map_or(&[][..], Vec::as_slice);
    if runs.is_empty() {
        return page + "\nno run has been skipped";
    }
    page.push_str(&format!("\n{} skipped, the latest first:\n", counted(&schedule["skipped_total"])));
    for run in runs {
        let (first, last) = (in_zone(&run["first"], schedule), in_zone(&run["last"], schedule));
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let when = if first == last { first } else { format!("{first} to {last}, {}", counted(&run["count"])) };
        let text = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
        page.push_str(&format!("  {when}  {}: {}\n", text("reason"), text("message")));
    }
    page
}

fn counted(count: &Value) -> String {
    if *count == json!(1) { "1 run".to_owned() } else { format!("{count} runs") }
}

/// A time of a schedule, in its own zone.
fn at(schedule: &Value, field: &str) -> Option<String> {
    in_zone(&schedule[field], schedule)
}

/// A time in the zone of a schedule. If this program does not know the zone, the time stays in UTC.
fn in_zone(time: &Value, schedule: &Value) -> Option<String> {
    let text = time.as_str()?;
    let moment = DateTime::parse_from_rfc3339(text).ok();
    let moment = moment.and_then(|moment| u64::try_from(moment.timestamp_millis()).ok()).map(Time);
    let local = moment.and_then(|moment| local_time(moment, schedule["timezone"].as_str()?));
    Some(local.unwrap_or_else(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nightly() -> Value {
        json!({"name": "nightly", "queue": "reports", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "overlap": "skip",
        "catch_up": "once", "paused": false, "payload": {"kind": "full"}, "tags": {"team": "blue"},
        "next_run": "2026-11-19T01:30:00.000Z", "last_run": "2026-11-18T01:30:00.000Z", "last_job_id": "job_1",
        "skipped_total": 6, "skipped_runs": [
            {"first": "2026-11-17T01:30:00.000Z", "last": "2026-11-17T01:30:00.000Z", "count": 1, "reason": "overlap",
             "message": "the job of an earlier run, job_0, had not ended", "job_id": "job_0"},
            {"first": "2026-07-01T00:30:00.000Z", "last": "2026-07-05T00:30:00.000Z", "count": 5, "reason": "paused",
             "message": "the schedule was paused"},
        ]})
    }

    #[test]
    fn times_are_in_the_zone_of_the_schedule_and_skipped_runs_say_why() {
        let page = page(&nightly());
        for line in [
            "time zone        Europe/Berlin",
            "next run         2026-11-19 02:30:00 CET",
            "last run         2026-11-18 02:30:00 CET",
            "overlap          skip",
            "tags             team=blue",
            "6 runs skipped, the latest first:",
            "  2026-11-17 02:30:00 CET  overlap: the job of an earlier run, job_0, had not ended",
            "  2026-07-01 02:30:00 CEST to 2026-07-05 02:30:00 CEST, 5 runs  paused: the schedule was paused",
        ] {
            assert!(page.lines().any(|one| one == line), "{line:?} is missing:\n{page}");
        }
        let row = for_people(&nightly());
        assert_eq!(row["skipped"], "6, last 2026-11-17 02:30:00 CET (overlap)");
    }

    #[test]
    fn a_schedule_without_skipped_runs_says_so_and_an_unknown_zone_shows_utc() {
        let mut schedule = nightly();
        schedule["paused"] = json!(true);
        schedule["last_run"] = Value::Null;
        schedule["skipped_runs"] = json!([]);
        schedule["timezone"] = json!("Mars/Olympus");
        let row = for_people(&schedule);
        assert_eq!((&row["next"], &row["last"], row.get("skipped")), (&json!("paused"), &json!("never"), None));
        assert!(page(&schedule).contains("no run has been skipped"));
        assert_eq!(at(&schedule, "next_run").as_deref(), Some("2026-11-19T01:30:00.000Z"));
    }
}

//! One job as text: its fields, the usage of its attempts, its errors with their backtraces, and its timeline.

use std::fmt::Write;

use serde_json::Value;

use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;
use crate::cli::terminal::units;

/// How much of a payload, a checkpoint or a result is shown.
const BODY_CHARACTERS: usize = 2_000;
/// How much of a version's digest.
const DIGEST_CHARACTERS: usize = 12;

const HEAD: [Column; 14] = [
    ("id", "id"),
    ("queue", "queue"),
    ("state", "state"),
    ("priority", "priority"),
    ("attempts", "attempts"),
    ("progress", "progress_line"),
    ("cancel", "cancel_line"),
    ("held", "hold_reason"),
    ("waits for", "waits_line"),
    ("run by", "runner_line"),
    ("pinned version", "pinned_version"),
    ("cost", "cost_line"),
    ("usage", "usage_line"),
    ("last error", "last_error"),
];
const WHAT: [Column; 19] = [
    ("scope", "scope"),
    ("tags", "tags"),
    ("unique key", "unique_key"),
    ("limit key", "limit_key"),
    ("schedule", "schedule"),
    ("parent", "parent_id"),
    ("depth", "depth"),
    ("children", "children_line"),
    ("batch", "batch_id"),
    ("chain", "chain_id"),
    ("round", "round"),
    ("target worker", "target_worker"),
    ("created", "created_at"),
    ("scheduled", "scheduled_at"),
    ("started", "started_at"),
    ("completed", "completed_at"),
    ("failed", "failed_at"),
    ("expires", "expire_at"),
    ("lease until", "lease_expires_at"),
];
const BODIES: [&str; 3] = ["payload", "checkpoint", "result"];

/// Prints it.
pub fn show(job: &Value) -> anyhow::Result<()> {
    show::print(text(job).trim_end())
}

/// The whole job, as text.
fn text(job: &Value) -> String {
    let mut whole = job.clone();
    for (field, line) in [
        ("attempts", Some(attempts(job))),
        ("progress_line", progress(&job["progress"])),
        ("cancel_line", cancel(job)),
        ("waits_line", waits(&job["waits_for"])),
        ("runner_line", runner(job)),
        ("cost_line", cost(&job["attempt_usage"])),
        ("usage_line", usage(&job["usage"])),
        ("children_line", children(&job["children"])),
    ] {
        whole[field] = line.map_or(Value::Null, Value::from);
    }
    if whole["tags"].as_object().is_some_and(serde_json::Map::is_empty) {
        whole["tags"] = Value::Null;
    }
    let mut text = show::field_lines(&whole, &[&HEAD[..], &WHAT[..]].concat());
    for name in BODIES {
        if let Some(body) = body(&job[name]) {
            let _ = writeln!(text, "{name:<14}  {body}");
        }
    }
    let errors = job["errors"].as_array().map_or(&[][..], Vec::as_slice);
    if !errors.is_empty() {
        text.push_str("\nfailed attempts\n");
    }
    for error in errors {
        let head = [Some(time(&error["at"])), runner(error), cost(error)];
        let head: Vec<String> = head.into_iter().flatten().collect();
        let _ = writeln!(text, "  attempt {}  {}", error["attempt"], head.join("  "));
        for part in [&error["error"], &error["backtrace"]].into_iter().filter_map(Value::as_str) {
            if !part.trim().is_empty() {
                let _ = writeln!(text, "{}", show::indented(part.trim_end()));
            }
        }
    }
    timeline(job, &mut text);
    text
}

fn attempts(job: &Value) -> String {
    let number = |field: &str| job[field].as_u64().unwrap_or_default();
    let (failures, most) = (number("failures"), number("max_attempts").max(1));
    let mut line = format!("{} started, {failures} failed", number("attempt"));
    if number("crashes") > 0 {
        let _ = write!(line, ", {} crashed with the server", number("crashes"));
    }
    if failures < most {
        let _ = write!(line, "; dead at {most} failures");
    }
    line
}

/// `62 %  hash: step 9 of 32 (9437184 of 33554432 bytes)`
fn progress(progress: &Value) -> Option<String> {
    let text: Vec<&str> = ["phase", "message"].iter().filter_map(|field| progress[*field].as_str()).collect();
    let text = text.join(": ");
    let (current, total) = (progress["current"].as_u64(), progress["total"].as_u64().filter(|total| *total > 0));
    let counted = current.zip(total).map(|(current, total)| current as f64 / total as f64 * 100.0);
    let percent = progress["percent"].as_f64().or(counted).filter(|percent| percent.is_finite());
    let unit = progress["unit"].as_str().map(|unit| format!(" {unit}")).unwrap_or_default();
    let count = match (current, total) {
        (Some(current), Some(total)) => format!("({current} of {total}{unit})"),
        (Some(current), None) => format!("({current}{unit})"),
        (None, _) => String::new(),
    };
    let percent = percent.map(|percent| format!("{:.0} %", percent.clamp(0.0, 100.0))).unwrap_or_default();
    let parts: Vec<String> = [percent, text, count].into_iter().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("  "))
}

/// Why it was or will be cancelled.
fn cancel(job: &Value) -> Option<String> {
    let reason = job["cancel_reason"].as_str();
    match (job["cancel_requested_at"].as_str(), reason) {
        (Some(at), Some(reason)) => Some(format!("requested at {at}: {reason}")),
        (Some(at), None) => Some(format!("requested at {at}")),
        (None, reason) => reason.map(str::to_owned),
    }
}

fn waits(waits: &Value) -> Option<String> {
    if let Some(reason) = waits["reason"].as_str() {
        return Some(reason.to_owned());
    }
    let count = waits["count"].as_u64()?;
    let jobs: Vec<&str> = waits["jobs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let more = if (jobs.len() as u64) < count { ", …" } else { "" };
    Some(format!("{count} jobs: {}{more}", jobs.join(", ")))
}

fn children(children: &Value) -> Option<String> {
    let counts = children.as_object()?.iter().filter(|(_, count)| count.as_u64() > Some(0));
    let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

fn runner(of: &Value) -> Option<String> {
    if let Some(plugin) = of["plugin"].as_str() {
        let version: String =
            of["plugin_version"].as_str().unwrap_or_default().chars().take(DIGEST_CHARACTERS).collect();
        return Some(format!("plugin {plugin} {version}"));
    }
    let worker = of["worker_id"].as_str()?;
    match of["hostname"].as_str().filter(|host| !host.is_empty()) {
        Some(host) => Some(format!("worker {worker} on {host}")),
        None => Some(format!("worker {worker}")),
    }
}

/// What an attempt in a plugin used.
fn cost(usage: &Value) -> Option<String> {
    let number = |field: &str| usage[field].as_u64();
    let mut line = format!("cpu {}, wall {}", units::millis(number("cpu_ms")?), units::millis(number("wall_ms")?));
    if let Some(peak) = number("peak_memory") {
        let _ = write!(line, ", memory {}", units::bytes(peak));
    }
    if let Some(calls) = number("host_calls") {
        let _ = write!(line, ", {calls} host calls");
    }
    if let Some(log) = number("log_bytes").filter(|log| *log > 0) {
        let _ = write!(line, ", log {}", units::bytes(log));
    }
    Some(line)
}

/// Tokens and costs, as handlers report them.
fn usage(usage: &Value) -> Option<String> {
    let number = |field: &str| usage[field].as_u64().filter(|count| *count > 0);
    let tokens = [
        ("input_tokens", "input tokens"),
        ("output_tokens", "output tokens"),
        ("cache_creation_tokens", "tokens written to the cache"),
        ("cache_read_tokens", "tokens read from the cache"),
    ];
    let mut parts: Vec<String> =
        tokens.iter().filter_map(|(field, name)| number(field).map(|count| format!("{count} {name}"))).collect();
    parts.extend(usage["cost_usd"].as_f64().filter(|cost| *cost > 0.0).map(|cost| format!("{cost:.4} USD")));
    parts.extend(usage["model"].as_str().map(str::to_owned));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A payload, a checkpoint or a result, as far as it fits on a screen.
fn body(value: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let text = value.to_string();
    Some(match text.char_indices().nth(BODY_CHARACTERS) {
        Some((end, _)) => {
            format!("{}… ({} in total; --output json shows it)", &text[..end], units::bytes(text.len() as u64))
        }
        None => text,
    })
}

fn timeline(job: &Value, text: &mut String) {
    let steps = job["timeline"].as_array().map_or(&[][..], Vec::as_slice);
    if steps.is_empty() {
        return;
    }
    text.push_str("\ntimeline\n");
    for (index, step) in steps.iter().enumerate() {
        let state = step["state"].as_str().unwrap_or_default();
        let attempt = step["attempt"].as_u64().filter(|attempt| *attempt > 0);
        let attempt = attempt.map(|attempt| format!("attempt {attempt}")).unwrap_or_default();
        let mut line = format!("  {}  {state:<9}  {attempt:<10}  ", time(&step["at"]));
        line.push_str(step["reason"].as_str().unwrap_or_default());
        let took: Vec<String> = [runner(step), cost(step)].into_iter().flatten().collect();
        if !took.is_empty() {
            let _ = write!(line, " ({})", took.join("; "));
        }
        let _ = writeln!(text, "{}", show::one_line(&line).trim_end());
        // The first step and the latest ones are stored.
        if let Some(dropped) = job["timeline_dropped"].as_u64().filter(|dropped| index == 0 && *dropped > 0) {
            let _ = writeln!(text, "  … {dropped} steps are no longer stored");
        }
    }
}

fn time(at: &Value) -> String {
    at.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_died_says_what_happened_and_what_it_cost() {
        let job = json!({
            "id": "job_1", "queue": "mail", "state": "dead", "priority": "normal", "attempt": 2, "max_attempts": 2, "failures": 2,
            "crashes": 0, "tags": {}, "created_at": "2030-01-01T00:00:00.000Z", "last_error": "no route\nto host",
            "plugin": "mailer", "plugin_version": "0123456789abcdef",
            "progress": {"phase": "send", "message": "7 of 10", "current": 7, "total": 10, "unit": "mails"},
            "attempt_usage": {"cpu_ms": 12, "wall_ms": 1500, "peak_memory": 3 << 20, "host_calls": 4, "log_bytes": 0},
            "usage": {"input_tokens": 1200, "output_tokens": 30, "cost_usd": 0.0123, "model": "m"},
            "payload": {"to": "ann"}, "checkpoint": null, "result": null,
            "errors": [{"attempt": 1, "at": "2030-01-01T00:00:01.000Z", "error": "no route\nto host", "backtrace": "at send\nat run",
                "plugin": "mailer", "plugin_version": "0123456789abcdef", "cpu_ms": 3, "wall_ms": 9, "peak_memory": 1024}],
            "timeline": [
                {"at": "2030-01-01T00:00:00.000Z", "state": "pending", "attempt": 0, "reason": "enqueued"},
                {"at": "2030-01-01T00:00:01.000Z", "state": "dead", "attempt": 2, "reason": "all runs used up"},
            ],
            "timeline_dropped": 3,
        });
        let text = text(&job);
        for part in [
            "attempts        2 started, 2 failed\n",
            "progress        70 %  send: 7 of 10  (7 of 10 mails)\n",
            "run by          plugin mailer 0123456789ab\n",
            "cost            cpu 12 ms, wall 1.5 s, memory 3 MiB, 4 host calls\n",
            "usage           1200 input tokens, 30 output tokens, 0.0123 USD, m\n",
            "last error      no route …\n",
            "payload         {\"to\":\"ann\"}\n",
            "  attempt 1  2030-01-01T00:00:01.000Z  plugin mailer 0123456789ab  cpu 3 ms, wall 9 ms, memory 1 KiB\n",
            "    no route\n    to host\n    at send\n    at run\n",
            "  2030-01-01T00:00:00.000Z  pending                enqueued\n",
            "  … 3 steps are no longer stored\n",
            "  2030-01-01T00:00:01.000Z  dead       attempt 2   all runs used up\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
        assert!(!text.contains("tags") && !text.contains("checkpoint "), "{text}");
    }

    #[test]
    fn a_cancelled_job_says_why_and_a_large_body_is_cut() {
        let job = json!({"state": "cancelled", "cancel_reason": "not needed", "result": "x".repeat(5_000)});
        let text = text(&job);
        assert!(text.contains("cancel          not needed\n"), "{text}");
        assert!(text.contains("… (4.9 KiB in total; --output json shows it)") && text.len() < 3_000, "{text}");
        let asked = json!({"cancel_requested_at": "2030-01-01T00:00:00Z", "cancel_reason": "stop"});
        assert_eq!(cancel(&asked).as_deref(), Some("requested at 2030-01-01T00:00:00Z: stop"));
    }
}

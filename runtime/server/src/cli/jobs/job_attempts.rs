//! `windlass job attempts`: when each attempt of a job waited and ran, who ran it, how it ended, and what it used.

use serde_json::{Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

const COLUMNS: [Column; 9] = [
    ("NO", "number"),
    ("ATTEMPT", "attempt"),
    ("STARTED", "started_at"),
    ("WAITED", "waited"),
    ("RAN", "ran"),
    ("OUTCOME", "outcome"),
    ("RAN ON", "ran_on"),
    ("CPU", "cpu"),
    ("WHY", "why"),
];

pub fn show(remote: &Remote, id: &str) -> anyhow::Result<()> {
    let answer = remote.get(&format!("/jobs/{}/attempts", part(id)))?;
    if remote.json() {
        return show::json(&answer);
    }
    let attempts = answer["attempts"].as_array().cloned().unwrap_or_default();
    if attempts.is_empty() {
        return show::print("the job has not been started yet");
    }
    if let Some(before) = answer["before"].as_u64().filter(|before| *before > 0) {
        show::print(&format!("{before} earlier attempts are not stored any more"))?;
    }
    show::table(&attempts.iter().map(row).collect::<Vec<_>>(), &COLUMNS)?;
    for denial in attempts.iter().flat_map(|attempt| attempt["denials"].as_array().into_iter().flatten()) {
        let text = |name: &str| denial[name].as_str().unwrap_or_default();
        show::print(&format!("denied {} `{}`; to allow it: {}", text("capability"), text("wanted"), text("command")))?;
    }
    Ok(())
}

fn row(attempt: &Value) -> Value {
    let span = |name: &str| attempt[name].as_u64().map(|millis| format!("{millis} ms"));
    let text = |name: &str| attempt[name].as_str();
    let version = text("plugin_version").map(|version| version.get(..12).unwrap_or(version));
    let ran_on = version.map(str::to_owned).or_else(|| attempt["worker"]["id"].as_str().map(str::to_owned));
    let hits: Vec<&str> = attempt["hits"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let hits = (!hits.is_empty()).then(|| format!("limits hit: {}", hits.join(", ")));
    let why = [text("error").or(text("reason")).map(str::to_owned), hits];
    json!({
        "number": attempt["number"],
        "attempt": attempt["attempt"],
        "started_at": attempt["started_at"],
        "waited": span("waited_ms"),
        "ran": span("ran_ms"),
        "outcome": attempt["outcome"],
        "ran_on": ran_on,
        "cpu": span("cpu_ms").or_else(|| attempt["live"]["cpu_ms"].as_u64().map(|millis| format!("{millis} ms"))),
        "why": why.into_iter().flatten().collect::<Vec<_>>().join("; "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_why_an_attempt_ended_and_which_limits_it_hit() {
        let shown = row(&json!({
            "number": 2, "attempt": 1, "outcome": "failed", "error": "no\nway", "reason": "retries used up", "ran_ms": 7,
            "plugin_version": "0123456789abcdef", "hits": ["memory"], "cpu_ms": 3,
        }));
        assert_eq!((&shown["why"], &shown["ran"]), (&json!("no\nway; limits hit: memory"), &json!("7 ms")));
        assert_eq!((&shown["ran_on"], &shown["cpu"]), (&json!("0123456789ab"), &json!("3 ms")));
    }
}

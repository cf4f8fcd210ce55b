//! Searches among very many jobs: how long they take, and how much they slow down enqueueing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::figure::{Figure, Goal};
use anyhow::Context;
use serde_json::{Value, json};

use crate::http::load;
use crate::http::load::Shape;
use crate::http::{JOBS_PER_REQUEST, bulk_body};
use crate::process::Process;
use crate::setting::{Setting, say};
use crate::stats::median;

/// The goals are for this many jobs; with fewer, the times of searches that read every job are scaled up.
const MILLION: usize = 1_000_000;

pub fn measure(setting: &Setting, span: f64, repeats: usize) -> anyhow::Result<Vec<Figure>> {
    let jobs = if setting.quick { MILLION / 10 } else { MILLION };
    let folder = setting.folder("http-search")?;
    let server = Process::serve(&folder.0)?;
    fill(&server.url, jobs)?;
    let indexed = indexed(&server.url, if setting.quick { 20 } else { 100 })?;
    let scale = MILLION as f64 / jobs as f64;
    let whole = |request: &Value| -> anyhow::Result<f64> {
        let times: anyhow::Result<Vec<f64>> = (0..3).map(|_| search(&server.url, request)).collect();
        Ok(median(times?) * scale)
    };
    let text = whole(&json!({"payload_contains": "user-4321\""}))?;
    let jq = whole(&json!({"payload_jq": ".amount > 998"}))?;
    let priority = whole(&json!({"sort": "priority"}))?;
    say(&format!(
        "{jobs} jobs: by an index {indexed:.1} ms; of a million: a text {text:.2} s, jq {jq:.2} s, sorted by priority {priority:.2} s"
    ));
    let (alone, during) = enqueueing(&server.url, span, repeats)?;
    let figure =
        |name, value, unit, most| Figure { name, value, unit, limit: None, ratio: value, goal: Goal::AtMost(most) };
    Ok(vec![
        figure("search_indexed", indexed, "ms", 10.0),
        figure("search_payload", text, "s", 2.0),
        figure("search_jq", jq, "s", 2.0),
        Figure {
            name: "search_beside_enqueue",
            value: during,
            unit: "jobs/s",
            limit: Some(alone),
            ratio: during / alone,
            goal: Goal::AtLeast(0.8),
        },
    ])
}

/// The slowest of some searches that an index answers, in milliseconds.
fn indexed(url: &str, times: usize) -> anyhow::Result<f64> {
    let kinds: [fn(usize) -> Value; 4] = [
        |repeat| json!({"tags": {"shard": (repeat * 7).to_string()}}),
        |_| json!({"queue": "search", "state": ["pending"]}),
        |repeat| json!({"scope": format!("user:{}", repeat * 11)}),
        |_| json!({"state": ["pending", "dead"], "order": "asc"}),
    ];
    let mut slowest: f64 = 0.0;
    for kind in kinds {
        let times: anyhow::Result<Vec<f64>> = (0..times).map(|repeat| search(url, &kind(repeat))).collect();
        slowest = slowest.max(median(times?) * 1e3);
    }
    Ok(slowest)
}

/// Enqueues jobs with distinct payloads.
fn fill(url: &str, jobs: usize) -> anyhow::Result<()> {
    let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
    let padding = "x".repeat(140);
    for first in (0..jobs).step_by(JOBS_PER_REQUEST) {
        let job = |n: usize| {
            json!({
                "queue": "search",
                "payload": {"user": format!("user-{n}"), "amount": n % 1_000, "text": padding},
                "tags": {"shard": (n % 1_000).to_string()},
                "scope": format!("user:{}", n % 5_000),
            })
        };
        let batch: Vec<Value> = (first..first + JOBS_PER_REQUEST).map(job).collect();
        agent.post(format!("{url}/api/v1/enqueue/batch")).send_json(json!({ "jobs": batch }))?;
    }
    Ok(())
}

/// Seconds until the response was read.
fn search(url: &str, request: &Value) -> anyhow::Result<f64> {
    let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
    let began = Instant::now();
    let mut answer = agent.post(format!("{url}/api/v1/jobs/search")).send_json(request)?;
    let answer: Value = answer.body_mut().with_config().limit(64 * 1024 * 1024).read_json()?;
    let took = began.elapsed().as_secs_f64();
    answer["total"].as_u64().with_context(|| format!("no total for {request}"))?;
    Ok(took)
}

/// Jobs per second of bulk enqueueing, without and with a client that searches all payloads repeatedly.
fn enqueueing(url: &str, span: f64, repeats: usize) -> anyhow::Result<(f64, f64)> {
    let shape = Shape::post(url, "/api/v1/enqueue/batch", &bulk_body(), 4, span);
    let rate = || anyhow::Ok(load::spawn(&shape)? * JOBS_PER_REQUEST as f64);
    let (mut alone, mut during) = (Vec::new(), Vec::new());
    for repeat in 0..=repeats {
        // Which one is first alternates: the store grows, and that should affect both alike.
        let (without, with) = if repeat % 2 == 0 {
            let without = rate()?;
            (without, while_searching(url, rate)?)
        } else {
            let with = while_searching(url, rate)?;
            (rate()?, with)
        };
        say(&format!("{without:.0} jobs/s alone, {with:.0} jobs/s during searches"));
        if repeat > 0 {
            alone.push(without);
            during.push(with);
        }
    }
    Ok((median(alone), median(during)))
}

/// Measures while all payloads are searched, for a text and by jq in turn.
fn while_searching(url: &str, measure: impl Fn() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for request in
                [json!({"payload_contains": "no such text"}), json!({"payload_jq": ".amount > 998"})].iter().cycle()
            {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if search(url, request).is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let measured = measure();
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

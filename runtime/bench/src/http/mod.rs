//! `windlass-bench http`: the server over HTTP, against a bare axum echo on the same machine in the same run.
//!
//! The server, the echo and the load are separate processes. They are measured in turn, so that other load on the
//! machine affects both alike. Reading order: `load` (the second process), `peer` (the echo), `search`.

pub mod load;
pub mod peer;
mod search;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use bytes::Bytes;
use serde_json::{Value, json};
use windlass_core::{Body, NewJob};

use crate::figure::{Figure, Goal};
use crate::http::load::Shape;
use crate::process::Process;
use crate::setting::{Setting, open, say};
use crate::stats::median;

const CONNECTIONS: usize = 64;
const JOBS_PER_REQUEST: usize = 1_000;
const WATCHERS: usize = 1_000;

/// `guest` is a plugin that returns the time at which it started.
pub fn run(setting: &Setting, guest: &Path) -> anyhow::Result<Vec<Figure>> {
    let span = if setting.quick { 1.5 } else { 8.0 };
    // Measurements with several loads are repeated less often in a quick run.
    let (repeats, long_repeats) = if setting.quick { (2, 1) } else { (4, 4) };
    let mut figures = throughput(setting, span, repeats)?;
    figures.push(key_check(setting, span, repeats)?);
    figures.push(bulk(setting, span)?);
    match first_instruction(setting, guest)? {
        Some(figure) => figures.push(figure),
        None => say(&format!("{} does not exist; `make plugins` builds it", guest.display())),
    }
    figures.push(watchers(setting, span, long_repeats)?);
    figures.extend(search::measure(setting, span, long_repeats)?);
    Ok(figures)
}

/// One job per request, and fetch and ack by many workers: requests per second, against the echo's.
fn throughput(setting: &Setting, span: f64, repeats: usize) -> anyhow::Result<Vec<Figure>> {
    let echo = Process::echo()?;
    let folder = setting.folder("http-enqueue")?;
    let server = Process::serve(&folder.0)?;
    let body = json!({"queue": "bench", "payload": {"text": "x".repeat(200)}}).to_string();
    let (mut alone, mut stored, mut worked) = (Vec::new(), Vec::new(), Vec::new());
    for repeat in 0..=repeats {
        let bare = load::spawn(&Shape::post(&echo.url, "/echo", &body, CONNECTIONS, span))?;
        let enqueued = load::spawn(&Shape::post(&server.url, "/api/v1/enqueue", &body, CONNECTIONS, span))?;
        // Fetches and acks what was just stored, which is more than can be done in the span.
        let fetched = load::spawn(&Shape::work(&server.url, "bench", CONNECTIONS, span))?;
        say(&format!("echo {bare:.0}/s, enqueue {enqueued:.0}/s, fetch and ack {fetched:.0}/s"));
        // The first repetition warms up.
        if repeat > 0 {
            alone.push(bare);
            stored.push(enqueued);
            worked.push(fetched);
        }
    }
    let limit = median(alone);
    let figure = |name, value: f64, goal| Figure {
        name,
        value,
        unit: "requests/s",
        limit: Some(limit),
        ratio: value / limit,
        goal: Goal::AtLeast(goal),
    };
    Ok(vec![figure("http_enqueue", median(stored), 0.35), figure("http_fetch_ack", median(worked), 0.3)])
}

/// What it costs to check a key in each request: two servers in turn, one of which needs none.
fn key_check(setting: &Setting, span: f64, repeats: usize) -> anyhow::Result<Figure> {
    const ADMIN: &str = "the-key-of-an-admin-in-a-benchmark";
    let (open, closed) = (setting.folder("http-open")?, setting.folder("http-key")?);
    let (open, closed) = (Process::serve(&open.0)?, Process::serve_with_key(&closed.0, ADMIN)?);
    let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
    let made = agent.post(format!("{}/api/v1/auth/keys", closed.url)).header("x-api-key", ADMIN);
    let made: Value = made.send_json(json!({"name": "bench", "role": "producer"}))?.body_mut().read_json()?;
    let key = made["key"].as_str().context("no key was made")?;
    let body = json!({"queue": "bench", "payload": {"text": "x".repeat(200)}}).to_string();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for repeat in 0..=repeats {
        let enqueue = |url: &str| Shape::post(url, "/api/v1/enqueue", &body, CONNECTIONS, span);
        let (free, checked) = (load::spawn(&enqueue(&open.url))?, load::spawn(&enqueue(&closed.url).with_key(key))?);
        say(&format!("enqueue without a key {free:.0}/s, with one {checked:.0}/s"));
        // The first repetition warms up.
        if repeat > 0 {
            without.push(free);
            with.push(checked);
        }
    }
    let (limit, value) = (median(without), median(with));
    Ok(Figure {
        name: "key_check",
        value,
        unit: "requests/s",
        limit: Some(limit),
        ratio: value / limit,
        goal: Goal::AtLeast(0.97),
    })
}

/// Jobs per second with a thousand in each request, against the engine without HTTP.
fn bulk(setting: &Setting, span: f64) -> anyhow::Result<Figure> {
    let folder = setting.folder("http-engine")?;
    let limit = engine_rate(&folder.0, span)?;
    drop(folder);
    let folder = setting.folder("http-batch")?;
    let server = Process::serve(&folder.0)?;
    let value = load::spawn(&Shape::post(&server.url, "/api/v1/enqueue/batch", &bulk_body(), 4, span))?
        * JOBS_PER_REQUEST as f64;
    say(&format!("{JOBS_PER_REQUEST} jobs per request: {value:.0} jobs/s over HTTP, {limit:.0} jobs/s in the engine"));
    Ok(Figure {
        name: "http_batch",
        value,
        unit: "jobs/s",
        limit: Some(limit),
        ratio: value / limit,
        goal: Goal::AtLeast(0.6),
    })
}

fn bulk_body() -> String {
    let job = json!({"queue": "bench", "payload": {"text": "x".repeat(200)}});
    json!({"jobs": vec![job; JOBS_PER_REQUEST]}).to_string()
}

/// The engine's rate with the same number of jobs per request, from as many callers.
fn engine_rate(dir: &Path, span: f64) -> anyhow::Result<f64> {
    let store = open(dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let payload = Bytes::from(json!({"text": "x".repeat(200)}).to_string());
    let began = Instant::now();
    let done = runtime.block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (store, payload) = (store.clone(), payload.clone());
            callers.spawn(async move {
                let mut done = 0;
                while began.elapsed().as_secs_f64() < span {
                    let job = || NewJob {
                        queue: "bench".parse().ok(),
                        payload: Some(Body::Inline(payload.clone())),
                        ..NewJob::default()
                    };
                    store.enqueue((0..JOBS_PER_REQUEST).map(|_| job()).collect()).await?;
                    done += JOBS_PER_REQUEST;
                }
                Ok::<usize, windlass_store::Error>(done)
            });
        }
        let mut done = 0;
        while let Some(caller) = callers.join_next().await {
            done += caller??;
        }
        anyhow::Ok(done)
    })?;
    let rate = done as f64 / began.elapsed().as_secs_f64();
    runtime.block_on(store.close());
    Ok(rate)
}

/// One job on an idle server: from before the request to the guest's first instruction.
fn first_instruction(setting: &Setting, guest: &Path) -> anyhow::Result<Option<Figure>> {
    let Ok(guest) = std::fs::read(guest) else { return Ok(None) };
    let folder = setting.folder("http-first")?;
    let server = Process::serve(&folder.0)?;
    let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
    agent.put(format!("{}/api/v1/plugins/clock?queues=clock", server.url)).send(&guest[..])?;
    let count = if setting.quick { 100 } else { 1_000 };
    let mut spans = Vec::new();
    let mut syncs = Vec::new();
    for repeat in 0..count + 10 {
        // In turn with the disk alone, so that both see the disk in the same condition.
        let sync = fsync(&folder.0)?;
        std::thread::sleep(Duration::from_millis(2));
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let job = json!({"queue": "clock", "payload": {"try": "clock"}});
        let answer: Value =
            agent.post(format!("{}/api/v1/enqueue", server.url)).send_json(&job)?.body_mut().read_json()?;
        let id = answer["job_id"].as_str().unwrap_or_default();
        let job: Value = agent.get(format!("{}/api/v1/jobs/{id}/wait", server.url)).call()?.body_mut().read_json()?;
        let began: u128 = match job["result"].as_str().or(job["result"]["$base64"].as_str()) {
            Some(text) => text.parse().or_else(|_| decode(text))?,
            None => job["result"].as_u64().map(u128::from).with_context(|| format!("no time in {job}"))?,
        };
        // The first few run with cold caches.
        if repeat >= 10 {
            spans.push((began.saturating_sub(before.as_nanos())) as f64 / 1e6);
            syncs.push(sync.as_secs_f64() * 1e3);
        }
    }
    let (value, sync) = (median(spans), median(syncs));
    let limit = sync + 0.6;
    say(&format!("first instruction after {value:.3} ms, one fsync takes {sync:.3} ms"));
    Ok(Some(Figure {
        name: "http_first_instruction",
        value,
        unit: "ms",
        limit: Some(limit),
        ratio: value / limit,
        goal: Goal::AtMost(1.0),
    }))
}

/// A result that is not JSON is returned in base64.
fn decode(text: &str) -> anyhow::Result<u128> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text)?;
    Ok(String::from_utf8(bytes)?.trim_matches('"').parse()?)
}

/// One append and its sync, as for a commit.
fn fsync(dir: &Path) -> anyhow::Result<Duration> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("probe"))?;
    let began = Instant::now();
    file.write_all(&[7; 600])?;
    file.sync_data()?;
    Ok(began.elapsed())
}

/// A thousand watchers of one busy job: the rate of bulk enqueueing meanwhile. It is compared with the rate while
/// another process sends as many events to as many readers, because sending them takes some of the machine in any case.
fn watchers(setting: &Setting, span: f64, repeats: usize) -> anyhow::Result<Figure> {
    let peer = Process::echo()?;
    let folder = setting.folder("http-watchers")?;
    let server = Process::serve(&folder.0)?;
    let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
    let answer: Value = agent
        .post(format!("{}/api/v1/enqueue", server.url))
        .send_json(json!({"queue": "busy"}))?
        .body_mut()
        .read_json()?;
    let id = answer["job_id"].as_str().unwrap_or_default().to_owned();
    agent.post(format!("{}/api/v1/fetch", server.url)).send_json(json!({"queues": ["busy"], "worker_id": "bench"}))?;
    let shape = Shape::post(&server.url, "/api/v1/enqueue/batch", &bulk_body(), 4, span);
    let rate = || anyhow::Ok(load::spawn(&shape)? * JOBS_PER_REQUEST as f64);
    let (mut elsewhere, mut watched) = (Vec::new(), Vec::new());
    for repeat in 0..=repeats {
        let alone = rate()?;
        let watching = load::Watching::of_peer(&peer.url, WATCHERS)?;
        let without = rate()?;
        watching.stop()?;
        let watching = load::Watching::of_job(&server.url, &id, WATCHERS)?;
        let with = rate()?;
        let events = watching.stop()?;
        say(&format!(
            "{alone:.0} jobs/s alone, {without:.0} jobs/s with {WATCHERS} watchers of a bare server, {with:.0} jobs/s with {WATCHERS} \
             of a job, {events} events sent"
        ));
        if repeat > 0 {
            elsewhere.push(without);
            watched.push(with);
        }
    }
    let (limit, value) = (median(elsewhere), median(watched));
    Ok(Figure {
        name: "http_watchers",
        value,
        unit: "jobs/s",
        limit: Some(limit),
        ratio: value / limit,
        goal: Goal::AtLeast(0.95),
    })
}

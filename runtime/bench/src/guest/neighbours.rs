//! How hostile guests affect others: the server's response times while guests compute on every core, and the jobs of a
//! well-behaved neighbour next to each kind of hostile guest.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::figure::{Figure, Goal};
use anyhow::bail;
use serde_json::{Value, json};

use crate::guest::NOTHING;
use crate::server::{Client, Server};
use crate::setting::{Setting, say};
use crate::stats::percentile;

/// Hostile guests that run for this many milliseconds: the figure's name and the payload.
fn kinds(ms: u64) -> [(&'static str, Value); 6] {
    [
        ("neighbour_of_computing", json!({"try": "compute", "ms": ms})),
        ("neighbour_of_host_calls", json!({"try": "call", "ms": ms})),
        ("neighbour_of_log_flood", json!({"try": "flood", "ms": ms})),
        ("neighbour_of_memory_bomb", json!({"try": "memory", "mb": 100, "ms": ms})),
        ("neighbour_of_checkpoints", json!({"try": "save", "bytes": 60_000, "ms": ms})),
        ("neighbour_of_sleepers", json!({"try": "sleep", "ms": ms})),
    ]
}

pub fn measure(setting: &Setting, guest: &[u8]) -> anyhow::Result<Vec<Figure>> {
    let mut figures = answers(setting, guest)?;
    for (name, payload) in kinds(600_000) {
        figures.push(neighbour(setting, guest, name, &payload)?);
    }
    figures.push(tenant(setting, guest)?);
    Ok(figures)
}

/// The plugins over which one tenant spreads its endless jobs, and how many jobs it has.
const PLUGINS: [&str; 4] = ["one", "two", "three", "four"];
const ENDLESS: usize = 10_000;

/// A tenant's job beside another tenant's endless jobs, which wait in the queues of several plugins and take what slots
/// they get.
fn tenant(setting: &Setting, guest: &[u8]) -> anyhow::Result<Figure> {
    let samples = if setting.quick { 300 } else { 2_000 };
    let server = Server::start(setting, "tenants")?;
    let (acme, globex) = (server.client.tenant("acme")?, server.client.tenant("globex")?);
    globex.upload("noop", guest)?;
    for name in PLUGINS {
        acme.upload(name, &crate::guest::swap::other_bytes(guest, name))?;
    }
    let nothing: Value = serde_json::from_str(NOTHING)?;
    let job = || completed(&globex, &nothing);
    timed(samples / 4, job)?;
    let mut alone = timed(samples, job)?;
    for name in PLUGINS {
        let endless = json!({"queue": name, "payload": {"try": "compute", "ms": 600_000}});
        for _ in 0..ENDLESS / PLUGINS.len() / 500 {
            acme.post("/enqueue/batch", &json!({"jobs": vec![&endless; 500]}))?;
        }
    }
    timed(samples / 4, job)?;
    let mut busy = timed(samples, job)?;
    let (limit, value) = (percentile(&mut alone, 50), percentile(&mut busy, 50));
    say(&format!("a tenant's job beside {ENDLESS} endless ones of another takes {value:.2} ms, alone {limit:.2} ms"));
    let name = "neighbour_tenant_endless";
    Ok(Figure { name, value, unit: "ms", limit: Some(limit), ratio: value / limit, goal: Goal::AtMost(2.0) })
}

/// A server with a well-behaved plugin and a hostile one. It is killed with all running jobs, because cancelling guests
/// that ignore the request would take five seconds for each kind.
fn server(setting: &Setting, guest: &[u8]) -> anyhow::Result<Server> {
    let server = Server::start(setting, "neighbours")?;
    server.client.upload("noop", guest)?;
    // Other bytes, so that the executor, too, sees another plugin.
    server.client.upload("hostile", &crate::guest::swap::other_bytes(guest, "hostile"))?;
    Ok(server)
}

/// The server's response times while guests compute on every core.
fn answers(setting: &Setting, guest: &[u8]) -> anyhow::Result<Vec<Figure>> {
    let server = server(setting, guest)?;
    let client = &server.client;
    // The 99th percentile rests on few samples, so many are taken; each takes less than a millisecond.
    let samples = if setting.quick { 1_000 } else { 5_000 };
    timed(samples / 4, || client.healthz())?;
    timed(samples / 4, || client.enqueue("unserved", &Value::Null).map(drop))?;
    let mut health = timed(samples, || client.healthz())?;
    let mut enqueue = timed(samples, || client.enqueue("unserved", &Value::Null).map(drop))?;
    let cores = available_parallelism().map_or(2, usize::from);
    burn(client, &json!({"try": "compute", "ms": 600_000}), 2 * cores)?;
    let mut busy_health = timed(samples, || client.healthz())?;
    let mut busy_enqueue = timed(samples, || client.enqueue("unserved", &Value::Null).map(drop))?;
    let figure = |name, idle: &mut [Duration], busy: &mut [Duration]| {
        let (idle, value) = (percentile(idle, 99), percentile(busy, 99));
        let limit = 2.0 * idle + 1.0;
        say(&format!("{name}: p99 {value:.2} ms, idle {idle:.2} ms"));
        Figure { name, value, unit: "ms", limit: Some(limit), ratio: value / limit, goal: Goal::AtMost(1.0) }
    };
    Ok(vec![
        figure("healthz_beside_guests", &mut health, &mut busy_health),
        figure("enqueue_beside_guests", &mut enqueue, &mut busy_enqueue),
    ])
}

/// A well-behaved neighbour's job next to one kind of hostile guest, against the same job alone just before.
fn neighbour(setting: &Setting, guest: &[u8], name: &'static str, hostile: &Value) -> anyhow::Result<Figure> {
    let samples = if setting.quick { 300 } else { 2_000 };
    let server = server(setting, guest)?;
    let client = &server.client;
    let nothing: Value = serde_json::from_str(NOTHING)?;
    let job = || completed(client, &nothing);
    timed(samples / 4, job)?;
    let mut alone = timed(samples, job)?;
    burn(client, hostile, 2 * available_parallelism().map_or(2, usize::from))?;
    let mut busy = timed(samples, job)?;
    let (limit, value) = (percentile(&mut alone, 50), percentile(&mut busy, 50));
    say(&format!(
        "{name}: a job takes {value:.2} ms (p99 {:.2}), alone {limit:.2} ms (p99 {:.2})",
        percentile(&mut busy, 99),
        percentile(&mut alone, 99)
    ));
    Ok(Figure { name, value, unit: "ms", limit: Some(limit), ratio: value / limit, goal: Goal::AtMost(2.0) })
}

/// One job of the neighbour, from before the request to its end.
fn completed(client: &Client, payload: &Value) -> anyhow::Result<()> {
    let id = client.enqueue("noop", payload)?;
    let state = client.wait(&id)?;
    if state == "completed" { Ok(()) } else { bail!("a neighbour's job ended {state}") }
}

fn timed(count: usize, mut act: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<Duration>> {
    let mut spans = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        act()?;
        spans.push(began.elapsed());
    }
    Ok(spans)
}

/// Enqueues hostile jobs, and waits until all have started.
fn burn(client: &Client, payload: &Value, count: usize) -> anyhow::Result<()> {
    let jobs: Vec<String> = (0..count).map(|_| client.enqueue("hostile", payload)).collect::<Result<_, _>>()?;
    let until = Instant::now() + Duration::from_secs(60);
    for id in &jobs {
        while client.get(&format!("/jobs/{id}"))?["state"] != "active" {
            if Instant::now() > until {
                bail!("a hostile job never started");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

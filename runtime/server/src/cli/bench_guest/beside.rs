//! What others notice of hostile guests: the server's answers beside guests that compute on every core, and the jobs of a good
//! neighbour beside each kind of hostile guest.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value, json};
use windlass_core::figure::{Figure, Goal};

use super::server::{Client, Server};
use super::{NOTHING, Setting, percentile, say};

/// Hostile guests, each for so many milliseconds: as a name, a unit and a payload.
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
    let samples = if setting.quick { 200 } else { 1_000 };
    let server = Server::start(setting, "beside")?;
    let client = &server.client;
    client.upload("noop", guest)?;
    // Other bytes, so that it is another plugin to the executor, too.
    client.upload("hostile", &super::swap::other_bytes(guest, "hostile"))?;
    let cores = available_parallelism().map_or(2, usize::from);
    let mut figures = Vec::new();

    // The 99th of a hundred is told by few samples, so there are many: each takes less than a millisecond.
    let many = 5 * samples;
    timed(samples, || client.healthz())?;
    timed(samples, || client.enqueue("nobody", &Value::Null).map(drop))?;
    let mut health = timed(many, || client.healthz())?;
    let mut enqueue = timed(many, || client.enqueue("nobody", &Value::Null).map(drop))?;
    let burning = Burning::start(client, &json!({"try": "compute", "ms": 600_000}), 2 * cores)?;
    let mut busy_health = timed(many, || client.healthz())?;
    let mut busy_enqueue = timed(many, || client.enqueue("nobody", &Value::Null).map(drop))?;
    burning.stop(client)?;
    for (name, idle, busy) in [
        ("healthz_beside_guests", &mut health, &mut busy_health),
        ("enqueue_beside_guests", &mut enqueue, &mut busy_enqueue),
    ] {
        let (idle, value) = (percentile(idle, 99), percentile(busy, 99));
        let limit = 2.0 * idle + 1.0;
        say(&format!("{name}: p99 {value:.2} ms, idle {idle:.2} ms"));
        let goal = Goal::AtMost(1.0);
        figures.push(Figure { name, value, unit: "ms", limit: Some(limit), ratio: value / limit, goal });
    }

    let nothing: Value = serde_json::from_str(NOTHING)?;
    let job = || completed(client, &nothing);
    timed(samples / 4, job)?;
    for (name, payload) in kinds(600_000) {
        // By turns, so that what else the machine does meets both.
        let mut alone = timed(samples / 2, job)?;
        let hostile = Burning::start(client, &payload, 2 * cores)?;
        let mut beside = timed(samples / 2, job)?;
        hostile.stop(client)?;
        let (limit, value) = (percentile(&mut alone, 50), percentile(&mut beside, 50));
        say(&format!(
            "{name}: a job takes {value:.2} ms (p99 {:.2}), alone {limit:.2} ms (p99 {:.2})",
            percentile(&mut beside, 99),
            percentile(&mut alone, 99)
        ));
        let goal = Goal::AtMost(2.0);
        figures.push(Figure { name, value, unit: "ms", limit: Some(limit), ratio: value / limit, goal });
    }
    Ok(figures)
}

/// One job of the neighbour, from before it is sent to its end.
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

/// Hostile jobs that run.
struct Burning(Vec<String>);

impl Burning {
    /// Begins them, and waits until all have started.
    fn start(client: &Client, payload: &Value, count: usize) -> anyhow::Result<Burning> {
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
        Ok(Burning(jobs))
    }

    /// Stops them by force, and waits until they are gone.
    fn stop(self, client: &Client) -> anyhow::Result<()> {
        for id in &self.0 {
            client.post(&format!("/jobs/{id}/cancel"), &json!({}))?;
        }
        for id in &self.0 {
            let state = client.wait(id)?;
            if state != "cancelled" {
                bail!("a hostile job ended {state} instead of being cancelled");
            }
        }
        Ok(())
    }
}

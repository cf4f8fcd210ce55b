//! Durable no-op jobs, from enqueue to completed, against the lower of the rates of the store and bare wasmtime.

use std::time::{Duration, Instant};

use crate::figure::{Figure, Goal};
use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::guest::NOTHING;
use crate::server::Server;
use crate::setting::{Setting, say};
use crate::{engine, sandbox};

/// Many, because enqueueing is not what is measured.
const JOBS_PER_REQUEST: usize = 1_000;

pub fn measure(setting: &Setting, alone: &sandbox::Setting) -> anyhow::Result<Figure> {
    let bare = sandbox::bare_rate(alone)?;
    // Quick, because it is only the limit of this figure.
    let store = engine::run_lifecycle(&Setting { quick: true, ..setting.clone() })?;
    let store = store.iter().find(|figure| figure.name == "lifecycle").context("the store's own figure")?.value;
    let server = Server::start(setting, "durable")?;
    server.client.upload("noop", &alone.noop)?;
    let requests = if setting.quick { 10 } else { 60 };
    // The first request warms up.
    rate(&server, 1)?;
    let value = rate(&server, requests)?;
    let limit = bare.min(store);
    say(&format!("durable no-op jobs: {value:.0}/s; the store could do {store:.0}/s, bare wasmtime {bare:.0}/s"));
    let (name, unit, goal) = ("durable_noop", "jobs/s", Goal::AtLeast(0.5));
    Ok(Figure { name, value, unit, limit: Some(limit), ratio: value / limit, goal })
}

fn rate(server: &Server, requests: usize) -> anyhow::Result<f64> {
    let payload: Value = serde_json::from_str(NOTHING)?;
    let job = json!({"queue": "noop", "payload": payload});
    let body = json!({"jobs": vec![job; JOBS_PER_REQUEST]});
    let before = server.client.completed("noop")?;
    let wanted = before + (requests * JOBS_PER_REQUEST) as u64;
    let began = Instant::now();
    for _ in 0..requests {
        server.client.post("/enqueue/batch", &body)?;
    }
    loop {
        let done = server.client.completed("noop")?;
        if done >= wanted {
            return Ok((done - before) as f64 / began.elapsed().as_secs_f64());
        }
        if began.elapsed() > Duration::from_secs(300) {
            bail!("only {} of {} jobs completed in five minutes", done - before, wanted - before);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

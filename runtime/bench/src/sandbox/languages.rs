//! What each language costs: the same no-op in each, cold, warm and on a reused instance, compared with bare wasmtime.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use tokio::sync::watch;

use crate::sandbox::noop::{Bare, executed};
use crate::sandbox::{attempt, host};
use crate::setting::say;
use crate::stats::median;
use windlass_executor::{Config, Executor, Outcome, Reuse};

/// A handler to measure.
pub struct Guest {
    pub name: String,
    pub component: Bytes,
}

/// The results. Microseconds are processor time of the whole process for one job.
#[derive(Clone, Debug)]
pub struct Language {
    pub name: String,
    pub component_bytes: usize,
    /// From the bytes to runnable code: done once, at upload.
    pub compile_ms: f64,
    /// The first job after that, in wall time.
    pub cold_ms: f64,
    /// A job in a new instance, which is the default.
    pub warm_us: f64,
    /// A job in an instance that has served others.
    pub reused_us: f64,
    /// A job in a new instance of bare wasmtime.
    pub bare_us: f64,
    /// The most memory that one instance held.
    pub memory_bytes: u64,
}

impl Language {
    /// What a job in a new instance costs through the executor, divided by the cost with bare wasmtime.
    pub fn ratio(&self) -> f64 {
        self.warm_us / self.bare_us
    }
}

/// How much more than bare wasmtime a warm start may cost.
pub const MOST_RATIO: f64 = 1.5;

/// Measures one after another. `payload` makes each of them return immediately.
pub fn languages(guests: Vec<Guest>, payload: &Bytes, quick: bool) -> anyhow::Result<Vec<Language>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let span = Duration::from_millis(if quick { 500 } else { 3_000 });
    let mut found = Vec::new();
    for guest in guests {
        say(&format!("measuring {}", guest.name));
        let name = guest.name.clone();
        let language = runtime.block_on(one(guest, payload, span)).context(name)?;
        found.push(language);
    }
    Ok(found)
}

async fn one(guest: Guest, payload: &Bytes, span: Duration) -> anyhow::Result<Language> {
    let config = Config::default();
    let threads = config.guest_threads;
    let bare = Bare::new(&config, &guest.component, payload)?;
    let executor = Executor::new(config)?;

    let began = Instant::now();
    let plugin = executor.compile(guest.component.clone()).await?;
    let compile_ms = began.elapsed().as_secs_f64() * 1e3;

    let (_never, cancel) = watch::channel(None);
    let began = Instant::now();
    let first = executor.run(&plugin, attempt(payload, cancel), host()).await;
    let cold_ms = began.elapsed().as_secs_f64() * 1e3;
    if !matches!(first.outcome, Outcome::Completed { .. }) {
        bail!("the no-op job did not complete: {:?}", first.outcome);
    }

    // In turn, so that other load on the machine affects all three alike; the first repetition warms up.
    let (mut warm, mut reused, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let again = Reuse { times: u32::MAX, limit_key: String::new() };
    for repeat in 0..4 {
        let fresh = executed(&executor, &plugin, payload, None, span).await?;
        let reusing = executed(&executor, &plugin, payload, Some(again.clone()), span).await?;
        let without = bare.cost(threads, span)?;
        if repeat > 0 {
            warm.push(fresh);
            reused.push(reusing);
            alone.push(without);
        }
    }
    Ok(Language {
        name: guest.name,
        component_bytes: guest.component.len(),
        compile_ms,
        cold_ms,
        warm_us: median(warm),
        reused_us: median(reused),
        bare_us: median(alone),
        memory_bytes: first.usage.peak_memory,
    })
}

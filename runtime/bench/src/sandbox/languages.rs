//! What each language costs: the same no-op in every one, cold, warm and on a reused instance, beside bare wasmtime.

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

/// What was found. Microseconds are those of the processor, of the whole process, for one job.
#[derive(Clone, Debug)]
pub struct Language {
    pub name: String,
    pub component_bytes: usize,
    /// From the bytes to code that can run: done once, at upload.
    pub compile_ms: f64,
    /// The first job after that, by the clock on the wall.
    pub cold_ms: f64,
    /// A job in a fresh instance, as is usual.
    pub warm_us: f64,
    /// A job in an instance that has served others.
    pub reused_us: f64,
    /// A job in a fresh instance of bare wasmtime.
    pub bare_us: f64,
    /// The most memory that one instance held.
    pub memory_bytes: u64,
}

impl Language {
    /// What a fresh instance costs through the executor, against bare wasmtime.
    pub fn ratio(&self) -> f64 {
        self.warm_us / self.bare_us
    }
}

/// How much dearer than bare wasmtime a warm start may be.
pub const MOST_RATIO: f64 = 1.5;

/// Measures one after the other. `payload` makes each of them return at once.
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

    // By turns, so that what else the machine does meets all three; the first round warms up.
    let (mut warm, mut reused, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let again = Reuse { times: u32::MAX, limit_key: String::new() };
    for round in 0..4 {
        let fresh = executed(&executor, &plugin, payload, None, span).await?;
        let kept = executed(&executor, &plugin, payload, Some(again.clone()), span).await?;
        let without = bare.cost(threads, span)?;
        if round > 0 {
            warm.push(fresh);
            reused.push(kept);
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

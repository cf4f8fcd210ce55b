//! Measures the executor against bare wasmtime in the same run: the machine may be busy, so a figure is meaningful only
//! as a ratio. Called by `windlass-bench guest`; no test depends on the results.

mod asleep;
mod languages;
mod noop;

pub use languages::{Guest, Language, MOST_RATIO, languages};

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use windlass_core::{Progress, Usage};
use windlass_executor::{Attempt, Cancel, GuestLogLine, Host, HostError, Limits, SavedState, Uncommitted, async_trait};

use crate::figure::Figure;

/// What is measured.
pub struct Setting {
    /// A handler in Rust, and a payload with which it returns immediately.
    pub noop: Bytes,
    pub noop_payload: Bytes,
    /// A version of each figure that takes seconds.
    pub quick: bool,
}

/// No-op jobs per second with bare wasmtime, on every core.
pub fn bare_rate(setting: &Setting) -> anyhow::Result<f64> {
    noop::bare_rate(setting)
}

pub fn run(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // The sleepers come first: they would reuse heap memory that earlier attempts freed, and seem to cost nothing.
    let asleep = runtime.block_on(asleep::measure())?;
    let mut figures = vec![runtime.block_on(noop::measure(setting))?];
    figures.extend(asleep);
    Ok(figures)
}

/// A host that discards everything.
struct DiscardingHost;

#[async_trait]
impl Host for DiscardingHost {
    fn progress(&self, _progress: Progress) {}

    fn log(&self, _line: GuestLogLine) {}

    async fn checkpoint(&self, _state: SavedState, _uncommitted: Uncommitted, _used: Usage) -> Result<(), HostError> {
        Ok(())
    }
}

fn host() -> Arc<dyn Host> {
    Arc::new(DiscardingHost)
}

fn attempt(payload: &Bytes, cancel: watch::Receiver<Option<Cancel>>) -> Attempt {
    Attempt {
        max_attempts: 3,
        limits: Limits { attempt_timeout: Some(Duration::from_secs(3_600)), ..Limits::default() },
        ..Attempt::first("job_01JD0000000000000000000000", "bench", payload.clone(), cancel)
    }
}

//! Measures the engine against what the disk could do at best, in the same run: this machine may be busy, so a figure
//! counts only as a ratio. Called by `windlass bench engine`; no test asserts on what it finds.

mod backlog;
mod bare;
mod flow;
mod idle;
mod lifecycle;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::{Body, NewJob, QueueName};

use crate::{By, Claim, Clock, Durability, Options, Store};

pub use backlog::run_victim;
pub use windlass_core::figure::{Figure, Goal};

/// What to measure with.
pub struct Setting {
    /// Where the data folders of the run are made, and removed.
    pub dir: PathBuf,
    pub clock: Arc<dyn Clock>,
    /// A version of each figure that takes seconds.
    pub quick: bool,
    /// This program, to be started again as a victim: `PROGRAM ARGS… DIR JOBS`.
    pub victim: Vec<String>,
    /// Told what is going on.
    pub say: Box<dyn Fn(&str)>,
}

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Only what a backlog costs.
pub fn run_backlog(setting: &Setting) -> Result<Vec<Figure>> {
    backlog::measure(setting)
}

/// Only the way of a job from enqueue to completed.
pub fn run_lifecycle(setting: &Setting) -> Result<Vec<Figure>> {
    lifecycle::measure(setting)
}

/// Only what flows cost.
pub fn run_flow(setting: &Setting) -> Result<Vec<Figure>> {
    flow::measure(setting)
}

pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    figures.extend(lifecycle::measure(setting)?);
    figures.extend(idle::measure(setting)?);
    figures.extend(backlog::measure(setting)?);
    Ok(figures)
}

impl Setting {
    fn folder(&self, name: &str) -> Result<Folder> {
        let path = self.dir.join(format!("windlass-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    fn open(&self, dir: &Path) -> Result<Store> {
        Ok(Store::open(Options { dir: dir.to_owned(), durability: Durability::Fsync }, self.clock.clone())?)
    }
}

/// A data folder that goes with its measurement.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

fn queue() -> QueueName {
    "bench".parse().expect("a good name")
}

/// A job with a payload of 200 bytes.
fn job() -> NewJob {
    static PAYLOAD: [u8; 200] = [b'x'; 200];
    NewJob { queue: Some(queue()), payload: Some(Body::Inline(Bytes::from_static(&PAYLOAD))), ..NewJob::default() }
}

fn claim(count: usize) -> Claim {
    let by = By::Worker { worker_id: "bench".into(), hostname: "bench".into() };
    Claim { by, queues: vec![queue()], count, wait: Duration::from_secs(10) }
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

//! Measures the engine against the best that the disk could do, in the same run: the machine may be busy, so a figure
//! is meaningful only as a ratio. Called by `windlass-bench engine`; no test depends on the results.

mod backlog;
mod bare;
mod encrypted;
mod flow;
mod idle;
mod lifecycle;

use std::time::Duration;

use bytes::Bytes;
use windlass_core::{Body, NewJob, QueueName};
use windlass_store::{By, Claim};

pub use backlog::run_victim;
pub use flow::measure as run_flow;
pub use lifecycle::measure as run_lifecycle;

use crate::figure::Figure;
use crate::setting::Setting;

pub fn run(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    figures.extend(lifecycle::measure(setting)?);
    figures.extend(encrypted::measure(setting)?);
    figures.extend(idle::measure(setting)?);
    figures.extend(backlog::measure(setting)?);
    Ok(figures)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
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

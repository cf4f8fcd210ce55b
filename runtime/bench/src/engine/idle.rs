//! An idle engine costs nothing, however many jobs are scheduled.

use std::time::Duration;

use anyhow::Context;

use crate::engine::{job, runtime};
use crate::figure::{Figure, Goal};
use crate::setting::{Setting, open, say};

pub fn measure(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let (scheduled, span) = if setting.quick { (20_000, 5) } else { (1_000_000, 30) };
    let folder = setting.folder("idle")?;
    let store = open(&folder.0)?;
    let runtime = runtime()?;
    let mut left = scheduled;
    while left > 0 {
        let jobs = (0..left.min(1_000)).map(|_| {
            let mut job = job();
            job.delay = Some(Duration::from_secs(24 * 3600));
            job
        });
        runtime.block_on(store.enqueue(jobs.collect()))?;
        left -= left.min(1_000);
    }
    // fjall may still be flushing.
    std::thread::sleep(Duration::from_secs(if setting.quick { 3 } else { 30 }));
    let before = cpu_time()?;
    std::thread::sleep(Duration::from_secs(span));
    let used = cpu_time()? - before;
    runtime.block_on(store.close());
    let percent = 100.0 * used.as_secs_f64() / span as f64;
    say(&format!("idle with {scheduled} scheduled jobs: {percent:.2} % of a core"));
    Ok(vec![Figure {
        name: "idle_cpu",
        value: percent,
        unit: "% of a core",
        limit: None,
        ratio: percent,
        goal: Goal::AtMost(0.5),
    }])
}

/// User and system time of this process, as the kernel counts it.
fn cpu_time() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 =
        fields.get(11).context("utime")?.parse::<u64>()? + fields.get(12).context("stime")?.parse::<u64>()?;
    // Linux counts in hundredths of a second.
    Ok(Duration::from_millis(ticks * 10))
}

//! A thousand attempts asleep at once, and what each of them costs.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::figure::{Figure, Goal};
use crate::sandbox::{attempt, host};
use crate::setting::say;
use windlass_executor::{Cancel, CancelReason, Config, Executor};

const ASLEEP: usize = 1_000;

/// `plugins/hostile/sleep-forever.wat`, assembled. It touches only two pages of its memory, so the rest of what is
/// measured is the executor's. A test checks that the two files agree.
const SLEEPER: &[u8] = include_bytes!("sleeper.wasm");

pub async fn measure() -> anyhow::Result<Option<Figure>> {
    let executor = Executor::new(Config { instances: 1_200, ..Config::default() })?;
    let plugin = executor.compile(Bytes::from_static(SLEEPER)).await?;
    let (stop, cancel) = watch::channel(None);
    let mut running = JoinSet::new();
    let start = |running: &mut JoinSet<_>, count: usize| {
        for _ in 0..count {
            let (executor, plugin) = (executor.clone(), plugin.clone());
            let attempt = attempt(&Bytes::new(), cancel.clone());
            running.spawn(async move { executor.run(&plugin, attempt, host()).await });
        }
    };
    // The first ones allocate what all share.
    start(&mut running, 20);
    let Some(before) = settled().await? else { return Ok(None) };
    start(&mut running, ASLEEP);
    let Some(after) = settled().await? else { return Ok(None) };
    if running.try_join_next().is_some() {
        bail!("a sleeper did not sleep");
    }
    stop.send_replace(Some(Cancel::within(CancelReason::Shutdown, Duration::ZERO)));
    let began = Instant::now();
    while running.join_next().await.is_some() {}
    let each = after.saturating_sub(before) as f64 / ASLEEP as f64 / 1_024.0;
    let stopped = began.elapsed();
    say(&format!("{ASLEEP} attempts asleep: {each:.1} KiB each; stopped in {stopped:?}"));
    let (name, unit, goal) = ("sleeping_attempt", "KiB", Goal::AtMost(32.0));
    Ok(Some(Figure { name, value: each, unit, limit: None, ratio: each, goal }))
}

/// The resident memory once it has stopped growing; `None` on systems without `/proc`.
async fn settled() -> anyhow::Result<Option<u64>> {
    let mut last = 0;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let Some(now) = resident()? else { return Ok(None) };
        if now.abs_diff(last) < 64 * 1_024 {
            return Ok(Some(now));
        }
        last = now;
    }
    bail!("the memory never stopped growing")
}

fn resident() -> anyhow::Result<Option<u64>> {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return Ok(None) };
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(Some(kib * 1_024))
}

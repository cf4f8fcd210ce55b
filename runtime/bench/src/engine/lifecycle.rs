//! Enqueue, claim, complete: 1,024 callers at once, sustained; and one caller alone on an idle engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass_core::{Command, Complete, Holder};

use crate::engine::bare::{Bare, Shape};
use crate::engine::{claim, job, runtime};
use crate::figure::{Figure, Goal};
use crate::setting::{Setting, open, say};
use crate::stats::percentile;
use windlass_store::Store;

const CALLERS: usize = 1_024;

pub fn measure(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let mut figures = sustained(setting)?;
    figures.push(alone(setting)?);
    Ok(figures)
}

/// Engine and limit are measured in turn, so that other load on the machine affects both alike.
fn sustained(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let (repeats, span) = if setting.quick { (2, Duration::from_secs(4)) } else { (10, Duration::from_secs(30)) };
    let engine_dir = setting.folder("lifecycle")?;
    let bare_dir = setting.folder("bare")?;
    let store = open(&engine_dir.0)?;
    let mut bare = Bare::open(&bare_dir.0)?;
    let (mut ours, mut best) = (Vec::new(), Vec::new());
    for repeat in 1..=repeats {
        let (rate, per_group, shape) = drive(&store, span)?;
        let groups = bare.rate(shape, span)?;
        say(&format!(
            "lifecycle {repeat}/{repeats}: {rate:.0}/s, {per_group:.0} per commit of {} writes; bare fjall could do {:.0}/s",
            shape.writes,
            groups * per_group
        ));
        ours.push(rate);
        best.push(groups * per_group);
    }
    let value = ours.iter().sum::<f64>() / ours.len() as f64;
    let limit = best.iter().sum::<f64>() / best.len() as f64;
    let (slow, all) = slow_commits(&store);
    runtime()?.block_on(store.close());
    Ok(vec![
        Figure {
            name: "lifecycle",
            value,
            unit: "jobs/s",
            limit: Some(limit),
            ratio: value / limit,
            goal: Goal::AtLeast(0.5),
        },
        Figure {
            name: "commits_under_100_ms",
            value: 100.0 * (all - slow) as f64 / all as f64,
            unit: "%",
            limit: None,
            ratio: (all - slow) as f64 / all as f64,
            goal: Goal::AtLeast(0.999),
        },
    ])
}

/// Lets the callers run for a span; returns jobs per second, jobs per commit, and the shape of a commit.
pub fn drive(store: &Store, span: Duration) -> anyhow::Result<(f64, f64, Shape)> {
    let tally = store.commits();
    let read = || [&tally.count, &tally.writes, &tally.bytes].map(|counter| counter.load(Ordering::Relaxed));
    let before = read();
    let jobs = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    runtime()?.block_on(async {
        let callers: Vec<_> =
            (0..CALLERS).map(|_| tokio::spawn(lifecycles(store.clone(), jobs.clone(), stop.clone()))).collect();
        tokio::time::sleep(span).await;
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await??;
        }
        anyhow::Ok(())
    })?;
    let took = began.elapsed().as_secs_f64();
    let after = read();
    let [commits, writes, bytes] = [0, 1, 2].map(|index| (after[index] - before[index]).max(1));
    let jobs = jobs.load(Ordering::Relaxed) as f64;
    let shape = Shape { writes: (writes / commits) as usize, bytes_per_write: (bytes / writes) as usize };
    Ok((jobs / took, jobs / commits as f64, shape))
}

async fn lifecycles(store: Store, jobs: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        store.enqueue(vec![job()]).await?;
        for assignment in store.claim(claim(1)).await? {
            let holder = Holder::Token(assignment.token);
            let command = Command::Complete(Complete::by(holder));
            store.ask(assignment.job.id, command, Vec::new()).await?;
            jobs.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The number of commits that took longer than 100 ms, and of all commits.
fn slow_commits(store: &Store) -> (u64, u64) {
    let tally = store.commits();
    (tally.slow.load(Ordering::Relaxed), tally.count.load(Ordering::Relaxed).max(1))
}

/// One enqueue on an idle engine, against a bare commit of the same writes.
fn alone(setting: &Setting) -> anyhow::Result<Figure> {
    let times = if setting.quick { 300 } else { 2_000 };
    let engine_dir = setting.folder("alone")?;
    let bare_dir = setting.folder("alone-bare")?;
    let store = open(&engine_dir.0)?;
    let mut bare = Bare::open(&bare_dir.0)?;
    let tally = store.commits();
    let runtime = runtime()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        runtime.block_on(store.enqueue(vec![job()]))?;
        ours.push(began.elapsed());
        let commits = tally.count.load(Ordering::Relaxed).max(1);
        let writes = tally.writes.load(Ordering::Relaxed);
        let shape = Shape {
            writes: (writes / commits).max(1) as usize,
            bytes_per_write: (tally.bytes.load(Ordering::Relaxed) / writes.max(1)) as usize,
        };
        let began = Instant::now();
        bare.commit(shape)?;
        theirs.push(began.elapsed());
    }
    runtime.block_on(store.close());
    let (ours, theirs) = (percentile(&mut ours, 50), percentile(&mut theirs, 50));
    say(&format!("one enqueue alone: {ours:.3} ms; the bare commit {theirs:.3} ms"));
    Ok(Figure {
        name: "enqueue_alone_beyond_fsync",
        value: ours - theirs,
        unit: "ms",
        limit: Some(theirs),
        ratio: ours - theirs,
        goal: Goal::AtMost(0.15),
    })
}

//! Ten million waiting jobs: claiming as fast as from ten thousand, in bounded memory, and without delay after a start.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use windlass_store::Store;

use crate::engine::{claim, job, runtime};
use crate::figure::{Figure, Goal};
use crate::setting::{Setting, open, say};

const FEW: u64 = 10_000;
/// Jobs per claim, and concurrent claims.
const COUNT: usize = 32;
const AT_ONCE: usize = 32;

pub fn measure(setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let (many, claimed) = if setting.quick { (300_000, 100_000) } else { (10_000_000, 3_000_000) };
    let mut figures = Vec::new();
    let few_rate = {
        let folder = setting.folder("few")?;
        let store = open(&folder.0)?;
        fill(&store, FEW * 10)?;
        // Down to `FEW`, so that both measurements claim from a warm engine.
        claim_some(&store, FEW * 9)?;
        let rate = claim_some(&store, FEW - COUNT as u64 * AT_ONCE as u64)?;
        runtime()?.block_on(store.close());
        rate
    };
    let folder = setting.folder("many")?;
    {
        let store = open(&folder.0)?;
        fill(&store, many)?;
        claim_some(&store, FEW * 2)?;
        let rate = claim_some(&store, FEW * 5)?;
        say(&format!("claims: {rate:.0}/s out of {many}, {few_rate:.0}/s out of {FEW}"));
        figures.push(Figure {
            name: "claim_rate_with_backlog",
            value: rate,
            unit: "jobs/s",
            limit: Some(few_rate),
            ratio: rate / few_rate,
            goal: Goal::AtLeast(0.8),
        });
        let resident = resident_mib()?;
        say(&format!("resident with {many} waiting: {resident:.0} MiB"));
        figures.push(Figure {
            name: "resident_with_backlog",
            value: resident,
            unit: "MiB",
            limit: None,
            ratio: resident,
            goal: Goal::AtMost(512.0),
        });
        runtime()?.block_on(store.close());
    }
    figures.push(first_claim(&folder.0, "first_claim_after_start")?);
    kill_while_claiming(&folder.0, claimed)?;
    figures.push(first_claim(&folder.0, "first_claim_after_kill")?);
    Ok(figures)
}

fn fill(store: &Store, jobs: u64) -> anyhow::Result<()> {
    const JOBS_PER_REQUEST: u64 = 1_000;
    let began = Instant::now();
    runtime()?.block_on(async {
        let mut sent = 0;
        while sent < jobs {
            let requests = (0..4).map(|_| store.enqueue((0..JOBS_PER_REQUEST).map(|_| job()).collect()));
            for done in futures_in_order(requests).await {
                done?;
            }
            sent += 4 * JOBS_PER_REQUEST;
            if sent % 1_000_000 == 0 {
                say(&format!("{sent} jobs waiting after {:.0} s", began.elapsed().as_secs_f64()));
            }
        }
        Ok(())
    })
}

/// Runs the futures concurrently, and returns their results in order.
async fn futures_in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.map(Box::pin).collect();
    let mut answers: Vec<Option<F::Output>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, answer) in pinned.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *answer = Some(value),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// Claims at least this many jobs; returns the rate per second.
fn claim_some(store: &Store, jobs: u64) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut got = 0;
    runtime()?.block_on(async {
        while got < jobs {
            let claims = (0..AT_ONCE).map(|_| store.claim(claim(COUNT)));
            for answer in futures_in_order(claims).await {
                got += answer?.len() as u64;
            }
        }
        Ok::<(), windlass_store::Error>(())
    })?;
    Ok(got as f64 / began.elapsed().as_secs_f64())
}

fn first_claim(dir: &Path, name: &'static str) -> anyhow::Result<Figure> {
    let began = Instant::now();
    let store = open(dir)?;
    let got = runtime()?.block_on(store.claim(claim(1)))?;
    let took = began.elapsed().as_secs_f64();
    if got.is_empty() {
        bail!("there was nothing to claim");
    }
    runtime()?.block_on(store.close());
    say(&format!("{name}: {took:.2} s"));
    Ok(Figure { name, value: took, unit: "s", limit: None, ratio: took, goal: Goal::AtMost(5.0) })
}

/// Starts this program again on the folder, lets it claim, and kills it in the middle.
fn kill_while_claiming(dir: &Path, jobs: u64) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let mut child =
        Process::new(program).arg("victim").arg(dir).arg(jobs.to_string()).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().context("the victim has no output")?;
    let mut lines = BufReader::new(out).lines();
    let claimed = lines.next().context("the victim ended by itself")??;
    child.kill()?;
    child.wait()?;
    say(&format!("killed -9 after {claimed} claims, under load"));
    Ok(())
}

/// The victim: claims `jobs`, reports it, and continues to claim and enqueue until it is killed.
pub fn run_victim(dir: &Path, jobs: u64) -> anyhow::Result<()> {
    let store = open(dir)?;
    claim_some(&store, jobs)?;
    println!("{jobs}");
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        claim_some(&store, 1_000)?;
        fill(&store, 4_000)?;
    }
    Ok(())
}

fn resident_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib / 1024.0)
}

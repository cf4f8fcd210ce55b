//! A no-op job: through the executor, and with bare wasmtime.
//!
//! Both sides use the same engine settings, the same component, a pre-linked instance and all guest threads. The bare
//! side has no limits, no epoch, no log and no cancellation.
//!
//! What is measured is the processor time of the whole process for each job. Jobs per second would measure the
//! machine's scheduler: under other load, threads that sleep and wake, as the executor's do, are scheduled before those
//! that only compute.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::figure::{Figure, Goal};
use crate::processor::{lower_priority, process_time};
use crate::sandbox::{Setting, attempt, host};
use crate::setting::say;
use crate::stats::median;
use windlass_executor::bare::{HandlerPre, Job, PACKAGE, engine};
use windlass_executor::{Attempt, Config, Executor, Outcome, Plugin, Reuse};

/// Concurrent attempts: enough to keep every thread busy.
const AT_ONCE: usize = 32;

pub async fn measure(setting: &Setting) -> anyhow::Result<Figure> {
    let span = Duration::from_millis(if setting.quick { 1_500 } else { 10_000 });
    let config = Config::default();
    let threads = config.guest_threads;
    let bare = Bare::new(&config, &setting.noop, &setting.noop_payload)?;
    let executor = Executor::new(config)?;
    let plugin = executor.compile(setting.noop.clone()).await?;
    // In turn, so that other load on the machine affects both alike; the first repetition warms up.
    let (mut through, mut alone) = (Vec::new(), Vec::new());
    for repeat in 0..4 {
        let executed = executed(&executor, &plugin, &setting.noop_payload, None, span / 4).await?;
        let bare = bare.cost(threads, span / 4)?;
        if repeat > 0 {
            through.push(executed);
            alone.push(bare);
        }
    }
    let (value, limit) = (median(through), median(alone));
    say(&format!("a no-op job: {value:.1} µs of processor through the executor, {limit:.1} µs with bare wasmtime"));
    let unit = "µs of processor per job";
    Ok(Figure { name: "noop_job", value, unit, limit: Some(limit), ratio: value / limit, goal: Goal::AtMost(1.5) })
}

/// Jobs per second without the executor, in wall time.
pub fn bare_rate(setting: &Setting) -> anyhow::Result<f64> {
    let config = Config::default();
    let bare = Bare::new(&config, &setting.noop, &setting.noop_payload)?;
    let span = Duration::from_millis(if setting.quick { 1_000 } else { 4_000 });
    // The first run warms up.
    bare.run(config.guest_threads, span / 4)?;
    let began = Instant::now();
    let done = bare.run(config.guest_threads, span)?;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Microseconds of processor time per job that all threads have used since `began`.
fn each(began: Duration, done: u64) -> f64 {
    process_time().saturating_sub(began).as_secs_f64() * 1e6 / done.max(1) as f64
}

pub(super) async fn executed(
    executor: &Executor,
    plugin: &Plugin,
    payload: &Bytes,
    reuse: Option<Reuse>,
    span: Duration,
) -> anyhow::Result<f64> {
    let threads = executor.threads().context("the executor has ended")?;
    let (_never, cancel) = watch::channel(None);
    let (began, cpu) = (Instant::now(), process_time());
    let mut slots = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (executor, plugin) = (executor.clone(), plugin.clone());
        let attempt = Attempt { reuse: reuse.clone(), ..attempt(payload, cancel.clone()) };
        // Like the server's slots: one attempt after another, on the guests' threads.
        let slot = async move {
            let mut done = 0u64;
            while began.elapsed() < span {
                match executor.run(&plugin, attempt.clone(), host()).await.outcome {
                    Outcome::Completed { .. } => done += 1,
                    other => bail!("the no-op job did not complete: {other:?}"),
                }
                // The server's slots wait for the store here.
                tokio::task::yield_now().await;
            }
            Ok(done)
        };
        slots.spawn_on(slot, threads);
    }
    let mut done = 0;
    while let Some(slot) = slots.join_next().await {
        done += slot??;
    }
    Ok(each(cpu, done))
}

/// wasmtime's errors do not implement the standard library's error trait.
fn plain(error: wasmtime::Error) -> anyhow::Error {
    anyhow::Error::from_boxed(error.into())
}

/// The minimum that a store must hold.
struct Wasi(WasiCtx, ResourceTable);

impl WasiView for Wasi {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.0, table: &mut self.1 }
    }
}

impl WasiHttpView for Wasi {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        unreachable!("a no-op sends no requests")
    }
}

/// Links the imports of Windlass, which a no-op declares and never calls, to functions that fail.
fn link_failing(engine: &Engine, linker: &mut Linker<Wasi>, component: &Component) -> anyhow::Result<()> {
    for (name, item) in component.component_type().imports(engine) {
        if let ComponentItem::ComponentInstance(interface) = item.ty
            && name.starts_with(PACKAGE)
        {
            let mut instance = linker.instance(name).map_err(plain)?;
            for (function, item) in interface.exports(engine) {
                if let ComponentItem::ComponentFunc(_) = item.ty {
                    instance
                        .func_new(function, |_, _, _, _| Err(wasmtime::Error::msg("not available")))
                        .map_err(plain)?;
                }
            }
        }
    }
    Ok(())
}

pub(super) struct Bare {
    engine: Engine,
    pre: HandlerPre<Wasi>,
    job: Job,
}

impl Bare {
    pub(super) fn new(config: &Config, component: &[u8], payload: &[u8]) -> anyhow::Result<Bare> {
        let engine = engine(config).map_err(plain)?;
        let component = Component::from_binary(&engine, component).map_err(plain)?;
        let mut linker: Linker<Wasi> = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(plain)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker).map_err(plain)?;
        link_failing(&engine, &mut linker, &component)?;
        let job = Job {
            id: "job_01JD0000000000000000000000".to_owned(),
            queue: "bench".to_owned(),
            payload: payload.to_vec(),
            attempt: 1,
            max_attempts: 3,
            checkpoint: None,
            tags: Vec::new(),
            scope: None,
            round: None,
            created_at_ms: 0,
            deadline_ms: None,
        };
        Ok(Bare { pre: linker.instantiate_pre(&component).and_then(HandlerPre::new).map_err(plain)?, engine, job })
    }

    pub(super) fn cost(&self, threads: usize, span: Duration) -> anyhow::Result<f64> {
        let cpu = process_time();
        let done = self.run(threads, span)?;
        Ok(each(cpu, done))
    }

    /// How many jobs this many threads complete in a span.
    fn run(&self, threads: usize, span: Duration) -> anyhow::Result<u64> {
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.work(&stop, &done))).collect();
            thread::sleep(span);
            stop.store(true, Ordering::Relaxed);
            running.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a bare thread panicked"))?)
        })?;
        Ok(done.load(Ordering::Relaxed))
    }

    fn work(&self, stop: &AtomicBool, done: &AtomicU64) -> anyhow::Result<()> {
        // Like the executor's threads, so that other load on the machine affects both alike.
        lower_priority();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(async {
            while !stop.load(Ordering::Relaxed) {
                let mut store = Store::new(&self.engine, Wasi(WasiCtx::builder().build(), ResourceTable::new()));
                // The compiled code needs an epoch deadline, although nothing increments the epoch here.
                store.set_epoch_deadline(u64::MAX / 2);
                let handler = self.pre.instantiate_async(&mut store).await.map_err(plain)?;
                let answer = handler.windlass_job_run().call_run(&mut store, &self.job).await.map_err(plain)?;
                answer.map_err(|failure| anyhow!(failure.message))?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    }
}

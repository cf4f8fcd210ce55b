//! The executor's handle: owns the engine, the guests' threads, the compiler and the ticker, and starts and ends them.

use std::any::Any;
use std::ffi::OsString;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{self, Handle, Runtime};
use tokio::task::JoinHandle;
use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails};
use windlass_core::{Retry, Usage};

use crate::attempt::meter::CpuMeter;
use crate::attempt::outcome::{Ended, Outcome};
use crate::attempt::run;
use crate::attempt::run::Floor;
use crate::attempt::stop::Dead;
use crate::attempt::{Attempt, CancelReason};
use crate::compile::Compiler;
use crate::compile::cache::Cache;
use crate::error::{Error, Rejected};
use crate::host::{Host, Uncommitted};
use crate::limits::{self, YOUNG_EVENTS};
use crate::outbound::Network;
use crate::plugin::Plugin;
use crate::pool::admission::Gate;
use crate::pool::demotion::{Grown, Young};
use crate::pool::epoch::Ticker;
use crate::pool::instances::Kept;
use crate::pool::threads::{leave_to_all_others, lower_priority};

/// How the executor is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Threads that guests run on. They have the lowest priority, so one per core is right.
    pub guest_threads: usize,
    /// Threads that compile, at the lowest priority too.
    pub compile_threads: usize,
    /// How many instances fit at once. A component with several memories takes several places.
    pub places: u32,
    /// The largest component that is accepted.
    pub max_component_bytes: usize,
    /// How long compiling one may take.
    pub compile_time: Duration,
    /// How much memory compiling one may take, where it happens in a process of its own.
    pub compile_memory: u64,
    /// A program, and its arguments, that does no more than call [`compile_apart`](crate::compile_apart). With it every compile has a
    /// process of its own, which is stopped at its limits; without it, compiling happens on threads of this one.
    pub compiler: Option<Vec<OsString>>,
    /// Where compiled code is kept. Without it every start compiles again.
    pub cache: Option<CacheConfig>,
    /// Certificates (DER) that guests' HTTPS requests trust besides the public ones: those of an authority of one's own.
    pub trusted: Vec<Vec<u8>>,
}

/// Where compiled code is kept, and the key that proves it ours.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    pub folder: PathBuf,
    /// Made if it does not exist. Must lie outside the folder: whoever writes there must not be able to read it.
    pub key_file: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        let cores = available_parallelism().map_or(2, usize::from);
        Config {
            guest_threads: cores,
            compile_threads: (cores / 2).clamp(1, 4),
            places: limits::SHARES,
            max_component_bytes: limits::COMPONENT_BYTES,
            compile_time: limits::COMPILE_TIME,
            compile_memory: limits::COMPILE_MEMORY,
            compiler: None,
            cache: None,
            trusted: Vec::new(),
        }
    }
}

/// Compiles plugins and runs attempts. Cheap to clone; the last clone ends everything that still runs.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
}

struct Inner {
    floor: Floor,
    compiler: Compiler,
    /// Always there until `drop` takes them.
    guests: Option<Guests>,
    /// Dropped after the guests' runtime has been told to end: it ticks the last ones off their threads.
    _ticker: Ticker,
}

/// The guests' threads. They share none with HTTP: beside four computing guests that took an answer from 0.1 ms to 600 ms.
struct Guests {
    young: Runtime,
    elders: Runtime,
}

impl Executor {
    pub fn new(config: Config) -> Result<Self, Error> {
        let engine = engine(&config).map_err(|error| Error::Engine(format!("{error:#}")))?;
        let cache = match &config.cache {
            Some(cache) => Some(Cache::open(&cache.folder, &cache.key_file, &engine)?),
            None => None,
        };
        let compiler = Compiler::new(&engine, cache, &config)?;
        let threads = config.guest_threads.max(1);
        let young = guests(threads, "windlass-guest", lower_priority, YOUNG_EVENTS).map_err(Error::Thread)?;
        let elders = guests(threads, "windlass-elder", leave_to_all_others, 1).map_err(Error::Thread)?;
        let guests = Guests { young, elders };
        let ticker = Ticker::start(engine.clone())?;
        let network = Network::new(&config.trusted).map_err(Error::Trust)?;
        let (beat, gate, kept) = (ticker.beat(), Gate::new(config.places), Kept::default());
        let floor = Floor { engine, beat, gate, kept, network };
        Ok(Executor { inner: Arc::new(Inner { floor, compiler, guests: Some(guests), _ticker: ticker }) })
    }

    /// Checks and compiles a component, or takes its code from the cache. Runs beside attempts, behind everything else.
    pub async fn compile(&self, bytes: Bytes) -> Result<Plugin, Rejected> {
        self.inner.compiler.compile(bytes).await
    }

    /// The threads that guests begin on. A task there that calls `run` hands a short attempt over to nobody, which saves two changes of
    /// thread for each.
    pub fn threads(&self) -> Option<&Handle> {
        self.inner.guests.as_ref().map(|guests| guests.young.handle())
    }

    /// Runs one attempt to its end, on the guests' own threads, in a fresh instance unless the attempt allows another. To drop the future is to stop the attempt
    /// dead and not be told how it ended.
    pub async fn run(&self, plugin: &Plugin, attempt: Attempt, host: Arc<dyn Host>) -> Ended {
        let cpu = Arc::new(CpuMeter::default());
        let running = run::run(self.inner.floor.clone(), plugin.clone(), attempt, host, Arc::clone(&cpu));
        let Some(guests) = &self.inner.guests else {
            return run::never_started(Dead::Cancelled(CancelReason::Shutdown));
        };
        let young = Young::new(running, cpu);
        let grown =
            if is_here(guests.young.handle()) { caught(young).await } else { there(&guests.young, young).await };
        let ended = match grown {
            Ok(Grown::Ended(ended)) => Ok(ended),
            Ok(Grown::Elder(running)) => there(&guests.elders, running).await,
            Err(lost) => Err(lost),
        };
        match ended {
            Ok(ended) => ended,
            Err(Lost::Shutdown) => run::never_started(Dead::Cancelled(CancelReason::Shutdown)),
            Err(Lost::Panicked(reason)) => crashed(&reason),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.floor.kept.clear();
        if let Some(guests) = self.guests.take() {
            // Not the usual drop, which waits for every task and may not happen inside another runtime.
            guests.young.shutdown_background();
            guests.elders.shutdown_background();
        }
    }
}

/// Why an attempt has no end to tell of.
enum Lost {
    /// Its threads are being stopped.
    Shutdown,
    /// We panicked while we ran it.
    Panicked(String),
}

fn is_here(threads: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == threads.id())
}

/// Polls it in the caller's own task, which a panic does not end.
async fn caught<F: Future + Unpin>(mut future: F) -> Result<F::Output, Lost> {
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(context)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(Lost::Panicked(told(&*panic)))),
        }
    })
    .await
}

/// What a panic said, where it said anything.
fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

/// Runs it as a task on other threads; it is stopped when nobody waits for it any more.
async fn there<F>(threads: &Runtime, future: F) -> Result<F::Output, Lost>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut task = StopOnDrop(threads.spawn(future));
    (&mut task.0).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => Lost::Panicked(told(&*panic)),
        Err(_) => Lost::Shutdown,
    })
}

struct StopOnDrop<T>(JoinHandle<T>);

impl<T> Drop for StopOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A panic of ours, not of the guest. The attempt is tried again; the panic is in the server's log.
fn crashed(reason: &str) -> Ended {
    Ended {
        outcome: Outcome::Failed {
            error: format!("the executor failed while it ran this attempt: {reason}"),
            backtrace: None,
            retry: Retry::Backoff,
        },
        uncommitted: Uncommitted::default(),
        usage: Usage::default(),
    }
}

/// Each poll may last a whole tick, so a worker looks for new tasks after every one, and for timers after every `events`.
fn guests(threads: usize, name: &str, on_start: fn(), events: u32) -> std::io::Result<Runtime> {
    runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .on_thread_start(on_start)
        .event_interval(events)
        .global_queue_interval(1)
        .enable_all()
        .build()
}

pub fn engine(config: &Config) -> wasmtime::Result<Engine> {
    let shares = config.places;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(shares)
        .total_stacks(shares)
        .total_memories(shares)
        .total_tables(shares.saturating_mul(limits::TABLES_PER_SHARE))
        .total_core_instances(shares.saturating_mul(limits::CORE_INSTANCES_PER_COMPONENT))
        .max_core_instances_per_component(limits::CORE_INSTANCES_PER_COMPONENT)
        .max_memories_per_component(limits::MEMORIES_PER_COMPONENT)
        .max_tables_per_component(limits::TABLES_PER_COMPONENT)
        .max_memories_per_module(limits::MEMORIES_PER_COMPONENT)
        .max_tables_per_module(limits::TABLES_PER_COMPONENT)
        .table_elements(limits::TABLE_ELEMENTS)
        // What a guest has written is put right in place, and its pages stay for the next one. To give them back after every
        // attempt interrupts all processors, and takes longer than a short attempt itself.
        .linear_memory_keep_resident(limits::KEPT_MEMORY)
        .table_keep_resident(limits::KEPT_TABLE)
        .pagemap_scan(Enabled::Auto);
    let mut settings = settings();
    settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&settings)
}

/// What the code depends on. The pool is not among it, so whoever only compiles needs none.
pub(crate) fn settings() -> wasmtime::Config {
    let mut engine = wasmtime::Config::new();
    engine
        .epoch_interruption(true)
        .max_wasm_stack(limits::WASM_STACK_BYTES)
        .async_stack_size(limits::FIBER_STACK_BYTES)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        // Shared memory is not counted by the limiter, and no guest of WASI 0.2 needs it.
        .wasm_threads(false);
    engine
}

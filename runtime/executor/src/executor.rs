//! The executor's handle: owns the engine, the guests' threads, the compiler and the ticker, and starts and stops them.

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

use crate::attempt::disk_rate::DiskBudgets;
use crate::attempt::outcome::{AttemptEnd, Outcome};
use crate::attempt::run;
use crate::attempt::run::Pool;
use crate::attempt::stop::ForcedStop;
use crate::attempt::{Attempt, CancelReason};
use crate::compile::Compiler;
use crate::compile::cache::Cache;
use crate::error::{Error, Rejected};
use crate::host::{Host, Uncommitted};
use crate::limits::{self, SHORT_EVENT_INTERVAL};
use crate::outbound::Network;
use crate::plugin::Plugin;
use crate::pool::admission::Admission;
use crate::pool::demotion::{Demotable, Demotion};
use crate::pool::epoch::Ticker;
use crate::pool::instances::IdleInstances;
use crate::pool::threads::{lower_priority, run_only_when_idle};

/// How the executor is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Threads that guests run on. They have the lowest priority, so one per core does not slow the rest of the server.
    pub guest_threads: usize,
    /// Threads that compile, also at the lowest priority.
    pub compile_threads: usize,
    /// How many instances the pool can hold. A component with several memories counts as several.
    pub instances: u32,
    /// The largest component that is accepted.
    pub max_component_bytes: usize,
    /// How long compiling one component may take: processor time in a child process, and time by the clock without one.
    pub compile_time: Duration,
    /// How much memory compiling one component may take, when it is compiled in a child process.
    pub compile_memory: u64,
    /// A program, with its arguments, that only calls [`compile_in_child`](crate::compile_in_child). When set, every
    /// component is compiled in a child process, which is killed at its limits; otherwise components are compiled on
    /// threads of this process.
    pub compiler: Option<Vec<OsString>>,
    /// Where compiled code is cached. Without it every start compiles again.
    pub cache: Option<CacheConfig>,
    /// Certificates (DER) that guests' HTTPS requests trust besides the public ones, for private authorities.
    pub trusted: Vec<Vec<u8>>,
}

/// Where compiled code is cached, and the key that authenticates it.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    pub folder: PathBuf,
    /// Created if it does not exist. Must be outside the folder: something that can write to the folder must not be
    /// able to read the key.
    pub key_file: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        let cores = available_parallelism().map_or(2, usize::from);
        Config {
            guest_threads: cores,
            compile_threads: (cores / 2).clamp(1, 4),
            instances: limits::SHARES,
            max_component_bytes: limits::COMPONENT_BYTES,
            compile_time: limits::COMPILE_TIME,
            compile_memory: limits::COMPILE_MEMORY,
            compiler: None,
            cache: None,
            trusted: Vec::new(),
        }
    }
}

/// Compiles plugins and runs attempts. Cheap to clone; dropping the last clone stops everything that still runs.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    compiler: Compiler,
    /// `Some` until `drop` takes them.
    guests: Option<Guests>,
    /// Dropped after the guests' runtimes have been asked to shut down: its ticks make the last guests leave their
    /// threads.
    _ticker: Ticker,
}

/// The guests' threads, separate from those of HTTP: shared with four computing guests, a response took 600 ms instead
/// of 0.1 ms.
struct Guests {
    short: Runtime,
    long: Runtime,
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
        let short = guests(threads, "windlass-guest", lower_priority, SHORT_EVENT_INTERVAL).map_err(Error::Thread)?;
        let long = guests(threads, "windlass-long", run_only_when_idle, 1).map_err(Error::Thread)?;
        let guests = Guests { short, long };
        let ticker = Ticker::start(engine.clone())?;
        let network = Network::new(&config.trusted).map_err(Error::Trust)?;
        let (handle, admission, instances) =
            (ticker.handle(), Admission::new(config.instances), IdleInstances::default());
        let pool = Pool { engine, ticker: handle, admission, instances, network, disk: DiskBudgets::default() };
        Ok(Executor { inner: Arc::new(Inner { pool, compiler, guests: Some(guests), _ticker: ticker }) })
    }

    /// Checks and compiles a component, or takes its code from the cache. Runs concurrently with attempts, at the
    /// lowest priority.
    pub async fn compile(&self, bytes: Bytes) -> Result<Plugin, Rejected> {
        self.inner.compiler.compile(bytes).await
    }

    /// The threads that guests start on. When a task on them calls `run`, a short attempt runs in that same task, which
    /// saves two thread switches.
    pub fn threads(&self) -> Option<&Handle> {
        self.inner.guests.as_ref().map(|guests| guests.short.handle())
    }

    /// Runs one attempt to its end, on the guests' own threads, in a new instance unless the attempt allows reuse.
    /// Dropping the future stops the attempt by force, without an outcome.
    pub async fn run(&self, plugin: &Plugin, attempt: Attempt, host: Arc<dyn Host>) -> AttemptEnd {
        let cpu = Arc::clone(attempt.gauge.cpu());
        let running = run::run(self.inner.pool.clone(), plugin.clone(), attempt, host, Arc::clone(&cpu));
        let Some(guests) = &self.inner.guests else {
            return run::never_started(ForcedStop::Cancelled(CancelReason::Shutdown));
        };
        let attempt = Demotable::new(running, cpu);
        let polled = if is_on(guests.short.handle()) {
            catching_panics(attempt).await
        } else {
            run_on(&guests.short, attempt).await
        };
        let ended = match polled {
            Ok(Demotion::Ended(ended)) => Ok(ended),
            Ok(Demotion::Demoted(running)) => run_on(&guests.long, running).await,
            Err(lost) => Err(lost),
        };
        match ended {
            Ok(ended) => ended,
            Err(Lost::Shutdown) => run::never_started(ForcedStop::Cancelled(CancelReason::Shutdown)),
            Err(Lost::Panicked(reason)) => crashed(&reason),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pool.instances.drop_all();
        if let Some(guests) = self.guests.take() {
            // A plain drop waits for every task and panics inside another runtime.
            guests.short.shutdown_background();
            guests.long.shutdown_background();
        }
    }
}

/// Why an attempt has no outcome.
enum Lost {
    /// Its threads are shutting down.
    Shutdown,
    /// The executor panicked while running it.
    Panicked(String),
}

fn is_on(threads: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == threads.id())
}

/// Polls the future in the caller's own task and catches a panic, which would end that task.
async fn catching_panics<F: Future + Unpin>(mut future: F) -> Result<F::Output, Lost> {
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(context)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(Lost::Panicked(panic_message(&*panic)))),
        }
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Runs the future as a task on other threads. The task is aborted when this future is dropped.
async fn run_on<F>(threads: &Runtime, future: F) -> Result<F::Output, Lost>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut task = StopOnDrop(threads.spawn(future));
    (&mut task.0).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => Lost::Panicked(panic_message(&*panic)),
        Err(_) => Lost::Shutdown,
    })
}

struct StopOnDrop<T>(JoinHandle<T>);

impl<T> Drop for StopOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A panic of the executor, not of the guest. The attempt is retried; the panic is in the server's log.
fn crashed(reason: &str) -> AttemptEnd {
    AttemptEnd {
        outcome: Outcome::Failed {
            error: format!(
                "the executor failed while it ran this attempt: {reason}. This is a bug in the server; its log has the details"
            ),
            backtrace: None,
            retry: Retry::Backoff,
        },
        uncommitted: Uncommitted::default(),
        usage: Usage::default(),
    }
}

/// Each poll may last a whole tick, so a thread checks for new tasks after every poll, and for timers after every
/// `events` polls.
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
    let shares = config.instances;
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
        // The pages that a guest has written are reset in place and reused. Returning them to the system after every
        // attempt interrupts all processors and takes longer than a short attempt itself.
        .linear_memory_keep_resident(limits::RESIDENT_MEMORY)
        .table_keep_resident(limits::RESIDENT_TABLE)
        .pagemap_scan(Enabled::Auto);
    let mut settings = settings();
    settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&settings)
}

/// The settings that compiled code depends on. The pool is not one of them, so a process that only compiles needs no
/// pool.
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

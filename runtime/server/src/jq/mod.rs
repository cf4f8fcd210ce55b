//! Filters on payloads in the jq language, run in child processes of this same program, without an environment, with
//! little memory, at the lowest priority, and killed when they take too long. A filter that loops for ever, recurses
//! without end or uses all memory does not affect the server.
//!
//! Reading order: `mod` (the server's side), `wire` (the protocol between the two), `child` (the other side), `needles`
//! (what can be known of a filter without running it). The search handler calls [`Jq::checked`]; `windlass jq-child` is
//! [`child::run`].

pub mod child;
mod needles;
mod wire;

use std::fmt;
use std::io::{BufReader, BufWriter};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use windlass_store::search::{PayloadFilter, PayloadFilterError, PayloadTest, Payloads};

use crate::limits;

/// A filter that has been checked.
pub struct Jq {
    filter: String,
    needles: Vec<Vec<u8>>,
    /// The child that checked it; the first thread uses it.
    first: Mutex<Option<Process>>,
    watched: Arc<Watched>,
    /// Limits the number of children.
    _turn: SemaphorePermit<'static>,
}

/// Limits the filters that run at once.
static RUNNING: Semaphore = Semaphore::const_new(limits::JQ_FILTERS);

impl fmt::Debug for Jq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Jq").field(&self.filter).finish()
    }
}

impl Jq {
    /// Waits for its turn and checks a filter. It waits for a child process, on a thread that may block.
    pub async fn checked(filter: String) -> Result<Jq, PayloadFilterError> {
        let failed =
            |error: &dyn fmt::Display| PayloadFilterError::Host(format!("the filter was not checked: {error}"));
        let turn = RUNNING.acquire().await.map_err(|error| failed(&error))?;
        tokio::task::spawn_blocking(move || Jq::new(&filter, turn)).await.map_err(|error| failed(&error))?
    }

    fn new(filter: &str, turn: SemaphorePermit<'static>) -> Result<Jq, PayloadFilterError> {
        let watched = Arc::new(Watched::default());
        watch(Arc::downgrade(&watched)).map_err(no_process)?;
        let (process, needles) = Process::start(filter, &watched)?;
        Ok(Jq { filter: filter.to_owned(), needles, first: Mutex::new(Some(process)), watched, _turn: turn })
    }
}

impl PayloadFilter for Jq {
    fn needles(&self) -> &[Vec<u8>] {
        &self.needles
    }

    fn thread(&self) -> Result<Box<dyn PayloadTest>, PayloadFilterError> {
        if let Some(process) = lock(&self.first).take() {
            return Ok(Box::new(process));
        }
        Process::start(&self.filter, &self.watched).map(|(process, _)| Box::new(process) as Box<dyn PayloadTest>)
    }
}

/// The children of one filter.
#[derive(Default)]
struct Watched(Mutex<Vec<Arc<Watch>>>);

/// One child, as the watching thread sees it.
struct Watch {
    child: Mutex<Child>,
    /// Since when it has been working on a request, and the processor time that it had used by then.
    busy: Mutex<Option<(Instant, Duration)>>,
    late: std::sync::atomic::AtomicBool,
    started: Instant,
}

impl Drop for Watched {
    fn drop(&mut self) {
        for watch in lock(&self.0).iter() {
            watch.end();
        }
    }
}

impl Watch {
    /// Measured by the child's own processor time, because on a busy machine it gets little of it through no fault of
    /// the filter. A child that does nothing at all gets some more wall time.
    fn takes_too_long(&self) -> bool {
        let Some((since, used)) = *lock(&self.busy) else { return false };
        since.elapsed() > limits::JQ_TIME
            && (since.elapsed() > limits::JQ_WALL || self.used().saturating_sub(used) > limits::JQ_TIME)
    }

    /// The processor time that the child has used so far.
    fn used(&self) -> Duration {
        let pid = lock(&self.child).id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
        // Where that cannot be read, wall time is used.
        nanos.map_or_else(|| self.started.elapsed(), Duration::from_nanos)
    }

    fn end(&self) {
        let mut child = lock(&self.child);
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Kills children that take too long, until the filter is dropped.
fn watch(watched: Weak<Watched>) -> std::io::Result<()> {
    let watcher = std::thread::Builder::new().name("windlass-jq".into());
    let watching = watcher.spawn(move || {
        while let Some(watched) = watched.upgrade() {
            for watch in lock(&watched.0).iter() {
                if watch.takes_too_long() {
                    watch.late.store(true, std::sync::atomic::Ordering::Relaxed);
                    watch.end();
                }
            }
            drop(watched);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    watching.map(drop)
}

/// This machine has no process, thread, memory or descriptor left for a search; the filter is not at fault.
fn no_process(error: std::io::Error) -> PayloadFilterError {
    PayloadFilterError::Host(format!("a process for the jq filter cannot be started: {error}; try again later"))
}

/// The capacity of a pipe.
const PIPE: usize = 64 * 1024;

/// A child process that holds the filter.
struct Process {
    watch: Arc<Watch>,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(filter: &str, watched: &Watched) -> Result<(Process, Vec<Vec<u8>>), PayloadFilterError> {
        // The file may have been replaced since the start; this link leads to the running program.
        let program = std::path::Path::new("/proc/self/exe");
        let program =
            if program.exists() { program.to_owned() } else { std::env::current_exe().map_err(no_process)? };
        let mut child = Command::new(program)
            .arg("jq-child")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(no_process)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(PayloadFilterError::Host("the process for the jq filter has no pipes".into()));
        };
        let (busy, started) = (Mutex::new(None), Instant::now());
        let watch = Arc::new(Watch { child: Mutex::new(child), busy, started, late: Default::default() });
        lock(&watched.0).push(watch.clone());
        let mut process =
            Process { watch, input: BufWriter::with_capacity(PIPE, input), output: BufReader::new(output) };
        let checked = process.ask(|input| wire::write_filter(input, filter), wire::read_checked)?;
        let needles = checked.map_err(PayloadFilterError::Filter)?;
        Ok((process, needles))
    }

    /// Sends a request and waits for the answer, while the watching thread checks the time.
    fn ask<T>(
        &mut self,
        send: impl FnOnce(&mut BufWriter<ChildStdin>) -> std::io::Result<()>,
        receive: impl FnOnce(&mut BufReader<ChildStdout>) -> std::io::Result<T>,
    ) -> Result<T, PayloadFilterError> {
        *lock(&self.watch.busy) = Some((Instant::now(), self.watch.used()));
        let received = send(&mut self.input).and_then(|()| receive(&mut self.output));
        *lock(&self.watch.busy) = None;
        received.map_err(|_| self.why_it_ended())
    }

    fn why_it_ended(&self) -> PayloadFilterError {
        if self.watch.late.load(std::sync::atomic::Ordering::Relaxed) {
            let most = limits::JQ_TIME.as_secs();
            return PayloadFilterError::Filter(format!(
                "the filter took longer than {most} s on a few payloads and was stopped; simplify it"
            ));
        }
        // Out of memory or stack, it ends by a signal. One that exits did so before it ran the filter.
        match lock(&self.watch.child).wait() {
            Ok(status) if status.code().is_some() => {
                PayloadFilterError::Host(format!("the process for the jq filter ended too early ({status}); try again"))
            }
            _ => PayloadFilterError::Filter(
                "the filter exceeded its memory or recursion limit and was stopped; simplify it".into(),
            ),
        }
    }
}

impl PayloadTest for Process {
    fn sift(&mut self, payloads: &Payloads) -> Result<Vec<bool>, PayloadFilterError> {
        self.ask(|input| wire::write_payloads(input, payloads), |output| wire::read_passes(output, payloads.len()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.watch.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

//! The engine's thread: gathers requests into groups, lets the engine do them, and rebuilds it when the disk fails.
//!
//! A commit that failed is unknown, not undone, and fjall takes no more writes after one. So the engine is dropped, the
//! folder reopened, and a new engine built from what is on disk; meanwhile callers are told that nothing can be written.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use windlass_core::{JobId, Time, Token};

use super::disk::{Batch, Disk, DiskError, Pairs, Space, Value};
use super::engine::Engine;
use super::fjall_disk::FjallDisk;
use super::message::Request;
use super::recover::Alive;
use super::witness::Witness;
use crate::{Clock, Error, Options, limits};

/// The open database, as readers find it; none while it is being reopened.
pub type Shared = Arc<RwLock<Option<FjallDisk>>>;

pub struct Worker {
    pub options: Options,
    pub clock: Arc<dyn Clock>,
    pub requests: Receiver<Request>,
    pub shared: Shared,
    pub witness: Arc<Witness>,
    pub pulse: Arc<Pulse>,
    pub seed: u64,
}

/// What the keeper thread watches: the last acknowledged commit, and since when one is under way.
#[derive(Default)]
pub struct Pulse {
    pub acknowledged: AtomicU64,
    /// The engine's time when it began its group, plus one; zero when it is idle.
    pub busy_since: AtomicU64,
    /// What has been committed, for whoever measures.
    pub commits: Tally,
}

/// How many commits there were, how large, and how long they took.
#[derive(Default)]
pub struct Tally {
    pub count: AtomicU64,
    pub writes: AtomicU64,
    pub bytes: AtomicU64,
    /// Commits that took longer than `SLOW`.
    pub slow: AtomicU64,
    /// Commits by the power of two of their microseconds.
    pub took: [AtomicU64; 32],
    /// What all of them took.
    pub micros: AtomicU64,
}

/// Longer than this is worth a look at the disk.
pub const SLOW: Duration = Duration::from_millis(100);

impl Tally {
    fn add(&self, writes: usize, bytes: usize, took: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(writes as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if took > SLOW {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
        let power = (u128::BITS - took.as_micros().leading_zeros()).min(31) as usize;
        self.took[power].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }
}

/// How the engine's work ended.
enum End {
    /// Somebody asked for it, and waits to hear that all is put away.
    Closed(Vec<oneshot::Sender<()>>),
    /// The disk failed; these attempts of ours go on.
    Failed(DiskError, HashSet<(JobId, Token)>),
}

impl Worker {
    /// Answers with those who wait for the end, to be told when nothing of the store is open any more.
    pub fn run(self, mut engine: Engine<Acknowledged>) -> Vec<oneshot::Sender<()>> {
        let (hub, log_hub, orders) = (engine.hub.clone(), engine.log_hub.clone(), engine.orders.clone());
        loop {
            match self.serve(&mut engine) {
                End::Closed(waiting) => {
                    self.put_shared(None);
                    return waiting;
                }
                End::Failed(error, mut local) => {
                    tracing::error!("the store cannot write: {error}; trying again every second");
                    drop(engine);
                    self.put_shared(None);
                    let alive = |local: &HashSet<(JobId, Token)>| Alive {
                        hub: hub.clone(),
                        log_hub: log_hub.clone(),
                        orders: orders.clone(),
                        local: local.clone(),
                        new_process: false,
                    };
                    match self.reopen(&error, &mut local, alive) {
                        Ok(fresh) => engine = fresh,
                        Err(waiting) => return waiting,
                    }
                    tracing::info!("the store takes writes again");
                }
            }
        }
    }

    /// Groups, until closed or failed.
    fn serve(&self, engine: &mut Engine<Acknowledged>) -> End {
        loop {
            let mut requests = match self.gather(engine) {
                Ok(Some(requests)) => requests,
                Ok(None) => return End::Closed(Vec::new()),
                Err(error) => return self.fail(engine, error),
            };
            let closing = take_close(&mut requests);
            if !closing.is_empty() {
                // What waits to ride along must not be left behind.
                engine.finish();
            }
            let now = self.clock.now();
            self.pulse.busy_since.store(now.millis() + 1, Ordering::Relaxed);
            let done = engine.group(requests, now);
            self.pulse.busy_since.store(0, Ordering::Relaxed);
            if let Err(error) = done {
                return self.fail(engine, error);
            }
            if !closing.is_empty() {
                return End::Closed(closing);
            }
        }
    }

    /// Waits for a request or for the engine's next moment, then takes what else is there.
    fn gather(&self, engine: &mut Engine<Acknowledged>) -> Result<Option<Vec<Request>>, DiskError> {
        let mut group = Vec::new();
        let wake = engine.next_wake()?;
        let first = match wake {
            None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => match wait_until(self.clock.now(), at) {
                Some(span) => self.requests.recv_timeout(span),
                None => self.requests.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            },
        };
        match first {
            Ok(request) => group.push(request),
            Err(RecvTimeoutError::Timeout) => return Ok(Some(group)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
        let mut commands = group[0].commands();
        let mut bytes = group[0].weight();
        while commands < limits::GROUP && bytes < limits::GROUP_BYTES {
            let Ok(request) = self.requests.try_recv() else { break };
            commands += request.commands();
            bytes += request.weight();
            group.push(request);
        }
        Ok(Some(group))
    }

    fn fail(&self, engine: &mut Engine<Acknowledged>, error: DiskError) -> End {
        let why = error.to_string();
        let local = engine.abandon(&Error::Unknown { why });
        End::Failed(error, local)
    }

    /// Tries until the folder opens and takes a write; or the store is closed meanwhile.
    fn reopen(
        &self,
        error: &DiskError,
        local: &mut HashSet<(JobId, Token)>,
        alive: impl Fn(&HashSet<(JobId, Token)>) -> Alive,
    ) -> Result<Engine<Acknowledged>, Vec<oneshot::Sender<()>>> {
        loop {
            // A pause of the machine's, not a moment in a job's life: it goes by the steady clock.
            let began = Instant::now();
            while let Some(span) = limits::REOPEN_EVERY.checked_sub(began.elapsed()).filter(|span| !span.is_zero()) {
                match self.requests.recv_timeout(span) {
                    Ok(Request::Close { answer }) => return Err(vec![answer]),
                    Ok(Request::GiveBack { assignments }) => {
                        for assignment in assignments {
                            local.remove(&(assignment.job.id, assignment.token));
                        }
                    }
                    Ok(request) => request.refuse(Error::Unavailable { why: error.to_string() }),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Err(Vec::new()),
                }
            }
            match self.try_reopen(alive(local)) {
                Ok(engine) => return Ok(engine),
                Err(error) => tracing::warn!("still cannot write: {error}"),
            }
        }
    }

    fn try_reopen(&self, alive: Alive) -> Result<Engine<Acknowledged>, DiskError> {
        let disk = FjallDisk::open(&super::store_dir(&self.options.dir), self.options.durability)
            .map_err(|error| DiskError::Io(super::fjall_disk::explain(&error)))?;
        let acknowledged = Acknowledged::new(disk.clone(), self.witness.clone(), self.pulse.clone());
        let mut engine = Engine::recover(acknowledged, alive, limits::Tuning::default(), self.clock.now(), self.seed)?;
        // Its first commit shows whether there is room again.
        engine.group(Vec::new(), self.clock.now())?;
        self.put_shared(Some(disk));
        Ok(engine)
    }

    fn put_shared(&self, disk: Option<FjallDisk>) {
        let mut shared = self.shared.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *shared = disk;
    }
}

/// Takes the wishes to close out of the group.
fn take_close(requests: &mut Vec<Request>) -> Vec<oneshot::Sender<()>> {
    let (closing, others): (Vec<_>, Vec<_>) =
        std::mem::take(requests).into_iter().partition(|request| matches!(request, Request::Close { .. }));
    *requests = others;
    let answers = closing.into_iter().filter_map(|request| match request {
        Request::Close { answer } => Some(answer),
        _ => None,
    });
    answers.collect()
}

/// fjall, with the witness told of every commit before anybody else is.
pub struct Acknowledged {
    disk: FjallDisk,
    witness: Arc<Witness>,
    pulse: Arc<Pulse>,
}

impl Acknowledged {
    pub fn new(disk: FjallDisk, witness: Arc<Witness>, pulse: Arc<Pulse>) -> Acknowledged {
        Acknowledged { disk, witness, pulse }
    }
}

impl Disk for Acknowledged {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, DiskError> {
        self.disk.get(space, key)
    }

    fn scan(&self, space: Space, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, DiskError> {
        self.disk.scan(space, from, until, limit)
    }

    fn commit(&mut self, batch: Batch, number: u64) -> Result<(), DiskError> {
        let writes = batch.writes.len();
        let bytes = batch.writes.iter().map(|((_, key), value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let began = Instant::now();
        self.disk.commit(batch, number)?;
        self.pulse.commits.add(writes, bytes, began.elapsed());
        self.witness.write(number).map_err(|error| DiskError::Io(error.to_string()))?;
        self.pulse.acknowledged.store(number, Ordering::Relaxed);
        Ok(())
    }
}

/// The span until `at`; none when it has come.
fn wait_until(now: Time, at: Time) -> Option<Duration> {
    (at > now).then(|| at.since(now))
}

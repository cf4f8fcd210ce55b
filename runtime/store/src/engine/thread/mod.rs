//! The engine's thread: gathers requests into groups, lets the engine do them, and has it rebuilt when the disk fails.

pub mod recover;
mod reopen;
pub(crate) mod shared;

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::{JobId, Time, Token};

use crate::disk::DiskError;
use crate::disk::counted::{Acknowledged, CommitStatus};
use crate::disk::damage::Suspicion;
use crate::disk::data_keys::DataKeys;
use crate::disk::fjall::{FjallDisk, explain};
use crate::disk::folder::DataFolder;
use crate::disk::witness::Witness;
use crate::engine::Engine;
use crate::engine::requests::operation::Request;
use crate::engine::thread::recover::Alive;
use crate::engine::thread::shared::{Reads, Shared};
use crate::{Clock, Options, limits};

pub struct EngineThread {
    pub options: Options,
    pub clock: Arc<dyn Clock>,
    pub requests: Receiver<Request<Acknowledged>>,
    pub shared: Arc<Shared>,
    pub folder: Arc<DataFolder>,
    pub witness: Arc<Witness>,
    pub commit_status: Arc<CommitStatus>,
    pub seed: u64,
    /// Held as long as the store is open: no other process can open the folder meanwhile.
    pub lock: File,
    /// What decrypts the database's rows, if any are encrypted.
    pub data_keys: Option<Arc<DataKeys>>,
    /// The database, while it is open.
    pub disk: Option<FjallDisk>,
    /// Whether a damaged table prevents the database from writing.
    pub suspicion: Arc<Suspicion>,
    /// A folder that was found where ours was and lacks a part of what we acknowledged.
    pub short: Option<crate::engine::thread::reopen::ShortStore>,
}

/// Attempts that run in this process.
pub type Local = HashSet<(JobId, Token)>;

/// How the engine's work ended.
enum End {
    /// A caller asked for it, and waits until everything is closed.
    Closed(Vec<oneshot::Sender<()>>),
    /// The disk failed; these attempts of this process continue.
    Failed(DiskError, Local),
}

impl EngineThread {
    /// Returns the callers that wait for the end, to be answered when nothing of the store is open any more.
    pub fn run(mut self, mut engine: Engine<Acknowledged>) -> Vec<oneshot::Sender<()>> {
        let (channels, fair_use, audit) = (engine.channels.clone(), engine.fair_use, engine.audit_retention);
        loop {
            match self.serve(&mut engine) {
                End::Closed(waiting) => {
                    self.shared.set_reads(Reads::Closed);
                    return waiting;
                }
                End::Failed(error, local) => {
                    drop(engine);
                    let alive = |local: &Local| Alive {
                        channels: channels.clone(),
                        pause: false,
                        fair_use,
                        audit,
                        local: local.clone(),
                        new_process: false,
                    };
                    match self.bring_back(error, local, alive) {
                        Ok(fresh) => engine = fresh,
                        Err(waiting) => {
                            self.shared.set_reads(Reads::Closed);
                            return waiting;
                        }
                    }
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
            if take_checks(&mut requests)
                && closing.is_empty()
                && let Err(error) = self.check()
            {
                // Those that came along with it: nothing was done for them.
                for request in requests {
                    request.refuse(error.clone().into());
                }
                return self.fail(engine, error);
            }
            if !closing.is_empty() {
                // What waits to ride along must not be left behind.
                engine.finish();
            }
            let now = self.clock.now();
            self.commit_status.busy_since.store(now.millis() + 1, Ordering::Relaxed);
            let done = engine.group(requests, now);
            self.commit_status.busy_since.store(0, Ordering::Relaxed);
            match done {
                Err(error) if closing.is_empty() => return self.fail(engine, error),
                Err(error) => {
                    tracing::error!("the last commit failed: {error}");
                    let _ = self.fail(engine, error);
                    return End::Closed(closing);
                }
                Ok(()) if !closing.is_empty() => return End::Closed(closing),
                Ok(()) => {}
            }
        }
    }

    /// Whether the folder still exists and the database accepts writes, even while nothing is written.
    fn check(&self) -> Result<(), DiskError> {
        self.folder.check().map_err(DiskError::Gone)?;
        self.disk.as_ref().map_or(Ok(()), FjallDisk::takes_writes)
    }

    /// Waits for a request or for the engine's next moment, then takes what else is there.
    fn gather(&self, engine: &mut Engine<Acknowledged>) -> Result<Option<Vec<Request<Acknowledged>>>, DiskError> {
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
        let mut cost = group[0].cost();
        while cost.commands < limits::GROUP && cost.bytes < limits::GROUP_BYTES {
            let Ok(request) = self.requests.try_recv() else { break };
            cost += request.cost();
            group.push(request);
        }
        Ok(Some(group))
    }

    fn fail(&self, engine: &mut Engine<Acknowledged>, error: DiskError) -> End {
        let error = self.with_reason(error);
        let local = engine.abandon(&error.clone().into());
        End::Failed(error, local)
    }
}

impl EngineThread {
    /// A refusal to write, with the reason where that is known by now.
    pub(crate) fn with_reason(&self, error: DiskError) -> DiskError {
        match (error, self.suspicion.found()) {
            (DiskError::Io(why), Some(damaged)) if why == explain(&::fjall::Error::Poisoned) => DiskError::Io(damaged),
            (error, _) => error,
        }
    }
}

/// Takes the requests to close out of the group.
fn take_close(requests: &mut Vec<Request<Acknowledged>>) -> Vec<oneshot::Sender<()>> {
    let (closing, others): (Vec<_>, Vec<_>) =
        std::mem::take(requests).into_iter().partition(|request| matches!(request, Request::Close { .. }));
    *requests = others;
    let answers = closing.into_iter().filter_map(|request| match request {
        Request::Close { answer } => Some(answer),
        _ => None,
    });
    answers.collect()
}

/// Takes the requests to look at the folder out of the group; answers whether there were any.
fn take_checks(requests: &mut Vec<Request<Acknowledged>>) -> bool {
    let before = requests.len();
    requests.retain(|request| !matches!(request, Request::Check));
    requests.len() < before
}

/// The span until `at`; none when it has come.
fn wait_until(now: Time, at: Time) -> Option<Duration> {
    (at > now).then(|| at.since(now))
}

//! The handle of a store: one process, one folder, one writer.
//!
//! [`Store`] is the handle the rest of Windlass holds. Changes go to the engine's thread over a bounded channel;
//! reads go straight to the database, which shows what has been committed.

pub(crate) mod old_formats;
mod open;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{OnceCell, broadcast, mpsc, oneshot, watch};
use windlass_core::access::{AuditNote, AuditOutcome};
use windlass_core::flow::{Batch, Callback, NewBatch};
use windlass_core::{
    Blob, Body, Bulk, Command, Effect, Findings, JobId, Name, Namespace, NewJob, Plugin, PluginCommand, QueueName,
    Refusal, Reply, Settings, Time, Webhook, WorkerEvent,
};

use crate::disk::blobs::Blobs;
use crate::disk::counted::Acknowledged;
pub use crate::disk::counted::CommitTally;
pub use crate::disk::fjall::FjallDisk;
use crate::engine::commit::audit::{Audited, Note};
pub use crate::engine::requests::access::AccessChange;
use crate::engine::requests::operation::{Operation, Request};
use crate::engine::requests::operations::{
    Ask, AskEach, ChangePlugin, Clear, Configure, Enqueue, Log, MakeBatch, RemoveQueue, Seal, SetPaused, TellOfWorker,
};
use crate::engine::thread::shared::Shared;
use crate::{
    Assignment, BatchMade, Caller, Claim, Clock, DiskUse, EncryptedAnew, Enqueued, Error, EventRecord, InboundChange,
    LogLine, LogRecord, ScheduleChange, SecretChange, WebhookChange, limits,
};

/// The memory of one Windlass. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// Where all reads come from, if the store was frozen.
    pub(crate) moment: Option<Arc<OnceCell<crate::disk::fjall::View>>>,
    /// On whose behalf it is asked; none for the server's own parts.
    pub(crate) caller: Option<Arc<Caller>>,
}

pub(crate) struct Inner {
    requests: Arc<SyncSender<Request<Acknowledged>>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) blobs: Arc<Blobs>,
    events: broadcast::Sender<Arc<EventRecord>>,
    logs: broadcast::Sender<Arc<LogRecord>>,
    /// Ends with the engine, which alone holds the sender.
    effects: Mutex<Option<mpsc::UnboundedReceiver<Effect>>>,
    /// Since when everything is paused.
    pub(crate) paused: watch::Sender<Option<Time>>,
    tickets: AtomicU64,
    clock: Arc<dyn Clock>,
    pub(crate) commit_status: Arc<crate::disk::counted::CommitStatus>,
    pub(crate) search_admission: crate::read::search::SearchAdmission,
    /// Wakes the driver of bulk operations.
    pub(crate) bell: std::sync::mpsc::Sender<()>,
    pub(crate) bulk_hub: broadcast::Sender<Bulk>,
    /// Dropped with the store, which ends the threads that look after the folder.
    alive: Arc<()>,
}

/// Where the database lies inside the data folder.
pub(crate) fn store_dir(dir: &Path) -> PathBuf {
    dir.join("store")
}

impl Store {
    /// Sends a request to the engine, or refuses at once when it has too many.
    pub(crate) fn send(&self, request: Request<Acknowledged>) -> Result<(), Error> {
        self.inner.requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Error::Overloaded { retry_after: limits::RETRY_AFTER },
            TrySendError::Disconnected(_) => Error::Closed,
        })
    }

    /// What has been committed so far, and how quickly.
    pub fn commits(&self) -> &CommitTally {
        &self.inner.commit_status.commits
    }

    /// How much disk space the database uses; none while it is not open.
    pub fn disk_use(&self) -> Option<DiskUse> {
        self.inner.shared.now().ok().map(|disk| disk.disk_use())
    }

    /// Returns claims whose callers have disconnected. Unlike other requests this one cannot be refused: the job would
    /// stay active.
    fn give_back(&self, assignments: Vec<Assignment>) {
        if let Err(TrySendError::Full(request)) = self.inner.requests.try_send(Request::GiveBack { assignments }) {
            let requests = self.inner.requests.clone();
            std::thread::spawn(move || drop(requests.send(request)));
        }
    }

    pub(crate) async fn call<O: Operation<Acknowledged>>(&self, operation: O) -> Result<O::Answer, Error> {
        let note = self.caller.as_ref().zip(operation.audit()).map(|(caller, (action, target))| {
            let (actor, namespace) = (caller.actor.clone(), caller.allowed.namespace.clone());
            AuditNote { actor, namespace, action, target }
        });
        // What somebody answers for is written into the audit log, in the same commit.
        let (request, receiver) = match note {
            Some(note) => Request::new(Audited { operation, note }),
            None => Request::new(operation),
        };
        self.send(request)?;
        receiver.await.map_err(|_| Error::Closed)?
    }

    /// Notes in the audit log that a caller was not let do something.
    pub async fn deny(&self, note: AuditNote) -> Result<(), Error> {
        self.call(Note(note, AuditOutcome::Denied)).await
    }

    /// Notes what the caller has done or was refused outside of the engine.
    pub async fn note(&self, action: &'static str, target: String, outcome: AuditOutcome) -> Result<(), Error> {
        let Some(caller) = &self.caller else { return Ok(()) };
        let (actor, namespace) = (caller.actor.clone(), caller.allowed.namespace.clone());
        self.call(Note(AuditNote { actor, namespace, action, target }, outcome)).await
    }

    pub async fn change_access(&self, change: AccessChange) -> Result<(), Error> {
        self.call(change).await
    }

    /// Stops the engine after what it has been given, and waits for it.
    pub async fn close(&self) {
        let (answer, receiver) = oneshot::channel();
        // The queue may be full for a moment; a stop waits its turn.
        let mut request = Request::Close { answer };
        loop {
            match self.inner.requests.try_send(request) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(back)) => {
                    request = back;
                    tokio::time::sleep(limits::RETRY_AFTER).await;
                }
            }
        }
        let _ = receiver.await;
    }

    /// Makes bytes ready to be part of a command on a job of the caller's namespace: large ones become a durable file
    /// first.
    pub async fn keep(&self, bytes: Bytes) -> Result<Body, Error> {
        self.keep_for(self.own_namespace(), bytes).await
    }

    /// The same on behalf of another namespace, whose key may encrypt it.
    pub async fn keep_for(&self, namespace: Namespace, bytes: Bytes) -> Result<Body, Error> {
        if bytes.len() <= limits::INLINE_BODY {
            return Ok(Body::Inline(bytes));
        }
        self.write_blob(move |blobs| blobs.put_body(&bytes, &namespace)).await.map(Body::Blob)
    }

    /// The same for a component, which is a file whatever its size, and never encrypted.
    pub async fn store_blob(&self, bytes: Bytes) -> Result<Blob, Error> {
        self.write_blob(move |blobs| blobs.put(&bytes)).await
    }

    async fn write_blob(
        &self,
        write: impl FnOnce(&Blobs) -> std::io::Result<Blob> + Send + 'static,
    ) -> Result<Blob, Error> {
        // Found by its path, the folder may be another one by now.
        if let Some(why) = self.trouble() {
            return Err(Error::Unavailable { why });
        }
        let blobs = self.inner.blobs.clone();
        let put =
            move || write(&blobs).map_err(|error| Error::Unavailable { why: crate::disk::folder::explain(&error) });
        on_a_thread_of_its_own(put).await
    }

    pub async fn read_blob(&self, blob: Blob) -> Result<Bytes, Error> {
        let blobs = self.inner.blobs.clone();
        on_a_thread_of_its_own(move || Ok(blobs.get(&blob).map_err(|error| blobs.unread(&blob, &error))?)).await
    }

    /// Stores all of the jobs, or none.
    pub async fn enqueue(&self, mut jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        self.check_jobs(&mut jobs)?;
        self.call(Enqueue { jobs }).await
    }

    /// Makes a batch with these as its first members: all of it, or nothing. Jobs join later by the batch's id, until
    /// it is sealed.
    pub async fn make_batch(&self, batch: NewBatch, mut jobs: Vec<NewJob>, seal: bool) -> Result<BatchMade, Error> {
        self.check_jobs(&mut jobs)?;
        let own =
            |callback: Callback| Ok::<_, Refusal>(Callback { queue: self.own_queue(callback.queue)?, ..callback });
        let callback = batch.callback.map(own).transpose()?;
        let batch = NewBatch { namespace: self.own_namespace(), callback, ..batch };
        self.call(MakeBatch { batch, jobs, seal }).await
    }

    /// No more jobs can join; once all have ended the batch calls back.
    pub async fn seal(&self, batch: String) -> Result<Batch, Error> {
        let caller = self.caller.clone();
        self.call(Seal { batch, caller }).await
    }

    /// Takes up to `count` jobs, best first; waits for the first as long as the claim allows. Dropping the future gives
    /// back what it would have got.
    pub async fn claim(&self, mut claim: Claim) -> Result<Vec<Assignment>, Error> {
        claim.queues = claim.queues.into_iter().map(|queue| self.own_queue(queue)).collect::<Result<_, _>>()?;
        let ticket = self.inner.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = self.inner.clock.now() + claim.wait;
        let (answer, receiver) = oneshot::channel();
        self.send(Request::Claim { ticket, claim, caller: self.actor(), deadline, answer })?;
        let mut waiting = WaitingClaim { store: self.clone(), ticket, receiver: Some(receiver) };
        let Some(receiver) = waiting.receiver.as_mut() else { return Err(Error::Closed) };
        let got = receiver.await.map_err(|_| Error::Closed)?;
        waiting.receiver = None;
        got
    }

    /// Asks one thing of one job. Children commit together with what they come with, or not at all.
    pub async fn ask(&self, job: JobId, command: Command, children: Vec<NewJob>) -> Result<Reply, Error> {
        self.report(job, command, children, None).await
    }

    /// The same for the end of an attempt, with what became apparent while it ran.
    pub async fn report(
        &self,
        job: JobId,
        mut command: Command,
        mut children: Vec<NewJob>,
        findings: Option<Box<Findings>>,
    ) -> Result<Reply, Error> {
        self.check_jobs(&mut children)?;
        if let Command::Move(target) = &mut command {
            target.queue = self.own_queue(target.queue.clone())?;
        }
        self.own_marks(&mut command);
        self.call(Ask { job, command, children, findings, caller: self.caller.clone() }).await
    }

    /// Asks one thing each of many jobs. Each stands for itself: one refused does not touch the others.
    pub async fn ask_each(&self, mut asks: Vec<(JobId, Command)>) -> Result<Vec<Result<Reply, Error>>, Error> {
        asks.iter_mut().for_each(|(_, command)| self.own_marks(command));
        self.call(AskEach { asks, caller: self.caller.clone() }).await
    }

    /// Adds to a job's log. Returns at once; the lines are stored with the next commit.
    pub fn log(&self, job: JobId, lines: Vec<LogLine>) {
        // A log is worth less than the jobs: under overload it is the first to go.
        let _ = self.send(Request::new(Log { job, lines }).0);
    }

    /// Changes a queue's settings, making the queue if need be. The change sees the settings as they are.
    pub async fn configure<F>(&self, queue: QueueName, change: F) -> Result<Settings, Error>
    where
        F: FnOnce(&mut Settings) + Send + 'static,
    {
        let queue = self.own_queue(queue)?;
        let namespace = self.own_namespace();
        let change = Box::new(move |settings: &mut Settings| {
            change(settings);
            if let Some(gate) = &mut settings.gate {
                gate.queue = gate.queue.within(&namespace);
            }
        });
        self.call(Configure { queue, change, by: self.actor() }).await
    }

    /// Puts what happened to a worker into the stream of events. Returns at once: nobody waits for it.
    pub fn tell_of_worker(&self, queue: QueueName, event: WorkerEvent) {
        // An event is worth less than the jobs: under overload it is the first to go.
        let _ = self.send(Request::new(TellOfWorker { queue, event }).0);
    }

    /// Removes the pending and scheduled jobs of a queue; answers how many.
    pub async fn clear(&self, queue: QueueName) -> Result<u64, Error> {
        let queue = self.own_queue(queue)?;
        self.call(Clear { queue }).await
    }

    /// Removes a queue and all its jobs. Refused while jobs of it are active.
    pub async fn remove_queue(&self, queue: QueueName) -> Result<u64, Error> {
        let queue = self.own_queue(queue)?;
        self.call(RemoveQueue { queue }).await
    }

    /// Asks one thing of one plugin; answers with what it is then, if it still is.
    pub async fn change_plugin(&self, name: Name, command: PluginCommand) -> Result<Option<Plugin>, Error> {
        let name = self.own(name);
        self.call(ChangePlugin { name, command, by: self.actor() }).await
    }

    pub async fn change_secret(&self, change: SecretChange) -> Result<(), Error> {
        let change = match change {
            SecretChange::Put { name, encrypted } => SecretChange::Put { name: self.own(name), encrypted },
            SecretChange::Remove { name } => SecretChange::Remove { name: self.own(name) },
        };
        self.call(change).await
    }

    /// Replaces ciphertexts of any namespace, see [`EncryptedAnew`].
    pub async fn encrypt_anew(&self, step: EncryptedAnew) -> Result<usize, Error> {
        self.call(step).await
    }

    pub async fn change_webhook(&self, change: WebhookChange) -> Result<(), Error> {
        let change = match change {
            WebhookChange::Add(hook) => {
                WebhookChange::Add(Box::new(Webhook { namespace: self.own_namespace(), ..*hook }))
            }
            other => other,
        };
        if let (Some(_), Some(id)) = (&self.caller, change.known())
            && !self.webhooks().await?.iter().any(|hook| hook.id == *id)
        {
            return Err(Refusal::not_found("webhook", id).into());
        }
        self.call(change).await
    }

    pub async fn change_inbound(&self, change: InboundChange) -> Result<(), Error> {
        let change = match change {
            InboundChange::Set { queue, settings } => InboundChange::Set { queue: self.own_queue(queue)?, settings },
            InboundChange::Remove { queue } => InboundChange::Remove { queue: self.own_queue(queue)? },
        };
        self.call(change).await
    }

    pub async fn change_schedule(&self, change: ScheduleChange) -> Result<(), Error> {
        let change = self.own_schedule(change)?;
        let name = change.name();
        if self.caller.is_some() && !change.is_new() && !self.schedules().await?.iter().any(|known| known.name == *name)
        {
            return Err(Refusal::not_found("schedule", name).into());
        }
        self.call(change).await
    }

    /// Pauses everything, or resumes it.
    pub async fn set_paused(&self, paused: bool) -> Result<(), Error> {
        self.call(SetPaused(paused)).await?;
        tracing::info!(
            "{}",
            if paused { "paused: nothing starts until it is resumed" } else { "resumed: jobs start again" }
        );
        // Bulk operations that have waited continue. There is no receiver only when the store is closing.
        let _ = self.inner.bell.send(());
        Ok(())
    }

    /// The same, to be waited for.
    pub fn watch_paused(&self) -> watch::Receiver<Option<Time>> {
        self.inner.paused.subscribe()
    }

    /// Every event from now on. A receiver that falls too far behind gets an error from the channel.
    pub fn watch(&self) -> broadcast::Receiver<Arc<EventRecord>> {
        self.inner.events.subscribe()
    }

    /// Log lines from now on, numbered, as they are written: on disk they are a little later. A receiver that falls too
    /// far behind gets an error from the channel, and finds what it missed in `logs`.
    pub fn watch_logs(&self) -> broadcast::Receiver<Arc<LogRecord>> {
        self.inner.logs.subscribe()
    }

    /// Orders for the local executor. One receiver: the dispatcher.
    pub fn orders(&self) -> Option<mpsc::UnboundedReceiver<Effect>> {
        self.inner.effects.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Since when everything is paused: no claim gets a job, no timer fires, and nothing is removed by its age. None
    /// when nothing is.
    pub fn paused(&self) -> Option<Time> {
        *self.watch_paused().borrow()
    }

    /// Pauses everything, until `resume`. Attempts that run are not stopped.
    pub async fn pause(&self) -> Result<(), Error> {
        self.set_paused(true).await
    }

    /// Ends a pause. External attempts have a whole lease from now.
    pub async fn resume(&self) -> Result<(), Error> {
        self.set_paused(false).await
    }
}

/// A claim on its way. Dropped before its answer was taken, it gives back what it would have got.
struct WaitingClaim {
    store: Store,
    ticket: u64,
    receiver: Option<oneshot::Receiver<Result<Vec<Assignment>, Error>>>,
}

impl Drop for WaitingClaim {
    fn drop(&mut self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        receiver.close();
        match receiver.try_recv() {
            Ok(Ok(assignments)) => self.store.give_back(assignments),
            Ok(Err(_)) | Err(_) => drop(self.store.send(Request::Forget { ticket: self.ticket })),
        }
    }
}

/// File work, off the caller's thread.
pub(crate) async fn on_a_thread_of_its_own<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Closed)?
}

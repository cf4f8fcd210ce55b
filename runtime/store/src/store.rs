//! The seam: what the rest of Windlass may ask of its memory. An enum of known backends, so that a call costs no
//! dynamic dispatch and a second backend is one more arm.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{broadcast, mpsc, watch};
use windlass_core::flow::{Batch, Chain, Family, NewBatch};
use windlass_core::grant::Grant;
use windlass_core::schedule::Schedule;
use windlass_core::{
    Action, AttemptError, Body, BodyKind, Bulk, BulkId, Command, Effect, Guard, Job, JobId, Name, NewJob, Plugin,
    PluginCommand, QueueName, Record, Reply, Settings, Time, Webhook,
};

use crate::embedded::{Embedded, Tally};
use crate::search::{Page, Search};
use crate::{
    Assignment, BatchMade, Claim, DiskUse, Enqueued, Error, EventBounds, EventRecord, JobList, Linked, LogLine,
    LogRecord, OpenError, QueueView, RoundRow, Running, ScheduleChange, SecretChange, SecretRow, SweepFor, Unreadable,
    WebhookChange,
};

/// Where the store gets its time from. The server's `clock` is the only reader of system time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;
}

/// What an acknowledgement promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: survives power loss.
    #[default]
    Fsync,
    /// With the operating system: survives the death of the process only.
    Os,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub dir: PathBuf,
    pub durability: Durability,
}

/// What an operator says about one start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// How many acknowledged commits are known to be missing, and given up.
    pub lost: u64,
    /// Nothing starts, and nothing happens by itself, until `resume`: also after further starts.
    pub paused: bool,
}

/// The memory of one Windlass. Cheap to clone.
#[derive(Clone)]
pub enum Store {
    Embedded(Embedded),
}

impl Store {
    /// Opens or makes the data folder, recovers what is in it, and starts the engine.
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Store, OpenError> {
        Store::open_with(options, clock, Opening::default())
    }

    /// The same, with what the operator says about this one start.
    pub fn open_with(options: Options, clock: Arc<dyn Clock>, opening: Opening) -> Result<Store, OpenError> {
        Embedded::open(options, clock, opening).map(Store::Embedded)
    }

    /// Stops the engine after what it has been given, and waits for it.
    pub async fn close(&self) {
        match self {
            Store::Embedded(embedded) => embedded.close().await,
        }
    }

    /// Why the store takes no writes: from the first commit that failed until one has succeeded. None while all is well.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Store::Embedded(embedded) => embedded.trouble(),
        }
    }

    /// The same store, of which everything is read as it is at this moment: for an answer that is put together from several
    /// reads. Not to be kept, because what it sees cannot be cleared away.
    pub fn frozen(&self) -> Result<Store, Error> {
        match self {
            Store::Embedded(embedded) => Ok(Store::Embedded(embedded.frozen())),
        }
    }

    /// Since when everything is paused: no claim gets a job, no timer fires, and nothing is removed by its age. None when nothing is.
    pub fn paused(&self) -> Option<Time> {
        *self.watch_paused().borrow()
    }

    /// The same, to be waited for.
    pub fn watch_paused(&self) -> watch::Receiver<Option<Time>> {
        match self {
            Store::Embedded(embedded) => embedded.watch_paused(),
        }
    }

    /// Pauses everything, until `resume`. What runs goes on to its end.
    pub async fn pause(&self) -> Result<(), Error> {
        match self {
            Store::Embedded(embedded) => embedded.set_paused(true).await,
        }
    }

    /// Ends a pause. External attempts have a whole lease from now.
    pub async fn resume(&self) -> Result<(), Error> {
        match self {
            Store::Embedded(embedded) => embedded.set_paused(false).await,
        }
    }

    /// Makes bytes ready to be part of a command: large ones become a durable file first.
    pub async fn keep(&self, bytes: Bytes) -> Result<Body, Error> {
        match self {
            Store::Embedded(embedded) => embedded.keep(bytes).await,
        }
    }

    /// The same for a component, which is a file whatever its size.
    pub async fn keep_blob(&self, bytes: Bytes) -> Result<windlass_core::Blob, Error> {
        match self {
            Store::Embedded(embedded) => embedded.keep_blob(bytes).await,
        }
    }

    pub async fn read_blob(&self, blob: windlass_core::Blob) -> Result<Bytes, Error> {
        match self {
            Store::Embedded(embedded) => embedded.read_blob(blob).await,
        }
    }

    /// Stores all of the jobs, or none.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.enqueue(jobs).await,
        }
    }

    /// Makes a batch with these as its first members: all of it, or nothing. Jobs join later by the batch's id, until it
    /// is sealed.
    pub async fn make_batch(&self, batch: NewBatch, jobs: Vec<NewJob>, seal: bool) -> Result<BatchMade, Error> {
        match self {
            Store::Embedded(embedded) => embedded.make_batch(batch, jobs, seal).await,
        }
    }

    /// No more jobs can join; once all have ended the batch calls back.
    pub async fn seal(&self, batch: String) -> Result<Batch, Error> {
        match self {
            Store::Embedded(embedded) => embedded.seal(batch).await,
        }
    }

    pub async fn batch(&self, id: &str) -> Result<Option<Batch>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.batch(id).await,
        }
    }

    /// The numbers of a job's children; none when it never had any.
    pub async fn family(&self, parent: JobId) -> Result<Option<Family>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.family(parent).await,
        }
    }

    /// The chain that a job began.
    pub async fn chain(&self, first: JobId) -> Result<Option<Chain>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.chain(first).await,
        }
    }

    /// A page of a job's children, each with its number, and where the next page begins.
    pub async fn children(
        &self,
        parent: &Job,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<(u64, Job)>, Option<u64>), Error> {
        match self {
            Store::Embedded(embedded) => embedded.children(parent, from, limit).await,
        }
    }

    /// The jobs that a job depends on, at most `limit`.
    pub async fn dependencies(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.dependencies(id, limit).await,
        }
    }

    /// The jobs that depend on a job, at most `limit`.
    pub async fn dependants(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.dependants(id, limit).await,
        }
    }

    /// Takes up to `count` jobs, best first; waits for the first as long as the claim says. Dropping the future gives
    /// back what it would have got.
    pub async fn claim(&self, claim: Claim) -> Result<Vec<Assignment>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.claim(claim).await,
        }
    }

    /// Asks one thing of one job. Children commit together with what they come with, or not at all.
    pub async fn ask(&self, job: JobId, command: Command, children: Vec<NewJob>) -> Result<Reply, Error> {
        match self {
            Store::Embedded(embedded) => embedded.ask(job, command, children).await,
        }
    }

    /// Asks one thing each of many jobs. Each stands for itself: one refused does not touch the others.
    pub async fn ask_each(&self, asks: Vec<(JobId, Command)>) -> Result<Vec<Result<Reply, Error>>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.ask_each(asks).await,
        }
    }

    /// Adds to a job's log. Returns at once; the lines are stored with the next commit.
    pub fn log(&self, job: JobId, lines: Vec<LogLine>) {
        match self {
            Store::Embedded(embedded) => embedded.log(job, lines),
        }
    }

    pub async fn job(&self, id: JobId) -> Result<Option<Job>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.job(id).await,
        }
    }

    /// One of the job's bodies; `None` when it has none.
    pub async fn body(&self, job: &Job, kind: BodyKind) -> Result<Option<Bytes>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.body(job, kind).await,
        }
    }

    pub async fn errors(&self, id: JobId) -> Result<Vec<AttemptError>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.errors(id).await,
        }
    }

    /// Lines `from` on, at most `limit`, with the number of the first.
    pub async fn logs(&self, id: JobId, from: u64, limit: usize) -> Result<Vec<(u64, LogLine)>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.logs(id, from, limit).await,
        }
    }

    /// Jobs that cannot be read are left out; `list` has them.
    pub async fn jobs(&self, list: JobList) -> Result<Vec<Job>, Error> {
        self.list(list).await.map(|(jobs, _)| jobs)
    }

    /// A plain list, and the jobs that belong on it and cannot be read.
    pub async fn list(&self, list: JobList) -> Result<(Vec<Job>, Unreadable), Error> {
        match self {
            Store::Embedded(embedded) => embedded.jobs(list).await,
        }
    }

    /// One page of what a filter finds. Reads a view of one moment, on threads that give way to the engine.
    pub async fn search(&self, search: Search) -> Result<Page, Error> {
        match self {
            Store::Embedded(embedded) => embedded.search(search).await,
        }
    }

    /// The ids of all that pass a filter at this moment, oldest first.
    pub async fn search_ids(&self, search: Search) -> Result<Vec<JobId>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.search_ids(search).await,
        }
    }

    /// Takes an action on many jobs on: durable when it returns, and carried out whatever crashes.
    pub async fn start_bulk(&self, action: Action, guard: Guard, jobs: Vec<JobId>) -> Result<Bulk, Error> {
        match self {
            Store::Embedded(embedded) => embedded.start_bulk(action, guard, jobs).await,
        }
    }

    /// Takes up again the jobs of a queue that failed or whose records are marked: each is rebuilt with all that is below it.
    pub async fn sweep(&self, queue: QueueName, wanted: SweepFor) -> Result<Bulk, Error> {
        match self {
            Store::Embedded(embedded) => embedded.sweep(queue, wanted).await,
        }
    }

    /// The rounds of a queue from number `from` on, at most `limit`.
    pub async fn rounds(&self, queue: QueueName, from: u32, limit: usize) -> Result<Vec<RoundRow>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.rounds(queue, from, limit).await,
        }
    }

    /// What a handler has noted under this key of this queue.
    pub async fn record(&self, queue: QueueName, key: String) -> Result<Option<Record>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.record(queue, key).await,
        }
    }

    /// A page of the records of a queue, by their keys, from the key `from` on; and the key that the next page begins with.
    pub async fn records(
        &self,
        queue: QueueName,
        from: String,
        limit: usize,
        marked_only: bool,
    ) -> Result<(Vec<Record>, Option<String>), Error> {
        match self {
            Store::Embedded(embedded) => embedded.records(queue, from, limit, marked_only).await,
        }
    }

    pub async fn bulk(&self, id: BulkId) -> Result<Option<Bulk>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.bulk(id).await,
        }
    }

    /// Those that are known, the newest last.
    pub async fn bulks(&self) -> Result<Vec<Bulk>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.bulks().await,
        }
    }

    /// Stops an operation after the step it is in; what it has done stays done.
    pub async fn cancel_bulk(&self, id: BulkId) -> Result<Bulk, Error> {
        match self {
            Store::Embedded(embedded) => embedded.cancel_bulk(id).await,
        }
    }

    /// Every operation, each time it has come further.
    pub fn watch_bulks(&self) -> broadcast::Receiver<Bulk> {
        match self {
            Store::Embedded(embedded) => embedded.watch_bulks(),
        }
    }

    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.queues().await,
        }
    }

    /// Changes a queue's settings, making the queue if need be. The change sees the settings as they are.
    pub async fn configure<F>(&self, queue: QueueName, change: F) -> Result<Settings, Error>
    where
        F: FnOnce(&mut Settings) + Send + 'static,
    {
        match self {
            Store::Embedded(embedded) => embedded.configure(queue, Box::new(change)).await,
        }
    }

    /// Removes the pending and scheduled jobs of a queue; answers how many.
    pub async fn clear(&self, queue: QueueName) -> Result<u64, Error> {
        match self {
            Store::Embedded(embedded) => embedded.clear(queue).await,
        }
    }

    /// Removes a queue and all its jobs. Refused while jobs of it are active.
    pub async fn remove_queue(&self, queue: QueueName) -> Result<u64, Error> {
        match self {
            Store::Embedded(embedded) => embedded.remove_queue(queue).await,
        }
    }

    pub async fn plugins(&self) -> Result<Vec<Plugin>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.plugins().await,
        }
    }

    /// Asks one thing of one plugin; answers with what it is then, if it still is.
    pub async fn change_plugin(&self, name: Name, command: PluginCommand) -> Result<Option<Plugin>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.change_plugin(name, command).await,
        }
    }

    /// What the operator has granted, by plugin.
    pub async fn grants(&self) -> Result<BTreeMap<String, Grant>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.grants().await,
        }
    }

    /// The attempts that run in this process.
    pub async fn running(&self) -> Result<Vec<Running>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.running().await,
        }
    }

    pub async fn secrets(&self) -> Result<Vec<SecretRow>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.secrets().await,
        }
    }

    pub async fn change_secret(&self, change: SecretChange) -> Result<(), Error> {
        match self {
            Store::Embedded(embedded) => embedded.change_secret(change).await,
        }
    }

    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.schedules().await,
        }
    }

    pub async fn change_schedule(&self, change: ScheduleChange) -> Result<(), Error> {
        match self {
            Store::Embedded(embedded) => embedded.change_schedule(change).await,
        }
    }

    pub async fn webhooks(&self) -> Result<Vec<Webhook>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.webhooks().await,
        }
    }

    pub async fn change_webhook(&self, change: WebhookChange) -> Result<(), Error> {
        match self {
            Store::Embedded(embedded) => embedded.change_webhook(change).await,
        }
    }

    /// How many commits there were since the start, and how long they took.
    pub fn commits(&self) -> &Tally {
        match self {
            Store::Embedded(embedded) => embedded.commits(),
        }
    }

    /// What the database takes on disk; none while it is not open.
    pub fn disk_use(&self) -> Option<DiskUse> {
        match self {
            Store::Embedded(embedded) => embedded.disk_use(),
        }
    }

    /// Every event from now on. A receiver that falls too far behind is told so by the channel.
    pub fn watch(&self) -> broadcast::Receiver<Arc<EventRecord>> {
        match self {
            Store::Embedded(embedded) => embedded.watch(),
        }
    }

    /// Log lines from now on, numbered, as they are written: on disk they are a little later. A receiver that falls too far
    /// behind is told so by the channel, and finds what it missed in `logs`.
    pub fn watch_logs(&self) -> broadcast::Receiver<Arc<LogRecord>> {
        match self {
            Store::Embedded(embedded) => embedded.watch_logs(),
        }
    }

    /// Stored events after `seq`, oldest first. The first one's number tells whether some are gone.
    pub async fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<EventRecord>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.events_after(seq, limit).await,
        }
    }

    /// The latest stored events of one job, oldest first, back to `since`, when the job was made.
    pub async fn events_of(&self, id: JobId, since: Time, limit: usize) -> Result<Vec<EventRecord>, Error> {
        match self {
            Store::Embedded(embedded) => embedded.events_of(id, since, limit).await,
        }
    }

    /// Which event numbers are still stored, and which may have been given away.
    pub async fn event_bounds(&self) -> Result<EventBounds, Error> {
        match self {
            Store::Embedded(embedded) => embedded.event_bounds().await,
        }
    }

    /// Orders for the local executor. One receiver: the dispatcher.
    pub fn orders(&self) -> Option<mpsc::UnboundedReceiver<Effect>> {
        match self {
            Store::Embedded(embedded) => embedded.orders(),
        }
    }
}

//! Actions on many jobs. The engine's part: each step is one group's work, and its row is committed with what it did.
//! The driver's part: a thread that reads the list of jobs and hands it to the engine, step by step, one operation
//! after the other, from where the last process left off.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustc_hash::FxHashSet;
use tokio::sync::broadcast;
use windlass_core::{
    Action, Blob, Bulk, BulkEvent, BulkId, BulkStatus, Guard, Job, JobId, Namespace, QueueName, Refusal, State,
};

use crate::disk::counted::Acknowledged;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::engine::requests::operation::{Operation, Request};
use crate::flow::records::{known_queue, marked_jobs};
use crate::store::{Inner, Store};
use crate::{Error, SweepFor, limits};

/// One thing asked about an operation.
#[derive(Debug)]
pub enum BulkChange {
    Begin {
        namespace: Namespace,
        action: Action,
        guard: Guard,
        jobs: Blob,
    },
    /// The next jobs of the list, from this one on. A step that was made already is not made again.
    Step {
        id: BulkId,
        from: u64,
        jobs: Vec<JobId>,
    },
    Cancel {
        id: BulkId,
    },
    Fail {
        id: BulkId,
        why: String,
    },
}

impl<D: Disk> Engine<D> {
    pub(crate) fn change_bulk(&mut self, change: BulkChange) -> Result<Bulk, Failure> {
        let id = match change {
            BulkChange::Begin { namespace, action, guard, jobs } => {
                return Ok(self.begin_bulk(namespace, action, guard, jobs)?);
            }
            BulkChange::Step { id, .. } | BulkChange::Cancel { id } | BulkChange::Fail { id, .. } => id,
        };
        let Some(mut bulk) = self.bulks.get(&id).cloned() else {
            return Err(Refusal::not_found("bulk operation", id).into());
        };
        if bulk.status.is_over() {
            return Ok(bulk);
        }
        match change {
            BulkChange::Step { from, jobs, .. } if from == bulk.processed => self.step_bulk(&mut bulk, jobs)?,
            BulkChange::Begin { .. } | BulkChange::Step { .. } => return Ok(bulk),
            BulkChange::Cancel { .. } => bulk.end(BulkStatus::Cancelled, self.now),
            BulkChange::Fail { why, .. } => {
                bulk.error = Some(why);
                bulk.end(BulkStatus::Failed, self.now);
            }
        }
        if bulk.status.is_over() {
            self.events.push(BulkEvent::event(&bulk, self.now));
        }
        self.put_bulk(bulk.clone());
        Ok(bulk)
    }

    fn begin_bulk(&mut self, namespace: Namespace, action: Action, guard: Guard, jobs: Blob) -> Result<Bulk, Error> {
        let open = self.bulks.values().filter(|bulk| !bulk.status.is_over()).count();
        if open >= limits::BULKS_OPEN {
            return Err(Error::Overloaded { retry_after: Duration::from_secs(1) });
        }
        let random = u128::from(self.next_seed()) << 16 ^ u128::from(self.next_seed());
        let mut bulk = Bulk::new(BulkId::new(self.now, random), namespace, action, guard, jobs, self.now);
        if bulk.total == 0 {
            bulk.end(BulkStatus::Completed, self.now);
        } else {
            self.unsaved.batch.put(Space::Blobs, keys::blob_of_bulk(&jobs, bulk.id), vec![codec::FORMAT]);
        }
        self.events.push(BulkEvent::event(&bulk, self.now));
        self.put_bulk(bulk.clone());
        let over: Vec<BulkId> = self.bulks.values().filter(|bulk| bulk.status.is_over()).map(|bulk| bulk.id).collect();
        for old in over.iter().take(over.len().saturating_sub(limits::BULKS_KEPT)) {
            self.bulks.remove(old);
            self.unsaved.batch.delete(Space::Bulks, keys::bulk(*old));
        }
        Ok(bulk)
    }

    fn step_bulk(&mut self, bulk: &mut Bulk, jobs: Vec<JobId>) -> Result<(), DiskError> {
        for id in jobs {
            if self.load(id)?.is_some_and(|job| !bulk.admits(job)) {
                bulk.pass_over();
                continue;
            }
            bulk.count(match self.ask(id, bulk.action.command()) {
                Ok(reply) => Ok(reply),
                Err(Failure::Refused(Error::Refused(refusal))) => Err(refusal),
                // Its row is damaged.
                Err(Failure::Refused(other)) => Err(Refusal::invalid("action", other.to_string())),
                Err(Failure::Disk(error)) => return Err(error),
            });
        }
        bulk.step(self.now);
        Ok(())
    }

    fn put_bulk(&mut self, bulk: Bulk) {
        if bulk.status.is_over() {
            // The list has served its time.
            self.unsaved.batch.delete(Space::Blobs, keys::blob_of_bulk(&bulk.jobs, bulk.id));
        }
        self.unsaved.batch.put(Space::Bulks, keys::bulk(bulk.id), codec::encode(&bulk));
        self.bulks.insert(bulk.id, bulk);
        self.unsaved.require_commit();
    }
}

impl Store {
    /// Takes an action on many jobs on: durable when it returns, and carried out whatever crashes.
    pub async fn start_bulk(&self, action: Action, guard: Guard, jobs: Vec<JobId>) -> Result<Bulk, Error> {
        let action = match action {
            Action::Move { queue } => Action::Move { queue: self.own_queue(queue)? },
            other => other,
        };
        let guard = Guard { queue: guard.queue.map(|queue| self.own(queue)), ..guard };
        let jobs = self.allowed_jobs(jobs).await?;
        let bytes: Vec<u8> = jobs.iter().flat_map(|id| id.to_bytes()).collect();
        let jobs = self.store_blob(bytes.into()).await?;
        let bulk = self.call(BulkChange::Begin { namespace: self.own_namespace(), action, guard, jobs }).await?;
        // Nobody listens only when the store is closing: the next process finds it.
        let _ = self.inner.bell.send(());
        Ok(bulk)
    }

    /// Those of the jobs that are in queues the caller may use. Only a caller who may not use all of its namespace has
    /// others.
    async fn allowed_jobs(&self, mut jobs: Vec<JobId>) -> Result<Vec<JobId>, Error> {
        let Some(allowed) = self.limits().filter(|allowed| !allowed.are_all()) else { return Ok(jobs) };
        self.read(move |view| {
            let mut found = Ok(());
            jobs.retain(|id| match crate::read::row::<Job>(view, Space::Jobs, &keys::job(*id)) {
                Ok(job) => job.is_some_and(|job| allowed.allow(&job.queue)),
                Err(error) if error.is_damage() => false,
                Err(error) => {
                    found = Err(error);
                    false
                }
            });
            found.map(|()| jobs)
        })
        .await
    }

    /// Takes up again the jobs of a queue that failed, or whose records are marked, with all that is below them.
    pub async fn sweep(&self, queue: QueueName, wanted: SweepFor) -> Result<Bulk, Error> {
        let mut states = Vec::new();
        states.extend(wanted.failed.then_some(State::Dead));
        states.extend(wanted.cancelled.then_some(State::Cancelled));
        let queue = self.own_queue(queue)?;
        let (view, of) = (self.view().await?, states.clone());
        let id = known_queue(&view, &queue)?;
        let jobs = crate::store::on_a_thread_of_its_own(move || {
            let mut jobs = Vec::new();
            for state in of {
                for pair in view.under(Space::States, &keys::states(id, state)) {
                    jobs.extend(keys::last_job(&pair?.0));
                }
            }
            if wanted.marked {
                jobs.extend(marked_jobs(&view, id)?);
            }
            let mut seen = FxHashSet::default();
            jobs.retain(|job| seen.insert(*job));
            Ok(jobs)
        })
        .await?;
        if jobs.len() > limits::BULK_JOBS {
            let why = format!("{} jobs are to be taken up, of at most {}", jobs.len(), limits::BULK_JOBS);
            return Err(Refusal::invalid("queue", why).into());
        }
        if wanted.marked {
            states = vec![State::Completed, State::Dead, State::Cancelled];
        }
        self.start_bulk(Action::Rebuild, Guard { queue: Some(queue), states }, jobs).await
    }

    pub async fn bulk(&self, id: BulkId) -> Result<Option<Bulk>, Error> {
        let bulk: Option<Bulk> = crate::read::row(&self.view().await?, Space::Bulks, &keys::bulk(id))?;
        Ok(bulk.filter(|bulk| self.sees_namespace(&bulk.namespace)))
    }

    /// Those that are known, the newest last.
    pub async fn bulks(&self) -> Result<Vec<Bulk>, Error> {
        let mut bulks: Vec<Bulk> = self.read(|view| crate::read::rows(view, Space::Bulks)).await?;
        bulks.retain(|bulk| self.sees_namespace(&bulk.namespace));
        Ok(bulks)
    }

    /// Stops an operation after the step it is in; what it has done stays done.
    pub async fn cancel_bulk(&self, id: BulkId) -> Result<Bulk, Error> {
        if self.caller.is_some() && self.bulk(id).await?.is_none() {
            return Err(Refusal::not_found("bulk operation", id).into());
        }
        let bulk = self.call(BulkChange::Cancel { id }).await?;
        let _ = self.inner.bulk_hub.send(bulk.clone());
        Ok(bulk)
    }

    /// Every operation, each time it has come further.
    pub fn watch_bulks(&self) -> broadcast::Receiver<Bulk> {
        self.inner.bulk_hub.subscribe()
    }

    /// The same as `call`, for a thread that may wait.
    fn call_and_wait<O: Operation<Acknowledged>>(&self, operation: O) -> Result<O::Answer, Error> {
        let (request, receiver) = Request::new(operation);
        self.send(request)?;
        receiver.blocking_recv().map_err(|_| Error::Closed)?
    }
}

/// Carries operations out. Holds the store only while it does something with it.
struct Driver {
    store: Weak<Inner>,
    /// Signalled when there is a new operation; disconnected when the store is closed.
    bell: Receiver<()>,
}

/// How long the driver waits when the store cannot write, or has too much to do.
const PAUSE: Duration = Duration::from_millis(100);

impl Driver {
    pub fn run(self) {
        loop {
            while let Some(bulk) = self.next() {
                if let Err(Error::Closed) = self.carry_out(bulk) {
                    return;
                }
            }
            if self.bell.recv().is_err() {
                return;
            }
        }
    }

    fn store(&self) -> Result<Store, Error> {
        self.store.upgrade().map(|inner| Store { inner, moment: None, caller: None }).ok_or(Error::Closed)
    }

    /// The oldest operation that is not over and need not wait. A store that cannot be read now is asked again.
    fn next(&self) -> Option<Bulk> {
        loop {
            let disk = self.store().ok()?.inner.shared.now();
            let rows = disk.and_then(|disk| Ok(crate::read::rows::<Bulk>(&disk.view(), Space::Bulks)?));
            match rows {
                Ok(bulks) => return bulks.into_iter().find(|bulk| !bulk.status.is_over() && !self.waits(bulk)),
                Err(Error::Closed) => return None,
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Everything is paused, and was not yet when the operation began. What somebody asks for in a pause is done.
    fn waits(&self, bulk: &Bulk) -> bool {
        let paused = self.store().ok().and_then(|store| *store.inner.paused.borrow());
        paused.is_some_and(|since| bulk.created_at < since)
    }

    fn carry_out(&self, mut bulk: Bulk) -> Result<(), Error> {
        let list = match self.store()?.inner.blobs.get(&bulk.jobs) {
            Ok(bytes) => bytes,
            Err(error) => {
                let why = format!("the list of its jobs cannot be read: {error}");
                self.change(|| BulkChange::Fail { id: bulk.id, why: why.clone() })?;
                return Ok(());
            }
        };
        while !bulk.status.is_over() && !self.waits(&bulk) {
            let from = usize::try_from(bulk.processed).unwrap_or(usize::MAX).saturating_mul(16).min(list.len());
            let until = (from + limits::BULK_STEP * 16).min(list.len());
            let ids = || list[from..until].chunks_exact(16).filter_map(|id| id.try_into().ok()).map(JobId::from_bytes);
            bulk = self.change(|| BulkChange::Step { id: bulk.id, from: bulk.processed, jobs: ids().collect() })?;
        }
        Ok(())
    }

    /// Asks the engine until it has answered. Whether a failed commit was stored is not known; the number in a step
    /// says.
    fn change(&self, change: impl Fn() -> BulkChange) -> Result<Bulk, Error> {
        loop {
            let store = self.store()?;
            match store.call_and_wait(change()) {
                Ok(bulk) => {
                    let _ = store.inner.bulk_hub.send(bulk.clone());
                    return Ok(bulk);
                }
                Err(Error::Closed) => return Err(Error::Closed),
                Err(Error::Refused(refusal)) => {
                    tracing::warn!("a bulk operation cannot go on: {refusal}");
                    return Err(Error::Refused(refusal));
                }
                Err(error) => {
                    tracing::debug!("a bulk operation waits: {error}");
                    drop(store);
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

/// Starts the driver of a store that has just been opened.
pub(crate) fn start(inner: &Arc<Inner>, bell: Receiver<()>) -> std::io::Result<()> {
    let driver = Driver { store: Arc::downgrade(inner), bell };
    std::thread::Builder::new().name("windlass-bulk".into()).spawn(move || driver.run()).map(drop)
}

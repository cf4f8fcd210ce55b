//! Reads: straight from the database, past the engine, each from one view. They see what has been committed, whole
//! commits only.

mod access;
mod checkpoints;
// Public for the simulator, which reads the disk itself.
#[doc(hidden)]
pub mod events;
mod flow_list;
mod flows;
pub(crate) mod search;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use windlass_core::plugin::grant::StoredGrant;
use windlass_core::schedule::Schedule;
use windlass_core::{
    AttemptError, BodyKind, BodyRef, Delivery, InboundHook, Job, JobId, Name, Plugin, Priority, Queue, QueueName,
    Runner, State, Time, Webhook,
};

pub use self::access::{AuditFilter, AuditPage};
pub use self::flow_list::{FlowCursor, FlowPage, ListedFlow};
use crate::claim::lanes::ReadyPlace;
use crate::disk::fjall::View;
use crate::disk::{DiskError, Space, after_prefix};
use crate::disk::{codec, keys};
use crate::engine::{META_KEY, Meta};
use crate::store::{Store, on_a_thread_of_its_own};
use crate::{
    AttemptRow, Error, EventBounds, EventRecord, JobList, LocalAttempt, LogLine, QueueView, SecretRow, Unreadable,
};

impl From<DiskError> for Error {
    fn from(error: DiskError) -> Error {
        match error {
            DiskError::Io(why) | DiskError::Gone(why) => Error::Unavailable { why },
            DiskError::Commit(why) => Error::Unknown { why },
            DiskError::Row { .. } | DiskError::Damaged { .. } => Error::Damaged { what: error.to_string() },
        }
    }
}

impl Store {
    /// Why the store accepts no writes; none while it does.
    pub fn trouble(&self) -> Option<String> {
        self.inner.shared.trouble()
    }

    /// The same store, of which everything is read as it is now; or as the first read finds it, if that has to wait.
    pub fn frozen(&self) -> Store {
        let now = self.inner.shared.now().map(|disk| disk.view()).ok();
        Store { moment: Some(Arc::new(OnceCell::new_with(now))), ..self.clone() }
    }

    /// What is stored now; or then, if this is a frozen store.
    pub(crate) async fn view(&self) -> Result<View, Error> {
        match &self.moment {
            Some(moment) => moment.get_or_try_init(|| self.current()).await.cloned(),
            None => self.current().await,
        }
    }

    /// What is stored now.
    async fn current(&self) -> Result<View, Error> {
        Ok(self.inner.shared.open().await?.view())
    }

    /// A read that may take longer than a look into memory.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View) -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, Error> {
        let view = self.view().await?;
        on_a_thread_of_its_own(move || read(&view).map_err(Error::from)).await
    }

    pub async fn job(&self, id: JobId) -> Result<Option<Job>, Error> {
        let job: Option<Job> = row(&self.view().await?, Space::Jobs, &keys::job(id))?;
        Ok(job.filter(|job| self.sees(&job.queue)))
    }

    /// One of the job's bodies; `None` when it has none.
    pub async fn body(&self, job: &Job, kind: BodyKind) -> Result<Option<Bytes>, Error> {
        match job.body(kind) {
            BodyRef::None => Ok(None),
            BodyRef::Blob(blob) => match self.read_blob(blob).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => self.gone_or(error, job, kind).await,
            },
            BodyRef::Inline { .. } => match self.view().await?.get(Space::Bodies, &keys::body(job.id, kind))? {
                Some(bytes) => Ok(Some(Bytes::copy_from_slice(codec::unwrap(Space::Bodies, &bytes)?))),
                None => {
                    let what = format!("the {kind:?} of job {} is not there", job.id);
                    self.gone_or(Error::Damaged { what }, job, kind).await
                }
            },
        }
    }

    /// The first bytes of one of the job's bodies, read without the rest; `None` when it has none.
    pub async fn body_head(&self, job: &Job, kind: BodyKind, bytes: usize) -> Result<Option<Bytes>, Error> {
        let (blobs, of) = (self.inner.blobs.clone(), job.clone());
        match self.read(move |view| search::head(view, &blobs, &of, kind, bytes)).await {
            Err(error) => self.gone_or(error, job, kind).await,
            head => head,
        }
    }

    /// A body that is missing: removed since the row was read, or lost?
    async fn gone_or(&self, error: Error, job: &Job, kind: BodyKind) -> Result<Option<Bytes>, Error> {
        match row::<Job>(&self.current().await?, Space::Jobs, &keys::job(job.id))? {
            Some(now) if now.body(kind) == job.body(kind) => Err(error),
            Some(_) | None => Ok(None),
        }
    }

    pub async fn errors(&self, id: JobId) -> Result<Vec<AttemptError>, Error> {
        self.read(move |view| {
            let found = view.under(Space::Errors, &keys::job(id));
            found.map(|pair| codec::decode(Space::Errors, &pair?.1)).collect()
        })
        .await
    }

    /// The attempts that are stored, oldest first: those that have ended otherwise than by completing the job without
    /// anything unusual, and those of before whose errors are stored.
    pub async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRow>, Error> {
        self.read(move |view| {
            let mut rows: BTreeMap<u32, AttemptRow> = BTreeMap::new();
            let number = |key: &[u8]| key.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            for pair in view.under(Space::Attempts, &keys::job(id)) {
                let (key, value) = pair?;
                let row = rows.entry(number(&key)).or_default();
                row.past = Some(codec::decode(Space::Attempts, &value)?);
            }
            for pair in view.under(Space::Errors, &keys::job(id)) {
                let (key, value) = pair?;
                let row = rows.entry(number(&key)).or_default();
                row.error = Some(codec::decode(Space::Errors, &value)?);
            }
            Ok(rows.into_iter().map(|(number, row)| AttemptRow { number, ..row }).collect())
        })
        .await
    }

    /// Lines `from` on, at most `limit`, with the number of the first.
    pub async fn logs(&self, id: JobId, from: u64, limit: usize) -> Result<Vec<(u64, LogLine)>, Error> {
        self.read(move |view| {
            let mut lines = Vec::new();
            for pair in view.range(Space::Logs, &keys::log(id, from), &after_prefix(&keys::job(id))) {
                lines.extend(events::read_lines(&pair?.1, from)?);
                if lines.len() >= limit {
                    break;
                }
            }
            lines.truncate(limit);
            Ok(lines)
        })
        .await
    }

    /// The same as `list`, without those that cannot be read.
    pub async fn jobs(&self, list: JobList) -> Result<Vec<Job>, Error> {
        self.list(list).await.map(|(jobs, _)| jobs)
    }

    /// Those that came into their state latest come first. Those that cannot be read are returned beside them.
    pub async fn list(&self, mut list: JobList) -> Result<(Vec<Job>, Unreadable), Error> {
        list.queue = list.queue.map(|queue| self.own(queue));
        let allowed = self.limits();
        self.read(move |view| {
            let sees = |queue: &QueueName| allowed.as_ref().is_none_or(|allowed| allowed.allow(queue));
            let mut found = match latest(view, &list, &sees) {
                // The index is damaged; the jobs say the same.
                Err(error) if error.is_damage() => among_all(view, &list, &sees)?,
                found => found?,
            };
            found.sort_unstable_by(|a, b| b.cmp(a));
            let (mut jobs, mut unreadable) = (Vec::new(), Unreadable::default());
            for (_, id) in found.into_iter().skip(list.offset).take(list.limit) {
                match row::<Job>(view, Space::Jobs, &keys::job(id)) {
                    Ok(job) => jobs.extend(job),
                    Err(error) if error.is_damage() => unreadable.add(id, Error::from(error)),
                    Err(error) => return Err(error),
                }
            }
            Ok((jobs, unreadable))
        })
        .await
    }

    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        let mut queues = self.all_queues().await?;
        queues.retain(|view| self.sees(&view.queue.name));
        Ok(queues)
    }

    async fn all_queues(&self) -> Result<Vec<QueueView>, Error> {
        self.read(|view| {
            let plugins = rows::<Plugin>(view, Space::Plugins)?;
            let served_by = |queue: &Queue| {
                let serving =
                    plugins.iter().find(|plugin| plugin.active.is_some() && plugin.queues.contains(&queue.name));
                serving.map(|plugin| plugin.name.clone())
            };
            let queues = rows::<Queue>(view, Space::Queues)?;
            let mut courses = flows::courses(view, &queues)?;
            let mut views = Vec::new();
            for queue in queues {
                let oldest_pending_at = oldest_pending(view, &queue)?;
                let rounds = courses.remove(&queue.name);
                views.push(QueueView { served_by: served_by(&queue), oldest_pending_at, rounds, queue });
            }
            Ok(views)
        })
        .await
    }

    pub async fn plugins(&self) -> Result<Vec<Plugin>, Error> {
        let mut plugins: Vec<Plugin> = self.read(|view| rows(view, Space::Plugins)).await?;
        plugins.retain(|plugin| self.sees_name(&plugin.name));
        Ok(plugins)
    }

    /// What the operator has granted, by plugin.
    pub async fn grants(&self) -> Result<BTreeMap<Name, StoredGrant>, Error> {
        let mut grants = self.read(|view| rows::<StoredGrant>(view, Space::Grants)).await?;
        grants.retain(|stored| self.sees_name(&stored.plugin));
        Ok(grants.into_iter().map(|stored| (stored.plugin.clone(), stored)).collect())
    }

    pub async fn secrets(&self) -> Result<Vec<SecretRow>, Error> {
        let mut secrets: Vec<SecretRow> = self.read(|view| rows(view, Space::Secrets)).await?;
        secrets.retain(|secret| self.sees_name(&secret.name));
        Ok(secrets)
    }

    /// The attempts that run in this process.
    pub async fn running(&self) -> Result<Vec<LocalAttempt>, Error> {
        self.read(|view| {
            let mut running = Vec::new();
            for pair in view.under(Space::Locals, &[]) {
                let Some(id) = keys::last_job(&pair?.0) else { continue };
                let job = match row::<Job>(view, Space::Jobs, &keys::job(id)) {
                    Ok(Some(job)) => job,
                    Ok(None) => continue,
                    Err(error) if error.is_damage() => continue,
                    Err(error) => return Err(error),
                };
                if let Some(Runner::Local { plugin, version }) = job.run.map(|run| run.runner) {
                    running.push(LocalAttempt { job: id, plugin, version });
                }
            }
            Ok(running)
        })
        .await
    }

    pub async fn webhooks(&self) -> Result<Vec<Webhook>, Error> {
        let mut hooks: Vec<Webhook> = self.read(|view| rows(view, Space::Webhooks)).await?;
        hooks.retain(|hook| self.sees_namespace(&hook.namespace));
        Ok(hooks)
    }

    /// What was sent to a webhook lately, oldest first.
    pub async fn deliveries(&self, webhook: &str) -> Result<Vec<Delivery>, Error> {
        let prefix = keys::deliveries(webhook);
        self.read(move |view| {
            let found = view.under(Space::Deliveries, &prefix);
            found.map(|pair| codec::decode(Space::Deliveries, &pair?.1)).collect()
        })
        .await
    }

    pub async fn inbound_hooks(&self) -> Result<Vec<InboundHook>, Error> {
        let mut hooks: Vec<InboundHook> = self.read(|view| rows(view, Space::InboundHooks)).await?;
        hooks.retain(|hook| self.sees(&hook.queue));
        Ok(hooks)
    }

    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let mut schedules: Vec<Schedule> = self.read(|view| rows(view, Space::Schedules)).await?;
        schedules.retain(|schedule| self.sees(&schedule.queue));
        Ok(schedules)
    }

    /// Stored events after `seq`, oldest first. The first one's number shows whether some were deleted.
    pub async fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<EventRecord>, Error> {
        self.read(move |view| {
            let mut events = Vec::new();
            for pair in view.range(Space::Events, &keys::event(seq.saturating_add(1)), &[u8::MAX; 16]) {
                events.extend(events::read_chunk(&pair?.1, seq)?);
                if events.len() >= limit {
                    break;
                }
            }
            events.truncate(limit);
            Ok(events)
        })
        .await
    }

    /// The latest stored events of one job, oldest first. `since` is when the job was created: the search looks no
    /// further back, and not beyond events that cannot be read.
    pub async fn events_of(&self, id: JobId, since: Time, limit: usize) -> Result<Vec<EventRecord>, Error> {
        self.read(move |view| {
            let mut found = Vec::new();
            for pair in view.under(Space::Events, &[]).rev() {
                let chunk = match pair.and_then(|(_, value)| events::read_chunk(&value, 0)) {
                    Err(error) if error.is_damage() => break,
                    chunk => chunk?,
                };
                let older = chunk.first().is_some_and(|first| first.event.at < since);
                found.extend(chunk.into_iter().rev().filter(|record| record.event.job == id));
                if older || found.len() >= limit {
                    break;
                }
            }
            found.truncate(limit);
            found.reverse();
            Ok(found)
        })
        .await
    }

    /// Which event numbers are still stored, and which may have been given away.
    pub async fn event_bounds(&self) -> Result<EventBounds, Error> {
        let meta: Meta = row(&self.view().await?, Space::Meta, META_KEY)?.unwrap_or_default();
        Ok(EventBounds { from: meta.events_from, reserved: meta.events_reserved })
    }
}

pub(crate) fn row<T: serde::de::DeserializeOwned>(
    view: &View,
    space: Space,
    key: &[u8],
) -> Result<Option<T>, DiskError> {
    match view.get(space, key)? {
        Some(bytes) => Ok(Some(codec::decode(space, &bytes)?)),
        None => Ok(None),
    }
}

pub(crate) fn rows<T: serde::de::DeserializeOwned>(view: &View, space: Space) -> Result<Vec<T>, DiskError> {
    view.under(space, &[]).map(|pair| codec::decode(space, &pair?.1)).collect()
}

/// The latest jobs of a list, as the indexes have them: enough of each queue and state.
fn latest(view: &View, list: &JobList, sees: &dyn Fn(&QueueName) -> bool) -> Result<Vec<(Time, JobId)>, DiskError> {
    let most = list.offset.saturating_add(list.limit);
    let mut found = Vec::new();
    for queue in rows::<Queue>(view, Space::Queues)? {
        if !sees(&queue.name) || list.queue.as_ref().is_some_and(|name| *name != queue.name) {
            continue;
        }
        for state in State::ALL.into_iter().filter(|state| list.state.is_none_or(|wanted| wanted == *state)) {
            match state {
                State::Pending => latest_pending(view, queue.id, most, &mut found)?,
                _ => {
                    for pair in view.under(Space::States, &keys::states(queue.id, state)).rev().take(most) {
                        found.extend(keys::read_state(&pair?.0));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The same without an index: every job is read.
fn among_all(view: &View, list: &JobList, sees: &dyn Fn(&QueueName) -> bool) -> Result<Vec<(Time, JobId)>, DiskError> {
    let mut found = Vec::new();
    for pair in view.under(Space::Jobs, &[]) {
        let job: Job = codec::decode(Space::Jobs, &pair?.1)?;
        let wanted = sees(&job.queue)
            && list.queue.as_ref().is_none_or(|name| *name == job.queue)
            && list.state.is_none_or(|state| state == job.state);
        if wanted {
            found.push((job.since, job.id));
        }
    }
    Ok(found)
}

/// The jobs that joined each lane of a queue last.
fn latest_pending(view: &View, queue: u32, most: usize, found: &mut Vec<(Time, JobId)>) -> Result<(), DiskError> {
    for lane in view.under(Space::Lanes, &queue.to_be_bytes()) {
        for pair in view.under(Space::Ready, &lane?.0).rev().take(most) {
            let (key, value) = pair?;
            let place = ReadyPlace::decode(&key, &value)?;
            found.push((place.since, place.id));
        }
    }
    Ok(())
}

/// Since when the job at the head of each lane waits: from the lanes' cursors, never from the head of the keyspace.
fn oldest_pending(view: &View, queue: &Queue) -> Result<Option<Time>, DiskError> {
    const LANES: usize = 64;
    if queue.counts.of(State::Pending) == 0 {
        return Ok(None);
    }
    let mut oldest: Option<Time> = None;
    for priority in Priority::ALL {
        for lane in view.under(Space::Lanes, &keys::ring(queue.id, priority, "")).take(LANES) {
            let (lane, cursor) = lane?;
            let from: Vec<u8> = lane.iter().chain(cursor.get(1..).unwrap_or_default()).copied().collect();
            if let Some(head) = view.range(Space::Ready, &from, &after_prefix(&lane)).next() {
                let (key, value) = head?;
                let since = ReadyPlace::decode(&key, &value)?.since;
                oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
            }
        }
    }
    Ok(oldest)
}

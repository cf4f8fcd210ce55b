//! Reads: straight from the database, past the engine. They see what has been committed.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_core::grant::Grant;
use windlass_core::schedule::Schedule;
use windlass_core::{
    AttemptError, BodyKind, BodyRef, Job, JobId, Plugin, Priority, Queue, Runner, State, Time, Webhook,
};

use super::disk::{Disk, DiskError, Space, after_prefix};
use super::engine::{META_KEY, Meta};
use super::fjall_disk::{FjallDisk, View};
use super::ready::Place;
use super::{Embedded, keys, on_a_thread_of_its_own, read_flow, record, stream};
use crate::{Error, EventBounds, EventRecord, JobList, LogLine, QueueView, Running, SecretRow};

impl From<DiskError> for Error {
    fn from(error: DiskError) -> Error {
        match error {
            DiskError::Io(why) => Error::Unavailable { why },
            DiskError::Record { .. } => Error::Damaged { what: error.to_string() },
        }
    }
}

impl Embedded {
    pub(super) fn disk(&self) -> Result<FjallDisk, Error> {
        let shared = self.inner.shared.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        shared.ok_or_else(|| Error::Unavailable { why: "the database is being reopened".into() })
    }

    /// A read that may take longer than a look into memory.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&FjallDisk) -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, Error> {
        let disk = self.disk()?;
        on_a_thread_of_its_own(move || read(&disk).map_err(Error::from)).await
    }

    /// Read from a view: outside one a commit shows itself part by part, and a record could name a body that is not there yet.
    pub async fn job(&self, id: JobId) -> Result<Option<Job>, Error> {
        job_in(&self.disk()?.view(), id)
    }

    pub async fn body(&self, job: &Job, kind: BodyKind) -> Result<Option<Bytes>, Error> {
        match job.body(kind) {
            BodyRef::None => Ok(None),
            BodyRef::Blob(blob) => self.read_blob(blob).await.map(Some),
            BodyRef::Inline { .. } => self.inline_body(job, kind).await,
        }
    }

    async fn inline_body(&self, job: &Job, kind: BodyKind) -> Result<Option<Bytes>, Error> {
        let view = self.disk()?.view();
        if let Some(bytes) = view.get(Space::Bodies, &keys::body(job.id, kind))? {
            return Ok(Some(Bytes::copy_from_slice(record::unwrap(Space::Bodies, &bytes)?)));
        }
        // Gone since the record was read, or lost?
        match job_in(&view, job.id)? {
            Some(now) if now.body(kind) == job.body(kind) => {
                Err(Error::Damaged { what: format!("the {kind:?} of job {} is not there", job.id) })
            }
            Some(_) | None => Ok(None),
        }
    }

    pub async fn errors(&self, id: JobId) -> Result<Vec<AttemptError>, Error> {
        self.read(move |disk| {
            let page = disk.scan(Space::Errors, &keys::job(id), &after_prefix(&keys::job(id)), 1_000)?;
            page.iter().map(|(_, value)| record::decode(Space::Errors, value)).collect()
        })
        .await
    }

    pub async fn logs(&self, id: JobId, from: u64, limit: usize) -> Result<Vec<(u64, LogLine)>, Error> {
        self.read(move |disk| {
            let mut lines = Vec::new();
            let mut start = keys::log(id, from);
            while lines.len() < limit {
                let page = disk.scan(Space::Logs, &start, &after_prefix(&keys::job(id)), 64)?;
                let Some((last, _)) = page.last() else { break };
                start = last.to_vec();
                start.push(0);
                for (_, value) in &page {
                    lines.extend(stream::read_lines(value, from)?);
                }
            }
            lines.truncate(limit);
            Ok(lines)
        })
        .await
    }

    /// Those that came into their state latest come first.
    pub async fn jobs(&self, list: JobList) -> Result<Vec<Job>, Error> {
        self.read(move |disk| {
            let most = list.offset.saturating_add(list.limit);
            let mut found: Vec<(Time, JobId)> = Vec::new();
            for queue in rows::<Queue>(disk, Space::Queues)? {
                if list.queue.as_ref().is_some_and(|name| *name != queue.name) {
                    continue;
                }
                for state in State::ALL.into_iter().filter(|state| list.state.is_none_or(|wanted| wanted == *state)) {
                    match state {
                        State::Pending => latest_pending(disk, queue.id, most, &mut found)?,
                        _ => {
                            let page = disk.scan_back(Space::States, &keys::states(queue.id, state), most)?;
                            found.extend(page.iter().filter_map(|(key, _)| keys::read_state(key)));
                        }
                    }
                }
            }
            found.sort_unstable_by(|a, b| b.cmp(a));
            let mut jobs = Vec::new();
            for (_, id) in found.into_iter().skip(list.offset).take(list.limit) {
                if let Some(bytes) = disk.get(Space::Jobs, &keys::job(id))? {
                    jobs.push(record::decode(Space::Jobs, &bytes)?);
                }
            }
            Ok(jobs)
        })
        .await
    }

    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        self.read(|disk| {
            let plugins = rows::<Plugin>(disk, Space::Plugins)?;
            let served_by = |queue: &Queue| {
                let serving =
                    plugins.iter().find(|plugin| plugin.active.is_some() && plugin.queues.contains(&queue.name));
                serving.map(|plugin| plugin.name.clone())
            };
            let queues = rows::<Queue>(disk, Space::Queues)?;
            let mut courses = read_flow::courses(disk, &queues)?;
            let mut views = Vec::new();
            for queue in queues {
                let oldest_pending_at = oldest_pending(disk, &queue)?;
                let rounds = courses.remove(&queue.name);
                views.push(QueueView { served_by: served_by(&queue), oldest_pending_at, rounds, queue });
            }
            Ok(views)
        })
        .await
    }

    pub async fn plugins(&self) -> Result<Vec<Plugin>, Error> {
        self.read(|disk| rows(disk, Space::Plugins)).await
    }

    pub async fn grants(&self) -> Result<BTreeMap<String, Grant>, Error> {
        self.read(|disk| rows::<(String, Grant)>(disk, Space::Grants).map(|rows| rows.into_iter().collect())).await
    }

    pub async fn secrets(&self) -> Result<Vec<SecretRow>, Error> {
        self.read(|disk| rows(disk, Space::Secrets)).await
    }

    pub async fn running(&self) -> Result<Vec<Running>, Error> {
        self.read(|disk| {
            let mut ids = Vec::new();
            disk.each(Space::Locals, &[], &mut |key, _| ids.extend(keys::last_job(key)))?;
            let mut running = Vec::new();
            for id in ids {
                let Some(bytes) = disk.get(Space::Jobs, &keys::job(id))? else { continue };
                let job: Job = record::decode(Space::Jobs, &bytes)?;
                if let Some(Runner::Local { plugin, version }) = job.run.map(|run| run.runner) {
                    running.push(Running { job: id, plugin, version });
                }
            }
            Ok(running)
        })
        .await
    }

    pub async fn webhooks(&self) -> Result<Vec<Webhook>, Error> {
        self.read(|disk| rows(disk, Space::Webhooks)).await
    }

    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        self.read(|disk| rows(disk, Space::Schedules)).await
    }

    pub async fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<EventRecord>, Error> {
        self.read(move |disk| {
            let mut events = Vec::new();
            let mut start = keys::event(seq.saturating_add(1));
            while events.len() < limit {
                let page = disk.scan(Space::Events, &start, &[u8::MAX; 16], 64)?;
                let Some((last, _)) = page.last() else { break };
                start = last.to_vec();
                start.push(0);
                for (_, value) in &page {
                    events.extend(stream::read_chunk(value, seq)?);
                }
            }
            events.truncate(limit);
            Ok(events)
        })
        .await
    }

    /// The latest stored events of one job, oldest first. `since` is when the job was made: the search goes no further back.
    pub async fn events_of(&self, id: JobId, since: Time, limit: usize) -> Result<Vec<EventRecord>, Error> {
        self.read(move |disk| {
            let mut found = Vec::new();
            disk.each_back(Space::Events, |value| {
                let chunk = stream::read_chunk(value, 0)?;
                let older = chunk.first().is_some_and(|first| first.event.at < since);
                found.extend(chunk.into_iter().rev().filter(|record| record.event.job == id));
                Ok(!older && found.len() < limit)
            })?;
            found.truncate(limit);
            found.reverse();
            Ok(found)
        })
        .await
    }

    pub async fn event_bounds(&self) -> Result<EventBounds, Error> {
        let meta: Meta = match self.disk()?.get(Space::Meta, META_KEY)? {
            Some(bytes) => record::decode(Space::Meta, &bytes)?,
            None => Meta::default(),
        };
        Ok(EventBounds { from: meta.events_from, reserved: meta.events_reserved })
    }
}

fn job_in(view: &View, id: JobId) -> Result<Option<Job>, Error> {
    match view.get(Space::Jobs, &keys::job(id))? {
        Some(bytes) => Ok(Some(record::decode(Space::Jobs, &bytes)?)),
        None => Ok(None),
    }
}

pub(super) fn rows<T: serde::de::DeserializeOwned>(disk: &FjallDisk, space: Space) -> Result<Vec<T>, DiskError> {
    let mut rows = Vec::new();
    let mut failed = None;
    disk.each(space, &[], &mut |_, value| match record::decode(space, value) {
        Ok(row) => rows.push(row),
        Err(error) => failed = Some(error),
    })?;
    failed.map_or(Ok(rows), Err)
}

/// The jobs that joined each lane of a queue last.
fn latest_pending(disk: &FjallDisk, queue: u32, most: usize, found: &mut Vec<(Time, JobId)>) -> Result<(), DiskError> {
    let mut lanes = Vec::new();
    disk.each(Space::Lanes, &queue.to_be_bytes(), &mut |key, _| lanes.push(key.to_vec()))?;
    for lane in lanes {
        for (key, value) in disk.scan_back(Space::Ready, &lane, most)? {
            let place = Place::decode(&key, &value)?;
            found.push((place.since, place.id));
        }
    }
    Ok(())
}

/// Since when the job at the head of each lane waits: from the lanes' cursors, never from the head of the keyspace.
fn oldest_pending(disk: &FjallDisk, queue: &Queue) -> Result<Option<Time>, DiskError> {
    const LANES: usize = 64;
    if queue.counts.of(State::Pending) == 0 {
        return Ok(None);
    }
    let mut oldest: Option<Time> = None;
    for priority in Priority::ALL {
        let prefix = keys::ring(queue.id, priority, "");
        for (lane, cursor) in disk.scan(Space::Lanes, &prefix, &after_prefix(&prefix), LANES)? {
            let from: Vec<u8> = lane.iter().chain(cursor.get(1..).unwrap_or_default()).copied().collect();
            if let Some((key, value)) = disk.scan(Space::Ready, &from, &after_prefix(&lane), 1)?.first() {
                let since = Place::decode(key, value)?.since;
                oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
            }
        }
    }
    Ok(oldest)
}

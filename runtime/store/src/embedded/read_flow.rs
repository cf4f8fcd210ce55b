//! Reads of flows: straight from the database, past the engine.

use std::collections::BTreeMap;

use windlass_core::flow::{Batch, Bound, Chain, Course, Family};
use windlass_core::{Job, JobId, Queue, QueueName, State};

use super::disk::{Disk, DiskError, Space, after_prefix};
use super::fjall_disk::FjallDisk;
use super::flow::{child_id, read_end};
use super::{Embedded, keys, record};
use crate::{Error, Linked, RoundRow, RoundsView};

/// How many children one page looks for: of a million that are gone, a page finds none and says where to go on.
const CHILDREN_LOOKED_AT: u64 = 10_000;

impl Embedded {
    pub async fn batch(&self, id: &str) -> Result<Option<Batch>, Error> {
        let key = keys::batch(id);
        self.read(move |disk| row(disk, Space::Flows, &key)).await
    }

    pub async fn family(&self, parent: JobId) -> Result<Option<Family>, Error> {
        self.read(move |disk| row(disk, Space::Flows, &keys::family(parent))).await
    }

    pub async fn chain(&self, first: JobId) -> Result<Option<Chain>, Error> {
        self.read(move |disk| row(disk, Space::Flows, &keys::chain(first))).await
    }

    /// The children of a job from number `from` on, those that are still there. The second answer is where the next page
    /// begins, if there is one.
    pub async fn children(&self, parent: &Job, from: u64, limit: usize) -> Result<(Vec<Job>, Option<u64>), Error> {
        let (id, spawned, adopted) = (parent.id, parent.children, parent.adopted());
        self.read(move |disk| {
            let all = u64::from(spawned) + u64::from(adopted);
            let mut found = Vec::new();
            let mut number = from;
            while number < all && found.len() < limit && number - from < CHILDREN_LOOKED_AT {
                found.extend(row::<Job>(disk, Space::Jobs, &keys::job(child_id(id, spawned, number)))?);
                number += 1;
            }
            Ok((found, (number < all).then_some(number)))
        })
        .await
    }

    pub async fn rounds(&self, queue: QueueName, from: u32, limit: usize) -> Result<Vec<RoundRow>, Error> {
        let id = super::records::known_queue(&self.disk()?, &queue)?;
        self.read(move |disk| {
            let page = disk.scan(Space::Flows, &keys::round(id, from), &after_prefix(&keys::rounds(id)), limit)?;
            page.iter()
                .map(|(key, value)| {
                    let number = keys::read_round(key).map_or(0, |(_, round)| round);
                    Ok(RoundRow { number, round: record::decode(Space::Flows, value)? })
                })
                .collect()
        })
        .await
    }

    pub async fn dependencies(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        self.read(move |disk| linked(disk, &keys::dependencies(id), limit, read_end)).await
    }

    pub async fn dependants(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        self.read(move |disk| linked(disk, &keys::dependants(id), limit, |_| None)).await
    }
}

/// Where each queue with rounds is, and what it waits for.
pub(super) fn courses(disk: &FjallDisk, queues: &[Queue]) -> Result<BTreeMap<QueueName, RoundsView>, DiskError> {
    let mut all: BTreeMap<&QueueName, Course> = BTreeMap::new();
    for queue in queues.iter().filter(|queue| queue.settings.rounds) {
        all.insert(&queue.name, row(disk, Space::Flows, &keys::course(queue.id))?.unwrap_or_default());
    }
    let position = |name: &QueueName| all.get(name).map(Course::position);
    let mut views = BTreeMap::new();
    for queue in queues {
        let Some(course) = all.get(&queue.name) else { continue };
        let lead = queue.settings.gate.iter().filter_map(|gate| Bound::lead(gate, position(&gate.queue)?));
        let behind = queues.iter().filter_map(|other| {
            let gate = other.settings.gate.as_ref().filter(|gate| gate.queue == queue.name)?;
            Bound::max_lead(&other.name, gate, position(&other.name)?)
        });
        let waits_for = course.current.filter(|_| course.running.is_none()).and_then(|round| {
            let bound = lead.chain(behind).find(|bound| !bound.admits(round))?;
            Some(bound.words(round).to_string())
        });
        views.insert(queue.name.clone(), RoundsView { course: course.clone(), waits_for });
    }
    Ok(views)
}

/// `gone` reads from a link how a job stood that is no longer there.
fn linked(
    disk: &FjallDisk,
    prefix: &[u8],
    limit: usize,
    gone: impl Fn(&[u8]) -> Option<State>,
) -> Result<Vec<Linked>, DiskError> {
    let mut found = Vec::new();
    for (key, value) in disk.scan(Space::Links, prefix, &after_prefix(prefix), limit)? {
        let Some(id) = keys::last_job(&key) else { continue };
        let state = match row::<Job>(disk, Space::Jobs, &keys::job(id))? {
            Some(job) => Some(job.state),
            None => gone(&value),
        };
        found.push(Linked { id, state });
    }
    Ok(found)
}

fn row<T: serde::de::DeserializeOwned>(disk: &FjallDisk, space: Space, key: &[u8]) -> Result<Option<T>, DiskError> {
    match disk.get(space, key)? {
        Some(bytes) => Ok(Some(record::decode(space, &bytes)?)),
        None => Ok(None),
    }
}

//! Reads of flows: straight from the database, past the engine, each from one view.

use std::collections::BTreeMap;

use windlass_core::flow::{Batch, Bound, Chain, Family, RoundsState};
use windlass_core::{Job, JobId, Queue, QueueName, State};

use crate::disk::fjall::View;
use crate::disk::{DiskError, Space, after_prefix};
use crate::disk::{codec, keys};
use crate::flow::records::known_queue;
use crate::flow::{child_id, read_end};
use crate::read::row;
use crate::store::Store;
use crate::{Error, Linked, RoundRow, RoundsView};

/// How many children one page looks for: of a million that were removed, a page finds none and says where to continue.
const CHILDREN_LOOKED_AT: u64 = 10_000;

impl Store {
    pub async fn batch(&self, id: &str) -> Result<Option<Batch>, Error> {
        let key = keys::batch(id);
        let batch: Option<Batch> = self.read(move |view| row(view, Space::Flows, &key)).await?;
        Ok(batch.filter(|batch| self.sees_namespace(&batch.namespace)))
    }

    /// The numbers of a job's children; none when it never had any.
    pub async fn family(&self, parent: JobId) -> Result<Option<Family>, Error> {
        self.read(move |view| row(view, Space::Flows, &keys::family(parent))).await
    }

    /// The chain that a job began.
    pub async fn chain(&self, first: JobId) -> Result<Option<Chain>, Error> {
        self.read(move |view| row(view, Space::Flows, &keys::chain(first))).await
    }

    /// The children of a job from number `from` on, those that are still there, each with its number. The second answer
    /// is where the next page begins, if there is one.
    pub async fn children(
        &self,
        parent: &Job,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<(u64, Job)>, Option<u64>), Error> {
        let (id, spawned, adopted) = (parent.id, parent.children, parent.adopted());
        self.read(move |view| {
            let all = u64::from(spawned) + u64::from(adopted);
            let mut found = Vec::new();
            let mut number = from;
            while number < all && found.len() < limit && number - from < CHILDREN_LOOKED_AT {
                let child = row::<Job>(view, Space::Jobs, &keys::job(child_id(id, spawned, number)))?;
                found.extend(child.map(|job| (number, job)));
                number += 1;
            }
            Ok((found, (number < all).then_some(number)))
        })
        .await
    }

    /// The rounds of a queue from number `from` on, at most `limit`.
    pub async fn rounds(&self, queue: QueueName, from: u32, limit: usize) -> Result<Vec<RoundRow>, Error> {
        let queue = self.own_queue(queue)?;
        let view = self.view().await?;
        let id = known_queue(&view, &queue)?;
        let page = view.range(Space::Flows, &keys::round(id, from), &after_prefix(&keys::rounds(id))).take(limit);
        page.map(|pair| {
            let (key, value) = pair?;
            let number = keys::read_round(&key).map_or(0, |(_, round)| round);
            Ok(RoundRow { number, round: codec::decode(Space::Flows, &value)? })
        })
        .collect()
    }

    /// The jobs that a job depends on, at most `limit`.
    pub async fn dependencies(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        self.read(move |view| linked(view, &keys::dependencies(id), limit, read_end)).await
    }

    /// The jobs that depend on a job, at most `limit`.
    pub async fn dependants(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        self.read(move |view| linked(view, &keys::dependants(id), limit, |_| None)).await
    }
}

/// Where each queue with rounds is, and what it waits for.
pub(crate) fn courses(view: &View, queues: &[Queue]) -> Result<BTreeMap<QueueName, RoundsView>, DiskError> {
    let mut all: BTreeMap<&QueueName, RoundsState> = BTreeMap::new();
    for queue in queues.iter().filter(|queue| queue.settings.rounds) {
        all.insert(&queue.name, row(view, Space::Flows, &keys::course(queue.id))?.unwrap_or_default());
    }
    let position = |name: &QueueName| all.get(name).map(RoundsState::position);
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
    view: &View,
    prefix: &[u8],
    limit: usize,
    gone: impl Fn(&[u8]) -> Option<State>,
) -> Result<Vec<Linked>, DiskError> {
    let mut found = Vec::new();
    for pair in view.under(Space::Links, prefix).take(limit) {
        let (key, value) = pair?;
        let Some(id) = keys::last_job(&key) else { continue };
        let state = match row::<Job>(view, Space::Jobs, &keys::job(id))? {
            Some(job) => Some(job.state),
            None => gone(&value),
        };
        found.push(Linked { id, state });
    }
    Ok(found)
}

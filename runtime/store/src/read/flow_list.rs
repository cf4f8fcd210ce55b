//! Lists of flows, newest first: batches, chains and trees by the ids they were created under, which begin with a time.

use std::iter::Peekable;

use windlass_core::flow::{Batch, Chain, ChainPart, Family, FlowKind, FlowSummary};
use windlass_core::{Job, JobId};

use crate::disk::fjall::View;
use crate::disk::{DiskError, Space, Value};
use crate::disk::{codec, keys};
use crate::read::row;
use crate::store::Store;
use crate::{Error, Unreadable, limits};

/// Where a page of flows ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowCursor {
    id: u128,
    kind: FlowKind,
}

impl FlowCursor {
    /// As clients carry it: opaque to them.
    pub fn to_text(self) -> String {
        format!("{:032x}{}", self.id, self.kind as u8)
    }

    pub fn from_text(text: &str) -> Option<FlowCursor> {
        let (id, kind) = text.split_at_checked(32)?;
        let kind = FlowKind::ALL.into_iter().find(|known| kind == (*known as u8).to_string())?;
        Some(FlowCursor { id: u128::from_str_radix(id, 16).ok()?, kind })
    }
}

/// A flow in a list.
#[derive(Clone, Debug)]
pub enum ListedFlow {
    Batch(Batch),
    /// With the jobs of its steps that there are.
    Chain {
        first: JobId,
        chain: Chain,
        steps: Vec<Job>,
    },
    Tree {
        root: Box<Job>,
        family: Family,
    },
}

impl ListedFlow {
    pub fn summary(&self) -> FlowSummary {
        match self {
            ListedFlow::Batch(batch) => FlowSummary::of_batch(batch),
            ListedFlow::Chain { first, chain, steps } => FlowSummary::of_chain(*first, chain, steps),
            ListedFlow::Tree { root, family } => FlowSummary::of_tree(root, family),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct FlowPage {
    pub flows: Vec<ListedFlow>,
    /// Where the next page begins, if there is one.
    pub next: Option<FlowCursor>,
    /// Flows that cannot be read, by the job they began with.
    pub unreadable: Unreadable,
}

impl Store {
    /// The flows of some kinds after a place in the list. A page may have fewer than `limit`, if many were passed over.
    pub async fn flows(
        &self,
        kinds: Vec<FlowKind>,
        after: Option<FlowCursor>,
        limit: usize,
    ) -> Result<FlowPage, Error> {
        let store = self.clone();
        self.read(move |view| {
            let mut runs: Vec<_> = kinds.into_iter().map(|kind| run(view, kind, after).peekable()).collect();
            let (mut page, mut last) = (FlowPage::default(), None);
            for _ in 0..limits::FLOWS_LOOKED_AT {
                if page.flows.len() >= limit {
                    break;
                }
                let Some((place, value)) = next(&mut runs)? else { return Ok(page) };
                match flow(view, place, &value, &store) {
                    Ok(found) => page.flows.extend(found),
                    Err(error) if error.is_damage() => page.unreadable.add(JobId(place.id), Error::from(error)),
                    Err(error) => return Err(error),
                }
                last = Some(place);
            }
            page.next = if next(&mut runs)?.is_some() { last } else { None };
            Ok(page)
        })
        .await
    }
}

type Entry = Result<(FlowCursor, Value), DiskError>;

/// All flows of a kind after a place, newest first.
fn run(view: &View, kind: FlowKind, after: Option<FlowCursor>) -> impl Iterator<Item = Entry> + use<> {
    let key = |id: JobId| match kind {
        FlowKind::Batch => keys::batch(&Batch::id(id)),
        FlowKind::Chain => keys::chain(id),
        FlowKind::Tree => keys::family(id),
    };
    // Of the same id, a kind that comes later in the list is still to come.
    let until = after.map_or(u128::MAX, |after| if kind < after.kind { after.id.saturating_add(1) } else { after.id });
    let pairs = view.range(Space::Flows, &key(JobId(0)), &key(JobId(until))).rev();
    pairs.filter_map(move |pair| match pair {
        Ok((key, value)) => Some(Ok((FlowCursor { id: id_of(kind, &key)?.0, kind }, value))),
        Err(error) => Some(Err(error)),
    })
}

fn id_of(kind: FlowKind, key: &[u8]) -> Option<JobId> {
    match kind {
        FlowKind::Batch => {
            let text = std::str::from_utf8(key.get(1..)?).ok()?;
            format!("job_{}", text.strip_prefix("batch_")?).parse().ok()
        }
        FlowKind::Chain | FlowKind::Tree => keys::last_job(key),
    }
}

/// The newest of what the runs have next.
fn next<R: Iterator<Item = Entry>>(runs: &mut [Peekable<R>]) -> Result<Option<(FlowCursor, Value)>, DiskError> {
    let mut best: Option<(FlowCursor, usize)> = None;
    for (at, run) in runs.iter_mut().enumerate() {
        match run.peek() {
            Some(Ok((place, _))) if best.is_none_or(|(best, _)| *place > best) => best = Some((*place, at)),
            // Its error is passed on at once.
            Some(Err(_)) => return run.next().transpose(),
            Some(Ok(_)) | None => {}
        }
    }
    match best {
        Some((_, at)) => runs[at].next().transpose(),
        None => Ok(None),
    }
}

/// What is stored of a flow, if the caller may see it. Only the root of a tree is listed.
fn flow(view: &View, place: FlowCursor, value: &[u8], store: &Store) -> Result<Option<ListedFlow>, DiskError> {
    let id = JobId(place.id);
    let job = |id: JobId| row::<Job>(view, Space::Jobs, &keys::job(id));
    Ok(match place.kind {
        FlowKind::Batch => {
            let batch: Batch = codec::decode(Space::Flows, value)?;
            store.sees_namespace(&batch.namespace).then_some(ListedFlow::Batch(batch))
        }
        FlowKind::Chain => {
            let chain: Chain = codec::decode(Space::Flows, value)?;
            let mut steps = Vec::new();
            for step in 0..chain.steps.len() as u32 {
                let of_step = if step == 0 { id } else { JobId::of_chain(id, step, ChainPart::Step as u8) };
                match job(of_step)? {
                    Some(job) => steps.push(job),
                    // The first may have been removed already; after another there is none.
                    None if steps.is_empty() => {}
                    None => break,
                }
            }
            let seen = steps.first().is_some_and(|first| store.sees(&first.queue));
            seen.then_some(ListedFlow::Chain { first: id, chain, steps })
        }
        FlowKind::Tree => {
            let family = codec::decode(Space::Flows, value)?;
            let root = job(id)?.filter(|job| job.parent.is_none() && store.sees(&job.queue));
            root.map(|root| ListedFlow::Tree { root: Box::new(root), family })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form_and_garbage_is_refused() {
        let cursor = FlowCursor { id: 7 << 90, kind: FlowKind::Chain };
        assert_eq!(FlowCursor::from_text(&cursor.to_text()), Some(cursor));
        for wrong in ["", "zz", &"0".repeat(32), &format!("{}9", "0".repeat(32)), &"é".repeat(17)] {
            assert_eq!(FlowCursor::from_text(wrong), None, "{wrong:?}");
        }
    }
}

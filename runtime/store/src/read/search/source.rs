//! Going through an index: the jobs it names, in the order it has them. Several runs are merged, so that many queues
//! look like one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use windlass_core::{JobId, State, Time};

use crate::claim::lanes::ReadyPlace;
use crate::disk::fjall::View;
use crate::disk::index;
use crate::disk::keys;
use crate::disk::keys::CreationKey;
use crate::disk::{DiskError, Space, Value, after_prefix};
use crate::search::{Filter, Order, Search, Sort};

/// An index, or a part of one.
#[derive(Clone, Debug)]
pub enum Source {
    /// The jobs of some queues, by creation.
    Born { queues: Vec<u32>, births: CreationRange },
    /// The jobs with a mark, by creation.
    Mark { prefix: Vec<u8>, births: CreationRange },
    /// The jobs of some queues in some states that entered them from a moment on.
    States { places: Vec<(u32, State)>, from: Option<Time>, latest_first: bool },
    /// Ids from the first to the last.
    Ids(JobId, JobId),
}

/// From the first birth to, and without, the second.
pub type CreationRange = (CreationKey, CreationKey);

/// What an index knows of a job.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub id: JobId,
    /// When it entered its state, where the index is ordered by it.
    pub at: Option<Time>,
}

type Pair = Result<(Value, Value), DiskError>;
type Run<'a> = Box<dyn Iterator<Item = Result<(u128, Candidate), DiskError>> + 'a>;
pub type Entries<'a> = Box<dyn Iterator<Item = Result<Candidate, DiskError>> + 'a>;

impl Source {
    /// The births that a filter leaves.
    pub(crate) fn births(filter: &Filter) -> CreationRange {
        let from = filter.created.after.map_or([0; 16], keys::births_from);
        let until = filter.made_before().map_or([u8::MAX; 16], keys::births_from);
        (from, until)
    }

    pub(crate) fn is_by_birth(&self) -> bool {
        matches!(self, Source::Born { .. } | Source::Mark { .. })
    }

    /// How many jobs it names; no more than `most` are counted.
    pub fn count(&self, view: &View, search: &Search, most: u64) -> Result<u64, DiskError> {
        let all = Search { after: None, ..search.clone() };
        let mut count = 0;
        for entry in self.entries(view, &all)? {
            entry?;
            count += 1;
            if count >= most {
                break;
            }
        }
        Ok(count)
    }

    /// A quick look at how many it names. One that has too many to count is taken for half of the best other choice.
    pub(crate) fn count_to(&self, view: &View, best: u64, few: u64) -> Result<u64, DiskError> {
        let most = best.min(few);
        let count = self.count(view, &Search::of(Filter::default(), 0), most)?;
        Ok(if count < most || best <= few { count } else { (best / 2).max(count) })
    }

    /// All that it names. By birth it goes as the search does, and begins after the search's cursor.
    pub fn entries<'a>(&'a self, view: &'a View, search: &Search) -> Result<Entries<'a>, DiskError> {
        let back = search.order == Order::Desc;
        match self {
            Source::Born { queues, births } => {
                let (from, until) = after_cursor(*births, search);
                let runs = queues
                    .iter()
                    .map(|queue| by_birth(view, Space::Born, &queue.to_be_bytes(), from, until.as_ref(), back));
                Ok(merged(runs.collect(), back))
            }
            Source::Mark { prefix, births } => {
                let (from, until) = after_cursor(*births, search);
                let run = by_birth(view, Space::Marks, prefix, from, until.as_ref(), back);
                Ok(Box::new(run.map(|entry| entry.map(|(_, entry)| entry))))
            }
            Source::States { places, from, latest_first } => {
                let mut runs = Vec::new();
                for (queue, state) in places {
                    match state {
                        State::Pending => runs.extend(pending(view, *queue, *latest_first)?),
                        _ => runs.push(in_state(view, *queue, *state, *from, *latest_first)),
                    }
                }
                if *latest_first {
                    return Ok(merged(runs, true));
                }
                Ok(Box::new(runs.into_iter().flatten().map(|entry| entry.map(|(_, entry)| entry))))
            }
            Source::Ids(first, last) => {
                let mut until = keys::job(*last);
                until.push(0);
                let found = view.range(Space::Jobs, &keys::job(*first), &until);
                Ok(Box::new(found.map(|pair| {
                    let id = keys::last_job(&pair?.0).ok_or_else(|| nonsense(Space::Jobs))?;
                    Ok(Candidate { id, at: None })
                })))
            }
        }
    }
}

/// The births that are left after the last job of the page before.
fn after_cursor((from, until): CreationRange, search: &Search) -> (CreationKey, Option<CreationKey>) {
    let open = (until != [u8::MAX; 16]).then_some(until);
    let Some(cursor) = search.after.filter(|cursor| cursor.sort == Sort::CreatedAt) else { return (from, open) };
    let birth = cursor.place.birth(search.order);
    match search.order {
        Order::Asc => (from.max(birth), open),
        // Up to and with it: jobs created at the same moment are distinguished by the id.
        Order::Desc => {
            let next = u128::from_be_bytes(birth).checked_add(1).map(u128::to_be_bytes);
            (from, next.map_or(open, |next| Some(open.map_or(next, |open| open.min(next)))))
        }
    }
}

fn by_birth<'a>(
    view: &View,
    space: Space,
    prefix: &[u8],
    from: CreationKey,
    until: Option<&CreationKey>,
    back: bool,
) -> Run<'a> {
    let key = |birth: &CreationKey| [prefix, birth].concat();
    let until = until.map_or_else(|| after_prefix(prefix), key);
    let found = view.range(space, &key(&from), &until);
    let entry = move |pair: Pair| {
        let (key, value) = pair?;
        let birth = key.last_chunk::<16>().ok_or_else(|| nonsense(space))?;
        let id = index::named_by(&key, &value).ok_or_else(|| nonsense(space))?;
        Ok((u128::from_be_bytes(*birth), Candidate { id, at: None }))
    };
    if back { Box::new(found.rev().map(entry)) } else { Box::new(found.map(entry)) }
}

fn in_state<'a>(view: &View, queue: u32, state: State, from: Option<Time>, back: bool) -> Run<'a> {
    let prefix = keys::states(queue, state);
    let until = after_prefix(&prefix);
    let start = match from {
        Some(from) => keys::state(queue, state, from, JobId(0)),
        None => prefix,
    };
    let found = view.range(Space::States, &start, &until);
    let entry = |pair: Pair| {
        let (since, id) = keys::read_state(&pair?.0).ok_or_else(|| nonsense(Space::States))?;
        Ok((u128::from(since.millis()), Candidate { id, at: Some(since) }))
    };
    if back { Box::new(found.rev().map(entry)) } else { Box::new(found.map(entry)) }
}

/// Pending jobs lie in lanes, each in the order they joined it.
fn pending<'a>(view: &'a View, queue: u32, latest_first: bool) -> Result<Vec<Run<'a>>, DiskError> {
    let entry = |pair: Pair| {
        let (key, value) = pair?;
        let place = ReadyPlace::decode(&key, &value)?;
        Ok((u128::from(place.since.millis()), Candidate { id: place.id, at: Some(place.since) }))
    };
    if !latest_first {
        let run: Run<'a> = Box::new(view.under(Space::Ready, &queue.to_be_bytes()).map(entry));
        return Ok(vec![run]);
    }
    let mut lanes: Vec<Run<'a>> = Vec::new();
    for pair in view.under(Space::Lanes, &queue.to_be_bytes()) {
        lanes.push(Box::new(view.under(Space::Ready, &pair?.0).rev().map(entry)));
    }
    Ok(lanes)
}

/// One run out of several, each of which is in order.
fn merged<'a>(mut runs: Vec<Run<'a>>, back: bool) -> Entries<'a> {
    let mut failed = None;
    let mut heads = BinaryHeap::new();
    // What comes first lies on top.
    let rank = move |order: u128| Reverse(if back { !order } else { order });
    for (index, run) in runs.iter_mut().enumerate() {
        match run.next() {
            Some(Ok((order, entry))) => heads.push((rank(order), index, Head(entry))),
            Some(Err(error)) => failed = Some(error),
            None => {}
        }
    }
    Box::new(std::iter::from_fn(move || {
        if let Some(error) = failed.take() {
            return Some(Err(error));
        }
        let (_, index, Head(entry)) = heads.pop()?;
        match runs[index].next() {
            Some(Ok((order, next))) => heads.push((rank(order), index, Head(next))),
            Some(Err(error)) => failed = Some(error),
            None => {}
        }
        Some(Ok(entry))
    }))
}

/// An entry that takes no part in the order: the rank before it has decided.
struct Head(Candidate);

impl PartialEq for Head {
    fn eq(&self, _: &Head) -> bool {
        true
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, _: &Head) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

fn nonsense(space: Space) -> DiskError {
    DiskError::Row { space, why: "a key of an index makes no sense".into() }
}

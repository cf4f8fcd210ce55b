//! Which index a search reads, and when it may stop. The queues' counts show how many jobs each index holds,
//! exactly; the rest is counted for a moment, up to a bound.

use windlass_core::{JobId, Queue, Time};

use crate::disk::codec;
use crate::disk::fjall::View;
use crate::disk::keys;
use crate::disk::keys::Mark;
use crate::disk::{DiskError, Space};
use crate::read::search::Failed;
use crate::read::search::judge::{Top, Wanted};
use crate::read::search::source::Source;
use crate::search::{Filter, Order, Search, Sort};

pub struct Plan {
    /// Ways that may soon be over, each tried for a bounded number of rows.
    pub attempts: Vec<(Source, Stop)>,
    /// The way that always comes to an end.
    pub rows: Rows,
    /// How many jobs pass, when that is known before any is looked at.
    pub total: Option<u64>,
    /// How many rows the last way may come to.
    pub weight: u64,
}

pub enum Rows {
    None,
    /// All jobs with ids from the first to the last; and the index that names the same jobs, to read them one by one
    /// where a damaged block ends a run of rows.
    Stored((JobId, JobId), Source),
    /// The jobs that an index names.
    Named(Source),
}

/// Who asks: a search that must be short, or one whose turn has come; and how many rows are few.
#[derive(Clone, Copy, Debug)]
pub enum SearchBudget {
    Quick(u64),
    Long(u64),
}

impl SearchBudget {
    fn few(self) -> u64 {
        match self {
            SearchBudget::Quick(few) | SearchBudget::Long(few) => few,
        }
    }
}

/// When going through an index in order may end before its end.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    when: When,
    /// Give up after so many rows.
    pub rows: usize,
}

#[derive(Clone, Copy, Debug)]
enum When {
    /// The page is full: nothing better comes later.
    Full,
    /// Jobs come by when they entered their state, latest first. None was made, started or completed after that.
    Older,
}

impl Stop {
    pub(crate) fn is_reached(&self, top: &Top, at: Option<Time>, search: &Search) -> bool {
        let Some(worst) = top.worst() else { return false };
        match self.when {
            When::Full => true,
            When::Older => at.zip(worst.latest(search.sort)).is_some_and(|(at, worst)| at < worst),
        }
    }
}

/// An index that could be read, and how many jobs it names at most.
struct Choice {
    rows: u64,
    source: Source,
    /// The filter without what the index answers by itself.
    rest: Filter,
}

impl Plan {
    pub fn make(
        view: &View,
        search: &Search,
        wanted: Wanted,
        known: Option<u64>,
        budget: SearchBudget,
    ) -> Result<Plan, Failed> {
        let filter = &search.filter;
        let nothing = Plan { attempts: Vec::new(), rows: Rows::None, total: Some(known.unwrap_or(0)), weight: 0 };
        let mut stored = 0;
        let mut queues = Vec::new();
        for pair in view.under(Space::Queues, &[]) {
            let queue: Queue = codec::decode(Space::Queues, &pair?.1)?;
            let jobs: u64 = queue.counts.now.iter().sum();
            stored += jobs;
            let asked = filter.queue.as_ref().is_none_or(|name| *name == queue.name);
            if jobs > 0 && asked && filter.allows(&queue.name) {
                queues.push(queue);
            }
        }
        let states = filter.states_left();
        let in_states = queues.iter().flat_map(|queue| states.iter().map(|state| queue.counts.of(*state))).sum::<u64>();
        if in_states == 0 {
            return Ok(nothing);
        }
        let choice = choose(view, filter, &queues, in_states, budget.few())?;
        if choice.rows == 0 {
            return Ok(nothing);
        }
        let counted = (filter.is_counted() && search.payload_filter.is_none()).then_some(in_states);
        match (wanted, known.or(counted)) {
            (Wanted::Page { .. }, Some(total)) => Ok(page(search, choice, &queues, (in_states, stored, total), budget)),
            (Wanted::Page { .. }, None) if choice.answers_alone(search) => {
                // Entries alone are several times cheaper than jobs.
                let weight = choice.rows / 4;
                if matches!(budget, SearchBudget::Quick(few) if weight > few) {
                    return Ok(Plan { weight, ..whole(search, choice, stored, budget.few()) });
                }
                let total = choice.source.count(view, search, u64::MAX)?;
                Ok(page(search, choice, &queues, (in_states, stored, total), budget))
            }
            _ => Ok(whole(search, choice, stored, budget.few())),
        }
    }
}

impl Choice {
    /// The index holds exactly what is asked for, in the order it is asked for.
    fn answers_alone(&self, search: &Search) -> bool {
        search.sort == Sort::CreatedAt
            && self.source.is_by_birth()
            && search.payload_filter.is_none()
            && self.rest == Filter::default()
    }
}

/// The index with the fewest jobs.
fn choose(view: &View, filter: &Filter, queues: &[Queue], in_states: u64, few: u64) -> Result<Choice, Failed> {
    let all: u64 = queues.iter().flat_map(|queue| queue.counts.now).sum();
    let births = Source::births(filter);
    let born = Source::Born { queues: ids(queues), births };
    let rows = if filter.made_before().is_some() || filter.created.after.is_some() {
        born.count_to(view, all, few)?
    } else {
        all
    };
    let rest = Filter { allowed: None, queue: None, created: Default::default(), ..filter.clone() };
    let mut best = Choice { rows, source: born, rest };
    if in_states < best.rows {
        let source = in_states_of(filter, queues, false);
        best = Choice { rows: in_states, source, rest: filter.clone() };
    }
    let namespace = filter.allowed.as_ref().map(|allowed| allowed.namespace.clone()).unwrap_or_default();
    for (mark, rest) in marks(filter) {
        let source = Source::Mark { prefix: keys::marks(mark, namespace.prefix()), births };
        let rows = source.count_to(view, best.rows, few)?;
        // An index that names only what is wanted is better than one that names as much of something else.
        if rows < best.rows || rows == 0 {
            best = Choice { rows, source, rest: Filter { created: Default::default(), ..rest } };
        }
    }
    if let Some((first, last)) = filter.ids {
        let source = Source::Ids(first, last);
        let rows = source.count_to(view, best.rows, few)?;
        if rows < best.rows {
            best = Choice { rows, source, rest: filter.clone() };
        }
    }
    Ok(best)
}

/// Whether every job of the store is in a queue that whoever searches may see.
pub(super) fn sees_all(view: &View, filter: &Filter) -> Result<bool, DiskError> {
    if filter.allowed.is_none() {
        return Ok(true);
    }
    for pair in view.under(Space::Queues, &[]) {
        let queue: Queue = codec::decode(Space::Queues, &pair?.1)?;
        if !filter.allows(&queue.name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the filter asks for that has an index of its own in each namespace, each with what is left of the filter.
/// Without a namespace there is none.
fn marks(filter: &Filter) -> Vec<(Mark<'_>, Filter)> {
    let mut marks = Vec::new();
    let base = match &filter.allowed {
        Some(allowed) if allowed.are_all() => Filter { allowed: None, ..filter.clone() },
        Some(_) | None => filter.clone(),
    };
    if let Some(unique) = &filter.unique_key {
        marks.push((Mark::Unique(unique), Filter { unique_key: None, ..base.clone() }));
    }
    if let Some(parent) = filter.parent {
        marks.push((Mark::Parent(parent), Filter { parent: None, ..base.clone() }));
    }
    if let Some(first) = filter.chain {
        marks.push((Mark::Chain(first), Filter { chain: None, ..base.clone() }));
    }
    if let Some(batch) = &filter.batch_id {
        marks.push((Mark::Batch(batch), Filter { batch_id: None, ..base.clone() }));
    }
    if let Some(scope) = &filter.scope {
        marks.push((Mark::Scope(scope), Filter { scope: None, ..base.clone() }));
    }
    for (name, value) in &filter.tags {
        let tags = filter.tags.iter().filter(|(other, _)| other != name).cloned().collect();
        marks.push((Mark::Tag(name, value), Filter { tags, ..base.clone() }));
    }
    marks
}

/// A page of which the total is known: only as much is read as the page needs, if that can be found soon.
fn page(
    search: &Search,
    choice: Choice,
    queues: &[Queue],
    (in_states, stored, total): (u64, u64, u64),
    budget: SearchBudget,
) -> Plan {
    let few = budget.few() as usize / 2;
    let by_birth = search.sort == Sort::CreatedAt;
    // Of these times none is after the moment at which the job came into its state.
    let latest = search.order == Order::Desc
        && matches!(search.sort, Sort::CreatedAt | Sort::StartedAt | Sort::CompletedAt | Sort::FailedAt | Sort::Since);
    let mut attempts = Vec::new();
    if choice.answers_alone(search) {
        // Every row is one that is wanted: no more are read than the page shows.
        attempts.push((choice.source.clone(), Stop { when: When::Full, rows: usize::MAX }));
    } else if choice.rows > few as u64 {
        if by_birth && choice.source.is_by_birth() {
            attempts.push((choice.source.clone(), Stop { when: When::Full, rows: few }));
        } else if by_birth {
            // If what is wanted is spread evenly among the newest, this is soon over.
            let all: u64 = queues.iter().flat_map(|queue| queue.counts.now).sum();
            let rows = (4 * search.limit as u64).saturating_mul(all) / in_states.max(1);
            let born = Source::Born { queues: ids(queues), births: Source::births(&search.filter) };
            attempts.push((born, Stop { when: When::Full, rows: (rows as usize).clamp(few / 4, few.max(1)) }));
        }
        if latest && !(by_birth && choice.source.is_by_birth()) {
            let source = in_states_of(&search.filter, queues, true);
            attempts.push((source, Stop { when: When::Older, rows: few }));
        }
    }
    Plan { attempts, total: Some(total), ..whole(search, choice, stored, budget.few()) }
}

fn ids(queues: &[Queue]) -> Vec<u32> {
    queues.iter().map(|queue| queue.id).collect()
}

fn in_states_of(filter: &Filter, queues: &[Queue], latest_first: bool) -> Source {
    let states = filter.states_left();
    let places = queues.iter().flat_map(|queue| {
        let here = states.iter().filter(|state| queue.counts.of(**state) > 0);
        here.map(|state| (queue.id, *state))
    });
    Source::States { places: places.collect(), from: filter.entered_from(), latest_first }
}

/// Every job that the index names must be looked at.
fn whole(search: &Search, choice: Choice, stored: u64, few: u64) -> Plan {
    let payloads = search.payload_filter.is_some() || search.filter.reads_payloads();
    let weight = if payloads { choice.rows.saturating_mul(2) } else { choice.rows };
    // One job by its id costs as much as several in a row.
    let rows = if choice.rows > few && choice.rows.saturating_mul(3) > stored {
        // A job's id holds a time that is never after its creation.
        let made = search.filter.made_before().map(|at| JobId::from_bytes(keys::births_from(at)));
        let (first, last) = search.filter.ids.unwrap_or((JobId(0), JobId(u128::MAX)));
        Rows::Stored((first, made.map_or(last, |made| made.min(last))), choice.source)
    } else {
        Rows::Named(choice.source)
    };
    Plan { attempts: Vec::new(), rows, total: None, weight }
}

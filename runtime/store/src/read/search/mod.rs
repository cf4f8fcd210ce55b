//! Search: on a view of the database, past the engine and never on its thread.
//!
//! Reading order: `plan` (which index is read), `source` (reading it), `judge` (what passes, and the best of it),
//! `scan` (everything, on threads of their own that give way), `count` (how many there are of each value), `survey`
//! (the latest, for figures that are made of all of them). A search that an index makes short is answered on the spot;
//! a long one waits for its turn, so that any number of callers is at most a few threads at the lowest priority.

mod count;
mod judge;
mod plan;
mod scan;
mod source;
mod survey;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Semaphore;
use windlass_core::{BodyKind, BodyRef, Job, JobId, Refusal};

use crate::disk::blobs::Blobs;
use crate::disk::counted::CommitStatus;
use crate::disk::fjall::View;
use crate::disk::keys;
use crate::disk::{DiskError, Space};
use crate::read::row;
use crate::search::{Cursor, Found, GroupBy, Page, PayloadFilterError, PayloadPart, Search};
use crate::store::{Store, on_a_thread_of_its_own};
use crate::{Error, limits};
use judge::{Matcher, Top, Wanted};
use plan::{Plan, Rows, SearchBudget};
use source::Source;
pub use survey::Survey;

/// Who may search at once.
pub struct SearchAdmission {
    quick: Semaphore,
    long: Semaphore,
    waiting: AtomicUsize,
    /// So many rows are still few. A test makes it tiny, so that a few dozen jobs take the ways of a million.
    pub few: AtomicU64,
}

impl Default for SearchAdmission {
    fn default() -> SearchAdmission {
        SearchAdmission {
            quick: Semaphore::new(limits::QUICK_SEARCHES),
            long: Semaphore::new(limits::LONG_SEARCHES),
            waiting: AtomicUsize::new(0),
            few: AtomicU64::new(limits::QUICK_ROWS),
        }
    }
}

/// Why a search ended without an answer.
#[derive(Debug)]
enum Failed {
    Disk(DiskError),
    PayloadFilter(PayloadFilterError),
    TooLong,
    TooMany,
    /// Of too many different values.
    TooManyGroups,
    /// Nobody waits for it any more.
    Left,
}

impl From<DiskError> for Failed {
    fn from(error: DiskError) -> Failed {
        Failed::Disk(error)
    }
}

impl From<PayloadFilterError> for Failed {
    fn from(error: PayloadFilterError) -> Failed {
        Failed::PayloadFilter(error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Disk(error) => error.into(),
            Failed::PayloadFilter(PayloadFilterError::Filter(why)) => Refusal::invalid("payload_jq", why).into(),
            Failed::PayloadFilter(PayloadFilterError::Host(why)) => Error::NoSearch { why },
            Failed::TooLong => Refusal::invalid(
                "filter",
                format!(
                    "the search took longer than {} s; narrow it by queue, state, tag, scope or time",
                    limits::SEARCH_TIME.as_secs()
                ),
            )
            .into(),
            Failed::TooMany => Refusal::invalid(
                "filter",
                format!("more than {} jobs pass it; narrow it, and ask again for the others", limits::BULK_JOBS),
            )
            .into(),
            Failed::TooManyGroups => Refusal::invalid(
                "group_by",
                format!("the jobs have more than {} different values; narrow the filter", limits::GROUPS),
            )
            .into(),
            Failed::Left => Error::Closed,
        }
    }
}

/// One search as it is being carried out.
struct Task {
    search: Search,
    /// By what those that pass are counted.
    group_by: Option<GroupBy>,
    blobs: Arc<Blobs>,
    until: Instant,
    left: Arc<AtomicBool>,
    few: u64,
    commit_status: Arc<CommitStatus>,
}

impl Task {
    /// The number of the last commit: while it rises, the engine has something to do.
    fn last_commit(&self) -> u64 {
        self.commit_status.acknowledged.load(Ordering::Relaxed)
    }

    /// Looked at every few hundred rows.
    fn check_time(&self) -> Result<(), Failed> {
        if self.left.load(Ordering::Relaxed) {
            return Err(Failed::Left);
        }
        if Instant::now() >= self.until { Err(Failed::TooLong) } else { Ok(()) }
    }
}

/// Stops the threads when the caller has disconnected.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Store {
    /// One page of what a filter finds. Reads a view of one moment, on threads that give way to the engine.
    pub async fn search(&self, search: Search) -> Result<Page, Error> {
        let (task, _leaving) = self.task(search);
        let task = Arc::new(task);
        let wanted = Wanted::Page { most: task.search.limit + 1 };
        let known = task.search.after.map(|cursor| cursor.total);
        let (view, top) = self.find(&task, wanted, known).await?;
        let found = on_a_thread_of_its_own(move || Ok(page(&view, &task, top)?)).await?;
        Ok(found)
    }

    /// For tests: how many rows a search may look at and still be a short one.
    #[doc(hidden)]
    pub fn set_few_rows(&self, rows: u64) {
        self.inner.search_admission.few.store(rows, Ordering::Relaxed);
    }

    /// The ids of all that pass the filter at this moment, oldest first.
    pub async fn search_ids(&self, search: Search) -> Result<Vec<JobId>, Error> {
        let (task, _leaving) = self.task(search);
        let (_, top) = self.find(&Arc::new(task), Wanted::Ids { most: limits::BULK_JOBS }, None).await?;
        if let Some(why) = &top.unreadable.why {
            tracing::warn!("{} jobs cannot be read and are left out of an action on many: {why}", top.unreadable.count);
        }
        let mut ids = top.ids;
        ids.sort_unstable();
        Ok(ids)
    }

    fn task(&self, mut search: Search) -> (Task, CancelOnDrop) {
        let filter = &mut search.filter;
        filter.allowed = self.limits();
        filter.queue = filter.queue.take().map(|queue| self.own(queue));
        filter.plugin = filter.plugin.take().map(|plugin| self.own(plugin));
        filter.schedule = filter.schedule.take().map(|schedule| self.own(schedule));
        let left = Arc::new(AtomicBool::new(false));
        let until = Instant::now() + limits::SEARCH_TIME;
        let few = self.inner.search_admission.few.load(Ordering::Relaxed);
        let (blobs, commit_status) = (self.inner.blobs.clone(), self.inner.commit_status.clone());
        (Task { search, group_by: None, blobs, until, left: left.clone(), few, commit_status }, CancelOnDrop(left))
    }

    /// Finds it at once if an index makes that short, and else when its turn comes. No view is held while waiting.
    async fn find(&self, task: &Arc<Task>, wanted: Wanted, known: Option<u64>) -> Result<(View, Top), Error> {
        let search_admission = &self.inner.search_admission;
        let quick = search_admission.quick.acquire().await.map_err(|_| Error::Closed)?;
        let (view, now) = (self.view().await?, task.clone());
        let found = on_a_thread_of_its_own(move || {
            let found = quickly(&view, &now, wanted, known)?;
            Ok(found.map(|top| (view, top)))
        })
        .await?;
        drop(quick);
        if let Some(found) = found {
            return Ok(found);
        }
        let _waiting = QueuedSearch::join(&search_admission.waiting)?;
        let _turn = search_admission.long.acquire().await.map_err(|_| Error::Closed)?;
        let (view, task) = (self.view().await?, task.clone());
        on_a_thread_of_its_own(move || {
            let top = scan::politely(|| at_length(&view, &task, wanted, known))?;
            Ok((view, top))
        })
        .await
    }
}

/// A place among those who wait for a long search.
struct QueuedSearch<'a>(&'a AtomicUsize);

impl QueuedSearch<'_> {
    fn join(waiting: &AtomicUsize) -> Result<QueuedSearch<'_>, Error> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= limits::WAITING_SEARCHES {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::Overloaded { retry_after: limits::SEARCH_RETRY });
        }
        Ok(QueuedSearch(waiting))
    }
}

impl Drop for QueuedSearch<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answer, if it can be had by looking at a few thousand rows. A damaged index is left to the long way, which can
/// do without.
fn quickly(view: &View, task: &Task, wanted: Wanted, known: Option<u64>) -> Result<Option<Top>, Failed> {
    match quickly_by_index(view, task, wanted, known) {
        Err(Failed::Disk(error)) if error.is_damage() => Ok(None),
        found => found,
    }
}

fn quickly_by_index(view: &View, task: &Task, wanted: Wanted, known: Option<u64>) -> Result<Option<Top>, Failed> {
    let plan = Plan::make(view, &task.search, wanted, known, SearchBudget::Quick(task.few))?;
    if let Some(top) = attempt(view, task, wanted, &plan)? {
        return Ok(Some(top));
    }
    if plan.weight > task.few {
        return Ok(None);
    }
    let mut top = match &plan.rows {
        Rows::None => Top::new(wanted, &task.search),
        Rows::Stored(range, named) => match scan::everything(view, task, *range, wanted, 1) {
            Err(Failed::Disk(error)) if error.is_damage() => one_by_one(view, task, named, wanted)?,
            found => found?,
        },
        Rows::Named(source) => one_by_one(view, task, source, wanted)?,
    };
    top.count = plan.total.unwrap_or(top.count);
    Ok(Some(top))
}

fn one_by_one(view: &View, task: &Task, source: &Source, wanted: Wanted) -> Result<Top, Failed> {
    let mut judge = Matcher::new(view, task, wanted)?;
    judge.go_through(source, None)?;
    judge.finish()
}

/// The short ways, in turn. None where a sieve decides: it would be created again for each.
fn attempt(view: &View, task: &Task, wanted: Wanted, plan: &Plan) -> Result<Option<Top>, Failed> {
    if task.search.payload_filter.is_some() {
        return Ok(None);
    }
    for (source, stop) in &plan.attempts {
        let mut judge = Matcher::new(view, task, wanted)?;
        if judge.go_through(source, Some(*stop))? {
            let mut top = judge.finish()?;
            top.count = plan.total.unwrap_or(top.count);
            return Ok(Some(top));
        }
    }
    Ok(None)
}

/// The answer, however many rows it takes.
fn at_length(view: &View, task: &Task, wanted: Wanted, known: Option<u64>) -> Result<Top, Failed> {
    match at_length_by_index(view, task, wanted, known) {
        Err(Failed::Disk(error)) if error.is_damage() => {
            tracing::error!("a search reads all jobs, because it cannot use an index: {error}");
            let ids = task.search.filter.ids.unwrap_or((JobId(0), JobId(u128::MAX)));
            let mut top = scan::everything(view, task, ids, wanted, limits::SEARCH_THREADS)?;
            top.count = known.unwrap_or(top.count);
            Ok(top)
        }
        found => found,
    }
}

fn at_length_by_index(view: &View, task: &Task, wanted: Wanted, known: Option<u64>) -> Result<Top, Failed> {
    let plan = Plan::make(view, &task.search, wanted, known, SearchBudget::Long(task.few))?;
    if let Some(top) = attempt(view, task, wanted, &plan)? {
        return Ok(top);
    }
    let mut top = match &plan.rows {
        Rows::None => Top::new(wanted, &task.search),
        Rows::Stored(range, named) => match scan::everything(view, task, *range, wanted, limits::SEARCH_THREADS) {
            Err(Failed::Disk(error)) if error.is_damage() => {
                scan::named(view, task, named, wanted, limits::SEARCH_THREADS)?
            }
            found => found?,
        },
        Rows::Named(source) => scan::named(view, task, source, wanted, limits::SEARCH_THREADS)?,
    };
    top.count = plan.total.unwrap_or(top.count);
    Ok(top)
}

/// The rows of the best, read from the view they were found in.
fn page(view: &View, task: &Task, mut top: Top) -> Result<Page, DiskError> {
    let search = &task.search;
    let total = top.count;
    let mut unreadable = std::mem::take(&mut top.unreadable);
    let places = top.into_sorted();
    let more = places.len() > search.limit;
    let mut jobs = Vec::with_capacity(places.len().min(search.limit));
    for place in places.iter().take(search.limit) {
        let id = place.job(search.order);
        match found(view, task, id) {
            Ok(found) => jobs.extend(found),
            Err(error) if error.is_damage() => unreadable.add(id, Error::from(error)),
            Err(error) => return Err(error),
        }
    }
    let last = places.get(search.limit.wrapping_sub(1)).filter(|_| more);
    let next = last.map(|place| Cursor { sort: search.sort, order: search.order, place: *place, total });
    Ok(Page { jobs, total, next, unreadable })
}

fn found(view: &View, task: &Task, id: JobId) -> Result<Option<Found>, DiskError> {
    let Some(job) = row::<Job>(view, Space::Jobs, &keys::job(id))? else { return Ok(None) };
    let payload = match task.search.payload {
        PayloadPart::None => None,
        PayloadPart::Small => judge::inline_payload(view, &job)?,
        PayloadPart::Head(bytes) => head(view, &task.blobs, &job, BodyKind::Payload, bytes)?,
    };
    Ok(Some(Found { job, payload }))
}

/// The first bytes of a body. Those of a file are not compared with its name: that would mean reading all of it.
pub(crate) fn head(
    view: &View,
    blobs: &Blobs,
    job: &Job,
    kind: BodyKind,
    bytes: usize,
) -> Result<Option<Bytes>, DiskError> {
    match job.body(kind) {
        BodyRef::None => Ok(None),
        BodyRef::Inline { .. } => match view.get(Space::Bodies, &keys::body(job.id, kind))? {
            Some(value) => {
                let body = judge::unwrapped(value)?;
                Ok(Some(body.slice(..bytes.min(body.len()))))
            }
            None => Ok(None),
        },
        BodyRef::Blob(blob) => Ok(Some(blobs.head(&blob, bytes).map_err(|error| blobs.unread(&blob, &error))?)),
    }
}

//! Looking at many jobs in a row, for figures that are made of all of them: the latest first, and only so many.

use std::sync::Arc;

use windlass_core::{Job, Queue, State, Time};

use crate::disk::Space;
use crate::disk::fjall::View;
use crate::disk::keys;
use crate::read::search::source::Source;
use crate::read::search::{Failed, QueuedSearch, Task, scan};
use crate::read::{row, rows};
use crate::search::{Filter, Search};
use crate::store::{Store, on_a_thread_of_its_own};
use crate::{Error, Unreadable};

/// What was made of the jobs that were looked at.
#[derive(Clone, Debug)]
pub struct Survey<T> {
    pub found: T,
    /// How many jobs were looked at.
    pub looked_at: u64,
    /// How many there are in the queues and states that were asked for, whenever they entered them.
    pub total: u64,
    /// Whether none was left out because there were too many.
    pub complete: bool,
    /// Jobs that could not be read, and are not among what was found.
    pub unreadable: Unreadable,
}

impl Store {
    /// Adds jobs of a filter to `found` by `look`, those that came into their state last first, until `most` have been
    /// looked at or one came into it before `since`. The states have to be named, and `pending` is none of them: those
    /// jobs lie in lanes.
    pub async fn survey<T: Send + 'static>(
        &self,
        filter: Filter,
        since: Option<Time>,
        most: usize,
        found: T,
        look: fn(&mut T, &Job),
    ) -> Result<Survey<T>, Error> {
        let (task, _leaving) = self.task(Search::of(filter, 0));
        let task = Arc::new(task);
        let admission = &self.inner.search_admission;
        // As many rows as a short search may look at need no turn among the long ones.
        let (_quick, _queued, _turn) = if most as u64 <= task.few {
            (Some(admission.quick.acquire().await.map_err(|_| Error::Closed)?), None, None)
        } else {
            let queued = QueuedSearch::join(&admission.waiting)?;
            (None, Some(queued), Some(admission.long.acquire().await.map_err(|_| Error::Closed)?))
        };
        let view = self.view().await?;
        on_a_thread_of_its_own(move || Ok(scan::politely(|| survey(&view, &task, since, most, found, look))?)).await
    }
}

fn survey<T>(
    view: &View,
    task: &Task,
    since: Option<Time>,
    most: usize,
    found: T,
    look: fn(&mut T, &Job),
) -> Result<Survey<T>, Failed> {
    let filter = &task.search.filter;
    debug_assert!(!filter.states.is_empty() && !filter.states.contains(&State::Pending), "{:?}", filter.states);
    let (mut places, mut total) = (Vec::new(), 0);
    for queue in rows::<Queue>(view, Space::Queues)? {
        if !filter.allows(&queue.name) || filter.queue.as_ref().is_some_and(|name| *name != queue.name) {
            continue;
        }
        for state in filter.states.iter().filter(|state| queue.counts.of(**state) > 0) {
            total += queue.counts.of(*state);
            places.push((queue.id, *state));
        }
    }
    let source = Source::States { places, from: since, latest_first: true };
    let mut survey = Survey { found, looked_at: 0, total, complete: true, unreadable: Unreadable::default() };
    for entry in source.entries(view, &task.search)? {
        let entry = entry?;
        if survey.looked_at >= most as u64 {
            survey.complete = false;
            break;
        }
        if survey.looked_at.is_multiple_of(256) {
            task.check_time()?;
        }
        survey.looked_at += 1;
        match row::<Job>(view, Space::Jobs, &keys::job(entry.id)) {
            Ok(Some(job)) if filter.admits(&job) => look(&mut survey.found, &job),
            Ok(_) => {}
            Err(error) if error.is_damage() => survey.unreadable.add(entry.id, Error::from(error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(survey)
}

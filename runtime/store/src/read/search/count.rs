//! How many jobs pass a filter, and how many of each value.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Queue, State};

use crate::Error;
use crate::disk::Space;
use crate::read::rows;
use crate::read::search::judge::Wanted;
use crate::search::{Counted, Filter, GroupBy, Search};
use crate::store::Store;

impl Store {
    /// Counts what a search would find, as one moment saw it. Looks at every job that passes, unless the queues' own
    /// counts answer.
    pub async fn count(&self, search: Search, by: GroupBy) -> Result<Counted, Error> {
        let (mut task, _leaving) = self.task(search);
        let counted = task.search.filter.is_counted() && task.search.payload_filter.is_none();
        if counted && matches!(by, GroupBy::State | GroupBy::Queue) {
            let filter = task.search.filter.clone();
            return self.read(move |view| Ok(of_queues(&rows::<Queue>(view, Space::Queues)?, &filter, &by))).await;
        }
        task.group_by = Some(by);
        let (_, top) = self.find(&Arc::new(task), Wanted::Groups, None).await?;
        Ok(Counted { total: top.count, groups: top.groups.into_sorted(), unreadable: top.unreadable })
    }
}

/// The same, from what the queues count.
fn of_queues(queues: &[Queue], filter: &Filter, by: &GroupBy) -> Counted {
    let mut groups = BTreeMap::new();
    let asked =
        |queue: &&Queue| filter.queue.as_ref().is_none_or(|name| *name == queue.name) && filter.allows(&queue.name);
    for queue in queues.iter().filter(asked) {
        for state in State::ALL.into_iter().filter(|state| filter.states.is_empty() || filter.states.contains(state)) {
            let value = if *by == GroupBy::State { state.as_str() } else { queue.name.as_str() };
            *groups.entry(value).or_insert(0) += queue.counts.of(state);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().filter(|(_, count)| *count > 0).collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = groups.iter().map(|(_, count)| count).sum();
    let groups = groups.into_iter().map(|(value, count)| (Some(value.to_owned()), count)).collect();
    Counted { total, groups, ..Counted::default() }
}

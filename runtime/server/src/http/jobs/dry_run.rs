//! What an action on many jobs would do: `POST /jobs/bulk` with `dry_run`. Nothing is changed.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{Action, JobId, State};
use windlass_store::search::{GroupBy, Search};

use crate::http::Api;
use crate::http::jobs::bulk::not_empty;
use crate::http::transport::error::{Error, Result};
use crate::http::wire::StateName;
use crate::http::wire::filter::JobFilter;
use crate::limits;

/// What would come of an action on many jobs, if it were carried out now.
#[derive(Debug, Serialize, ToSchema)]
pub struct DryRun {
    dry_run: bool,
    action: &'static str,
    /// How many jobs were named or match.
    total: u64,
    /// How many of them are in a state for it. One whose unique key another job holds is an error only when it is done.
    affected: u64,
    passed_over: u64,
    by_state: Vec<InState>,
    /// Why jobs would be passed over.
    reasons: Vec<PassedOver>,
    /// Some of those that would be affected.
    sample: Vec<String>,
    duration_ms: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct InState {
    #[schema(value_type = StateName)]
    state: &'static str,
    count: u64,
    /// Whether jobs in this state would be affected.
    affected: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct PassedOver {
    reason: String,
    /// `null` for jobs that do not exist.
    #[schema(value_type = Option<StateName>)]
    state: Option<&'static str>,
    count: u64,
}

/// The jobs that an action is about.
#[derive(Debug, Default)]
struct Named {
    states: BTreeMap<State, u64>,
    unknown: u64,
    sample: Vec<JobId>,
}

/// For the jobs with these ids.
pub async fn of_ids(api: &Api, action: &Action, ids: &[JobId], began: Instant) -> Result<DryRun> {
    let store = api.store.frozen();
    let mut named = Named::default();
    for id in ids {
        match store.job(*id).await? {
            None => named.unknown += 1,
            Some(job) => {
                *named.states.entry(job.state).or_default() += 1;
                if named.sample.len() < limits::DRY_RUN_SAMPLE && action.states().0.contains(&job.state) {
                    named.sample.push(*id);
                }
            }
        }
    }
    Ok(DryRun::of(action, named, began))
}

/// For the jobs that match a filter now.
pub async fn of_filter(api: &Api, action: &Action, filter: JobFilter, began: Instant) -> Result<DryRun> {
    let (filter, payload_filter) = filter.read().await?;
    not_empty(&filter, payload_filter.is_none())?;
    let store = api.store.frozen();
    let search = Search { payload_filter, ..Search::of(filter, limits::DRY_RUN_SAMPLE) };
    let counted = store.count(search.clone(), GroupBy::State).await?;
    let most = windlass_store::limits::BULK_JOBS as u64;
    if counted.total > most {
        return Err(Error::field(
            "filter",
            format!("more than {most} jobs pass it; narrow it, and ask again for the others"),
        ));
    }
    let state = |word: &str| State::ALL.into_iter().find(|state| state.as_str() == word);
    let states: BTreeMap<State, u64> =
        counted.groups.iter().filter_map(|(word, count)| Some((state(word.as_deref()?)?, *count))).collect();
    let mut affected = search;
    affected.filter.states = states.keys().copied().filter(|state| action.states().0.contains(state)).collect();
    let sample = match affected.filter.states.is_empty() {
        true => Vec::new(),
        false => store.search(affected).await?.jobs.into_iter().map(|found| found.job.id).collect(),
    };
    Ok(DryRun::of(action, Named { states, unknown: 0, sample }, began))
}

impl DryRun {
    fn of(action: &Action, named: Named, began: Instant) -> DryRun {
        let (states, words) = action.states();
        let mut reasons = Vec::new();
        let (mut affected, mut passed_over) = (0, named.unknown);
        for (state, count) in &named.states {
            if states.contains(state) {
                affected += count;
                continue;
            }
            passed_over += count;
            let (state, action) = (state.as_str(), action.as_str());
            let reason = format!("{count} are {state}: {action} is for {words} jobs");
            reasons.push(PassedOver { reason, state: Some(state), count: *count });
        }
        if named.unknown > 0 {
            let reason = format!("{} do not exist", named.unknown);
            reasons.push(PassedOver { reason, state: None, count: named.unknown });
        }
        let in_state = |(state, count): (&State, &u64)| InState {
            state: state.as_str(),
            count: *count,
            affected: states.contains(state),
        };
        DryRun {
            dry_run: true,
            action: action.as_str(),
            total: affected + passed_over,
            affected,
            passed_over,
            by_state: named.states.iter().map(in_state).collect(),
            reasons,
            sample: named.sample.iter().map(JobId::to_string).collect(),
            duration_ms: began.elapsed().as_millis() as u64,
        }
    }
}

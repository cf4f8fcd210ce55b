//! The filter of a search, as clients send it. Searches and bulk operations share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use utoipa::ToSchema;
use windlass_core::flow::Chain;
use windlass_core::report::FINGERPRINT_BYTES;
use windlass_core::{JobId, Name, State};
use windlass_store::search::{Filter, PayloadFilter, PayloadFilterError, Span};

use crate::http::transport::error::{Error, Result};
use crate::http::wire::{JobIdText, Moment, NameText, PriorityName, StateName};
use crate::jq::Jq;
use crate::limits;

/// Which jobs to find. A job must match all given conditions.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct JobFilter {
    #[schema(value_type = Option<NameText>)]
    queue: Option<String>,
    /// A state, or a list of states.
    #[serde(alias = "states")]
    state: Option<OneOrMore>,
    priority: Option<PriorityName>,
    tags: Option<BTreeMap<String, String>>,
    scope: Option<String>,
    /// The payload contains this text, byte for byte.
    #[schema(min_length = 1, max_length = 4096)]
    payload_contains: Option<String>,
    /// A jq filter that returns something other than `false`, `null` or an error for the payload.
    #[schema(min_length = 1, max_length = 4096)]
    payload_jq: Option<String>,
    created_after: Option<Moment>,
    created_before: Option<Moment>,
    scheduled_after: Option<Moment>,
    scheduled_before: Option<Moment>,
    started_after: Option<Moment>,
    started_before: Option<Moment>,
    completed_after: Option<Moment>,
    completed_before: Option<Moment>,
    failed_after: Option<Moment>,
    failed_before: Option<Moment>,
    expire_after: Option<Moment>,
    expire_before: Option<Moment>,
    /// The worker that runs it, or ran it last.
    worker_id: Option<String>,
    /// The plugin that runs it, or ran it last.
    plugin: Option<String>,
    /// The version that runs it or ran it last: its digest, or the first characters of it.
    plugin_version: Option<String>,
    has_errors: Option<bool>,
    /// One of its errors contains this text.
    #[schema(min_length = 1, max_length = 4096)]
    error_contains: Option<String>,
    /// Dead jobs that died of the same error, as `GET /dead/groups` groups them.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    error_fingerprint: Option<String>,
    batch_id: Option<String>,
    #[schema(value_type = Option<JobIdText>)]
    parent_id: Option<String>,
    chain_id: Option<String>,
    unique_key: Option<String>,
    round: Option<u32>,
    /// The schedule that enqueued it.
    #[schema(value_type = Option<NameText>)]
    schedule: Option<String>,
    limit_key: Option<String>,
    created_by: Option<String>,
    attempt_min: Option<u32>,
    attempt_max: Option<u32>,
    /// The first characters of the job's id.
    #[schema(pattern = "^job_[0-9A-Za-z]{0,26}$")]
    job_id_prefix: Option<String>,
}

/// One value or a list of them.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    #[schema(value_type = StateName)]
    One(String),
    #[schema(value_type = Vec<StateName>)]
    More(Vec<String>),
}

impl JobFilter {
    /// All jobs in one state.
    pub fn in_state(state: &str, queue: Option<String>) -> JobFilter {
        JobFilter { state: Some(OneOrMore::One(state.to_owned())), queue, ..JobFilter::default() }
    }

    /// The filter for the store, and the payload filter, which the store runs as a callback.
    pub async fn read(self) -> Result<(Filter, Option<Arc<dyn PayloadFilter>>)> {
        let span = |after: Option<Moment>, before: Option<Moment>| Span {
            after: after.map(|moment| moment.0),
            before: before.map(|moment| moment.0),
        };
        let ids = self.job_id_prefix.as_deref().map(id_range).transpose()?;
        let filter = Filter {
            allowed: None,
            queue: self.queue.as_deref().map(|name| Name::parse("queue", name)).transpose()?,
            states: states(self.state)?,
            priority: self.priority.map(Into::into),
            tags: self.tags.unwrap_or_default().into_iter().collect(),
            scope: self.scope,
            created: span(self.created_after, self.created_before),
            scheduled: span(self.scheduled_after, self.scheduled_before),
            started: span(self.started_after, self.started_before),
            completed: span(self.completed_after, self.completed_before),
            failed: span(self.failed_after, self.failed_before),
            expire: span(self.expire_after, self.expire_before),
            worker_id: self.worker_id,
            plugin: self.plugin.as_deref().map(|name| Name::parse("plugin", name)).transpose()?,
            plugin_version: self.plugin_version,
            has_errors: self.has_errors,
            error_contains: text("error_contains", self.error_contains)?,
            error_fingerprint: self.error_fingerprint.map(fingerprint).transpose()?,
            batch_id: self.batch_id,
            parent: self.parent_id.map(|id| parent(&id)).transpose()?,
            chain: self.chain_id.map(|id| chain(&id)).transpose()?,
            unique_key: self.unique_key,
            round: self.round,
            schedule: self.schedule.as_deref().map(|name| Name::parse("schedule", name)).transpose()?,
            limit_key: self.limit_key,
            created_by: self.created_by,
            attempt_min: self.attempt_min,
            attempt_max: self.attempt_max,
            ids,
            payload_contains: text("payload_contains", self.payload_contains)?,
        };
        let payload_filter = match text("payload_jq", self.payload_jq)? {
            Some(code) => match Jq::checked(code).await {
                Ok(jq) => Some(Arc::new(jq) as Arc<dyn PayloadFilter>),
                Err(PayloadFilterError::Filter(why)) => return Err(Error::field("payload_jq", why)),
                Err(PayloadFilterError::Host(why)) => return Err(windlass_store::Error::NoSearch { why }.into()),
            },
            None => None,
        };
        Ok((filter, payload_filter))
    }
}

fn states(words: Option<OneOrMore>) -> Result<Vec<State>> {
    let words = match words {
        None => Vec::new(),
        Some(OneOrMore::One(word)) => vec![word],
        Some(OneOrMore::More(words)) => words,
    };
    if words.len() > limits::FILTER_STATES {
        return Err(Error::field("state", format!("at most {} states, not {}", limits::FILTER_STATES, words.len())));
    }
    words.iter().map(|word| state(word)).collect()
}

pub fn state(word: &str) -> Result<State> {
    let known = State::ALL.into_iter().find(|state| state.as_str() == word);
    known.ok_or_else(|| {
        let words = State::ALL.map(State::as_str).join(", ");
        Error::field("state", format!("{word:?} is not a state; the states are {words}"))
    })
}

fn text(field: &str, text: Option<String>) -> Result<Option<String>> {
    match text {
        Some(text) if text.is_empty() || text.len() > limits::FILTER_TEXT => {
            Err(Error::field(field, format!("1 to {} bytes, not {}", limits::FILTER_TEXT, text.len())))
        }
        text => Ok(text),
    }
}

fn fingerprint(text: String) -> Result<String> {
    if text.len() != FINGERPRINT_BYTES || !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
    {
        let why = format!("{text:?} is not a fingerprint; `GET /dead/groups` shows them, such as 9c1f00de00adbeef");
        return Err(Error::field("error_fingerprint", why));
    }
    Ok(text)
}

fn chain(id: &str) -> Result<JobId> {
    Chain::first(id)
        .ok_or_else(|| Error::field("chain_id", format!("{id:?} is not the id of a chain, as its jobs show it")))
}

fn parent(id: &str) -> Result<JobId> {
    id.parse().map_err(|wrong| Error::field("parent_id", format!("{id:?}: {wrong}")))
}

/// The first and the last id with this prefix.
fn id_range(prefix: &str) -> Result<(JobId, JobId)> {
    let wrong =
        || Error::field("job_id_prefix", format!("{prefix:?} is not how an id begins; write one such as job_01JQ8"));
    let rest = prefix.strip_prefix("job_").filter(|rest| rest.len() <= 26 && rest.is_ascii()).ok_or_else(wrong)?;
    let filled = |with: &str| format!("job_{rest}{}", with.repeat(26 - rest.len())).parse::<JobId>().ok();
    // The largest 26 characters begin with a 7.
    let last = if rest.is_empty() { Some(JobId(u128::MAX)) } else { filled("Z") };
    filled("0").zip(last).filter(|(first, last)| first <= last).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_all_ids_that_begin_so() {
        let id: JobId = "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5".parse().expect("an id");
        for prefix in ["job_", "job_01", "job_01JQ8ZK3V7", "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5"] {
            let (first, last) = id_range(prefix).expect(prefix);
            assert!((first..=last).contains(&id), "{prefix}");
        }
        let (first, last) = id_range("job_01JQ9").expect("a prefix");
        assert!(!(first..=last).contains(&id));
        for wrong in ["", "01JQ8", "job_!", "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5X"] {
            assert!(id_range(wrong).is_err(), "{wrong}");
        }
    }
}

//! Heartbeats of external workers: `POST /heartbeat`, for many jobs at once, in two forms.
//!
//! The map form `{"jobs": {id: {…}}}` carries JSON; the list form `{"jobs": [{"job_id": …}]}` of older clients carries
//! JSON as text in strings. Both get the same response.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::{Checkpoint, Command, DEFAULT_LEASE, JobId, Progress, Reply, Usage};
use windlass_store::Clock;

use crate::http::Api;
use crate::http::queues::records;
use crate::http::queues::records::{MarkBody, RecordBody};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::transport::unknown;
use crate::http::wire::Rfc3339;
use crate::http::wire::agent::TokenUsage;
use crate::http::worker::ack::{check_token, holder};
use crate::json::is_deeper;
use crate::limits;

#[derive(Debug, Deserialize, ToSchema)]
struct Heartbeat<'a> {
    #[serde(borrow)]
    #[schema(value_type = HeartbeatJobs)]
    jobs: &'a RawValue,
    worker_id: Option<String>,
}

/// Both forms of `jobs`, as they are described.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described: the first character decides which is read")]
enum HeartbeatJobs<'a> {
    Map(BTreeMap<String, JobHeartbeat<'a>>),
    List(Vec<JobHeartbeat<'a>>),
}

/// One job of a heartbeat. Absent fields leave their values as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct JobHeartbeat<'a> {
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    job_id: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    progress: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    checkpoint: Option<&'a RawValue>,
    usage: Option<TokenUsage>,
    /// Records to store in the job's queue, in the commit of the checkpoint.
    #[serde(borrow)]
    #[schema(value_type = Vec<RecordBody>)]
    records: Option<Vec<RecordBody<'a>>>,
    /// Marks on records of any queue, in the same commit.
    marks: Option<Vec<MarkBody>>,
    lease_token: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
struct ProgressBody {
    phase: Option<String>,
    message: Option<String>,
    level: Option<String>,
    percent: Option<f64>,
    current: Option<u64>,
    total: Option<u64>,
    unit: Option<String>,
    weight: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HeartbeatAnswer {
    jobs: BTreeMap<String, JobHeartbeatAnswer>,
    lease_expires_at: Rfc3339,
}

#[derive(Debug, Serialize, ToSchema)]
struct JobHeartbeatAnswer {
    /// `cancel`: stop working on it, because it is to be cancelled or the worker no longer holds it.
    status: &'static str,
}

/// Extend the leases of jobs and report progress
#[utoipa::path(
    post,
    path = "/heartbeat",
    tag = "workers",
    request_body = Heartbeat,
    responses((status = 200, body = HeartbeatAnswer))
)]
pub async fn heartbeat(api: Api, body: Body) -> Result<Json<HeartbeatAnswer>> {
    let Heartbeat { jobs, worker_id } = body.json()?;
    let heartbeats = heartbeats(&body, jobs)?;
    if heartbeats.len() > limits::WORKER_BATCH {
        return Err(Error::field(
            "jobs",
            format!("at most {} at once, not {}", limits::WORKER_BATCH, heartbeats.len()),
        ));
    }
    let mut answers = BTreeMap::new();
    let mut asks = Vec::with_capacity(heartbeats.len());
    for (name, heartbeat) in heartbeats {
        check_token(&api, heartbeat.lease_token.as_ref())?;
        if let (Ok(id), Ok(holder)) = (name.parse::<JobId>(), holder(&api, heartbeat.lease_token)) {
            let checkpoint = match heartbeat.checkpoint {
                Some(raw) => {
                    Some(Checkpoint { body: api.store.keep(unquoted(raw)).await?, schema: 0, usage: Usage::default() })
                }
                None => None,
            };
            let notes = records::notes(heartbeat.records, heartbeat.marks)?;
            let spent = heartbeat.usage.map(|usage| Box::new(usage.into()));
            let progress = heartbeat.progress.map(|raw| progress(&body, raw, &name)).transpose()?;
            let heartbeat = windlass_core::Heartbeat { holder, progress, checkpoint, spent, notes };
            heartbeat.check()?;
            asks.push((id, Command::Heartbeat(heartbeat)));
        }
        // Jobs that the store does not know keep this answer, so that the worker stops working on them.
        answers.insert(name, JobHeartbeatAnswer { status: "cancel" });
    }
    // Not earlier, because a refused request must have no effect.
    if let Some(worker) = worker_id {
        api.workers.heartbeat(&api.worker_id(&worker), api.clock.now());
    }
    let ids: Vec<JobId> = asks.iter().map(|(id, _)| *id).collect();
    let mut lease_expires_at = None;
    for (id, reply) in ids.into_iter().zip(api.store.ask_each(asks).await?) {
        match reply {
            Ok(Reply::Heartbeat { stop: None, lease_expires_at: lease }) => {
                answers.insert(id.to_string(), JobHeartbeatAnswer { status: "ok" });
                lease_expires_at = lease_expires_at.into_iter().chain(lease).min();
            }
            Ok(_) | Err(windlass_store::Error::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let lease_expires_at = Rfc3339(lease_expires_at.unwrap_or_else(|| api.clock.now() + DEFAULT_LEASE));
    Ok(Json(HeartbeatAnswer { jobs: answers, lease_expires_at }))
}

/// Both forms, as (job id, heartbeat).
fn heartbeats<'a>(body: &Body, jobs: &'a RawValue) -> Result<Vec<(String, JobHeartbeat<'a>)>> {
    if jobs.get().starts_with('{') {
        let map: HashMap<String, Option<JobHeartbeat<'_>>> = body.json_part(jobs, "jobs")?;
        return Ok(map.into_iter().map(|(id, heartbeat)| (id, heartbeat.unwrap_or_default())).collect());
    }
    if !jobs.get().starts_with('[') {
        return Err(Error::field("jobs", "an object with job ids as keys, or a list of objects with a `job_id` each"));
    }
    let list: Vec<JobHeartbeat<'_>> = body.json_part(jobs, "jobs")?;
    let named = list.into_iter().enumerate().map(|(index, heartbeat)| {
        let id = heartbeat.job_id.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let id = id.ok_or_else(|| Error::field(&format!("jobs[{index}].job_id"), "the id of a job is needed"))?;
        Ok((id, heartbeat))
    });
    named.collect()
}

/// A string that contains JSON is read as that JSON, unless it is nested too deeply; any other value is used unchanged.
fn unquoted(raw: &RawValue) -> Bytes {
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    let is_json = |text: &String| {
        !is_deeper(text.as_bytes(), limits::JSON_DEPTH) && serde_json::from_str::<&RawValue>(text).is_ok()
    };
    match text.filter(is_json) {
        Some(inner) => Bytes::from(inner),
        None => Bytes::copy_from_slice(raw.get().as_bytes()),
    }
}

/// Progress in an unknown form is stored as a message for people.
fn progress(body: &Body, raw: &RawValue, job: &str) -> Result<Progress> {
    let bytes = unquoted(raw);
    let Ok((known, unknown)) = unknown::read(&mut serde_json::Deserializer::from_slice(&bytes)) else {
        let text = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned());
        return Ok(Progress { message: Some(text), ..Progress::default() });
    };
    body.report(unknown.under(&format!("jobs.{job}.progress")))?;
    let ProgressBody { phase, message, level, percent, current, total, unit, weight } = known;
    Ok(Progress { phase, message, level, percent, current, total, unit, weight, ..Progress::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn both_forms_mean_the_same() {
        let map = raw(r#"{"job_a": {"progress": {"current": 1, "total": 2}}, "job_b": null}"#);
        let list = raw(r#"[{"job_id": "job_a", "progress": "{\"current\": 1, \"total\": 2}"}, {"job_id": "job_b"}]"#);
        for form in [map, list] {
            let mut heartbeats = heartbeats(&Body::from(""), &form).expect("a good form");
            heartbeats.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(heartbeats.len(), 2);
            let sent = heartbeats[0].1.progress.expect("progress");
            let progress = progress(&Body::from(""), sent, "job_a").expect("progress");
            assert_eq!((progress.current, progress.total), (Some(1), Some(2)));
            assert!(heartbeats[1].1.progress.is_none());
        }
    }

    #[test]
    fn text_that_is_not_json_stays_a_string() {
        assert_eq!(unquoted(&raw(r#""step 7""#)), r#""step 7""#);
        assert_eq!(unquoted(&raw(r#""{\"step\": 7}""#)), r#"{"step": 7}"#);
        assert_eq!(unquoted(&raw(r#"{"step": 7}"#)), r#"{"step": 7}"#);
        let deep = format!("\"{}{}\"", "[".repeat(1_000), "]".repeat(1_000));
        assert_eq!(unquoted(&raw(&deep)), deep);
        let progress = progress(&Body::from(""), &raw(r#""half way""#), "job_a").expect("progress");
        assert_eq!(progress.message.as_deref(), Some("half way"));
    }

    #[test]
    fn a_list_without_ids_is_refused() {
        for wrong in ["7", "\"x\"", "[{}]", "[7]"] {
            assert!(heartbeats(&Body::from(""), &raw(wrong)).is_err(), "{wrong}");
        }
    }
}

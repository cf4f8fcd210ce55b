//! External workers report how an attempt ended: `POST /ack/{id}`, `/ack/batch` and `/fail/{id}`.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::flow::OnFailure;
use windlass_core::{
    Body as StoredBody, Checkpoint, Closing, Command, Complete, Fail as FailCommand, Failure, HandBack, Holder, JobId,
    Reply, Retry, State as JobState, Usage, Wait,
};

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::produce::enqueue;
use crate::http::produce::enqueue::JobBody;
use crate::http::queues::records;
use crate::http::queues::records::{MarkBody, RecordBody};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, JobPath};
use crate::http::wire::agent::{AgentStatusName, StepStatusName, TokenUsage};
use crate::http::wire::{OnFailureName, Rfc3339};
use crate::limits;

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Ack<'a> {
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<&'a RawValue>,
    /// Whether the job's chain continues.
    step_status: Option<StepStatusName>,
    /// For a handler that works in iterations: start another one from the checkpoint, complete the job, or hold it.
    agent_status: Option<AgentStatusName>,
    hold_reason: Option<String>,
    exit_reason: Option<String>,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    checkpoint: Option<&'a RawValue>,
    usage: Option<TokenUsage>,
    /// The job is not done: when its children have ended, another attempt starts and can read their results.
    wait: Option<WaitName>,
    /// With `wait`: what happens when a child dies or is cancelled. Fail, cancel the other children, or continue;
    /// `fail` by default.
    on_child_failure: Option<OnFailureName>,
    /// Children to enqueue in the commit of this ack.
    #[serde(borrow)]
    #[schema(value_type = Vec<JobBody>)]
    children: Option<Vec<JobBody<'a>>>,
    /// Records to store in the job's queue, in the commit of this ack: at most 256.
    #[serde(borrow)]
    #[schema(value_type = Vec<RecordBody>)]
    records: Option<Vec<RecordBody<'a>>>,
    /// Marks on records of any queue, in the same commit: at most 256.
    marks: Option<Vec<MarkBody>>,
    lease_token: Option<String>,
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum WaitName {
    Children,
}

/// Complete a job
#[utoipa::path(
    post,
    path = "/ack/{id}",
    tag = "workers",
    request_body = Option<Ack>,
    responses((status = 200, body = Status), (status = 410, description = "The attempt has already ended: `JOB_NOT_ACTIVE`."))
)]
pub async fn ack(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Status>> {
    let ack: Ack = body.json_or_default()?;
    let result = store_result(&api, &body, ack.result).await?;
    let checkpoint = match ack.checkpoint {
        Some(raw) => {
            Some(Checkpoint { body: api.store.keep(body.part(raw)).await?, schema: 0, usage: Usage::default() })
        }
        None => None,
    };
    let notes = records::notes(ack.records, ack.marks)?;
    let children = enqueue::children(&api, &body, id, ack.children.unwrap_or_default()).await?;
    if let Some(WaitName::Children) = ack.wait {
        let on_child_failure = ack.on_child_failure.map_or(OnFailure::Fail, Into::into);
        let (holder, usage) = (holder(&api, ack.lease_token)?, Usage::default());
        let command = Command::Wait(Wait { holder, on_child_failure, checkpoint, usage, notes });
        api.store.ask(id, command, children).await?;
        return Ok(status("waiting"));
    }
    let closing = closing(Closing {
        step: ack.step_status.map(Into::into),
        agent: ack.agent_status.map(Into::into),
        hold_reason: ack.hold_reason,
        exit_reason: ack.exit_reason,
        checkpoint,
        spent: ack.usage.map(Into::into),
    });
    let command = Command::Complete(Complete {
        holder: holder(&api, ack.lease_token)?,
        result,
        usage: Usage::default(),
        closing,
        notes,
    });
    api.store.ask(id, command, children).await?;
    Ok(status("ok"))
}

#[derive(Debug, Deserialize, ToSchema)]
struct Acks<'a> {
    #[serde(borrow)]
    acks: Vec<AckOf<'a>>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct AckOf<'a> {
    job_id: String,
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<&'a RawValue>,
    step_status: Option<StepStatusName>,
    usage: Option<TokenUsage>,
    #[serde(borrow)]
    #[schema(value_type = Vec<RecordBody>)]
    records: Option<Vec<RecordBody<'a>>>,
    marks: Option<Vec<MarkBody>>,
    lease_token: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Acked {
    acked: usize,
}

/// Complete many jobs
///
/// Jobs that are not active are skipped; that is not an error.
#[utoipa::path(
    post,
    path = "/ack/batch",
    tag = "workers",
    request_body = Acks,
    responses((status = 200, body = Acked))
)]
pub async fn ack_batch(api: Api, body: Body) -> Result<Json<Acked>> {
    let Acks { acks } = body.json()?;
    if acks.len() > limits::WORKER_BATCH {
        return Err(Error::field("acks", format!("at most {} at once, not {}", limits::WORKER_BATCH, acks.len())));
    }
    let mut asks = Vec::with_capacity(acks.len());
    for ack in acks {
        let notes = records::notes(ack.records, ack.marks)?;
        check_token(&api, ack.lease_token.as_ref())?;
        let (Ok(id), Ok(holder)) = (ack.job_id.parse::<JobId>(), holder(&api, ack.lease_token)) else {
            continue;
        };
        let result = store_result(&api, &body, ack.result).await?;
        let closing = closing(Closing {
            step: ack.step_status.map(Into::into),
            spent: ack.usage.map(Into::into),
            ..Closing::default()
        });
        asks.push((id, Command::Complete(Complete { holder, result, usage: Usage::default(), closing, notes })));
    }
    let mut acked = 0;
    for answer in api.store.ask_each(asks).await? {
        match answer {
            Ok(_) => acked += 1,
            Err(windlass_store::Error::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(Acked { acked }))
}

/// The error by which a worker that shuts down hands its job back.
const WORKER_SHUTDOWN: &str = "worker_shutdown";

#[derive(Debug, Default, Deserialize, ToSchema)]
struct Fail {
    error: Option<String>,
    backtrace: Option<String>,
    lease_token: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Failed {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Rfc3339>,
    attempts_remaining: u32,
}

/// Report a failed attempt, or hand the job back
#[utoipa::path(
    post,
    path = "/fail/{id}",
    tag = "workers",
    request_body = Option<Fail>,
    responses((status = 200, body = Failed), (status = 410, description = "The attempt has already ended: `JOB_NOT_ACTIVE`."))
)]
pub async fn fail(api: Api, JobPath(id): JobPath, body: Body) -> Result<Json<Failed>> {
    let Fail { error, backtrace, lease_token } = body.json_or_default()?;
    let holder = holder(&api, lease_token)?;
    let error = error.unwrap_or_else(|| "the worker gave no error".to_owned());
    let hands_back = error == WORKER_SHUTDOWN;
    let usage = Usage::default();
    let command = match hands_back {
        true => Command::HandBack(HandBack { holder, reason: error, usage }),
        false => {
            Command::Fail(FailCommand { holder, failure: Failure { error, backtrace, retry: Retry::Backoff }, usage })
        }
    };
    let reply = api.store.ask(id, command, Vec::new()).await?;
    let Reply::Now { state, next_attempt_at, runs_left } = reply else {
        // The job was to be deleted once its attempt had ended, and no longer exists.
        return Ok(Json(Failed { status: "deleted", next_attempt_at: None, attempts_remaining: 0 }));
    };
    let status = match state {
        // A retry without delay is pending immediately; the client must still learn that it is a retry.
        JobState::Pending if !hands_back => "retrying",
        state => state.as_str(),
    };
    Ok(Json(Failed { status, next_attempt_at: next_attempt_at.map(Rfc3339), attempts_remaining: runs_left }))
}

/// `None` for most acks, which have only a result.
fn closing(closing: Closing) -> Option<Box<Closing>> {
    (closing != Closing::default()).then(|| Box::new(closing))
}

async fn store_result(api: &Api, body: &Body, result: Option<&RawValue>) -> Result<Option<StoredBody>> {
    match result {
        Some(raw) => Ok(Some(api.store.keep(body.part(raw)).await?)),
        None => Ok(None),
    }
}

/// Refuses what comes without a lease token, if the server requires one.
pub(crate) fn check_token(api: &Api, token: Option<&String>) -> Result<()> {
    if token.is_none() && api.server_state.requires_lease_token() {
        let why = "is missing, and this server requires it; send the token that came with the job when it was fetched";
        return Err(Error::field("lease_token", why));
    }
    Ok(())
}

/// The sender: the holder of the token, or a client without one, which is assumed to hold the job's lease if it has the
/// key that fetched it.
pub(crate) fn holder(api: &Api, token: Option<String>) -> Result<Holder> {
    check_token(api, token.as_ref())?;
    match token {
        Some(text) => Ok(Holder::Token(text.parse()?)),
        None => Ok(Holder::Unsigned),
    }
}

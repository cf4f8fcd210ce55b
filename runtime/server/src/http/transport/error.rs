//! Every refusal of the API: where errors of the rules, the store, the executor and the registry get their status,
//! their code and their message. 429 and 503 promise that nothing was done, because clients repeat such requests
//! automatically.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tracing::error;
use utoipa::ToSchema;
use windlass_core::{JobAction, JobId, Refusal};
use windlass_executor::Rejected;

use crate::registry;
use crate::secrets::rotation::RotateError;

/// A refusal, as the client gets it: `{"error": …, "code": …}`.
#[derive(Debug)]
pub struct Error {
    status: StatusCode,
    code: &'static str,
    message: String,
    more: More,
}

/// What every refusal looks like.
#[derive(ToSchema)]
#[schema(as = Error)]
#[allow(dead_code, reason = "only described: the answer is put together field by field")]
pub struct ErrorAnswer {
    /// What is wrong, and how to correct it.
    #[schema(example = "`queue`: is missing; name the queue of the job, such as \"emails.send\"")]
    error: String,
    /// An error code for programs.
    #[schema(example = "VALIDATION_ERROR")]
    code: String,
    /// With 429: how long to wait before trying again.
    #[schema(nullable = false)]
    retry_after_ms: Option<u64>,
    /// With 409 `UNIQUE_CONFLICT`: the job that has the unique key.
    #[schema(nullable = false)]
    unique_job_id: Option<String>,
    /// Unknown fields of the request; one of them may be the cause.
    #[schema(nullable = false)]
    warnings: Option<Vec<String>>,
}

/// Additional fields of some refusals.
#[derive(Debug)]
enum More {
    Nothing,
    RetryAfter(Duration),
    /// The job that has the unique key.
    UniqueJob(JobId),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Error {
        Error { status, code, message: message.into(), more: More::Nothing }
    }

    pub fn not_json(message: impl Into<String>) -> Error {
        Error::new(StatusCode::BAD_REQUEST, "PARSE_ERROR", message)
    }

    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", message)
    }

    pub fn field(field: &str, why: impl std::fmt::Display) -> Error {
        Error::invalid(format!("`{field}`: {why}"))
    }

    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub fn wrong_method(message: impl Into<String>) -> Error {
        Error::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
    }

    pub fn too_large(message: impl Into<String>) -> Error {
        Error::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    }

    pub fn too_slow() -> Error {
        Error::new(
            StatusCode::REQUEST_TIMEOUT,
            "REQUEST_TIMEOUT",
            "the body did not arrive in time; nothing was done; send the request again",
        )
    }

    pub fn unauthorized(message: impl Into<String>) -> Error {
        Error::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Error {
        Error::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
    }

    /// The `Host` header names another server.
    pub fn wrong_host(message: impl Into<String>) -> Error {
        Error::new(StatusCode::MISDIRECTED_REQUEST, "HOST_NOT_ALLOWED", message)
    }

    pub fn served_by_plugin(message: impl Into<String>) -> Error {
        Error::new(StatusCode::UNPROCESSABLE_ENTITY, "QUEUE_SERVED_BY_PLUGIN", message)
    }

    /// Nothing was done; a later attempt may succeed.
    pub fn overloaded(message: impl Into<String>, retry_after: Duration) -> Error {
        let more = More::RetryAfter(retry_after);
        Error { more, ..Error::new(StatusCode::TOO_MANY_REQUESTS, "OVERLOADED", message) }
    }

    /// Nothing was done, because this client has sent too much; it may try again later.
    pub fn rate_limited(message: impl Into<String>, retry_after: Duration) -> Error {
        let more = More::RetryAfter(retry_after);
        Error { more, ..Error::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message) }
    }

    pub fn namespace_busy(active: usize) -> Error {
        let why = format!(
            "{active} of its jobs still run, and were asked to stop; send the request again in a while to remove the rest"
        );
        Error::new(StatusCode::CONFLICT, "NAMESPACE_BUSY", why)
    }

    pub fn stopping() -> Error {
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN", "the server is stopping; try again in a moment")
    }

    /// The server is alive but cannot accept work now.
    pub fn not_ready(why: impl std::fmt::Display) -> Error {
        let message = format!("the store cannot be written: {why}");
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", message)
    }

    /// Whoever vouches for the sender of a request has not been reached; nothing was done.
    pub fn provider_unavailable(why: impl Into<String>, retry_after: Duration) -> Error {
        let more = More::RetryAfter(retry_after);
        Error { more, ..Error::new(StatusCode::SERVICE_UNAVAILABLE, "PROVIDER_UNAVAILABLE", why) }
    }

    /// Whether the sender was not recognised.
    pub fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// The message, if this is about something damaged; any other error is returned unchanged.
    pub fn into_damage(self) -> Result<String> {
        if self.code == DAMAGED { Ok(self.message) } else { Err(self) }
    }

    /// A fault of the server, not of the client; the details are in the log.
    pub fn internal(details: impl std::fmt::Display) -> Error {
        error!("a request failed inside the server: {details}");
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL_ERROR",
            "an error inside the server; its log has the details",
        )
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("error".to_owned(), Value::from(self.message));
        body.insert("code".to_owned(), Value::from(self.code));
        let mut retry_after = None;
        match self.more {
            More::Nothing => {}
            More::RetryAfter(wait) => {
                body.insert("retry_after_ms".to_owned(), json!(wait.as_millis() as u64));
                // The header allows only whole seconds.
                retry_after = Some(wait.as_millis().div_ceil(1_000).max(1) as u64);
            }
            More::UniqueJob(id) => {
                body.insert("unique_job_id".to_owned(), Value::from(id.to_string()));
            }
        }
        let mut response = (self.status, Json(Value::Object(body))).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let message = refusal.to_string();
        match refusal {
            Refusal::Invalid { .. } => Error::invalid(message),
            Refusal::NotFound { .. } => Error::not_found(message),
            Refusal::NotAllowed { .. } => Error::forbidden(message),
            Refusal::OverQuota { .. } => Error::new(StatusCode::TOO_MANY_REQUESTS, "QUOTA_EXCEEDED", message),
            Refusal::WrongState { action, .. } => {
                Error::new(StatusCode::BAD_REQUEST, wrong_state_code(action), message)
            }
            Refusal::NotActive { .. } => Error::new(StatusCode::GONE, "JOB_NOT_ACTIVE", message),
            Refusal::Locked { holder, .. } => {
                let more = More::UniqueJob(holder);
                Error { more, ..Error::new(StatusCode::CONFLICT, "UNIQUE_CONFLICT", message) }
            }
            Refusal::Taken { .. } => {
                let message = format!("{message}, and a queue has one plugin; choose other queues with ?queues=a,b");
                Error::new(StatusCode::CONFLICT, "QUEUE_TAKEN", message)
            }
            Refusal::InUse { .. } => Error::new(
                StatusCode::CONFLICT,
                "IN_USE",
                format!("{message}; wait for it, or force it with ?force=true"),
            ),
            Refusal::Exists { .. } => Error::new(StatusCode::CONFLICT, "ALREADY_EXISTS", message),
        }
    }
}

fn wrong_state_code(action: JobAction) -> &'static str {
    match action {
        JobAction::Cancel => "CANCEL_ERROR",
        JobAction::Retry => "RETRY_ERROR",
        JobAction::Requeue => "REQUEUE_ERROR",
        JobAction::Move => "MOVE_ERROR",
        JobAction::Hold => "HOLD_ERROR",
        JobAction::Approve => "APPROVE_ERROR",
        JobAction::Reject => "REJECT_ERROR",
        JobAction::Start | JobAction::Rebuild | JobAction::Reprioritise | JobAction::RunNow | JobAction::Edit => {
            "WRONG_STATE"
        }
    }
}

const DAMAGED: &str = "STORE_DAMAGED";

impl From<windlass_store::Error> for Error {
    fn from(error: windlass_store::Error) -> Error {
        use windlass_store::Error as Store;
        match error {
            Store::Refused(refusal) => refusal.into(),
            Store::Overloaded { retry_after } => Error::overloaded(error.to_string(), retry_after),
            Store::Unavailable { .. } => {
                Error::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", error.to_string())
            }
            Store::NoSearch { .. } => {
                Error::new(StatusCode::SERVICE_UNAVAILABLE, "SEARCH_UNAVAILABLE", error.to_string())
            }
            // It may have been stored, so this cannot be a 503, after which clients would send it again.
            Store::Unknown { .. } => Error::new(StatusCode::INTERNAL_SERVER_ERROR, "STORE_FAILED", error.to_string()),
            Store::Damaged { .. } => {
                error!("{error}");
                Error::new(StatusCode::INTERNAL_SERVER_ERROR, DAMAGED, error.to_string())
            }
            Store::Closed => Error::stopping(),
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Error {
        let status = match rejected {
            Rejected::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Rejected::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            Rejected::Busy | Rejected::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Error::new(status, rejected.code(), rejected.to_string())
    }
}

impl From<RotateError> for Error {
    fn from(error: RotateError) -> Error {
        match error {
            RotateError::Full => Error::invalid(error.to_string()),
            RotateError::File { .. } => {
                Error::new(StatusCode::SERVICE_UNAVAILABLE, "KEY_FILE_UNWRITABLE", error.to_string())
            }
            RotateError::Store(error) => error.into(),
        }
    }
}

impl From<registry::Error> for Error {
    fn from(error: registry::Error) -> Error {
        match error {
            registry::Error::Rejected(rejected) => rejected.into(),
            registry::Error::Store(error) => error.into(),
            registry::Error::Damaged(why) => Error::new(StatusCode::UNPROCESSABLE_ENTITY, "COMPONENT_DAMAGED", why),
        }
    }
}

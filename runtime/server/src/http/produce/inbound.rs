//! Incoming webhooks, for senders that cannot choose the form of their body: `POST /webhooks/{queue}`. Those of a queue
//! with an inbound webhook must be signed.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequest, Request as AnyRequest};
use axum::http::{Method, Request};
use axum::response::Response;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::IntoParams;
use windlass_core::access::Actor;
use windlass_core::{AllowedQueues, Namespace, NewJob, PolicyChoice, QueueName, Unique, UniqueScope, Until};
use windlass_store::{Caller, Clock};

use crate::http::Api;
use crate::http::produce::enqueue::{OneAnswer, store_one};
use crate::http::produce::idempotency::IdempotencyKey;
use crate::http::produce::permitted;
use crate::http::produce::permitted::Existing;
use crate::http::transport::body;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::{Body, NamePath, Query};
use crate::http::wire::aliases;
use crate::http::wire::{Moment, PriorityName, Shown};
use crate::webhooks::inbound::{InboundHooks, Refused, Verifier};

/// The options of an incoming webhook, in the query.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HookQuery {
    priority: Option<PriorityName>,
    unique_key: Option<String>,
    /// The number of runs, including the first.
    max_attempts: Option<u32>,
    max_retries: Option<u32>,
    scheduled_at: Option<Moment>,
    tags: Option<String>,
    /// For a signed request: the namespace of the queue.
    #[allow(dead_code, reason = "looked at before the request is routed, see `authenticates_itself`")]
    namespace: Option<String>,
}

/// A request that needs no key, because its signature authenticates it. The handler verifies it with this, even if the
/// hook has been removed meanwhile.
#[derive(Clone)]
pub struct Signed(Arc<Verifier>);

/// Whether a request authenticates itself: it is for a queue whose incoming webhooks are signed, so it needs no key.
/// Nothing has been verified then; the request is marked with the result, and its handler refuses it unless the
/// signature is right. The one place that decides this: called by `transport::auth` for every request.
pub fn authenticates_itself<B>(
    hooks: &InboundHooks,
    request: &Request<B>,
    is_known: impl FnOnce(&Namespace) -> bool,
) -> Option<Signed> {
    if request.method() != Method::POST {
        return None;
    }
    let name = request.uri().path().strip_prefix(PATH).filter(|name| !name.contains('/'))?;
    let queue: QueueName = percent_decode_str(name).decode_utf8().ok()?.parse().ok()?;
    // A sender cannot choose its headers, so the namespace of a tenant is part of the address.
    let mut pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let namespace = match pairs.find(|(name, _)| name == "namespace") {
        Some((_, text)) => text.parse().ok()?,
        None => Namespace::default(),
    };
    // One that is being removed takes no more jobs.
    hooks.of(&queue.within(&namespace)).filter(|_| is_known(&namespace)).map(Signed)
}

impl Signed {
    /// On whose behalf the job is enqueued: of somebody who may enqueue to this queue and do nothing else.
    pub fn caller(&self, address: Option<IpAddr>) -> Caller {
        let queue = self.0.queue();
        let only = queue.as_str().parse().expect("the name of a queue is a pattern");
        let allowed = AllowedQueues { namespace: queue.namespace(), patterns: Arc::from([only]) };
        let actor = Actor { id: Actor::SIGNED_WEBHOOK.to_owned(), role: None, address };
        Caller { allowed, actor, everywhere: false, session: None, token_until: None }
    }
}

const PATH: &str = "/api/v1/webhooks/";

/// Enqueue a job whose payload is the body of the request
///
/// A JSON body is the payload as it is; other text becomes a string, other bytes Base64, and an empty body `{}`. If the
/// queue has an inbound webhook (`PUT /inbound-webhooks/{queue}`), the request must be signed, and needs no key. A
/// signed request that comes again within a day enqueues nothing, and is answered with the job of the first.
#[utoipa::path(
    post,
    path = "/webhooks/{name}",
    tag = "producers",
    params(
        HookQuery,
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Makes the request safe to repeat: for a day, the same key returns the jobs of the first request. Ignored for \
                           signed requests, which are recognised by what is signed.",
            max_length = 255
        )
    ),
    request_body(content = String, content_type = "text/plain", description = "Any body."),
    responses(
        (status = 201, description = "A new job.", body = OneAnswer),
        (
            status = 200,
            description = "Another job has the unique key or the Idempotency-Key, or the signed request came before; it is returned.",
            body = OneAnswer
        ),
        (status = 401, description = "The server has a key and the request has none, or the request should be signed and is not.")
    )
)]
pub async fn webhook(
    api: Api,
    NamePath(queue): NamePath,
    Query(query): Query<HookQuery>,
    request: AnyRequest,
) -> Result<Response> {
    let signed = request.extensions().get::<Signed>().map(|signed| Arc::clone(&signed.0));
    // One that was set just now is in force for a request that came with a key, too.
    match signed.or_else(|| api.inbound.of(&queue)) {
        Some(verifier) => receive_signed(&api, queue, query, request, &verifier).await,
        None => {
            let once = IdempotencyKey::read(request.headers())?;
            let body = Body::from_request(request, &api.shared()).await?;
            let (job, payload) = to_job(queue, query, &body)?;
            permitted::check(&api, &[&job], None)?;
            let job = NewJob { payload: Some(api.store.keep(payload).await?), ..job };
            store_one(&api, once.mark(job, 0), Existing::for_caller(&api)).await
        }
    }
}

/// Enqueues a job for a request whose signature is right. Its sender may not read the record of a job, so it is
/// answered in short.
async fn receive_signed(
    api: &Api,
    queue: QueueName,
    query: HookQuery,
    request: AnyRequest,
    verifier: &Verifier,
) -> Result<Response> {
    let refused = |why: Refused| Error::unauthorized(why.to_string());
    if *verifier.queue() != queue {
        return Err(refused(Refused::Wrong));
    }
    let claim = match verifier.read(request.headers(), api.clock.now()) {
        Ok(claim) => claim,
        // Nothing of the body is held in memory for somebody who has not even claimed to have signed it.
        Err(why) => {
            body::discard(request, api).await;
            return Err(refused(why));
        }
    };
    let body = Body::from_request(request, &api.shared()).await?;
    verifier.verify(&claim, &body.bytes(), api.clock.now()).map_err(refused)?;
    if query.unique_key.is_some() {
        let why =
            "a signed webhook is recognised by what is signed; leave the key out of the address that the sender has";
        return Err(Error::field("unique_key", why));
    }
    let (job, payload) = to_job(queue, query, &body)?;
    let payload = Some(api.store.keep(payload).await?);
    let job = NewJob { payload, unique: Some(verifier.unique(&claim, &body.bytes())), ..job };
    store_one(api, job, Existing::Short).await
}

/// The job of a request, and its payload, which is stored once the job is permitted.
fn to_job(queue: QueueName, query: HookQuery, body: &Body) -> Result<(NewJob, Bytes)> {
    let mut tags = Vec::new();
    for pair in query.tags.as_deref().unwrap_or_default().split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once(':') else {
            return Err(Error::field("tags", format!("{pair:?} has no colon; write tags=key:value,key:value")));
        };
        tags.push((key.to_owned(), value.to_owned()));
    }
    body.check_depth()?;
    let bytes = body.bytes();
    let payload = match bytes.trim_ascii() {
        [] => Bytes::from_static(b"{}"),
        text if serde_json::from_slice::<&RawValue>(text).is_ok() => bytes.slice_ref(text),
        _ => Bytes::from(serde_json::to_vec(&as_text(&bytes)).map_err(Error::internal)?),
    };
    let job = NewJob {
        queue: Some(queue),
        policy: PolicyChoice {
            priority: query.priority.map(Into::into),
            max_attempts: aliases::max_attempts("", query.max_attempts, query.max_retries)?,
            ..PolicyChoice::default()
        },
        scheduled_at: query.scheduled_at.map(|moment| moment.0),
        unique: query.unique_key.map(|key| Unique {
            key,
            within: UniqueScope::default(),
            until: Until::default(),
            period: windlass_core::DEFAULT_PERIOD,
        }),
        tags,
        ..NewJob::default()
    };
    Ok((job, payload))
}

fn as_text(bytes: &Bytes) -> serde_json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::Value::from(text),
        Err(_) => serde_json::json!(Shown(bytes.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_post_to_a_queue_whose_webhooks_are_signed_needs_no_key() {
        let hooks = InboundHooks::asking_for("hooks/a");
        let is_signed = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(()).expect("a request");
            authenticates_itself(&hooks, &request, |_| true).is_some()
        };
        for path in
            ["/api/v1/webhooks/hooks%2Fa", "/api/v1/webhooks/hooks%2fa?priority=high", "/api/v1/webhooks/%68ooks%2Fa"]
        {
            assert!(is_signed(Method::POST, path), "{path}");
            assert!(!is_signed(Method::DELETE, path) && !is_signed(Method::GET, path), "{path}");
        }
        for path in [
            "/api/v1/webhooks",
            "/api/v1/webhooks/",
            "/api/v1/webhooks/hooks",
            "/api/v1/webhooks/hooks/a",
            "/api/v1/webhooks/hooks%2Fa/",
            "/api/v1/webhooks/hooks%252Fa",
            "/api/v1/webhooks/%ff",
            "/api/v1//webhooks/hooks%2Fa",
            "/api/v1/webhooks/hooks%2Fa?namespace=acme",
            "/api/v1/webhook-endpoints/hooks%2Fa",
            "/api/v1/enqueue?/api/v1/webhooks/hooks%2Fa",
        ] {
            assert!(!is_signed(Method::POST, path), "{path}");
        }
    }

    #[test]
    fn a_signed_request_may_enqueue_to_its_queue_and_do_nothing_else() {
        let hooks = InboundHooks::asking_for("hooks/a");
        let request = Request::post("/api/v1/webhooks/hooks%2Fa").body(()).expect("a request");
        let signed = authenticates_itself(&hooks, &request, |_| true);
        let caller = signed.expect("it is signed").caller(None);
        assert!(authenticates_itself(&hooks, &request, |_| false).is_none(), "there is no such namespace");
        let queue = |name: &str| name.parse::<QueueName>().expect("a name");
        assert!(caller.allowed.allow(&queue("hooks/a")) && !caller.allowed.allow(&queue("hooks/b")));
        assert_eq!(caller.actor.role, None);
    }
}

//! `GET /pulse`: what changes, twice a second, for people who watch the server.
//!
//! A snapshot of everything is taken for all watchers together, and only while there are any. Each watcher remembers
//! the snapshot it was last sent, and gets the difference: one that reads slowly skips snapshots and misses nothing.
//! Reading order: this file (one watcher), `snapshot` (what is in one), `message` (the difference of two), `hub` (when
//! they are taken).

mod hub;
mod message;
mod snapshot;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use utoipa::IntoParams;
use windlass_core::JobId;

pub use self::hub::Pulse;
use self::hub::Watching;
use self::message::{difference, whole};
use self::snapshot::Snapshot;
use crate::http::Api;
use crate::http::events::StreamEvent;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::limits;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PulseQuery {
    /// The ids of up to 50 jobs to watch, separated by commas.
    jobs: Option<String>,
}

/// Watch queues, slots, canaries and workers as they change
///
/// Events `pulse`, at most two a second. The first has everything: `queues` and `jobs` by name, `totals`, `rates`,
/// `slots`, `canaries`, `workers`, `bulk`, `paused_since`, `trouble`, and `full: true`. Later ones have what has
/// changed; an entry that is `null` is gone. Without a change there is a comment every 15 seconds. An event `ended`
/// says that the key or the session is no longer valid.
#[utoipa::path(
    get,
    path = "/pulse",
    tag = "system",
    params(PulseQuery),
    responses(
        (status = 200, description = "A stream of events.", body = StreamEvent, content_type = "text/event-stream")
    )
)]
pub async fn watch(api: Api, Query(query): Query<PulseQuery>) -> Result<Response> {
    let jobs = watched(query.jobs.as_deref())?;
    let watching = api.pulse.watch(&api, jobs);
    let watcher = Watcher { api, watching, last_sent: None, quiet_until: Instant::now(), over: false };
    let lines = stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        watcher.quiet_until = Instant::now() + limits::SSE_COMMENT;
        Some((Ok::<_, Infallible>(bytes), watcher))
    });
    let mut response = Body::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A proxy that buffers the response would make a live stream useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn watched(list: Option<&str>) -> Result<Vec<JobId>> {
    let texts = list.unwrap_or_default().split(',').map(str::trim).filter(|text| !text.is_empty());
    let mut jobs = Vec::new();
    for text in texts {
        let id = text.parse().map_err(|wrong| Error::field("jobs", format!("{text:?}: {wrong}")))?;
        if !jobs.contains(&id) {
            jobs.push(id);
        }
    }
    if jobs.len() > limits::PULSE_JOBS {
        return Err(Error::field("jobs", format!("at most {} can be watched at once", limits::PULSE_JOBS)));
    }
    Ok(jobs)
}

/// One reader of the pulse.
struct Watcher {
    api: Api,
    watching: Watching,
    /// The snapshot that it was sent last.
    last_sent: Option<Arc<Snapshot>>,
    quiet_until: Instant,
    over: bool,
}

impl Watcher {
    /// The next text to send; none when the server stops or the watcher is not welcome any more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over {
                return None;
            }
            let changed = tokio::select! {
                changed = self.watching.snapshots.changed() => changed.is_ok(),
                () = sleep_until(self.quiet_until), if self.last_sent.is_some() => {
                    return Some(Bytes::from_static(b": still here\n\n"));
                }
                () = self.api.shutdown.requested() => return None,
            };
            if !changed {
                return None;
            }
            if !self.api.authority.still_admits(&self.api.caller) {
                self.over = true;
                return Some(Bytes::from_static(
                    b"event: ended\ndata: {\"code\":\"SIGNED_OUT\",\"error\":\"the key or the session is no longer valid; sign in again\"}\n\n",
                ));
            }
            if let Some(text) = self.tell() {
                return Some(text);
            }
        }
    }

    /// What there is to say since the last time, if anything.
    fn tell(&mut self) -> Option<Bytes> {
        let now = self.watching.snapshots.borrow_and_update().clone()?;
        let (allowed, jobs) = (&self.api.caller.allowed, &self.watching.jobs);
        let text = match &self.last_sent {
            Some(before) => difference(before, &now, allowed, jobs),
            None => Some(whole(&now, allowed, jobs)),
        };
        self.last_sent = Some(now);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_once_each_and_not_too_many() {
        let one = JobId::new(windlass_core::Time(1), 1);
        assert_eq!(watched(Some(&format!("{one}, {one},"))).expect("ids"), [one]);
        assert_eq!(watched(None).expect("none"), []);
        assert!(watched(Some("job_x")).is_err());
        let many: Vec<String> =
            (0..=limits::PULSE_JOBS as u128).map(|n| JobId::new(windlass_core::Time(1), n).to_string()).collect();
        assert!(watched(Some(&many.join(","))).is_err());
    }
}

//! A watcher sends stored events first, then those in memory, then live ones, each once and in order.
//!
//! Its connection pulls from it. While a slow client does not read, nothing accumulates here: the channel moves on, and
//! a client that has missed events gets an error and is disconnected. It can reconnect with the last id it has seen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use windlass_core::{AllowedQueues, EventKind, Job, JobId, QueueName};
use windlass_store::{Caller, EventRecord, LogRecord, Store};

use crate::http::Api;
use crate::http::access::Authority;
use crate::http::events::hub::HubEvent;
use crate::http::events::line;
use crate::{Shutdown, limits};

/// Which events a watcher gets. An empty list does not filter.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The queues that the watcher may see.
    pub allowed: Option<AllowedQueues>,
    pub queues: Vec<QueueName>,
    pub jobs: Vec<JobId>,
    pub scopes: Vec<String>,
    pub types: Vec<String>,
}

impl Wanted {
    fn wants(&self, record: &EventRecord) -> bool {
        fn passes<T>(list: &[T], test: impl Fn(&T) -> bool) -> bool {
            list.is_empty() || list.iter().any(test)
        }
        let event = &record.event;
        let of_namespace = event.kind.is_of_namespace();
        let allows = |allowed: &AllowedQueues| match of_namespace {
            true => allowed.is_in_namespace(&event.queue),
            false => allowed.allow(&event.queue),
        };
        if !self.allowed.as_ref().is_none_or(allows) {
            return false;
        }
        if of_namespace || matches!(event.kind, EventKind::Worker(_)) {
            // It belongs to no job and to no one queue, so a filter by either excludes it.
            let all = self.jobs.is_empty() && self.queues.is_empty() && self.scopes.is_empty();
            return all && passes(&self.types, |kind| kind == event.kind.as_str());
        }
        passes(&self.jobs, |job| *job == event.job)
            && passes(&self.queues, |queue| *queue == event.queue)
            && passes(&self.scopes, |scope| Some(scope) == event.scope.as_ref())
            && passes(&self.types, |kind| kind == event.kind.as_str())
    }
}

pub struct Watcher {
    store: Store,
    shutdown: Shutdown,
    authority: Authority,
    caller: Arc<Caller>,
    wanted: Wanted,
    /// The last event that was handled; nothing up to it is sent again.
    last: u64,
    /// Text to send before anything else.
    texts: VecDeque<Bytes>,
    /// Stored events still to be read, up to this number.
    stored_until: Option<u64>,
    /// Events to handle before live ones.
    past: VecDeque<Arc<HubEvent>>,
    /// Events in memory, handled after the stored ones.
    recent: Vec<Arc<HubEvent>>,
    live: Receiver<Arc<HubEvent>>,
    /// Set for a stream about one job, which ends with the job.
    job: Option<Watched>,
    quiet_until: Instant,
    over: bool,
    /// Its caller is no longer let in.
    left: bool,
}

/// The job of a stream about one job.
pub struct Watched {
    pub job: Job,
    /// The next line of its log, if that is wanted.
    pub log_from: Option<u64>,
    /// Lines as they are written. Lines that were written before the subscription, or that it missed, are read from
    /// disk at `log_at`.
    log_live: Receiver<Arc<LogRecord>>,
    /// When the log is next read from disk, and how many more times: lines that were written before this watcher
    /// joined, or that it missed, may not be on disk yet. The number is limited because a thousand watchers that polled
    /// all the time would be a load.
    log_at: Instant,
    log_polls: u32,
    /// Its final event, if the job has ended and that event is no longer stored.
    end: Option<Bytes>,
}

impl Watched {
    pub fn new(job: Job, log_from: Option<u64>, log_live: Receiver<Arc<LogRecord>>, end: Option<Bytes>) -> Watched {
        Watched { job, log_from, log_live, log_at: Instant::now(), log_polls: limits::LOG_POLLS, end }
    }

    /// When the disk is to be read.
    fn poll_at(&self) -> Option<Instant> {
        (self.log_from.is_some() && self.log_polls > 0).then_some(self.log_at)
    }
}

impl Watcher {
    /// A watcher of events after `last`, which are on disk up to the first of `recent`.
    pub fn new(api: &Api, wanted: Wanted, live: Receiver<Arc<HubEvent>>) -> Watcher {
        Watcher {
            store: api.whole_store.clone(),
            shutdown: api.shutdown.clone(),
            authority: api.authority.clone(),
            caller: Arc::clone(&api.caller),
            wanted,
            last: 0,
            texts: VecDeque::new(),
            stored_until: None,
            past: VecDeque::new(),
            recent: Vec::new(),
            live,
            job: None,
            quiet_until: Instant::now() + limits::SSE_COMMENT,
            over: false,
            left: false,
        }
    }

    /// Starts after the event `last`: with events on disk, then those in memory.
    pub fn replay(mut self, last: u64, recent: Vec<Arc<HubEvent>>) -> Watcher {
        let first = recent.first().map_or(u64::MAX, |event| event.record.seq);
        self.last = last;
        // The events in memory may start early enough.
        self.stored_until = (first > last.saturating_add(1)).then_some(first);
        self.recent = recent;
        if self.stored_until.is_none() {
            self.past = std::mem::take(&mut self.recent).into();
        }
        self
    }

    /// Only events after `last` are sent, and none is replayed.
    pub fn beginning_now(mut self, last: u64) -> Watcher {
        self.last = last;
        self
    }

    /// Starts with these events, and ends with the job; immediately if `over`.
    pub fn of_job(mut self, watched: Watched, past: Vec<Arc<HubEvent>>, over: bool) -> Watcher {
        self.past = past.into();
        self.job = Some(watched);
        self.over = over;
        self
    }

    /// Sends this first.
    pub fn first(mut self, text: Bytes) -> Watcher {
        self.texts.push_back(text);
        self
    }

    pub fn into_response(self) -> Response {
        let lines = stream::unfold(self, |mut watcher| async move {
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
        response
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Whoever is no longer let in hears nothing more: neither what was received already nor what comes.
            if !self.left && !self.authority.still_admits(&self.caller) {
                self.left = true;
                self.texts.clear();
                self.job = None;
                self.end("ended", "SIGNED_OUT", "the key or the session is no longer valid; sign in again");
            }
            if let Some(text) = self.texts.pop_front() {
                return Some(text);
            }
            if let Some(event) = self.past.pop_front() {
                self.take(event, false).await;
            } else if let Some(until) = self.stored_until {
                self.read_stored(until).await;
            } else if self.over {
                let end = self.job.as_mut().and_then(|watched| watched.end.take())?;
                self.read_log().await;
                self.texts.push_back(end);
            } else {
                self.wait().await?;
            }
        }
    }

    /// One event: sent if it is new and wanted. The end of the watched job ends the stream.
    async fn take(&mut self, event: Arc<HubEvent>, live: bool) {
        let record = &event.record;
        if record.seq <= self.last {
            return;
        }
        self.last = record.seq;
        let of_job = self.job.as_ref().is_some_and(|watched| watched.job.id == record.event.job);
        if of_job && is_end(&record.event.kind) {
            // The caller that passed past events in knows about an end among them.
            self.over |= live;
            self.read_log().await;
        }
        if !self.wanted.wants(record) {
            return;
        }
        let line = event.line(&self.store).await;
        self.texts.push_back(line);
    }

    async fn read_stored(&mut self, until: u64) {
        match self.store.events_after(self.last, limits::EVENT_PAGE).await {
            Ok(page) => {
                let fresh = page.into_iter().filter(|record| record.seq < until);
                self.past = fresh.map(|record| Arc::new(HubEvent::new(Arc::new(record)))).collect();
                if self.past.is_empty() {
                    self.stored_until = None;
                    self.past = std::mem::take(&mut self.recent).into();
                }
            }
            Err(error) => {
                let why = format!("the stored events cannot be read: {error}; reconnect with the last id you have");
                self.end("dropped", "STORE_UNAVAILABLE", &why);
            }
        }
    }

    /// Waits for something to send; `None` when the server stops.
    async fn wait(&mut self) -> Option<()> {
        let log_at = self.job.as_ref().and_then(Watched::poll_at);
        let until = log_at.map_or(self.quiet_until, |at| at.min(self.quiet_until));
        let written = async {
            match self.job.as_mut().filter(|job| job.log_from.is_some()) {
                Some(watched) => watched.log_live.recv().await,
                None => std::future::pending().await,
            }
        };
        let received = tokio::select! {
            received = self.live.recv() => received,
            written = written => {
                match written {
                    Ok(record) => self.take_lines(&record),
                    Err(RecvError::Lagged(_)) => self.schedule_log_reads(),
                    Err(RecvError::Closed) => return None,
                }
                return Some(());
            }
            () = self.shutdown.requested() => return None,
            () = sleep_until(until) => {
                if log_at.is_some_and(|at| at <= Instant::now()) {
                    self.read_log().await;
                }
                if self.quiet_until <= Instant::now() {
                    self.texts.push_back(Bytes::from_static(b": still here\n\n"));
                }
                return Some(());
            }
        };
        match received {
            Ok(event) => self.take(event, true).await,
            Err(RecvError::Lagged(missed)) => {
                let why =
                    format!("this reader is too slow and missed {missed} events; reconnect with the last id you have");
                self.end("dropped", "TOO_SLOW", &why);
            }
            Err(RecvError::Closed) => return None,
        }
        Some(())
    }

    /// Sends lines that were just written. If there is a gap after the last line sent, they are read from disk later,
    /// after the lines in between.
    fn take_lines(&mut self, record: &LogRecord) {
        let Some(watched) = self.job.as_mut() else { return };
        for (n, line) in (record.first..).zip(&record.lines) {
            if watched.log_from == Some(n) {
                watched.log_from = Some(n + 1);
                self.texts.push_back(line::of_log(&watched.job, n, line.clone()));
            }
        }
        if watched.log_from.is_some_and(|next| next < record.first) {
            self.schedule_log_reads();
        }
    }

    /// Schedules reads from disk, which has the missed lines now or soon.
    fn schedule_log_reads(&mut self) {
        if let Some(watched) = self.job.as_mut() {
            watched.log_polls = limits::LOG_POLLS;
        }
    }

    /// New lines of the watched job's log.
    async fn read_log(&mut self) {
        let Some(watched) = self.job.as_mut() else { return };
        watched.log_at = Instant::now() + limits::LOG_POLL;
        watched.log_polls = watched.log_polls.saturating_sub(1);
        while let Some(from) = watched.log_from {
            // A log that cannot be read now is read at the next poll.
            let Ok(lines) = self.store.logs(watched.job.id, from, limits::LOG_PAGE).await else { return };
            let Some((last, _)) = lines.last() else { return };
            watched.log_from = Some(last + 1);
            self.texts.extend(lines.into_iter().map(|(n, line)| line::of_log(&watched.job, n, line)));
        }
    }

    fn end(&mut self, kind: &str, code: &str, why: &str) {
        self.texts.push_back(line::of_stream(kind, code, why));
        self.past.clear();
        self.stored_until = None;
        self.over = true;
    }
}

/// Whether a job has ended with this event.
pub fn is_end(kind: &EventKind) -> bool {
    match kind {
        EventKind::Completed { .. } | EventKind::Dead { .. } | EventKind::Cancelled { .. } | EventKind::Deleted => true,
        EventKind::Enqueued
        | EventKind::Blocked { .. }
        | EventKind::Scheduled { .. }
        | EventKind::Pending { .. }
        | EventKind::Started { .. }
        | EventKind::Progress(_)
        | EventKind::Checkpoint { .. }
        | EventKind::Continued { .. }
        | EventKind::Failed { .. }
        | EventKind::Held { .. }
        | EventKind::Approved
        | EventKind::Rejected
        | EventKind::Cancelling
        | EventKind::Moved { .. }
        | EventKind::Edited { .. }
        | EventKind::Removing
        | EventKind::Round(_)
        | EventKind::Queue(_)
        | EventKind::Schedule(_)
        | EventKind::Bulk(_)
        | EventKind::Worker(_)
        | EventKind::Plugin(_) => false,
    }
}

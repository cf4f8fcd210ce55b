//! The task that delivers the events of one webhook: page after page of stored events, then waits for more. An event
//! that does not arrive is tried again after growing pauses, then given up, so that one that is not accepted does not
//! stop the rest.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};
use windlass_core::{Delivery, DeliveryCause};
use windlass_store::{Clock, EventRecord, Store, WebhookChange};

use crate::http::event_json;
use crate::limits;
use crate::webhooks::Parts;
use crate::webhooks::send::{Endpoint, Message};

pub struct Courier {
    parts: Arc<Parts>,
    /// As it was edited last: the next attempt goes there.
    endpoint: watch::Receiver<Endpoint>,
    /// The webhook's id.
    id: String,
    /// Events up to this number have been delivered or given up.
    delivered_up_to: u64,
    unsaved: Unsaved,
    last_error: Option<String>,
}

/// What has been done since the last write.
#[derive(Default)]
struct Unsaved {
    delivered: u64,
    failed: u64,
    deliveries: Vec<Delivery>,
    /// Since when the oldest of them waits.
    since: Option<Instant>,
}

/// The webhook cannot go on: it was removed, or the store is closing.
struct Stop;

impl Courier {
    pub fn new(parts: Arc<Parts>, endpoint: watch::Receiver<Endpoint>, delivered_up_to: u64) -> Courier {
        let (id, last_error) = {
            let hook = &endpoint.borrow().hook;
            (hook.id.clone(), hook.last_error.clone())
        };
        Courier { parts, endpoint, id, delivered_up_to, unsaved: Unsaved::default(), last_error }
    }

    pub async fn run(mut self) {
        let mut news = self.parts.store.watch();
        loop {
            let page = match self.parts.store.events_after(self.delivered_up_to, limits::DELIVERIES).await {
                Ok(page) => page,
                Err(error) => {
                    warn!(webhook = self.id, "its events cannot be read: {error}");
                    sleep(limits::STORE_RETRY).await;
                    continue;
                }
            };
            if page.is_empty() {
                // A live event may reach the disk a little later, so check again soon, and whenever there is an event.
                match timeout(limits::DELIVERY_POLL, news.recv()).await {
                    Ok(Err(RecvError::Closed)) => return,
                    Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => continue,
                }
            }
            if self.deliver_page(&page).await.is_err() {
                return;
            }
        }
    }

    async fn deliver_page(&mut self, page: &[EventRecord]) -> Result<(), Stop> {
        for record in page {
            let wanted = self.endpoint.borrow().hook.wants(&record.event);
            if wanted {
                self.deliver(record).await?;
            }
            self.delivered_up_to = record.seq;
            if self.unsaved.is_due() {
                self.save().await?;
            }
        }
        // A page without events for this webhook is not worth a write, unless it is far behind.
        if self.unsaved.is_empty() && page.len() < limits::DELIVERIES { Ok(()) } else { self.save().await }
    }

    /// Delivers one event, with as many retries as the webhook allows and growing pauses between them.
    async fn deliver(&mut self, record: &EventRecord) -> Result<(), Stop> {
        let message = Message {
            id: format!("{}:{}", self.id, record.seq),
            seq: Some(record.seq),
            kind: record.event.kind.as_str().to_owned(),
            cause: DeliveryCause::Event,
            body: event_json(&self.parts.store, record).await,
        };
        let mut pause = limits::DELIVERY_RETRY;
        let mut attempt = 1;
        loop {
            resumed(&self.parts.store).await;
            let endpoint = self.endpoint.borrow_and_update().clone();
            let sent = endpoint.send(&message, self.parts.private, self.parts.clock.now()).await;
            let Some((why, may_succeed)) = sent.failure() else {
                self.unsaved.add(sent.entry(&message, attempt, None));
                self.unsaved.delivered += 1;
                self.last_error = None;
                return Ok(());
            };
            if !may_succeed || attempt > endpoint.hook.retry_limit {
                info!(webhook = self.id, "the delivery of event {} failed for good: {why}", record.seq);
                self.unsaved.add(sent.entry(&message, attempt, None));
                self.unsaved.failed += 1;
                self.last_error = Some(why);
                return Ok(());
            }
            let next = self.parts.clock.now() + pause;
            self.unsaved.add(sent.entry(&message, attempt, Some(next)));
            // Before the pause, so that it can be seen what it waits for.
            self.save().await?;
            tokio::select! {
                () = sleep(pause) => {}
                // An edit may be what it needs to succeed.
                edited = self.endpoint.changed() => edited.map_err(|_| Stop)?,
            }
            attempt += 1;
            pause = (pause * 2).min(limits::DELIVERY_RETRY_MOST).max(Duration::from_millis(1));
        }
    }

    /// Stores how far the webhook is, and what was delivered.
    async fn save(&mut self) -> Result<(), Stop> {
        let Unsaved { delivered, failed, deliveries, .. } = std::mem::take(&mut self.unsaved);
        let change = WebhookChange::Delivered {
            id: self.id.clone(),
            up_to: self.delivered_up_to,
            delivered,
            failed,
            last_error: self.last_error.clone(),
            deliveries,
        };
        self.parts.store.change_webhook(change).await.map_err(|error| {
            // Removed meanwhile, or the store is closing: some of these events are delivered again after a restart.
            warn!(webhook = self.id, "its position in the events cannot be stored: {error}");
            Stop
        })
    }
}

impl Unsaved {
    fn add(&mut self, delivery: Delivery) {
        self.since.get_or_insert_with(Instant::now);
        self.deliveries.push(delivery);
    }

    fn is_due(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= limits::DELIVERY_SAVE)
    }

    fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }
}

/// Waits while the whole server is paused: a restored copy sends nothing until it is resumed.
async fn resumed(store: &Store) {
    // An error means that the store is closing, and this task ends soon.
    let _ = store.watch_paused().wait_for(Option::is_none).await;
}

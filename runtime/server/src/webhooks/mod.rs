//! Webhooks. Outgoing: events are sent to their addresses at least once, in order and signed. Incoming: requests of
//! other services whose signature is verified (`inbound`).
//!
//! One task for each outgoing webhook (`courier`) reads stored events after its durable cursor, so that a slow address
//! delays no other and delivery continues after a restart where it stopped. Nothing is delivered to private or loopback
//! addresses unless the server was started with `--webhooks-private`.

mod courier;
pub mod inbound;
mod post;
mod send;
mod signature;
pub mod standard;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::warn;
use windlass_core::{Delivery, DeliveryCause, Refusal, Webhook};
use windlass_store::{Clock, Store, WebhookChange};

use crate::clock::SystemClock;
use crate::http::{event_json, test_event_json};
use crate::secrets::Secrets;
use crate::{Shutdown, limits};
use courier::Courier;
pub use post::Target;
use send::{Endpoint, Message};

/// Delivers, and is told when webhooks change. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    parts: Arc<Parts>,
}

struct Parts {
    store: Store,
    secrets: Secrets,
    clock: Arc<SystemClock>,
    private: bool,
    changed: Notify,
}

/// What came of one message that somebody asked to be sent.
pub struct Attempted {
    pub entry: Delivery,
    /// The beginning of the answer's body, if there was an answer.
    pub answer: Option<Vec<u8>>,
}

/// The task of a webhook, and how it learns of edits.
struct RunningCourier {
    endpoint: watch::Sender<Endpoint>,
    task: JoinHandle<()>,
}

impl Webhooks {
    /// Starts delivering, until the server stops.
    pub fn start(
        store: Store,
        secrets: Secrets,
        clock: Arc<SystemClock>,
        private: bool,
        shutdown: Shutdown,
    ) -> Webhooks {
        let parts = Parts { store, secrets, clock, private, changed: Notify::new() };
        let webhooks = Webhooks { parts: Arc::new(parts) };
        tokio::spawn(webhooks.clone().run(shutdown));
        webhooks
    }

    /// Webhooks were added, edited or removed.
    pub fn changed(&self) {
        self.parts.changed.notify_one();
    }

    /// Whether events may be sent to this address, as far as that is known before its name is resolved.
    pub fn check(&self, url: &str) -> Result<Target, String> {
        let target = Target::parse(url)?;
        target.check_literal(self.parts.private)?;
        Ok(target)
    }

    async fn run(self, shutdown: Shutdown) {
        let mut running: HashMap<String, RunningCourier> = HashMap::new();
        loop {
            match self.parts.store.webhooks().await {
                Ok(hooks) => self.keep_running(hooks, &mut running),
                Err(error) => warn!("the webhooks cannot be read: {error}"),
            }
            tokio::select! {
                () = self.parts.changed.notified() => {}
                // A task that ended because the store was closed for a moment is started again.
                () = sleep(limits::SSE_COMMENT) => {}
                () = shutdown.requested() => break,
            }
        }
        for one in running.into_values() {
            one.task.abort();
        }
    }

    /// Stops the tasks of webhooks that are gone or disabled, tells the others what was edited, and starts those that
    /// are missing.
    fn keep_running(&self, hooks: Vec<Webhook>, running: &mut HashMap<String, RunningCourier>) {
        let parts = &self.parts;
        let enabled: Vec<Webhook> = hooks.into_iter().filter(|hook| hook.enabled).collect();
        running.retain(|id, one| {
            let wanted = enabled.iter().any(|hook| hook.id == *id);
            if !wanted {
                one.task.abort();
            }
            wanted && !one.task.is_finished()
        });
        for hook in enabled {
            let id = hook.id.clone();
            let Some(endpoint) = Endpoint::new(hook, &parts.secrets) else {
                warn!(webhook = id, "its secret cannot be decrypted, so nothing is sent; rotate it");
                continue;
            };
            match running.get(&id) {
                Some(one) => drop(one.endpoint.send_if_modified(|known| {
                    let differs = known.differs(&endpoint);
                    if differs {
                        known.clone_from(&endpoint);
                    }
                    differs
                })),
                None => {
                    let delivered_up_to = endpoint.hook.delivered_up_to;
                    let (sender, receiver) = watch::channel(endpoint);
                    let courier = Courier::new(Arc::clone(parts), receiver, delivered_up_to);
                    let one = RunningCourier { endpoint: sender, task: tokio::spawn(courier.run()) };
                    running.insert(id, one);
                }
            }
        }
    }

    /// Sends a test to a webhook now, once.
    pub async fn test(&self, hook: Webhook) -> Result<Attempted, windlass_store::Error> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| windlass_store::Error::Unavailable { why: error.to_string() })?;
        let kind = "test".to_owned();
        let message = Message {
            id: format!("{}:test-{}", hook.id, signature::hex(&random)),
            seq: None,
            body: test_event_json(&kind, &hook.id, self.parts.clock.now()),
            kind,
            cause: DeliveryCause::Test,
        };
        self.attempt(hook, message).await
    }

    /// Sends an event again, now and once: one that is among the stored deliveries of the webhook.
    pub async fn redeliver(&self, hook: Webhook, id: &str) -> Result<Attempted, windlass_store::Error> {
        let store = &self.parts.store;
        let stored = store.deliveries(&hook.id).await?;
        let Some(delivery) = stored.into_iter().find(|delivery| delivery.message_id == id) else {
            return Err(Refusal::not_found("delivery", id).into());
        };
        let Some(seq) = delivery.seq else {
            let why = "this was a test, which is not an event; send another with POST /webhook-endpoints/{id}/test";
            return Err(Refusal::invalid("delivery", why).into());
        };
        let found = store.events_after(seq.saturating_sub(1), 1).await?.into_iter().find(|record| record.seq == seq);
        let Some(record) = found else {
            let why = format!("event {seq} is no longer stored, so it cannot be sent again");
            return Err(Refusal::invalid("delivery", why).into());
        };
        let body = event_json(store, &record).await;
        let (id, kind) = (delivery.message_id, delivery.kind);
        let message = Message { id, seq: Some(seq), kind, cause: DeliveryCause::Redelivery, body };
        self.attempt(hook, message).await
    }

    async fn attempt(&self, hook: Webhook, message: Message) -> Result<Attempted, windlass_store::Error> {
        let parts = &self.parts;
        let id = hook.id.clone();
        let Some(endpoint) = Endpoint::new(hook, &parts.secrets) else {
            return Err(Refusal::invalid("secret", "cannot be decrypted; rotate it").into());
        };
        let sent = endpoint.send(&message, parts.private, parts.clock.now()).await;
        let entry = sent.entry(&message, 1, None);
        let change = WebhookChange::Tried { id, delivery: entry.clone() };
        parts.store.change_webhook(change).await?;
        Ok(Attempted { entry, answer: sent.outcome.ok().map(|answer| answer.body) })
    }
}

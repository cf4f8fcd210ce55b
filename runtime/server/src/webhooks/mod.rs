//! Outgoing webhooks: events are sent to their addresses at least once, in order and signed.
//!
//! One task for each webhook reads stored events after its durable cursor, so that a slow address delays no other and delivery continues
//! after a restart where it stopped. It never delivers to private or loopback addresses unless the server was started with `--webhooks-private`.

mod post;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use windlass_core::Webhook;
use windlass_store::{EventRecord, Store, WebhookChange};

use crate::http::event_json;
use crate::secrets::Secrets;
use crate::{Shutdown, limits};
pub use post::{DeliveryError, Target};

/// Notified when a webhook is added or removed. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    changed: Arc<Notify>,
    private: bool,
}

impl Webhooks {
    /// Starts delivering, until the server stops.
    pub fn start(store: Store, secrets: Secrets, private: bool, shutdown: Shutdown) -> Webhooks {
        let webhooks = Webhooks { changed: Arc::new(Notify::new()), private };
        tokio::spawn(webhooks.clone().run(store, secrets, shutdown));
        webhooks
    }

    /// Webhooks were added or removed.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// Whether events may be sent to this address, as far as that is known before its name is resolved.
    pub fn check(&self, url: &str) -> Result<Target, String> {
        let target = Target::parse(url)?;
        target.check_literal(self.private)?;
        Ok(target)
    }

    async fn run(self, store: Store, secrets: Secrets, shutdown: Shutdown) {
        let mut tasks: HashMap<String, JoinHandle<()>> = HashMap::new();
        loop {
            match store.webhooks().await {
                Ok(hooks) => {
                    tasks.retain(|id, task| {
                        let wanted = hooks.iter().any(|hook| hook.id == *id);
                        if !wanted {
                            task.abort();
                        }
                        wanted && !task.is_finished()
                    });
                    for hook in hooks.into_iter().filter(|hook| hook.enabled) {
                        let (store, secrets, private) = (store.clone(), secrets.clone(), self.private);
                        let id = hook.id.clone();
                        tasks.entry(id).or_insert_with(|| tokio::spawn(deliver(store, secrets, hook, private)));
                    }
                }
                Err(error) => warn!("the webhooks cannot be read: {error}"),
            }
            tokio::select! {
                () = self.changed.notified() => {}
                // A task that ended because the store was closed for a moment is started again.
                () = sleep(limits::SSE_COMMENT) => {}
                () = shutdown.requested() => break,
            }
        }
        for task in tasks.into_values() {
            task.abort();
        }
    }
}

/// Delivers the stored events of one webhook, page after page, then waits for more.
async fn deliver(store: Store, secrets: Secrets, mut hook: Webhook, private: bool) {
    let secret = secrets.of_webhook(&hook);
    if secret.is_none() && hook.encrypted_secret.is_some() {
        warn!(
            webhook = hook.id,
            "its secret cannot be decrypted, so nothing is sent; remove the webhook and add it again"
        );
        return;
    }
    let mut news = store.watch();
    loop {
        let page = match store.events_after(hook.told, limits::DELIVERIES).await {
            Ok(page) => page,
            Err(error) => {
                warn!(webhook = hook.id, "its events cannot be read: {error}");
                sleep(limits::STORE_RETRY).await;
                continue;
            }
        };
        let Some(last) = page.last().map(|record| record.seq) else {
            // A live event may reach the disk a little later, so check again soon, and whenever there is an event.
            match timeout(limits::DELIVERY_POLL, news.recv()).await {
                Ok(Err(RecvError::Closed)) => return,
                Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => continue,
            }
        };
        let mut tally = (0, 0, hook.last_error.take());
        for record in page.iter().filter(|record| hook.wants(&record.event.kind)) {
            match deliver_with_retries(&store, &hook, secret.as_deref(), record, private).await {
                Ok(()) => tally = (tally.0 + 1, tally.1, None),
                Err(why) => {
                    info!(webhook = hook.id, "the delivery of event {} failed for good: {why}", record.seq);
                    tally = (tally.0, tally.1 + 1, Some(why));
                }
            }
        }
        hook.told = last;
        hook.last_error.clone_from(&tally.2);
        // A page without events for this webhook is not worth a write, unless it is far behind.
        if tally.0 + tally.1 == 0 && page.len() < limits::DELIVERIES {
            continue;
        }
        let change = WebhookChange::Told {
            id: hook.id.clone(),
            up_to: last,
            delivered: tally.0,
            failed: tally.1,
            last_error: tally.2,
        };
        if let Err(error) = store.change_webhook(change).await {
            // Removed meanwhile, or the store is closing: some of these events are delivered again after a restart.
            warn!(webhook = hook.id, "its position in the events cannot be stored: {error}");
            return;
        }
    }
}

/// Delivers one event, with as many retries as the webhook allows and growing pauses between them.
async fn deliver_with_retries(
    store: &Store,
    hook: &Webhook,
    secret: Option<&str>,
    record: &EventRecord,
    private: bool,
) -> Result<(), String> {
    let body = event_json(store, record).await;
    let mut pause = limits::DELIVERY_RETRY;
    let mut tries = 0;
    loop {
        resumed(store).await;
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("user-agent", concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned()),
            ("x-windlass-event", record.event.kind.as_str().to_owned()),
            ("x-windlass-delivery", format!("{}:{}", hook.id, record.seq)),
            ("x-windlass-webhook", hook.id.clone()),
        ];
        let signature = secret.map(|secret| ("x-windlass-signature", sign(secret, body.as_bytes())));
        let headers = headers.into_iter().chain(signature);
        let response = timeout(limits::DELIVERY, post::post(&hook.url, private, headers, body.clone())).await;
        let why = match response {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(DeliveryError::Never(why))) => return Err(why),
            Ok(Err(DeliveryError::Perhaps(why))) => why,
            Err(_) => format!("no answer within {} s", limits::DELIVERY.as_secs()),
        };
        if tries >= hook.retry_limit {
            return Err(why);
        }
        tries += 1;
        sleep(pause).await;
        pause = (pause * 2).min(limits::DELIVERY_RETRY_MOST).max(Duration::from_millis(1));
    }
}

/// Waits while the whole server is paused: a restored copy sends nothing until it is resumed.
async fn resumed(store: &Store) {
    // An error means that the store is closing, and this task ends soon.
    let _ = store.watch_paused().wait_for(Option::is_none).await;
}

/// `sha256=` and the HMAC of the body under the secret, in hexadecimal.
fn sign(secret: &str, body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new(); // HMAC accepts a key of any length.
    };
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_that_others_compute() {
        // The second test case of RFC 4231.
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign("Jefe", b"what do ya want for nothing?"), expected);
    }
}

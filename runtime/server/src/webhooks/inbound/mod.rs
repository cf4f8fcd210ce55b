//! Incoming webhooks that other services sign: the queues that ask for it, in memory with their keys, and the
//! verification of a request. Which header says what is in `claim`.
//!
//! A request is verified in two steps: what its head claims before the body is read, then the signature over the bytes
//! of the body.

mod claim;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tracing::error;
use windlass_core::{InboundHook, QueueName, SignatureScheme, Time, Unique, UniqueScope, Until};
use windlass_store::{InboundChange, Store};

use crate::limits;
use crate::secrets::{Secrets, Signer};
use crate::webhooks::signature::{Key, hex};
use crate::webhooks::standard;
pub use claim::{Claim, Refused};

/// The queues whose incoming webhooks must be signed. Cheap to clone.
#[derive(Clone, Default)]
pub struct InboundHooks {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    verifiers: RwLock<HashMap<QueueName, Arc<Verifier>>>,
    /// One change at a time, so that memory ends as the store does.
    changing: Mutex<()>,
}

/// What the requests for one queue are verified with.
#[derive(Debug)]
pub struct Verifier {
    hook: InboundHook,
    /// Newest first, each with the time until which it is valid.
    keys: Vec<(Key, Option<Time>)>,
}

impl InboundHooks {
    pub async fn load(store: &Store, secrets: &Secrets) -> Result<InboundHooks, windlass_store::Error> {
        let hooks = InboundHooks::default();
        hooks.read(store, secrets).await?;
        Ok(hooks)
    }

    /// Changes what is stored, and what is in memory after it: `caller` is the store of whoever asks, `store` has the
    /// hooks of all.
    pub async fn change(
        &self,
        caller: &Store,
        store: &Store,
        secrets: &Secrets,
        change: InboundChange,
    ) -> Result<(), windlass_store::Error> {
        let _alone = self.inner.changing.lock().await;
        caller.change_inbound(change).await?;
        self.read(store, secrets).await
    }

    /// Asks for signatures on the requests for one queue, and accepts none.
    #[cfg(test)]
    pub fn asking_for(queue: &str) -> InboundHooks {
        let hook = tests::verifier_of(queue);
        let verifiers = RwLock::new(HashMap::from([(hook.queue().clone(), Arc::new(hook))]));
        InboundHooks { inner: Arc::new(Inner { verifiers, changing: Mutex::default() }) }
    }

    /// What the requests for a queue are verified with; none if they need not be signed.
    pub fn of(&self, queue: &QueueName) -> Option<Arc<Verifier>> {
        self.inner.verifiers.read().unwrap_or_else(PoisonError::into_inner).get(queue).cloned()
    }

    async fn read(&self, store: &Store, secrets: &Secrets) -> Result<(), windlass_store::Error> {
        let hooks = store.inbound_hooks().await?.into_iter();
        let verifiers = hooks.map(|hook| (hook.queue.clone(), Arc::new(Verifier::new(hook, secrets)))).collect();
        *self.inner.verifiers.write().unwrap_or_else(PoisonError::into_inner) = verifiers;
        Ok(())
    }
}

/// The key of a sender's secret, or why it is none. The reason does not repeat the secret.
pub fn key_of(scheme: SignatureScheme, secret: &str) -> Result<Key, String> {
    let (least, most) = (limits::SENDER_SECRET_LEAST, limits::SENDER_SECRET);
    match scheme {
        SignatureScheme::Standard => standard::key_of_sender(secret),
        // These use the text as it is.
        SignatureScheme::GitHub | SignatureScheme::Stripe if (least..=most).contains(&secret.len()) => {
            Ok(Key::new(secret.as_bytes().to_vec()))
        }
        SignatureScheme::GitHub | SignatureScheme::Stripe => Err(format!("{least} to {most} bytes")),
    }
}

impl Verifier {
    /// With a secret that cannot be decrypted, no request is accepted: it must not become a queue that needs no
    /// signature.
    fn new(hook: InboundHook, secrets: &Secrets) -> Verifier {
        let signer = Signer::Sender(hook.queue.clone());
        let stored = secrets.signing(&signer, &hook.secrets).unwrap_or_default();
        let keys = stored.into_iter().map(|secret| Some((key_of(hook.scheme, &secret.text).ok()?, secret.until)));
        let keys: Vec<_> = keys.flatten().collect();
        if keys.is_empty() {
            error!("the secret of {signer} cannot be used, so its requests are refused; set it again");
        }
        Verifier { hook, keys }
    }

    pub fn queue(&self) -> &QueueName {
        &self.hook.queue
    }

    /// Whether the sender signed these bytes as its head claims.
    pub fn verify(&self, claim: &Claim, body: &[u8], now: Time) -> Result<(), Refused> {
        let mut valid = self.keys.iter().filter(|(_, until)| until.is_none_or(|until| now < until));
        let signed = valid.any(|(key, _)| key.has_signed(&[&claim.before_body, body], &claim.signatures));
        if signed { Ok(()) } else { Err(Refused::Wrong) }
    }

    /// Under which key the delivery is recognised when it comes again. Only what was signed counts: a header that is
    /// not, such as `X-GitHub-Delivery`, can be changed by anybody who has a copy of the request.
    pub fn unique(&self, claim: &Claim, body: &[u8]) -> Unique {
        let id = match self.hook.scheme {
            SignatureScheme::Standard => claim.id.clone(),
            SignatureScheme::Stripe => event_id(body),
            SignatureScheme::GitHub => None,
        };
        let key = id.map_or_else(|| digest(claim, body), |id| format!("webhook:{id}"));
        Unique { key, within: UniqueScope::Queue, until: Until::Period, period: limits::IDEMPOTENCY }
    }
}

/// The id of a Stripe event, which is part of its signed body.
fn event_id(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Event {
        id: String,
    }
    let event: Event = serde_json::from_slice(body).ok()?;
    (1..=limits::IDEMPOTENCY_KEY).contains(&event.id.len()).then_some(event.id)
}

fn digest(claim: &Claim, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(&claim.before_body).chain_update(body).finalize();
    format!("webhook:sha256:{}", hex(&digest))
}

#[cfg(test)]
mod tests;

//! What is known of the provider: its addresses and its keys. They are read at the start, each hour, and when a token
//! is signed with a key that is not among them, but never more often than every few seconds, whoever asks for it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use openidconnect::IssuerUrl;
use openidconnect::core::CoreProviderMetadata;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::fetch::Fetch;
use crate::limits;

pub struct Provider {
    issuer: IssuerUrl,
    fetch: Fetch,
    known: RwLock<Option<Arc<CoreProviderMetadata>>>,
    /// Held while the provider is asked, so that this happens once however many wait for it.
    last: Mutex<Option<Asked>>,
}

/// The last time that the provider was asked.
struct Asked {
    ended: Instant,
    failed: Option<String>,
}

/// The provider has not answered, or not as one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the OpenID Connect provider {issuer} cannot be used: {why}")]
pub struct Unreachable {
    issuer: String,
    why: String,
}

impl Provider {
    pub fn new(issuer: IssuerUrl, fetch: Fetch) -> Provider {
        Provider { issuer, fetch, known: RwLock::default(), last: Mutex::default() }
    }

    /// What sends requests to it.
    pub fn fetch(&self) -> &Fetch {
        &self.fetch
    }

    /// What it said last.
    pub fn known(&self) -> Option<Arc<CoreProviderMetadata>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, asking now if it has said nothing yet.
    pub async fn known_or_asked(&self) -> Result<Arc<CoreProviderMetadata>, Unreachable> {
        match self.known() {
            Some(known) => Ok(known),
            None => self.refresh().await,
        }
    }

    /// Whether [`Provider::refresh`] would bring anything new.
    pub fn may_refresh(&self) -> bool {
        // If it is locked, somebody is asking.
        self.last.try_lock().map_or(true, |last| last.as_ref().is_none_or(Asked::is_long_ago))
    }

    /// Asks the provider, unless it was asked just before: then what came of that is the answer.
    pub async fn refresh(&self) -> Result<Arc<CoreProviderMetadata>, Unreachable> {
        let mut last = self.last.lock().await;
        let unreachable = |why: String| Unreachable { issuer: self.issuer.as_str().to_owned(), why };
        if let Some(asked) = last.as_ref().filter(|asked| !asked.is_long_ago()) {
            let failed = || unreachable(asked.failed.clone().unwrap_or_default());
            return self.known().ok_or_else(failed);
        }
        let found = CoreProviderMetadata::discover_async(self.issuer.clone(), &self.fetch).await;
        let found = found.map(Arc::new).map_err(|error| with_causes(&error));
        *last = Some(Asked { ended: Instant::now(), failed: found.as_ref().err().cloned() });
        let found = found.map_err(unreachable)?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
        Ok(found)
    }

    /// The same, but not what was said just before: waits until the provider may be asked again.
    pub async fn refresh_anew(&self) -> Result<Arc<CoreProviderMetadata>, Unreachable> {
        let last = self.last.lock().await.as_ref().map(|asked| asked.ended);
        let wait = last.map(|ended| limits::OIDC_REFRESH_LEAST.saturating_sub(ended.elapsed()));
        sleep(wait.unwrap_or_default()).await;
        self.refresh().await
    }
}

impl Asked {
    fn is_long_ago(&self) -> bool {
        self.ended.elapsed() >= limits::OIDC_REFRESH_LEAST
    }
}

/// An error with what it was caused by.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

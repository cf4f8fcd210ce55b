//! People and programs whom an OpenID Connect provider vouches for: people sign in with a browser by the authorization
//! code flow, programs send a token that the provider has signed. Groups of theirs give them a role.
//!
//! Reading order: `provider` (what is known of the provider, and its keys), `claims` (whether a token is good, and what
//! its bearer is), `sign_in` (the code flow), `attempt` (what a browser keeps while its user is at the provider),
//! `fetch` (requests to the provider). Whoever was recognised gets a session or is admitted by `http::access`, which
//! alone decides what they may do.

mod attempt;
mod claims;
mod fetch;
mod provider;
mod sign_in;

use std::sync::Arc;

use openidconnect::core::CoreJsonWebKeySet;
use tokio::time::sleep;
use tracing::{info, warn};
use windlass_core::Time;
use windlass_core::access::Session;

use crate::config::OidcConfig;
use crate::{Shutdown, limits};
use attempt::AttemptCipher;
use claims::Verifier;
pub use claims::{NotVouched, Vouched};
pub use fetch::AuthorityError;
use fetch::Fetch;
use provider::Provider;
pub use sign_in::{Callback, Failed};

/// Cheap to clone.
#[derive(Clone)]
pub struct Oidc(Arc<Inner>);

struct Inner {
    config: OidcConfig,
    provider: Provider,
    cipher: AttemptCipher,
    sign_in: sign_in::Limits,
}

#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("the system has no randomness for signing people in")]
    Randomness,
}

impl Oidc {
    /// Asks the provider nothing yet.
    pub fn new(config: OidcConfig) -> Result<Oidc, OidcError> {
        let fetch = Fetch::new(&config.issuer, config.ca.as_deref())?;
        let provider = Provider::new(config.issuer.clone(), fetch);
        let cipher = AttemptCipher::new().ok_or(OidcError::Randomness)?;
        Ok(Oidc(Arc::new(Inner { config, provider, cipher, sign_in: sign_in::Limits::new() })))
    }

    /// Asks the provider who it is until it answers, and then for its keys now and then, until the server stops.
    pub async fn follow(self, shutdown: Shutdown) {
        let (mut pause, mut said) = (limits::OIDC_RETRY, None);
        loop {
            let wait = match self.0.provider.refresh().await {
                Ok(_) => {
                    if said.take() != Some(true) {
                        info!("people and programs are recognised by {}", self.issuer());
                    }
                    said = Some(true);
                    pause = limits::OIDC_RETRY;
                    limits::OIDC_REFRESH
                }
                Err(why) => {
                    if said.replace(false) != Some(false) {
                        warn!("{why}; it is asked again, and meanwhile keys work as always");
                    }
                    let wait = pause;
                    pause = (pause * 2).min(limits::OIDC_RETRY_MOST);
                    wait
                }
            };
            tokio::select! {
                () = shutdown.requested() => return,
                () = sleep(wait) => {}
            }
        }
    }

    pub fn issuer(&self) -> &str {
        self.0.config.issuer.as_str()
    }

    /// What people call the provider.
    pub fn name(&self) -> &str {
        &self.0.config.name
    }

    /// Whether people can sign in, and not only programs.
    pub fn signs_people_in(&self) -> bool {
        self.0.config.client.is_some()
    }

    /// Whether a text that was sent in place of a key is a token of a program: three parts, of which the first begins
    /// as all do.
    pub fn is_token(&self, sent: &str) -> bool {
        self.0.config.audience.is_some()
            && sent.starts_with("eyJ")
            && sent.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Who the bearer of a token is. Asks nobody: the keys are those that were read last.
    pub fn check_token(&self, token: &str, now: Time) -> Result<Vouched, NotVouched> {
        let config = &self.0.config;
        let audience = config.audience.as_deref().unwrap_or_default();
        let metadata = self.0.provider.known().ok_or_else(|| NotVouched::Unavailable(self.not_known()))?;
        self.verifier(audience, metadata.jwks(), now).token(token)
    }

    /// Whether a token is signed with a key that the provider may have made since its keys were read last, and they may
    /// be read again.
    pub fn may_have_new_key(&self, token: &str, now: Time) -> bool {
        matches!(self.check_token(token, now), Err(NotVouched::UnknownSigner)) && self.0.provider.may_refresh()
    }

    /// Reads the provider's keys again.
    pub async fn refresh(&self) {
        if let Err(why) = self.0.provider.refresh().await {
            warn!("{why}; its keys from before stay in use");
        }
    }

    /// Whether the settings still give a session what it was begun with: another issuer, or a group that has lost its
    /// role, ends it.
    pub fn still_gives(&self, session: &Session, issuer: &str) -> bool {
        let gives = |session: &Session| {
            let mut rows = self.0.config.roles.iter();
            rows.any(|row| row.role == session.role && row.namespaces == session.namespaces)
        };
        self.signs_people_in() && issuer == self.issuer() && gives(session)
    }

    fn verifier<'a>(&'a self, audience: &'a str, keys: &'a CoreJsonWebKeySet, now: Time) -> Verifier<'a> {
        let config = &self.0.config;
        Verifier { issuer: &config.issuer, audience, keys, claim: &config.groups_claim, roles: &config.roles, now }
    }

    fn not_known(&self) -> String {
        format!("{} has not answered since the server was started; try again in a moment, or send a key", self.issuer())
    }
}

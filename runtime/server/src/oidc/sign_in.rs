//! Signing people in: the authorization code flow with PKCE, state and nonce. The browser is sent to the provider, and
//! comes back with a code, which this server exchanges for a token that says who it is.

use std::sync::Arc;

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
    CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreResponseType,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AccessToken, AuthType, AuthenticationFlow, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken,
    EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenFields, Nonce, OAuth2TokenResponse,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, StandardErrorResponse,
    StandardTokenResponse, SubjectIdentifier, TokenResponse, UserInfoClaims,
};
use serde_json::Value;
use tokio::sync::Semaphore;
use tracing::{info, warn};
use windlass_core::Time;

use super::Oidc;
use super::attempt::Attempt;
use super::claims::{Further, NotVouched, Token, Vouched, mentions};
use super::provider::{Unreachable, with_causes};
use crate::limits;

/// What requests of strangers may make the server do at a time.
pub struct Limits {
    exchanges: Semaphore,
}

impl Limits {
    pub fn new() -> Limits {
        Limits { exchanges: Semaphore::new(limits::OIDC_EXCHANGES) }
    }
}

/// Somebody is about to sign in.
pub struct Begun {
    /// The provider's page.
    pub address: String,
    /// What the browser keeps meanwhile.
    pub cookie: String,
}

/// What the provider sent the browser back with.
#[derive(Debug, Default)]
pub struct Callback {
    pub state: Option<String>,
    pub code: Option<String>,
    pub error: Option<String>,
    pub iss: Option<String>,
}

/// Why somebody could not sign in.
#[derive(Debug)]
pub enum Failed {
    /// It was begun too long ago, in another browser, or is over already.
    NotBegun,
    /// The provider has asked, and the person or a rule there said no.
    Declined,
    /// The provider's answer is not one that proves who somebody is; the log says why.
    Refused,
    Unreachable,
    /// The person is known, and none of their groups has a role here.
    NoRole {
        actor: String,
    },
    /// The system has no randomness.
    Internal,
}

type OidcClient = Client<
    Further,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

type Tokens = StandardTokenResponse<
    IdTokenFields<
        Further,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

impl Oidc {
    /// Begins to sign somebody in. The provider sends the browser to `redirect`, and we send it to `to`.
    pub async fn begin(&self, redirect: String, to: String, now: Time) -> Result<Begun, Failed> {
        let metadata = self.metadata().await?;
        let Some(client) = self.client(&metadata, &redirect) else { return Err(Failed::Refused) };
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let request = client.authorize_url(
            AuthenticationFlow::<CoreResponseType>::AuthorizationCode,
            CsrfToken::new_random,
            Nonce::new_random,
        );
        let request = self.scopes(&metadata).into_iter().fold(request, |request, scope| request.add_scope(scope));
        let (address, state, nonce) = request.set_pkce_challenge(challenge).url();
        let attempt = Attempt {
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
            redirect,
            to,
            until: (now + limits::OIDC_ATTEMPT).millis(),
        };
        let cookie = self.0.cipher.encrypt(&attempt).ok_or(Failed::Internal)?;
        Ok(Begun { address: address.into(), cookie })
    }

    /// Who has come back from the provider, and where they wanted to go.
    pub async fn finish(&self, cookie: &str, callback: Callback, now: Time) -> Result<(Vouched, String), Failed> {
        let state = callback.state.unwrap_or_default();
        let attempt = self.0.cipher.decrypt(cookie, &state, now).ok_or(Failed::NotBegun)?;
        if callback.iss.is_some_and(|iss| iss != self.issuer()) {
            warn!("somebody came back from another provider than {}", self.issuer());
            return Err(Failed::Refused);
        }
        if let Some(error) = callback.error {
            info!("{} did not sign somebody in: {error:?}", self.issuer());
            return Err(Failed::Declined);
        }
        let code = callback.code.ok_or(Failed::NotBegun)?;
        let _turn = self.0.sign_in.exchanges.acquire().await.map_err(|_| Failed::Unreachable)?;
        let metadata = self.metadata().await?;
        let client = self.client(&metadata, &attempt.redirect).ok_or(Failed::Refused)?;
        let tokens = self.exchange(&client, code, attempt.verifier).await?;
        let Some(token) = tokens.id_token() else {
            warn!("{} has sent no id token; it must be a provider of OpenID Connect", self.issuer());
            return Err(Failed::Refused);
        };
        let claims = self.claims(token, &Nonce::new(attempt.nonce), now).await?;
        let claims = self.with_groups(&client, tokens.access_token(), claims).await?;
        let vouched = self.verifier(client.client_id(), metadata.jwks(), now).bearer(&claims);
        Ok((vouched.map_err(|why| self.failed(why))?, attempt.to))
    }

    async fn metadata(&self) -> Result<Arc<CoreProviderMetadata>, Failed> {
        self.0.provider.known_or_asked().await.map_err(|why| self.unreachable(&why))
    }

    fn unreachable(&self, why: &Unreachable) -> Failed {
        warn!("nobody can sign in with {}: {why}", self.name());
        Failed::Unreachable
    }

    fn client(&self, metadata: &CoreProviderMetadata, redirect: &str) -> Option<OidcClient> {
        let settings = self.0.config.client.as_ref()?;
        let secret = settings.secret.as_ref().map(|file| ClientSecret::new(file.key.clone()));
        let redirect = RedirectUrl::new(redirect.to_owned()).ok()?;
        let client = OidcClient::from_provider_metadata(metadata.clone(), ClientId::new(settings.id.clone()), secret);
        let ways = metadata.token_endpoint_auth_methods_supported();
        let only_in_body = ways.is_some_and(|ways| {
            ways.contains(&CoreClientAuthMethod::ClientSecretPost)
                && !ways.contains(&CoreClientAuthMethod::ClientSecretBasic)
        });
        let client = if only_in_body { client.set_auth_type(AuthType::RequestBody) } else { client };
        Some(client.set_redirect_uri(redirect))
    }

    /// What to ask the provider for. `openid` is always among it.
    fn scopes(&self, metadata: &CoreProviderMetadata) -> Vec<Scope> {
        if !self.0.config.scopes.is_empty() {
            return self.0.config.scopes.iter().cloned().map(Scope::new).collect();
        }
        let offered =
            |name: &str| metadata.scopes_supported().is_some_and(|all| all.iter().any(|one| one.as_str() == name));
        let groups = offered("groups").then_some("groups");
        ["profile", "email"].into_iter().chain(groups).map(|name| Scope::new(name.to_owned())).collect()
    }

    async fn exchange(&self, client: &OidcClient, code: String, verifier: String) -> Result<Tokens, Failed> {
        let request = client.exchange_code(AuthorizationCode::new(code)).map_err(|error| {
            warn!("{} cannot sign anybody in: {error}", self.issuer());
            Failed::Refused
        })?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier));
        request.request_async(self.0.provider.fetch()).await.map_err(|error| {
            let unreachable = matches!(error, RequestTokenError::Request(_));
            warn!("{} did not accept what somebody came back with: {}", self.issuer(), with_causes(&error));
            if unreachable { Failed::Unreachable } else { Failed::Refused }
        })
    }

    /// The claims of the id token. If it is signed with a new key, the provider's keys are read again.
    async fn claims(&self, token: &Token, nonce: &Nonce, now: Time) -> Result<Value, Failed> {
        let audience = self.0.config.client.as_ref().map(|client| client.id.as_str()).unwrap_or_default();
        let metadata = self.metadata().await?;
        let claims = match self.verifier(audience, metadata.jwks(), now).claims(token, nonce, false) {
            Err(NotVouched::UnknownSigner) => {
                let metadata = self.0.provider.refresh_anew().await.map_err(|why| self.unreachable(&why))?;
                self.verifier(audience, metadata.jwks(), now).claims(token, nonce, false)
            }
            claims => claims,
        };
        claims.map_err(|why| self.failed(why))
    }

    /// The same claims with the groups, if the provider has those in the answer of its userinfo endpoint.
    async fn with_groups(&self, client: &OidcClient, access: &AccessToken, mut claims: Value) -> Result<Value, Failed> {
        let name = self.0.config.groups_claim.as_str();
        let subject = claims["sub"].as_str().unwrap_or_default().to_owned();
        if mentions(&claims, name) {
            return Ok(claims);
        }
        let Ok(request) = client.user_info(access.clone(), Some(SubjectIdentifier::new(subject))) else {
            return Ok(claims);
        };
        let found = request.request_async::<Further, _, CoreGenderClaim>(self.0.provider.fetch()).await;
        let found: UserInfoClaims<Further, CoreGenderClaim> = found.map_err(|error| {
            warn!("{} did not say who somebody is: {}", self.issuer(), with_causes(&error));
            Failed::Refused
        })?;
        if let (Value::Object(claims), Ok(Value::Object(found))) = (&mut claims, serde_json::to_value(&found)) {
            // What is signed comes first.
            for (name, value) in found {
                claims.entry(name).or_insert(value);
            }
        }
        Ok(claims)
    }

    fn failed(&self, why: NotVouched) -> Failed {
        match why {
            NotVouched::NoRole { actor, groups, .. } => {
                info!(
                    "{actor:?} could not sign in: none of the groups {groups:?} in `{}` has a role; --oidc-role gives one",
                    self.0.config.groups_claim
                );
                Failed::NoRole { actor }
            }
            NotVouched::UnknownSigner => {
                warn!("the id token is signed with a key that {} does not publish", self.issuer());
                Failed::Refused
            }
            NotVouched::Unavailable(why) | NotVouched::NotNow(why) | NotVouched::Wrong(why) => {
                warn!("the id token of {} is not accepted: {why}", self.issuer());
                Failed::Refused
            }
        }
    }
}

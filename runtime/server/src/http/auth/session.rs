//! `/auth/session` and `/auth/status`: a browser signs in, asks who it is, and signs out.

use axum::http::header::{self, HeaderMap};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::access::{KeyNamespaces, Permission};
use windlass_store::{Caller, Clock};

use crate::http::Api;
use crate::http::jobs::{Status, status as done};
use crate::http::transport::auth::Https;
use crate::http::transport::credentials::SESSION;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Body;
use crate::http::transport::same_origin::check_console;
use crate::http::wire::Rfc3339;

/// Who the caller is, as the server knows them
///
/// Answered without a key too, so that a page can ask whether it is signed in.
#[utoipa::path(get, path = "/auth/status", tag = "access", responses((status = 200, body = AuthStatus)))]
pub async fn status(api: Api) -> Json<AuthStatus> {
    Json(AuthStatus::of(&api, &api.caller))
}

/// Sign in with a key: begin a session
///
/// For pages of this server: the request needs the header `X-Windlass-Console: 1`. The session is a cookie, which only
/// the browser reads; the key is stored nowhere.
#[utoipa::path(post, path = "/auth/session", tag = "access", request_body = SessionBody, responses((status = 200, body = AuthStatus)))]
pub async fn sign_in(
    api: Api,
    Extension(Https(is_https)): Extension<Https>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let SessionBody { key } = body.json()?;
    let Some(key) = key else { return Err(Error::field("key", "is missing; send the key to sign in with")) };
    check_console(&headers, is_https)?;
    if api.authority.is_open() {
        return Err(Error::invalid(
            "this server runs with --insecure and needs no key, so there is nothing to sign in to",
        ));
    }
    let begun = api.authority.sign_in(&key, api.caller.actor.address).await?;
    let seconds = begun.expires_at.since(api.clock.now()).as_secs();
    let cookie = session_cookie(&begun.cookie, seconds, is_https);
    Ok((AppendHeaders([(header::SET_COOKIE, cookie)]), Json(AuthStatus::of(&api, &begun.caller))))
}

/// Sign out: end the session of the browser
#[utoipa::path(delete, path = "/auth/session", tag = "access", responses((status = 200, body = Status)))]
pub async fn sign_out(api: Api, Extension(Https(is_https)): Extension<Https>) -> Result<impl IntoResponse> {
    api.authority.sign_out(&api.caller).await?;
    Ok((AppendHeaders([(header::SET_COOKIE, session_cookie("", 0, is_https))]), done("signed_out")))
}

/// Only the browser reads it, sends it only with requests of this server's own pages, and over https only if that is in
/// use.
pub fn session_cookie(value: &str, seconds: u64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("{SESSION}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// What somebody signs in with.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct SessionBody {
    #[schema(required = true, value_type = String)]
    key: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AuthStatus {
    signed_in: bool,
    /// How one can sign in: `key`, and `oidc` if the server is told of a provider.
    methods: Vec<&'static str>,
    /// What people call the OpenID Connect provider, if they can sign in with it.
    provider: Option<String>,
    /// The id of a key, `oidc:` and the subject of a person, `start-key` for the key that the server was started with,
    /// or `insecure` on a server that needs no key. Null for whoever is not signed in.
    actor: Option<String>,
    /// What the key or the person is called.
    name: Option<String>,
    role: Option<String>,
    /// The namespace of this request.
    namespace: String,
    /// Whether the caller may choose another one, with `X-Windlass-Namespace`.
    chooses_namespace: bool,
    /// The queues that the caller may use, by patterns; empty: all of the namespace.
    queues: Vec<String>,
    /// What the caller may do.
    permissions: Vec<&'static str>,
    /// Whether the request came with the session of a browser, which can be ended.
    session: bool,
    /// Until when the session, or the key, is valid.
    expires_at: Option<Rfc3339>,
}

impl AuthStatus {
    pub fn of(api: &Api, caller: &Caller) -> AuthStatus {
        let known = api.authority.signed_in(caller);
        let everywhere = known.as_ref().is_some_and(|known| known.namespaces == KeyNamespaces::All);
        let may = |permission: &Permission| match permission {
            Permission::Public | Permission::Anybody | Permission::SignedIn => false,
            other => caller.actor.role.is_some_and(|role| role.may(*other, everywhere)),
        };
        let oidc = api.authority.oidc().filter(|oidc| oidc.signs_people_in());
        AuthStatus {
            signed_in: known.is_some(),
            methods: if oidc.is_some() { vec!["key", "oidc"] } else { vec!["key"] },
            provider: oidc.map(|oidc| oidc.name().to_owned()),
            actor: known.as_ref().map(|_| caller.actor.id.clone()),
            role: caller.actor.role.map(|role| role.to_string()),
            namespace: caller.allowed.namespace.to_string(),
            chooses_namespace: everywhere,
            queues: caller.allowed.patterns.iter().map(ToString::to_string).collect(),
            permissions: Permission::ALL.iter().filter(|one| may(one)).map(|one| one.as_str()).collect(),
            session: caller.session.is_some(),
            expires_at: known.as_ref().and_then(|known| known.expires_at).map(Rfc3339),
            name: known.map(|known| known.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_only_for_the_browser_and_this_server_and_for_https_if_that_is_used() {
        let plain = session_cookie("ws_1", 60, false);
        assert_eq!(plain, "windlass_session=ws_1; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
        assert_eq!(session_cookie("ws_1", 60, true), format!("{plain}; Secure"));
    }
}

//! `/auth/oidc/login` and `/auth/oidc/callback`: a browser is sent to the OpenID Connect provider, and comes back
//! signed in.
//!
//! Both answer with a redirection, because a person is looking. What went wrong is told to the console as one word in
//! the address, never as a text: a link could bring any.

use axum::Extension;
use axum::http::header::{self, HeaderMap};
use axum::http::{StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use percent_encoding::percent_decode_str;
use windlass_store::Clock;

use crate::http::Api;
use crate::http::auth::session::session_cookie;
use crate::http::console::ADDRESS;
use crate::http::transport::auth::Https;
use crate::http::transport::credentials::cookie;
use crate::http::transport::error::{Error, Result};
use crate::limits;
use crate::oidc::{Callback, Failed, Oidc};

/// What the browser keeps while its user is at the provider.
const ATTEMPT: &str = "windlass_sign_in";
const PLACE: &str = "/api/v1/auth/oidc";

/// Sign in with the OpenID Connect provider: go to its page
///
/// For browsers. The provider sends the browser back to `/auth/oidc/callback`, and from there it returns to where it
/// came from.
#[utoipa::path(
    get,
    path = "/auth/oidc/login",
    tag = "access",
    params(("to" = Option<String>, Query, description = "The path under `/ui/` to return to; others are ignored.")),
    responses(
        (status = 303, description = "To the provider's page, or back to the console if it cannot be reached."),
        (status = 404, description = "The server has no provider that people can sign in with.")
    )
)]
pub async fn login(
    api: Api,
    Extension(Https(is_https)): Extension<Https>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response> {
    let oidc = provider(&api)?;
    let to = parameter(&uri, "to").filter(|to| is_of_console(to)).unwrap_or_else(|| ADDRESS.to_owned());
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let scheme = if is_https { "https" } else { "http" };
    let redirect = format!("{scheme}://{host}{PLACE}/callback");
    Ok(match oidc.begin(redirect, to, api.clock.now()).await {
        Ok(begun) => {
            let seconds = limits::OIDC_ATTEMPT.as_secs();
            go(&begun.address, [attempt_cookie(&begun.cookie, seconds, is_https)])
        }
        Err(failed) => go_back(&failed, is_https),
    })
}

/// Come back from the OpenID Connect provider, signed in
///
/// For browsers, which the provider sends here. The result is a session like that of a key: a cookie, valid for 12
/// hours at most.
#[utoipa::path(
    get,
    path = "/auth/oidc/callback",
    tag = "access",
    params(
        ("code" = Option<String>, Query, description = "What the server exchanges for a token that says who it is."),
        ("state" = Option<String>, Query, description = "What the server gave the browser to bring back."),
        ("error" = Option<String>, Query, description = "Why the provider did not sign anybody in."),
        ("iss" = Option<String>, Query, description = "Which provider it is.")
    ),
    responses(
        (status = 303, description = "To the page from which the browser came, or to the console with `?sign-in=` and the reason."),
        (status = 404, description = "The server has no provider that people can sign in with.")
    )
)]
pub async fn callback(
    api: Api,
    Extension(Https(is_https)): Extension<Https>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response> {
    let oidc = provider(&api)?;
    let address = api.caller.actor.address;
    api.authority.check_guess(address)?;
    let callback = Callback {
        state: parameter(&uri, "state"),
        code: parameter(&uri, "code"),
        error: parameter(&uri, "error"),
        iss: parameter(&uri, "iss"),
    };
    let kept = cookie(&headers, ATTEMPT).unwrap_or_default();
    let (vouched, to) = match oidc.finish(kept, callback, api.clock.now()).await {
        Ok(finished) => finished,
        Err(failed) => {
            match &failed {
                Failed::Refused => api.authority.wrong_guess(address),
                Failed::NoRole { actor } => api.authority.note_no_role(actor, address),
                Failed::NotBegun | Failed::Declined | Failed::Unreachable | Failed::Internal => {}
            }
            return Ok(go_back(&failed, is_https));
        }
    };
    let begun = api.authority.sign_in_person(vouched, oidc.issuer(), address).await?;
    let seconds = begun.expires_at.since(api.clock.now()).as_secs();
    Ok(go(&to, [session_cookie(&begun.cookie, seconds, is_https), attempt_cookie("", 0, is_https)]))
}

fn provider(api: &Api) -> Result<&Oidc> {
    let oidc = api.authority.oidc().filter(|oidc| oidc.signs_people_in());
    oidc.ok_or_else(|| {
        Error::not_found(
            "this server has no OpenID Connect provider that people can sign in with; start it with --oidc-issuer, --oidc-client-id and \
             --oidc-role",
        )
    })
}

/// The first value of a parameter. Providers add some that nobody has asked for.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Whether an address is certainly one of the console, whatever a browser makes of it.
fn is_of_console(to: &str) -> bool {
    let plain = to.len() <= limits::OIDC_RETURN && to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let path = to.split(['?', '#']).next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    plain && path.starts_with(ADDRESS) && !decoded.split(['/', '\\']).any(|part| part == ".." || part == ".")
}

/// Sent along when the provider's page leads back here, which is a page of another site, and only to these two routes.
fn attempt_cookie(value: &str, seconds: u64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("{ATTEMPT}={value}; Path={PLACE}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

fn go<const N: usize>(address: &str, cookies: [String; N]) -> Response {
    let cookies = AppendHeaders(cookies.map(|cookie| (header::SET_COOKIE, cookie)));
    let caching = (header::CACHE_CONTROL, "no-store".to_owned());
    (StatusCode::SEE_OTHER, cookies, [(header::LOCATION, address.to_owned()), caching]).into_response()
}

/// Back to the console, which says what went wrong in words.
fn go_back(failed: &Failed, is_https: bool) -> Response {
    let word = match failed {
        Failed::NotBegun => "again",
        Failed::Declined => "declined",
        Failed::Refused | Failed::Internal => "refused",
        Failed::Unreachable => "unreachable",
        Failed::NoRole { .. } => "no-role",
    };
    go(&format!("{ADDRESS}?sign-in={word}"), [attempt_cookie("", 0, is_https)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_returns_to_the_console_and_nowhere_else() {
        for good in
            ["/ui/", "/ui/queues/emails?state=dead", "/ui/~acme/jobs/1#log", "/ui/queues/a..b", "/ui/?next=//x/.."]
        {
            assert!(is_of_console(good), "{good}");
        }
        let long = format!("/ui/{}", "x".repeat(limits::OIDC_RETURN));
        for wrong in [
            "",
            "/",
            "/ui",
            "/uix/",
            "//evil.example/ui/",
            "https://evil.example/ui/",
            "/api/v1/jobs",
            "/ui/../api/v1/jobs",
            "/ui/%2e%2e/api",
            "/ui/.%2E/api",
            "/ui/./x",
            "/ui/\\evil.example",
            "/ui/%5c..%5cx",
            "/ui/a b",
            "/ui/\r\nx: y",
            "/ui/é",
            "ui/",
            &long,
        ] {
            assert!(!is_of_console(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_cookie_of_an_attempt_is_for_this_server_and_its_two_routes() {
        let plain = attempt_cookie("x", 600, false);
        assert_eq!(plain, "windlass_sign_in=x; Path=/api/v1/auth/oidc; Max-Age=600; HttpOnly; SameSite=Lax");
        assert!(attempt_cookie("x", 600, true).ends_with("; Secure"));
    }
}

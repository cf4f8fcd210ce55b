//! Programs that send a token of the provider in place of a key.

use serde_json::json;
use windlass_e2e::{Answer, Data, Provider, Server};

use super::*;

/// Sends a token as `Authorization: Bearer`.
fn ask(server: &Server, token: &str) -> Answer {
    server.without_key().get_with(QUEUES, &[("Authorization", &format!("Bearer {token}"))])
}

/// Waits until the server has read the provider's keys.
#[track_caller]
fn wait_for_provider(server: &Server, provider: &Provider) {
    let good = provider.token(&json!({"claims": good_claims()}));
    eventually("the provider is known", || (ask(server, &good).status == 200).then_some(()));
}

#[test]
fn a_program_with_a_token_is_what_its_groups_make_it() {
    let provider = Provider::start();
    let server = start(&provider);
    make_namespace(&server, "acme", &json!({}));
    wait_for_provider(&server, &provider);
    let ci = with_token(&server, &provider.token(&json!({"claims": good_claims()})));
    let job = ci.enqueue(&json!({"queue": "builds"}));
    assert_eq!(server.job(&job)["created_by"], "oidc:repo:example/shop");
    let shown = ci.get(STATUS).body;
    assert_eq!((&shown["role"], &shown["session"]), (&json!("operator"), &json!(false)), "{shown}");
    assert_eq!(ci.get("/api/v1/auth/keys").status, 403, "that is for an admin");
    // In the other header, of another kind, and for several audiences.
    let token = provider.token(&json!({
        "claims": claims_with(&json!({"groups": ["acme-dev"], "aud": ["other", AUDIENCE]})), "header": {"typ": "at+jwt"},
    }));
    let of_acme = server.without_key().get_with(STATUS, &[("X-API-Key", &token)]).body;
    assert_eq!((&of_acme["role"], &of_acme["namespace"]), (&json!("viewer"), &json!("acme")), "{of_acme}");
    // It begins no session: that is for people, and keys.
    let console = [("X-Windlass-Console", "1"), ("Sec-Fetch-Site", "same-origin")];
    let refused = server.without_key().post_with("/api/v1/auth/session", &console, &json!({"key": token}));
    assert_eq!((refused.status, refused.set_cookie), (400, None));
}

#[test]
fn a_token_that_is_wrong_is_refused_with_the_reason() {
    let provider = Provider::start();
    let server = start(&provider);
    wait_for_provider(&server, &provider);
    let changed = |changes: Value| json!({"claims": claims_with(&changes)});
    let by = |by: &str| json!({"claims": good_claims(), "by": by});
    for (how, status, why) in [
        (changed(json!({"exp": seconds(-120)})), 401, "not valid now"),
        (changed(json!({"nbf": seconds(120)})), 401, "not valid now"),
        (changed(json!({"nbf": "soon"})), 401, "`nbf`"),
        (changed(json!({"iat": seconds(600)})), 401, "from the future"),
        (changed(json!({"aud": "https://other.example.com"})), 401, "Invalid audiences"),
        (changed(json!({"iss": "https://evil.example"})), 401, "Invalid issuer"),
        (changed(json!({"groups": ["staff"]})), 403, "--oidc-role"),
        (changed(json!({"groups": null})), 403, "--oidc-role"),
        (changed(json!({"sub": "a\u{7}b"})), 401, "subject"),
        (by("stranger"), 401, "not accepted"),
        (by("none"), 401, "No signature"),
        (by("hmac"), 401, "HS256"),
        (json!({"claims": good_claims(), "header": {"kid": "unknown"}}), 401, "does not publish"),
        (json!({"claims": good_claims(), "header": {"typ": "logout+jwt"}}), 401, "logout+jwt"),
    ] {
        let refused = ask(&server, &provider.token(&how));
        assert_eq!(refused.status, status, "{how}: {refused:?}");
        assert!(refused.body["error"].to_string().contains(why), "{how}: {refused:?}");
        // A right key ends the count of wrong ones.
        assert_eq!(server.get(QUEUES).status, 200);
    }
    // A good one with one character of its signature changed.
    let good = provider.token(&json!({"claims": good_claims()}));
    let at = good.len() - 20;
    let other = if &good[at..=at] == "A" { "B" } else { "A" };
    assert_eq!(ask(&server, &format!("{}{other}{}", &good[..at], &good[at + 1..])).status, 401);
    assert_eq!(ask(&server, &good).status, 200);
}

#[test]
fn wrong_tokens_are_throttled_like_wrong_keys_and_right_ones_always_count() {
    let provider = Provider::start();
    let server = start(&provider);
    wait_for_provider(&server, &provider);
    let wrong = provider.token(&json!({"claims": good_claims(), "by": "stranger"}));
    for _ in 0..19 {
        ask(&server, &wrong);
    }
    let last = ask(&server, &wrong);
    assert_eq!((last.status, &last.body["code"]), (429, &json!("RATE_LIMITED")), "{last:?}");
    assert_eq!(ask(&server, &provider.token(&json!({"claims": good_claims()}))).status, 200);
}

#[test]
fn a_key_that_the_provider_has_changed_is_read_again_and_the_one_before_no_longer_counts() {
    let provider = Provider::start();
    let server = start(&provider);
    wait_for_provider(&server, &provider);
    let before = provider.token(&json!({"claims": good_claims()}));
    provider.rotate();
    let after = provider.token(&json!({"claims": good_claims()}));
    assert_eq!(ask(&server, &before).status, 200, "nothing has shown yet that there is another key");
    eventually("the new key is read", || (ask(&server, &after).status == 200).then_some(()));
    assert_eq!(ask(&server, &before).status, 401);
    // People are signed in with the next one as well, at once, although the keys were read just before.
    provider.rotate();
    assert_eq!(sign_in(&server, &mut windlass_e2e::Browser::of("ann")), "/ui/jobs?state=dead");
}

#[test]
fn without_an_audience_no_token_counts_and_without_a_client_nobody_signs_in() {
    let provider = Provider::start();
    let roles = ["--oidc-issuer", provider.issuer(), "--oidc-role", "sre=operator"];
    let people = Server::start_on(&Data::new(), &[&roles[..], &["--oidc-client-id", "windlass"]].concat());
    let token = provider.token(&json!({"claims": good_claims()}));
    let refused = ask(&people, &token);
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.body["error"].to_string().contains("the key is wrong"), "{refused:?}");
    let programs = Server::start_on(&Data::new(), &[&roles[..], &["--oidc-audience", AUDIENCE]].concat());
    eventually("the provider is known", || (ask(&programs, &token).status == 200).then_some(()));
    assert_eq!(programs.without_key().get(LOGIN).status, 404);
    assert_eq!(programs.get(STATUS).body["methods"], json!(["key"]));
}

#[test]
fn a_stream_of_a_program_with_a_token_goes_on_while_the_token_is_valid() {
    let provider = Provider::start();
    let server = start(&provider);
    wait_for_provider(&server, &provider);
    let ci = with_token(&server, &provider.token(&json!({"claims": good_claims()})));
    let mut pulse = ci.events("/api/v1/pulse");
    let first = pulse.next().expect("the whole state");
    assert_ne!(first.kind, "ended", "{first:?}");
    ci.enqueue(&json!({"queue": "builds"}));
    let second = pulse.next().expect("what has changed");
    assert_ne!(second.kind, "ended", "{second:?}");
}

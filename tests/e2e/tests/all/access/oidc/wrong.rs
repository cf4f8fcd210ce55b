//! Whoever must not be signed in: strangers, replays, and answers that are not the provider's or not meant for this
//! browser.

use serde_json::json;
use windlass_e2e::{Browser, Provider};

use super::*;

/// An address with another value of one parameter.
fn with_parameter(address: &str, name: &str, value: &str) -> String {
    let (place, query) = address.split_once('?').expect("a query");
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((found, _)) if found == name => format!("{name}={value}"),
        _ => pair.to_owned(),
    });
    format!("{place}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn parameter(address: &str, name: &str) -> String {
    let query = address.split_once('?').expect("a query").1;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).expect(name)
}

#[test]
fn whoever_has_no_group_with_a_role_is_refused_with_a_word_for_the_console_and_noted() {
    let provider = Provider::start();
    let server = start(&provider);
    for who in ["dan", "eve"] {
        let mut browser = Browser::of(who);
        assert_eq!(sign_in(&server, &mut browser), "/ui/?sign-in=no-role", "{who}");
        assert!(!is_signed_in(&server, &browser), "{who}");
        windlass_e2e::eventually("it is in the audit log", || {
            let log = server.get(&format!("/api/v1/audit-logs?actor=oidc:{who}")).body;
            let entry = &log["entries"][0];
            (entry["outcome"] == "denied" && entry["target"] == "sign in: no group has a role").then_some(())
        });
    }
    wait_for_log(&server, "--oidc-role gives one");
    // Somebody who signs in nowhere is told so, too.
    let mut nobody = Browser::of("");
    assert_eq!(sign_in(&server, &mut nobody), "/ui/?sign-in=declined");
    assert!(!is_signed_in(&server, &nobody));
}

#[test]
fn an_answer_counts_once_and_only_in_the_browser_that_asked_and_with_its_own_state() {
    let provider = Provider::start();
    let server = start(&provider);
    let mut ann = Browser::of("ann");
    let back = up_to_callback(&server, &mut ann);
    // A link with an answer of somebody else signs nobody in.
    let mut victim = Browser::of("bob");
    assert_eq!(place(&victim.open(&back), &server), "/ui/?sign-in=again");
    up_to_callback(&server, &mut victim);
    assert_eq!(place(&victim.open(&back), &server), "/ui/?sign-in=again", "although it has begun to sign in itself");
    assert!(!is_signed_in(&server, &victim));
    // The browser that asked, with another state and with none.
    let mut twin = ann.clone();
    assert_eq!(place(&twin.open(&with_parameter(&back, "state", "other")), &server), "/ui/?sign-in=again");
    let mut twin = ann.clone();
    assert_eq!(place(&twin.open(&with_parameter(&back, "state", "")), &server), "/ui/?sign-in=again");
    // Then as it was meant, once.
    let mut replay = ann.clone();
    assert_eq!(place(&ann.open(&back), &server), "/ui/jobs?state=dead");
    assert!(is_signed_in(&server, &ann));
    assert_eq!(place(&replay.open(&back), &server), "/ui/?sign-in=again", "the same code and state again");
    assert!(!is_signed_in(&server, &replay));
}

#[test]
fn a_code_of_somebody_else_is_of_no_use_even_with_a_state_of_ones_own() {
    let provider = Provider::start();
    let server = start(&provider);
    let stolen = parameter(&up_to_callback(&server, &mut Browser::of("bob")), "code");
    let mut thief = Browser::of("ann");
    let back = up_to_callback(&server, &mut thief);
    assert_eq!(place(&thief.open(&with_parameter(&back, "code", &stolen)), &server), "/ui/?sign-in=refused");
    assert!(!is_signed_in(&server, &thief));
    // Nor does another provider's answer count.
    let mut ann = Browser::of("ann");
    let back = up_to_callback(&server, &mut ann);
    let other = with_parameter(&back, "iss", "https%3A%2F%2Fevil.example");
    assert_eq!(place(&ann.open(&other), &server), "/ui/?sign-in=refused");
    assert!(!is_signed_in(&server, &ann));
}

#[test]
fn a_nonce_of_another_attempt_signs_nobody_in() {
    let provider = Provider::start();
    let server = start(&provider);
    let mut ann = Browser::of("ann");
    let to_provider = ann.open(&server.url(LOGIN)).location.expect("the provider's page");
    for (name, expected) in [("response_type", "code"), ("code_challenge_method", "S256")] {
        assert_eq!(parameter(&to_provider, name), expected, "{to_provider}");
    }
    let changed = with_parameter(&to_provider, "nonce", "that-of-another-attempt");
    let page = ann.follow(&changed, |next| next.contains(CALLBACK));
    let back = page.location.expect("it is sent back");
    assert_eq!(place(&ann.open(&back), &server), "/ui/?sign-in=refused");
    assert!(!is_signed_in(&server, &ann));
    wait_for_log(&server, "nonce mismatch");
}

#[test]
fn an_id_token_that_is_wrong_signs_nobody_in() {
    let provider = Provider::start();
    let server = start(&provider);
    for (change, why) in [
        (json!({"claims": {"exp": seconds(-120)}}), "expired at"),
        (json!({"claims": {"aud": "another-client"}}), "Invalid audiences"),
        (json!({"claims": {"aud": ["windlass", "another-client"]}}), "not a trusted audience"),
        (json!({"claims": {"iss": "https://evil.example"}}), "Invalid issuer"),
        (json!({"claims": {"iat": seconds(600)}}), "from the future"),
        (json!({"by": "stranger"}), "Crypto error"),
        (json!({"by": "none"}), "No signature"),
        (json!({"by": "hmac"}), "HS256"),
    ] {
        // Wrong answers are counted by address, so each case signs in rightly afterwards.
        let mut ann = Browser::of("ann");
        provider.change_next(&change);
        assert_eq!(sign_in(&server, &mut ann), "/ui/?sign-in=refused", "{change}");
        assert!(!is_signed_in(&server, &ann), "{change}");
        wait_for_log(&server, why);
        assert_eq!(server.get(QUEUES).status, 200);
        assert_eq!(sign_in(&server, &mut ann), "/ui/jobs?state=dead");
    }
}

#[test]
fn wrong_answers_are_throttled_like_wrong_keys() {
    let provider = Provider::start();
    let server = start(&provider);
    let mut guesser = Browser::of("ann");
    let mut last = 0;
    for _ in 0..20 {
        let back = up_to_callback(&server, &mut guesser);
        last = guesser.open(&with_parameter(&back, "code", "guessed")).status;
    }
    assert_eq!(last, 429);
    assert!(!is_signed_in(&server, &guesser));
    assert_eq!(server.get(QUEUES).status, 200, "a right key always counts");
}

#[test]
fn without_a_provider_there_is_nowhere_to_sign_in() {
    let server = windlass_e2e::Server::start();
    for path in [LOGIN, CALLBACK] {
        let answer = server.without_key().get(path);
        assert_eq!((answer.status, &answer.body["code"]), (404, &json!("NOT_FOUND")), "{answer:?}");
        assert!(answer.body["error"].to_string().contains("--oidc-issuer"), "{answer:?}");
    }
    let shown = server.get(STATUS).body;
    assert_eq!((&shown["methods"], &shown["provider"]), (&json!(["key"]), &Value::Null), "{shown}");
}

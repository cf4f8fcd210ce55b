//! Signatures as the services make them. That of Stripe was computed with `openssl dgst -hmac`; the others are
//! published examples.

use core::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use windlass_core::SigningSecrets;

use super::*;

const GITHUB_SECRET: &str = "It's a Secret to Everybody";
const GITHUB_BODY: &str = "Hello, World!";
const GITHUB_SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

const STRIPE_SECRET: &str = "whsec_test_51f3a1a2b3c4d5e6f7";
const STRIPE_TIME: u64 = 1_686_089_970;
const STRIPE_BODY: &str = r#"{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","type":"charge.succeeded"}"#;
const STRIPE_SIGNATURE: &str = "b0bed63b6f1af571a108350b4b4a7c83648e578b30b18db2afa60991581a1c44";

const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STANDARD_TIME: u64 = 1_614_265_330;
const STANDARD_BODY: &str = r#"{"test": 2432232314}"#;
const STANDARD_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const STANDARD_ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";

pub fn verifier_of(queue: &str) -> Verifier {
    Verifier { hook: hook(queue, SignatureScheme::GitHub), keys: Vec::new() }
}

fn hook(queue: &str, scheme: SignatureScheme) -> InboundHook {
    InboundHook {
        queue: queue.parse().expect("a name"),
        scheme,
        secrets: SigningSecrets::default(),
        tolerance: scheme.signs_time().then_some(Duration::from_secs(300)),
        created_at: Time::ZERO,
        updated_at: Time::ZERO,
    }
}

fn verifier(scheme: SignatureScheme, secrets: &[(&str, Option<Time>)]) -> Verifier {
    let key = |(secret, until): &(&str, Option<Time>)| (key_of(scheme, secret).expect("a good secret"), *until);
    Verifier { hook: hook("hooks", scheme), keys: secrets.iter().map(key).collect() }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    pairs.iter().map(pair).collect()
}

fn github() -> HeaderMap {
    headers(&[("x-hub-signature-256", GITHUB_SIGNATURE), ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")])
}

fn stripe() -> HeaderMap {
    headers(&[("stripe-signature", &format!("t={STRIPE_TIME},v1={STRIPE_SIGNATURE},v0=00ff"))])
}

fn standard_named([id, time, signature]: [&'static str; 3]) -> HeaderMap {
    headers(&[(id, STANDARD_ID), (time, &STANDARD_TIME.to_string()), (signature, STANDARD_SIGNATURE)])
}

fn standard() -> HeaderMap {
    standard_named(["webhook-id", "webhook-timestamp", "webhook-signature"])
}

/// The key under which the request is recognised, or why it is refused.
fn check(verifier: &Verifier, headers: &HeaderMap, body: &str, seconds: u64) -> Result<String, Refused> {
    let now = Time(seconds * 1_000);
    let claim = verifier.read(headers, now)?;
    verifier.verify(&claim, body.as_bytes(), now)?;
    Ok(verifier.unique(&claim, body.as_bytes()).key)
}

#[test]
fn github_signs_the_body() {
    let verifier = verifier(SignatureScheme::GitHub, &[(GITHUB_SECRET, None)]);
    let key = check(&verifier, &github(), GITHUB_BODY, 1).expect("it is right");
    assert_eq!(check(&verifier, &github(), "Hello, World?", 1), Err(Refused::Wrong));
    assert_eq!(check(&verifier, &HeaderMap::new(), GITHUB_BODY, 1), Err(Refused::Unsigned("X-Hub-Signature-256")));
    for wrong in ["757107ea", "sha1=757107ea0eb2509fc211221cce984b8a37570b6d", "sha256=", "sha256=zz"] {
        let refused = check(&verifier, &headers(&[("x-hub-signature-256", wrong)]), GITHUB_BODY, 1);
        assert!(matches!(refused, Err(Refused::Malformed(..))), "{wrong}: {refused:?}");
    }
    // The id of the delivery is not signed: a copy with another one is still the same delivery.
    let copy = headers(&[("x-hub-signature-256", GITHUB_SIGNATURE), ("x-github-delivery", "another")]);
    assert_eq!(check(&verifier, &copy, GITHUB_BODY, 1), Ok(key));
}

#[test]
fn stripe_signs_the_time_and_the_body() {
    let verifier = verifier(SignatureScheme::Stripe, &[(STRIPE_SECRET, None)]);
    let right = check(&verifier, &stripe(), STRIPE_BODY, STRIPE_TIME + 300);
    assert_eq!(right, Ok("webhook:evt_1NG8Du2eZvKYlo2CUI79vXWy".into()));
    assert_eq!(check(&verifier, &stripe(), "{}", STRIPE_TIME), Err(Refused::Wrong));
    let late = check(&verifier, &stripe(), STRIPE_BODY, STRIPE_TIME + 301).expect_err("it is late").to_string();
    assert!(late.contains("signed 5m1s ago, and at most 5m are accepted"), "{late}");
    let early = check(&verifier, &stripe(), STRIPE_BODY, STRIPE_TIME - 301).expect_err("it is early").to_string();
    assert!(early.contains("5m1s in the future"), "{early}");
    // Another time than the signed one.
    let moved = headers(&[("stripe-signature", &format!("t={},v1={STRIPE_SIGNATURE}", STRIPE_TIME + 1))]);
    assert_eq!(check(&verifier, &moved, STRIPE_BODY, STRIPE_TIME), Err(Refused::Wrong));
    // While Stripe rotates its secret, it signs with both.
    let both = format!("t={STRIPE_TIME},v1={},v1={STRIPE_SIGNATURE}", "00".repeat(32));
    assert!(check(&verifier, &headers(&[("stripe-signature", &both)]), STRIPE_BODY, STRIPE_TIME).is_ok());
    for wrong in
        ["", "t=1,v0=00", "v1=00", &format!("t=-1,v1={STRIPE_SIGNATURE}"), &format!("t=,v1={STRIPE_SIGNATURE}")]
    {
        let refused = check(&verifier, &headers(&[("stripe-signature", wrong)]), STRIPE_BODY, STRIPE_TIME);
        assert!(matches!(refused, Err(Refused::Malformed(..))), "{wrong}: {refused:?}");
    }
}

#[test]
fn a_stripe_event_without_an_id_is_recognised_by_what_was_signed() {
    let verifier = verifier(SignatureScheme::Stripe, &[(STRIPE_SECRET, None)]);
    let claim = verifier.read(&stripe(), Time(STRIPE_TIME * 1_000)).expect("a good head");
    let key = |body: &str| verifier.unique(&claim, body.as_bytes()).key;
    for body in ["{}", "[]", "not JSON", r#"{"id": 7}"#, r#"{"id": ""}"#] {
        assert!(key(body).starts_with("webhook:sha256:"), "{body}");
    }
    assert_ne!(key("{}"), key("[]"));
}

#[test]
fn standard_webhooks_sign_the_id_the_time_and_the_body() {
    let verifier = verifier(SignatureScheme::Standard, &[(STANDARD_SECRET, None)]);
    let right = check(&verifier, &standard(), STANDARD_BODY, STANDARD_TIME);
    assert_eq!(right, Ok(format!("webhook:{STANDARD_ID}")));
    let svix = standard_named(["svix-id", "svix-timestamp", "svix-signature"]);
    assert_eq!(check(&verifier, &svix, STANDARD_BODY, STANDARD_TIME), right);
    assert_eq!(check(&verifier, &standard(), "{}", STANDARD_TIME), Err(Refused::Wrong));
    assert!(matches!(
        check(&verifier, &standard(), STANDARD_BODY, STANDARD_TIME + 301),
        Err(Refused::Untimely(_, "ago", _))
    ));
    for (name, value) in [("webhook-id", "another"), ("webhook-timestamp", "1614265331")] {
        let mut changed = standard();
        changed.insert(name, HeaderValue::from_static(value));
        assert_eq!(check(&verifier, &changed, STANDARD_BODY, STANDARD_TIME), Err(Refused::Wrong), "{name}");
    }
    for (name, value) in [
        ("webhook-id", ""),
        ("webhook-id", "with.a.stop"),
        ("webhook-timestamp", "yesterday"),
        ("webhook-timestamp", "+1614265330"),
        ("webhook-timestamp", "99999999999999999999"),
        ("webhook-signature", "v1a,AAAA"),
        ("webhook-signature", ""),
    ] {
        let mut wrong = standard();
        wrong.insert(name, HeaderValue::from_static(value));
        let refused = check(&verifier, &wrong, STANDARD_BODY, STANDARD_TIME);
        assert!(matches!(refused, Err(Refused::Malformed(..))), "{name} {value}: {refused:?}");
    }
    for name in ["webhook-timestamp", "webhook-signature"] {
        let mut missing = standard();
        missing.remove(name);
        assert_eq!(check(&verifier, &missing, STANDARD_BODY, STANDARD_TIME), Err(Refused::Unsigned(name)));
    }
}

#[test]
fn either_of_two_secrets_is_enough_and_the_previous_one_only_for_its_time() {
    let until = Time(50_000);
    let verifier = verifier(SignatureScheme::GitHub, &[("the secret of tomorrow", None), (GITHUB_SECRET, Some(until))]);
    assert!(check(&verifier, &github(), GITHUB_BODY, 49).is_ok());
    assert_eq!(check(&verifier, &github(), GITHUB_BODY, 50), Err(Refused::Wrong));
}

#[test]
fn without_a_secret_that_can_be_used_nothing_is_accepted() {
    let verifier = verifier(SignatureScheme::GitHub, &[]);
    assert_eq!(check(&verifier, &github(), GITHUB_BODY, 1), Err(Refused::Wrong));
}

#[test]
fn a_senders_secret_must_have_the_form_of_its_scheme_and_is_not_repeated() {
    for (scheme, wrong) in [
        (SignatureScheme::GitHub, "short"),
        (SignatureScheme::Stripe, "whsec_short"),
        (SignatureScheme::Standard, "no Base64, this one"),
        (SignatureScheme::Standard, "whsec_c2hvcnQ="),
    ] {
        let why = key_of(scheme, wrong).expect_err(wrong);
        assert!(!why.contains(wrong), "{why}");
    }
}

#[test]
fn a_refusal_says_what_to_check_and_nothing_of_the_secret() {
    let verifier = verifier(SignatureScheme::Stripe, &[(STRIPE_SECRET, None)]);
    let wrong = check(&verifier, &stripe(), "{}", STRIPE_TIME).expect_err("it is wrong").to_string();
    assert!(wrong.contains("check that the sender has the secret"), "{wrong}");
    assert!(!wrong.contains(STRIPE_SECRET) && !wrong.contains(STRIPE_SIGNATURE), "{wrong}");
    assert!(!format!("{verifier:?}").contains(STRIPE_SECRET));
}

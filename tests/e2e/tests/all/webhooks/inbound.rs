//! Queues that accept only signed webhooks of other services: right, wrong, late, with two secrets, and with none.

use serde_json::{Value, json};
use windlass_e2e::{Answer, Data, Server, files_holding};

use super::sender::{Headers, github, now, send, standard, stripe};

const KEY: &str = "a-key-that-is-only-for-the-tests";
const ADMIN: (&str, &str) = ("X-API-Key", KEY);
const SECRET: &str = "a secret that GitHub has";
const OTHER: &str = "another secret altogether";
const WHSEC: &str = "whsec_YSBmaXJzdCBzZWNyZXQgb2YgMzIgYnl0ZXMsIGEgaG8=";

/// A server with a key: without the signature nothing gets in.
fn locked() -> Server {
    Server::start_on(&Data::new(), &["--api-key", KEY])
}

fn set(server: &Server, queue: &str, settings: &Value) -> Answer {
    server.put_with(&format!("/api/v1/inbound-webhooks/{queue}"), &[ADMIN], settings.to_string().as_bytes())
}

#[track_caller]
fn is_set(server: &Server, queue: &str, settings: &Value) -> Value {
    let answer = set(server, queue, settings);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Asserts that it is refused in words that name this.
#[track_caller]
fn refused(answer: &Answer, word: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (401, &json!("UNAUTHORIZED")), "{answer:?}");
    let why = answer.body["error"].as_str().expect("a sentence");
    assert!(why.contains(word), "{why}");
    assert!(!why.contains(SECRET) && !why.contains(OTHER) && !why.contains(WHSEC), "{why}");
}

fn payload(server: &Server, answer: &Answer) -> Value {
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.body["job_id"].as_str().expect("an id");
    let job = server.get_with(&format!("/api/v1/jobs/{id}"), &[ADMIN]);
    assert_eq!(job.status, 200, "{job:?}");
    job.body["payload"].clone()
}

#[test]
fn a_request_that_github_has_signed_needs_no_key_and_any_other_is_refused() {
    let server = locked();
    let hook = is_set(&server, "pushes", &json!({"scheme": "github", "secret": SECRET}));
    let expected = json!({"queue": "pushes", "path": "/api/v1/webhooks/pushes", "scheme": "github", "tolerance": null});
    for (field, value) in expected.as_object().expect("fields") {
        assert_eq!(&hook[field], value, "{hook}");
    }
    let body = br#"{"zen": "Keep it logically awesome."}"#;
    let right = send(&server, "pushes", &github(SECRET, "d1", body), body);
    assert_eq!(payload(&server, &right), json!({"zen": "Keep it logically awesome."}));

    refused(&send(&server, "pushes", &github(OTHER, "d2", body), body), "check that the sender has the secret");
    refused(&send(&server, "pushes", &github(SECRET, "d3", body), b"{}"), "check that the sender has the secret");
    refused(&send(&server, "pushes", &Headers::new(), body), "X-Hub-Signature-256");
    let garbled = vec![("X-Hub-Signature-256", "sha256=nonsense".to_owned())];
    refused(&send(&server, "pushes", &garbled, body), "64 hexadecimal digits");
    // A key does not take the place of the signature.
    refused(&server.post_bytes_with("/api/v1/webhooks/pushes", &[ADMIN], body), "X-Hub-Signature-256");
    // The signature is worth nothing anywhere else.
    refused(&send(&server, "others", &github(SECRET, "d4", body), body), "X-API-Key");
    let headers = github(SECRET, "d5", body);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    refused(&server.post_bytes_with("/api/v1/enqueue", &headers, body), "X-API-Key");
    refused(&server.delete("/api/v1/webhooks/pushes"), "X-API-Key");
    refused(&server.get("/api/v1/inbound-webhooks"), "X-API-Key");
    assert_eq!(server.post_bytes_with("/api/v1/webhooks/others", &[ADMIN], body).status, 201, "as without a hook");
}

#[test]
fn the_bytes_are_verified_as_they_came() {
    let server = locked();
    is_set(&server, "team/pushes".replace('/', "%2F").as_str(), &json!({"scheme": "github", "secret": SECRET}));
    for (body, expected) in [
        (&b" {\"a\":  1}\r\n"[..], json!({"a": 1})),
        (b"plain \xc3\xa9 text\n", json!("plain é text\n")),
        (b"\xff\xfe", json!({"$base64": "//4="})),
        (b"", json!({})),
    ] {
        let answer = send(&server, "team%2Fpushes", &github(SECRET, "d", body), body);
        assert_eq!(payload(&server, &answer), expected);
    }
    let body = b"payload=%7B%7D";
    let answer = send(&server, "team%2Fpushes?priority=high&tags=from:github", &github(SECRET, "d", body), body);
    let id = answer.body["job_id"].as_str().expect("an id");
    let job = server.get_with(&format!("/api/v1/jobs/{id}"), &[ADMIN]).body;
    assert_eq!(
        (&job["priority"], &job["queue"], &job["tags"]),
        (&json!("high"), &json!("team/pushes"), &json!({"from": "github"}))
    );
}

#[test]
fn what_stripe_signed_too_long_ago_or_too_far_ahead_is_refused() {
    let server = locked();
    is_set(&server, "payments", &json!({"scheme": "stripe", "secret": SECRET}));
    let event = |id: &str| json!({"id": id, "type": "charge.succeeded"}).to_string().into_bytes();
    let send_at = |id: &str, at: u64| send(&server, "payments", &stripe(SECRET, at, &event(id)), &event(id));
    assert_eq!(send_at("evt_1", now()).status, 201);
    assert_eq!(send_at("evt_2", now() - 200).status, 201);
    refused(&send_at("evt_3", now() - 320), "check the clocks");
    refused(&send_at("evt_4", now() + 320), "in the future");
    let changed =
        server.put_with("/api/v1/inbound-webhooks/payments", &[ADMIN], br#"{"scheme": "stripe", "tolerance": "1h"}"#);
    assert_eq!((changed.status, &changed.body["tolerance"]), (200, &json!("1h")), "{changed:?}");
    assert_eq!(send_at("evt_3", now() - 320).status, 201, "with the same secret");
    refused(&send(&server, "payments", &stripe(OTHER, now(), b"{}"), b"{}"), "check that the sender has the secret");
    refused(&send(&server, "payments", &Headers::new(), b"{}"), "Stripe-Signature");
}

#[test]
fn standard_webhooks_are_verified_with_their_id_and_time() {
    let server = locked();
    is_set(&server, "events", &json!({"scheme": "standard", "secret": WHSEC}));
    let body = br#"{"type": "user.created"}"#;
    let right = send(&server, "events", &standard(WHSEC, "msg_1", now(), body), body);
    assert_eq!(payload(&server, &right), json!({"type": "user.created"}));
    refused(&send(&server, "events", &standard(WHSEC, "msg_2", now() - 320, body), body), "check the clocks");
    refused(&send(&server, "events", &standard(WHSEC, "msg_2", now(), body), b"{}"), "check that the sender");
    for missing in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut headers = standard(WHSEC, "msg_2", now(), body);
        headers.retain(|(name, _)| *name != missing);
        refused(&send(&server, "events", &headers, body), missing);
    }
    let mut copied = standard(WHSEC, "msg_2", now(), body);
    copied[0].1 = "msg_3".into();
    refused(&send(&server, "events", &copied, body), "check that the sender");
}

#[test]
fn of_two_secrets_either_is_accepted_until_the_older_one_is_dropped() {
    let server = locked();
    is_set(&server, "q", &json!({"scheme": "github", "secret": SECRET}));
    let hook = is_set(&server, "q", &json!({"scheme": "github", "secret": OTHER, "keep_previous": "1h"}));
    assert!(hook["previous_secret_until"].is_string(), "{hook}");
    let try_with =
        |secret: &str, body: &str| send(&server, "q", &github(secret, "d", body.as_bytes()), body.as_bytes());
    assert_eq!((try_with(SECRET, "1").status, try_with(OTHER, "2").status), (201, 201));
    // Sent again to change something else, it keeps both.
    is_set(&server, "q", &json!({"scheme": "github"}));
    assert_eq!((try_with(SECRET, "3").status, try_with(OTHER, "4").status), (201, 201));
    let third = "a third secret, with nothing kept";
    is_set(&server, "q", &json!({"scheme": "github", "secret": third}));
    refused(&try_with(SECRET, "5"), "check that the sender");
    refused(&try_with(OTHER, "6"), "check that the sender");
    assert_eq!(try_with(third, "7").status, 201);
}

#[test]
fn a_queue_whose_hook_is_removed_needs_a_key_again() {
    let server = locked();
    is_set(&server, "q", &json!({"scheme": "github", "secret": SECRET}));
    let body = b"{}";
    assert_eq!(send(&server, "q", &github(SECRET, "d", body), body).status, 201);
    let refused_without = server.delete("/api/v1/inbound-webhooks/q");
    assert_eq!(refused_without.status, 401, "{refused_without:?}");
    let list = server.get_with("/api/v1/inbound-webhooks", &[ADMIN]).body;
    assert_eq!((list.as_array().map(Vec::len), &list[0]["queue"]), (Some(1), &json!("q")), "{list}");
    let bare = Server::start();
    assert_eq!(
        bare.put("/api/v1/inbound-webhooks/q", br#"{"scheme": "github", "secret": "a secret that is long"}"#).status,
        200
    );
    assert_eq!(bare.post_bytes("/api/v1/webhooks/q", body).status, 401, "also where nothing else needs a key");
    assert_eq!(bare.delete("/api/v1/inbound-webhooks/q").body, json!({"status": "removed"}));
    assert_eq!(bare.delete("/api/v1/inbound-webhooks/q").status, 404);
    assert_eq!(bare.post_bytes("/api/v1/webhooks/q", body).status, 201);
}

#[test]
fn a_hook_and_its_secret_survive_a_restart_and_the_secret_is_shown_nowhere() {
    let data = Data::new();
    let server = Server::start_on(&data, &[]);
    let settings = json!({"scheme": "stripe", "secret": SECRET}).to_string();
    let made = server.put("/api/v1/inbound-webhooks/q", settings.as_bytes());
    assert_eq!(made.status, 200, "{made:?}");
    send(&server, "q", &stripe(OTHER, now(), b"{}"), b"{}");
    let paths = ["/api/v1/inbound-webhooks", "/api/v1/secrets", "/openapi.json", "/metrics"];
    for path in paths {
        assert!(!String::from_utf8_lossy(&server.download(path)).contains(SECRET), "{path}");
    }
    assert!(!made.body.to_string().contains(SECRET), "{made:?}");
    let (_, said, data) = server.stop();
    assert!(!said.contains(SECRET), "the server's log");
    assert_eq!(files_holding(data.path(), SECRET.as_bytes()), Vec::<String>::new());

    let server = Server::start_on(&data, &[]);
    assert_eq!(send(&server, "q", &stripe(SECRET, now(), b"{}"), b"{}").status, 201);
    assert_eq!(send(&server, "q", &Headers::new(), b"{}").status, 401);
    server.stop();
    std::fs::write(data.path().join("secrets.key"), "ab".repeat(32)).expect("another key");
    let refused = Server::try_start(&data, &[]).expect_err("it is another key");
    assert!(refused.said.contains("the secret of the inbound webhook of queue `q`"), "{}", refused.said);
}

#[test]
fn settings_that_make_no_sense_are_refused_and_do_not_repeat_the_secret() {
    let server = locked();
    for (settings, word) in [
        (json!({}), "github, stripe or standard"),
        (json!({"scheme": "gitlab", "secret": SECRET}), "scheme"),
        (json!({"scheme": "github"}), "secret"),
        (json!({"scheme": "github", "secret": "too short"}), "16 to 1024 bytes"),
        (json!({"scheme": "standard", "secret": "this is no Base64 at all"}), "whsec_"),
        (json!({"scheme": "github", "secret": SECRET, "tolerance": "5m"}), "signs no time"),
        (json!({"scheme": "stripe", "secret": SECRET, "tolerance": "2d"}), "12 h"),
        (json!({"scheme": "stripe", "secret": SECRET, "tolerance": 0}), "tolerance"),
    ] {
        let answer = set(&server, "q", &settings);
        assert_eq!(answer.status, 400, "{settings}: {answer:?}");
        let why = answer.body["error"].as_str().expect("a sentence");
        assert!(why.contains(word), "{settings}: {why}");
        let secret = settings["secret"].as_str().unwrap_or("nothing to hide");
        assert!(!why.contains(secret), "{why}");
    }
    assert_eq!(server.get_with("/api/v1/inbound-webhooks", &[ADMIN]).body, json!([]));
}

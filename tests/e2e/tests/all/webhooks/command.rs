//! `windlass webhook`: as somebody at a terminal uses it. Secrets are piped in or read from a file, never given as an
//! argument.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, windlass};

use super::receiver::{PRIVATE, address, next};
use super::sender::{github, send};

const WHSEC: &str = "whsec_YSBmaXJzdCBzZWNyZXQgb2YgMzIgYnl0ZXMsIGEgaG8=";
const SECRET: &str = "a secret that GitHub has";

fn run(server: &Server, arguments: &[&str], input: &str) -> Output {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    // It may have ended without reading.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("our own child")
}

/// What a command that should go well prints.
#[track_caller]
fn ok(server: &Server, arguments: &[&str], input: &str) -> String {
    let output = run(server, arguments, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {} {said}", output.status);
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[track_caller]
fn ok_json(server: &Server, arguments: &[&str], input: &str) -> Value {
    let text = ok(server, &[arguments, &["--output", "json"]].concat(), input);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {text}: {error}"))
}

#[track_caller]
fn fails(server: &Server, arguments: &[&str], input: &str) -> String {
    let output = run(server, arguments, input);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_webhook_is_added_tried_edited_rotated_and_removed() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[200, 500]);
    let added = ok(&server, &["webhook", "add", &url, "--events", "enqueued"], "");
    let secret = added.split_whitespace().find(|word| word.starts_with("whsec_")).expect("the secret is printed");
    let id = ok_json(&server, &["webhook", "list"], "")[0]["id"].as_str().expect("an id").to_owned();
    assert!(!ok(&server, &["webhook", "list"], "").contains("whsec_"));

    let tested = ok(&server, &["webhook", "test", &id], "");
    assert!(tested.contains("200") && tested.contains("it is 200"), "{tested}");
    assert!(next(&deliveries).is_signed_with(secret));
    let said = fails(&server, &["webhook", "test", &id], "");
    assert!(said.contains("500"), "{said}");
    next(&deliveries);

    let rotated = ok_json(&server, &["webhook", "rotate", &id, "--secret-from", "-"], &format!("{WHSEC}\n"));
    assert!(rotated["previous_secret_until"].is_string() && rotated.get("secret").is_none(), "{rotated}");
    ok(&server, &["webhook", "test", &id], "");
    let delivery = next(&deliveries);
    assert!(delivery.is_signed_with(WHSEC) && delivery.is_signed_with(secret));
    let rotated = ok_json(&server, &["webhook", "rotate", &id, "--keep-previous", "0"], "");
    assert!(rotated["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{rotated}");

    server.enqueue(&json!({"queue": "q"}));
    let sent = next(&deliveries);
    let listed = windlass_e2e::eventually("it is listed", || {
        let listed = ok(&server, &["webhook", "deliveries", &id], "");
        listed.contains(sent.id()).then_some(listed)
    });
    assert!(listed.contains("test") && listed.contains("enqueued") && listed.contains("500"), "{listed}");
    let again = ok_json(&server, &["webhook", "redeliver", &id, sent.id()], "");
    assert_eq!((&again["delivered"], &again["cause"]), (&json!(true), &json!("redelivery")));
    assert_eq!(next(&deliveries).id(), sent.id());
    let said = fails(&server, &["webhook", "redeliver", &id, "nosuch"], "");
    assert!(said.contains("windlass webhook deliveries"), "{said}");

    let edit = ["webhook", "edit", &id, "--events", "dead", "--retry-limit", "5", "--enabled", "false"];
    let edited = ok_json(&server, &edit, "");
    assert_eq!(
        (&edited["events"], &edited["retry_limit"], &edited["enabled"]),
        (&json!(["dead"]), &json!(5), &json!(false))
    );
    assert_eq!(edited["url"], json!(url));
    ok(&server, &["webhook", "remove", &id], "");
    assert_eq!(ok_json(&server, &["webhook", "list"], ""), json!([]));
}

#[test]
fn an_inbound_webhook_is_set_listed_and_removed() {
    let server = Server::start();
    let set = ["webhook", "inbound", "set", "pushes", "--scheme", "github"];
    let shown = ok(&server, &set, &format!("{SECRET}\n"));
    assert!(shown.contains("/api/v1/webhooks/pushes") && !shown.contains(SECRET), "{shown}");
    let body = b"{\"a\": 1}";
    assert_eq!(send(&server, "pushes", &github(SECRET, "d", body), body).status, 201);
    let listed = ok(&server, &["webhook", "inbound", "list"], "");
    assert!(listed.contains("pushes") && listed.contains("github") && !listed.contains(SECRET), "{listed}");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{WHSEC}\n")).expect("written");
    let from = ["webhook", "inbound", "set", "events", "--scheme", "standard", "--from", file.to_str().expect("text")];
    assert_eq!(ok_json(&server, &from, "")["tolerance"], json!("5m"));
    let same = ["webhook", "inbound", "set", "events", "--scheme", "standard", "--same-secret", "--tolerance", "10m"];
    assert_eq!(ok_json(&server, &same, "")["tolerance"], json!("10m"));
    let said = fails(&server, &set, "");
    assert!(said.contains("no value was given") && said.contains("windlass webhook inbound set pushes"), "{said}");
    ok(&server, &["webhook", "inbound", "remove", "events"], "");
    let said = fails(&server, &["webhook", "inbound", "remove", "events"], "");
    assert!(said.contains("windlass webhook inbound list"), "{said}");
}

#[test]
fn no_command_takes_a_secret_as_an_argument() {
    let server = Server::start();
    for arguments in [
        &["webhook", "add", "https://example.com/", "--secret", WHSEC][..],
        &["webhook", "rotate", "hook_1", "--secret", WHSEC],
        &["webhook", "inbound", "set", "q", "--scheme", "github", "--secret", SECRET],
    ] {
        let said = fails(&server, arguments, "");
        assert!(said.contains("unexpected argument '--secret'"), "{said}");
    }
    let made = ok_json(&server, &["webhook", "add", "https://example.com/", "--secret-from", "-"], WHSEC);
    assert!(made.get("secret").is_none() && made["has_secret"] == true, "{made}");
}

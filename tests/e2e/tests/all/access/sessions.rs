//! Sessions of browsers: begun with a key, used with a cookie, and ended.

use serde_json::{Value, json};
use windlass_e2e::{Answer, Certificates, Client, Data, Server};

use super::{client_with, make_namespace};

const SESSION: &str = "/api/v1/auth/session";
const STATUS: &str = "/api/v1/auth/status";
const QUEUES: &str = "/api/v1/queues";

/// What a browser on a page of the server adds to a request that changes something.
fn console(cookie: &str) -> [(&str, &str); 3] {
    [("Cookie", cookie), ("X-Windlass-Console", "1"), ("Sec-Fetch-Site", "same-origin")]
}

fn sign_in_at(client: &Client, key: &str) -> Answer {
    client.post_with(SESSION, &console("a=b"), &json!({"key": key}))
}

/// Signs in, and returns the cookie for later requests.
#[track_caller]
fn sign_in(server: &Server, key: &str) -> String {
    let answer = sign_in_at(&server.without_key(), key);
    assert_eq!((answer.status, &answer.body["signed_in"]), (200, &json!(true)), "{answer:?}");
    cookie(&answer)
}

#[track_caller]
fn cookie(answer: &Answer) -> String {
    let all = answer.set_cookie.as_deref().unwrap_or_else(|| panic!("no cookie: {answer:?}"));
    let cookie = all.split(';').next().expect("a pair");
    assert!(cookie.starts_with("windlass_session=ws_"), "{all}");
    cookie.to_owned()
}

fn get(server: &Server, path: &str, cookie: &str) -> Answer {
    server.without_key().get_with(path, &[("Cookie", cookie)])
}

#[test]
fn a_page_signs_in_with_a_key_works_with_the_cookie_and_signs_out() {
    let server = Server::start();
    let stranger = server.without_key().get(STATUS);
    let shown = |answer: &Answer| (answer.status, answer.body["signed_in"].clone(), answer.body["actor"].clone());
    assert_eq!(shown(&stranger), (200, json!(false), Value::Null));
    assert_eq!(stranger.body["methods"], json!(["key"]), "{stranger:?}");
    let made = json!({"name": "night shift", "role": "operator"});
    let (client, id) = client_with(&server, &made);
    let key = client.key().expect("a key");
    let answer = sign_in_at(&server.without_key(), &key);
    let all = answer.set_cookie.clone().expect("a cookie");
    assert!(!all.contains(&key) && !answer.body.to_string().contains(&key), "{answer:?}");
    let cookie = cookie(&answer);
    let status = get(&server, STATUS, &cookie).body;
    assert_eq!(status, answer.body, "signing in answers with the same");
    for (field, expected) in [
        ("signed_in", json!(true)),
        ("actor", json!(id)),
        ("name", json!("night shift")),
        ("role", json!("operator")),
        ("namespace", json!("default")),
        ("chooses_namespace", json!(false)),
        ("session", json!(true)),
        ("permissions", json!(["enqueue", "read-job", "read", "operate"])),
    ] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    assert!(status["expires_at"].is_string(), "{status}");
    assert_eq!(get(&server, QUEUES, &cookie).status, 200);
    assert_eq!(get(&server, "/api/v1/audit-logs", &cookie).status, 403, "that is for an admin");
    let page = server.without_key();
    assert_eq!(page.post_with("/api/v1/queues/q/pause", &console(&cookie), &json!({})).status, 200);
    let out = page.delete_with(SESSION, &console(&cookie));
    assert_eq!((out.status, &out.body["status"]), (200, &json!("signed_out")), "{out:?}");
    assert!(out.set_cookie.expect("it is cleared").starts_with("windlass_session=; Path=/; Max-Age=0;"));
    assert_eq!(get(&server, QUEUES, &cookie).status, 401);
    assert_eq!(shown(&get(&server, STATUS, &cookie)), (200, json!(false), Value::Null));
    assert_eq!(page.delete_with(SESSION, &console(&cookie)).status, 200, "twice is no error");
    let log = server.get("/api/v1/audit-logs?limit=1000").body;
    let entries = log["entries"].as_array().expect("entries");
    let of = |action: &str| entries.iter().filter(|entry| entry["action"] == action && entry["actor"] == *id).count();
    assert_eq!((of("session.begin"), of("session.end"), of("queue.configure")), (1, 1, 1), "{log:#}");
}

#[test]
fn a_session_survives_a_restart_and_ends_with_its_key() {
    let data = Data::new();
    let server = Server::start_on(&data, &[]);
    let (client, id) = client_with(&server, &json!({"name": "ci", "role": "viewer"}));
    let (own, first) = (sign_in(&server, &client.key().expect("a key")), sign_in(&server, &server.key()));
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!((get(&server, QUEUES, &own).status, get(&server, QUEUES, &first).status), (200, 200));
    assert_eq!(server.delete(&format!("/api/v1/auth/keys/{id}")).status, 200);
    assert_eq!((get(&server, QUEUES, &own).status, get(&server, QUEUES, &first).status), (401, 200));
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!((get(&server, QUEUES, &own).status, get(&server, QUEUES, &first).status), (401, 200));
}

#[test]
fn a_session_of_the_key_in_the_settings_ends_when_the_key_is_changed() {
    let data = Data::new();
    let server = Server::start_on(&data, &["--api-key", "the-first-key-of-the-server"]);
    let cookie = sign_in(&server, "the-first-key-of-the-server");
    let status = get(&server, STATUS, &cookie).body;
    assert_eq!((&status["actor"], &status["chooses_namespace"]), (&json!("start-key"), &json!(true)), "{status}");
    let server = Server::start_on(&server.kill_9(), &["--api-key", "the-first-key-of-the-server"]);
    assert_eq!(get(&server, QUEUES, &cookie).status, 200);
    let server = Server::start_on(&server.kill_9(), &["--api-key", "another-key-of-the-server"]);
    assert_eq!(get(&server, QUEUES, &cookie).status, 401);
}

#[test]
fn a_change_with_a_session_needs_a_page_of_this_server_and_its_header() {
    let server = Server::start();
    let cookie = sign_in(&server, &server.key());
    let own = server.url("");
    let page = server.without_key();
    let pause = |headers: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str())], headers].concat();
        page.post_with("/api/v1/queues/q/pause", &headers, &json!({}))
    };
    let header = ("X-Windlass-Console", "1");
    assert_eq!(pause(&[header, ("Origin", &own)]).status, 200);
    assert_eq!(pause(&[header, ("Sec-Fetch-Site", "same-origin")]).status, 200);
    for wrong in [
        &[("Origin", own.as_str())][..],
        &[header],
        &[("Sec-Fetch-Site", "same-origin")],
        &[header, ("Origin", "https://evil.example")],
        &[header, ("Origin", &own.replace("http:", "https:"))],
        &[header, ("Sec-Fetch-Site", "same-site")],
        &[header, ("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
    ] {
        let refused = pause(wrong);
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!("FORBIDDEN")), "{wrong:?} {refused:?}");
    }
    let why = pause(&[]).body["error"].to_string();
    assert!(why.contains("X-Windlass-Console: 1") && why.contains(&own), "{why}");
    // Nor does a page of another site sign anybody in, or read with the cookie.
    let foreign = [("Origin", "https://evil.example"), header];
    assert_eq!(page.post_with(SESSION, &foreign, &json!({"key": server.key()})).status, 403);
    assert_eq!(page.post_with(SESSION, &[("Origin", &own)], &json!({"key": server.key()})).status, 403);
    assert_eq!(page.get_with(QUEUES, &[("Cookie", &cookie), ("Origin", "https://evil.example")]).status, 403);
    // A cookie with a key works as before.
    let with_key = format!("windlass_key={}", server.key());
    assert_eq!(page.get_with(QUEUES, &[("Cookie", &with_key)]).status, 200);
}

#[test]
fn the_cookie_is_for_https_only_where_that_is_used() {
    let server = Server::start();
    let plain = sign_in_at(&server.without_key(), &server.key()).set_cookie.expect("a cookie");
    for flag in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43"] {
        assert!(plain.contains(flag), "{flag} in {plain}");
    }
    assert!(!plain.contains("Secure"), "{plain}");
    let certificates = Certificates::new();
    let server = Server::try_start_tls(&Data::new(), &certificates, &[]).expect("it starts");
    let client = certificates.client(server.url(""));
    let secure = sign_in_at(&client, &server.key()).set_cookie.expect("a cookie");
    assert!(secure.ends_with("; Secure"), "{secure}");
    assert_eq!(client.get_with(QUEUES, &[("Cookie", secure.split(';').next().expect("a pair"))]).status, 200);
}

#[test]
fn wrong_keys_are_refused_at_the_sign_in_and_throttled() {
    let server = Server::start();
    let page = server.without_key();
    let mut last = sign_in_at(&page, "wl_000000000000_wrong");
    assert_eq!(last.status, 401, "{last:?}");
    assert!(last.set_cookie.is_none(), "{last:?}");
    for _ in 0..20 {
        last = sign_in_at(&page, "wl_000000000000_wrong");
    }
    assert_eq!((last.status, &last.body["code"]), (429, &json!("RATE_LIMITED")), "{last:?}");
    // The right key always counts, and a made-up session is just one that has ended.
    let cookie = sign_in(&server, &server.key());
    for _ in 0..20 {
        assert_eq!(get(&server, QUEUES, "windlass_session=ws_invented").status, 401);
    }
    assert_eq!(get(&server, QUEUES, &cookie).status, 200);
    assert_eq!(get(&server, QUEUES, &format!("windlass_key={}", &cookie["windlass_session=".len()..])).status, 401);
}

#[test]
fn a_session_of_all_namespaces_chooses_one_with_a_header_or_in_the_query_of_a_get() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let cookie = sign_in(&server, &server.key());
    let acme = [("Cookie", cookie.as_str()), ("X-Windlass-Namespace", "acme")];
    assert_eq!(server.without_key().get_with(STATUS, &acme).body["namespace"], "acme");
    let headers = [&console(&cookie)[..], &[("X-Windlass-Namespace", "acme")]].concat();
    let job = json!({"queue": "only-acme"});
    assert_eq!(server.without_key().post_with("/api/v1/enqueue", &headers, &job).status, 201);
    let names = |path: &str| {
        let queues = get(&server, path, &cookie).body;
        queues.as_array().expect("a list").iter().map(|queue| queue["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("/api/v1/queues?namespace=acme"), [json!("only-acme")]);
    assert!(names("/api/v1/queues").is_empty());
    assert_eq!(get(&server, "/api/v1/jobs?namespace=acme&strict=true", &cookie).status, 200);
    assert_eq!(get(&server, "/api/v1/jobs?namespace=none", &cookie).status, 404);
    assert_eq!(server.get("/api/v1/jobs?namespace=acme&strict=true").status, 400, "with a key it is the header");
}

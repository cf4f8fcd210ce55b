//! Events sent to addresses: what was asked for, signed, again when it failed, and on from there after a restart.

use std::net::TcpListener;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually};

use super::receiver::{PRIVATE, address, next, receive};

#[test]
fn what_was_asked_for_arrives_signed_and_in_order() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[]);
    let hook = server.post("/api/v1/webhook-endpoints", &json!({"url": url, "events": ["enqueued", "cancelled"]}));
    assert_eq!(hook.status, 201, "{hook:?}");
    assert_eq!((&hook.body["has_secret"], &hook.body["retry_limit"]), (&json!(true), &json!(3)));
    let secret = hook.body["secret"].as_str().expect("one that the server has made");
    let id = server.enqueue(&json!({"queue": "q"}));
    server.post(&format!("/api/v1/jobs/{id}/hold"), &json!({}));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({"reason": "no"}));
    for kind in ["enqueued", "cancelled"] {
        let delivery = next(&deliveries);
        assert_eq!((&delivery.body["type"], &delivery.body["job_id"]), (&json!(kind), &json!(id)));
        assert_eq!(delivery.header("content-type"), Some("application/json"));
        assert!(delivery.is_signed_with(secret) && delivery.signatures().count() == 1);
        assert_eq!(delivery.id(), format!("{}:{}", hook.body["id"].as_str().expect("an id"), delivery.body["seq"]));
        assert_eq!(delivery.header("x-windlass-signature"), None, "the header of before");
    }
    eventually("it is counted", || (server.get("/api/v1/webhook-endpoints").body[0]["delivered"] == 2).then_some(()));
    let hook_id = hook.body["id"].as_str().expect("an id");
    assert_eq!(server.delete(&format!("/api/v1/webhook-endpoints/{hook_id}")).body, json!({"status": "deleted"}));
    assert_eq!(server.delete(&format!("/api/v1/webhook-endpoints/{hook_id}")).status, 404);
    assert_eq!(server.get("/api/v1/webhook-endpoints").body, json!([]));
}

#[test]
fn a_delivery_that_fails_is_tried_again_and_given_up_in_the_end() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[500, 302, 503, 404, 200]);
    server.post("/api/v1/webhook-endpoints", &json!({"url": url, "events": ["enqueued"], "retry_limit": 1}));
    for _ in 0..3 {
        server.enqueue(&json!({"queue": "q"}));
    }
    let named: Vec<String> = (0..5).map(|_| next(&deliveries).id().to_owned()).collect();
    assert!(named[0] == named[1] && named[2] == named[3] && named[3] != named[4], "{named:?}");
    let hook = eventually("both are counted", || {
        let hook = server.get("/api/v1/webhook-endpoints").body[0].clone();
        (hook["delivered"] == 1 && hook["failed"] == 2).then_some(hook)
    });
    assert_eq!(hook["last_error"], Value::Null, "the last one arrived: {hook:#}");
}

#[test]
fn after_a_restart_it_goes_on_where_it_was() {
    let data = Data::new();
    let server = Server::start_on(&data, PRIVATE);
    // Nobody listens there yet.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = closed.local_addr().expect("an address");
    drop(closed);
    let hook = json!({"url": format!("http://{place}/hook?x=1"), "events": ["enqueued"], "retry_limit": 20});
    assert_eq!(server.post("/api/v1/webhook-endpoints", &hook).status, 201);
    let id = server.enqueue(&json!({"queue": "q"}));
    let data = server.kill_9();
    let listener = TcpListener::bind(place).expect("the same port");
    let server = Server::start_on(&data, PRIVATE);
    let (stream, _) = listener.accept().expect("it is told");
    let delivery = receive(stream, 200).expect("a delivery");
    assert_eq!(delivery.body["job_id"], json!(id));
    eventually("it is counted", || (server.get("/api/v1/webhook-endpoints").body[0]["delivered"] == 1).then_some(()));
}

#[test]
fn inner_addresses_and_other_nonsense_are_refused_with_words() {
    let server = Server::start();
    for (hook, word) in [
        (json!({}), "url"),
        (json!({"url": "http://127.0.0.1/"}), "--webhooks-private"),
        (json!({"url": "http://169.254.169.254/latest/meta-data"}), "--webhooks-private"),
        (json!({"url": "ftp://example.com/"}), "https://example.com/hooks"),
        (json!({"url": "https://example.com/", "events": ["finished"]}), "completed"),
        (json!({"url": "https://example.com/", "retry_limit": 99}), "retry_limit"),
        (json!({"url": "https://example.com/", "secret": ""}), "whsec_"),
        (json!({"url": "https://example.com/", "secret": "a secret of the old form"}), "leave it out"),
        (json!({"url": "https://example.com/", "secret": "whsec_c2hvcnQ="}), "24 to 64"),
    ] {
        let answer = server.post("/api/v1/webhook-endpoints", &hook);
        assert_eq!(answer.status, 400, "{hook}: {answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains(word)), "{hook}: {answer:?}");
    }
    assert_eq!(server.get("/api/v1/webhook-endpoints").body, json!([]));
}

#[test]
fn outgoing_webhooks_are_found_under_their_older_path_too_and_incoming_ones_beside_it() {
    let server = Server::start();
    let hook = json!({"url": "https://example.com/hooks", "events": ["dead"]});
    let older = server.post("/api/v1/webhooks", &hook);
    assert_eq!(older.status, 201, "{older:?}");
    let id = older.body["id"].as_str().expect("an id");
    let shown = server.get(&format!("/api/v1/webhook-endpoints/{id}"));
    let mut made = older.body.clone();
    assert!(made["secret"].take().is_string(), "{made}");
    let mut again = shown.body.clone();
    again["secret"] = Value::Null;
    assert_eq!((shown.status, &again), (200, &made), "the secret is shown once");
    assert!(shown.body.get("secret").is_none(), "{shown:?}");
    assert_eq!(server.get("/api/v1/webhook-endpoints").body, server.get("/api/v1/webhooks").body);
    // A job for a queue with the name of the endpoint: the incoming path is another.
    let job = server.post(&format!("/api/v1/webhooks/{id}"), &json!({"from": "elsewhere"}));
    assert_eq!((job.status, &job.body["status"]), (201, &json!("pending")), "{job:?}");
    assert_eq!(server.post(&format!("/api/v1/webhook-endpoints/{id}"), &json!({})).status, 405);
    assert_eq!(server.delete(&format!("/api/v1/webhooks/{id}")).body, json!({"status": "deleted"}));
    assert_eq!(server.get(&format!("/api/v1/webhook-endpoints/{id}")).status, 404);
    let document = server.get("/openapi.json").body;
    let deprecated = |path: &str, method: &str| document["paths"][path][method]["deprecated"].clone();
    for (path, method, expected) in [
        ("/api/v1/webhooks", "get", json!(true)),
        ("/api/v1/webhooks", "post", json!(true)),
        ("/api/v1/webhooks/{name}", "delete", json!(true)),
        ("/api/v1/webhooks/{name}", "post", Value::Null),
        ("/api/v1/webhook-endpoints", "post", Value::Null),
    ] {
        assert!(document["paths"][path][method].is_object(), "{method} {path}");
        assert_eq!(deprecated(path, method), expected, "{method} {path}");
    }
}

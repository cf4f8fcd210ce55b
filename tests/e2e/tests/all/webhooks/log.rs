//! What was delivered can be listed, tried with a test, and sent again.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually};

use super::receiver::{PRIVATE, address, next};

fn path(hook: &Value, rest: &str) -> String {
    format!("/api/v1/webhook-endpoints/{}{rest}", hook["id"].as_str().expect("an id"))
}

fn deliveries_of(server: &Server, hook: &Value) -> Vec<Value> {
    server.get(&path(hook, "/deliveries")).body.as_array().expect("a list").clone()
}

#[test]
fn every_attempt_is_listed_with_its_answer_also_after_a_restart() {
    let data = Data::new();
    let server = Server::start_on(&data, PRIVATE);
    let (url, deliveries) = address(&[500, 200, 404, 404]);
    let hook = json!({"url": url, "events": ["enqueued"], "retry_limit": 1});
    let hook = server.post("/api/v1/webhook-endpoints", &hook).body;
    server.enqueue(&json!({"queue": "q"}));
    let first = next(&deliveries);
    let waiting = eventually("the failed attempt is listed while it waits", || deliveries_of(&server, &hook).pop());
    assert_eq!((&waiting["status_code"], &waiting["attempt"]), (&json!(500), &json!(1)), "{waiting}");
    let again = next(&deliveries);
    assert_eq!(first.id(), again.id());
    let seconds = |delivery: &super::receiver::Delivery| {
        delivery.header("webhook-timestamp").and_then(|text| text.parse::<u64>().ok()).expect("seconds")
    };
    assert!(seconds(&first) <= seconds(&again), "each attempt has its own time");
    server.enqueue(&json!({"queue": "q"}));
    let lost = next(&deliveries);
    next(&deliveries);
    let listed = eventually("all are listed", || {
        let listed = deliveries_of(&server, &hook);
        (listed.len() == 4).then_some(listed)
    });
    let summary: Vec<Value> = listed
        .iter()
        .map(|one| json!([one["id"], one["type"], one["cause"], one["attempt"], one["status_code"]]))
        .collect();
    let entry = |id: &str, attempt: u32, status: u16| json!([id, "enqueued", "event", attempt, status]);
    assert_eq!(
        summary,
        [entry(lost.id(), 2, 404), entry(lost.id(), 1, 404), entry(first.id(), 2, 200), entry(first.id(), 1, 500)]
    );
    assert!(listed.iter().all(|one| one["at"].is_string() && one["duration_ms"].is_u64() && one["seq"].is_u64()));
    assert!(listed[3]["error"].as_str().is_some_and(|error| error.contains("answered 500")), "{listed:#?}");
    assert_eq!((&listed[2]["error"], &listed[2]["next_attempt_at"]), (&Value::Null, &Value::Null));
    assert!(listed[3]["next_attempt_at"].is_string() && listed[0]["next_attempt_at"].is_null(), "{listed:#?}");

    let data = server.kill_9();
    let server = Server::start_on(&data, PRIVATE);
    assert_eq!(deliveries_of(&server, &hook), listed);
    assert_eq!(server.delete(&path(&hook, "")).status, 200);
    assert_eq!(server.get(&path(&hook, "/deliveries")).status, 404);
}

#[test]
fn a_test_is_signed_sent_once_and_answered_with_what_came_back() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[200, 503]);
    // Neither the types of its events nor whether it is enabled matters.
    let hook = json!({"url": url, "events": ["dead"], "enabled": false});
    let hook = server.post("/api/v1/webhook-endpoints", &hook).body;
    let answer = server.post(&path(&hook, "/test"), &json!({}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let came = &answer.body;
    assert_eq!((&came["delivered"], &came["status_code"], &came["error"]), (&json!(true), &json!(200), &Value::Null));
    assert_eq!((&came["response"], &came["cause"]), (&json!("it is 200"), &json!("test")));
    let delivery = next(&deliveries);
    assert!(delivery.is_signed_with(hook["secret"].as_str().expect("a secret")));
    assert_eq!((&delivery.body["type"], delivery.id()), (&json!("test"), came["id"].as_str().expect("an id")));

    let failed = server.post(&path(&hook, "/test"), &json!({})).body;
    assert_eq!((&failed["delivered"], &failed["status_code"]), (&json!(false), &json!(503)));
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("503")), "{failed}");
    next(&deliveries);
    let listed = deliveries_of(&server, &hook);
    assert_eq!(listed.len(), 2, "it is not tried again: {listed:#?}");
    let shown = server.get(&path(&hook, "")).body;
    assert_eq!((&shown["delivered"], &shown["failed"], &shown["last_error"]), (&json!(0), &json!(0), &Value::Null));
    let id = failed["id"].as_str().expect("an id");
    let refused = server.post(&path(&hook, &format!("/deliveries/{id}/redeliver")), &json!({}));
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[test]
fn a_test_of_an_address_where_nobody_listens_says_so() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", closed.local_addr().expect("an address"));
    drop(closed);
    let hook = server.post("/api/v1/webhook-endpoints", &json!({"url": url})).body;
    let came = server.post(&path(&hook, "/test"), &json!({})).body;
    assert_eq!(
        (&came["delivered"], &came["status_code"], &came["response"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    assert!(came["error"].as_str().is_some_and(|error| error.contains("127.0.0.1")), "{came}");
}

#[test]
fn a_delivery_that_was_given_up_is_sent_again_with_the_same_id() {
    let server = Server::start_on(&Data::new(), PRIVATE);
    let (url, deliveries) = address(&[500]);
    let hook = json!({"url": url, "events": ["enqueued"], "retry_limit": 0});
    let hook = server.post("/api/v1/webhook-endpoints", &hook).body;
    let job = server.enqueue(&json!({"queue": "q"}));
    let lost = next(&deliveries);
    eventually("it is given up", || (server.get(&path(&hook, "")).body["failed"] == 1).then_some(()));
    let again = path(&hook, &format!("/deliveries/{}/redeliver", lost.id()));
    let answer = server.post(&again, &json!({}));
    assert_eq!((answer.status, &answer.body["delivered"]), (200, &json!(true)), "{answer:?}");
    assert_eq!((&answer.body["cause"], &answer.body["id"]), (&json!("redelivery"), &json!(lost.id())));
    let delivery = next(&deliveries);
    assert_eq!((delivery.id(), &delivery.body["job_id"]), (lost.id(), &json!(job)));
    assert!(delivery.is_signed_with(hook["secret"].as_str().expect("a secret")));

    // Only what this webhook was sent: an event of the same number is not enough.
    let other = server.post("/api/v1/webhook-endpoints", &json!({"url": url, "events": ["dead"]})).body;
    let id = format!("{}:1", other["id"].as_str().expect("an id"));
    for id in [id.as_str(), lost.id()] {
        let refused = server.post(&path(&other, &format!("/deliveries/{id}/redeliver")), &json!({}));
        assert_eq!((refused.status, &refused.body["code"]), (404, &json!("NOT_FOUND")), "{refused:?}");
    }
}

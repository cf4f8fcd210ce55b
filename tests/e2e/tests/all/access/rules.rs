//! Enqueue rules: a public form feeds one queue, and does nothing else.

use serde_json::{Value, json};
use windlass_e2e::{Data, Server};

use super::{client_of, client_with, make_namespace};

#[track_caller]
fn set_rules(server: &Server, rules: &Value) {
    let set = server.put("/api/v1/enqueue-rules", rules.to_string().as_bytes());
    assert_eq!(set.status, 200, "{set:?}");
}

fn for_anybody(count: u32) -> Value {
    json!([{"queues": ["contact"], "who": "anybody", "rate": {"count": count, "per": "1h"}}])
}

#[test]
fn anybody_enqueues_where_a_rule_says_so_as_often_as_it_says_and_does_nothing_else() {
    let server = Server::start();
    let stranger = server.without_key();
    let form = json!({"queue": "contact", "payload": {"text": "hello"}});
    assert_eq!(stranger.post("/api/v1/enqueue", &form).status, 401);
    let rule = json!([{"queues": ["contact"], "who": "anybody", "rate": {"count": 2, "per": "1h"}}]);
    let set = server.put("/api/v1/enqueue-rules", rule.to_string().as_bytes());
    assert_eq!(set.status, 200, "{set:?}");
    let first = stranger.post("/api/v1/enqueue", &form);
    assert_eq!(first.status, 201, "{first:?}");
    let id = first.body["job_id"].as_str().expect("an id");
    assert_eq!(server.job(id)["created_by"], "anybody");
    assert_eq!(stranger.post("/api/v1/enqueue", &json!({"queue": "other"})).status, 403);
    let sneaky = json!({"queue": "contact", "chain": {"steps": [{"queue": "contact"}, {"queue": "other"}]}});
    assert_eq!(stranger.post("/api/v1/enqueue", &sneaky).status, 403);
    for path in [format!("/api/v1/jobs/{id}"), "/api/v1/queues".to_owned()] {
        assert_eq!(stranger.get(&path).status, 401, "{path}");
    }
    assert_eq!(stranger.post("/api/v1/enqueue", &form).status, 201);
    let refused = stranger.post("/api/v1/enqueue", &form);
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("RATE_LIMITED")), "{refused:?}");
    // Rules outlive a restart.
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.without_key().post("/api/v1/enqueue", &form).status, 201);
}

#[test]
fn a_rule_for_some_keys_keeps_other_producers_out_of_a_queue() {
    let server = Server::start();
    let (own, id) = client_with(&server, &json!({"name": "payroll", "role": "producer"}));
    let other = client_of(&server, "producer", "default");
    let rule = json!([{"queues": ["pay.*"], "who": {"keys": [id]}}]);
    assert_eq!(server.put("/api/v1/enqueue-rules", rule.to_string().as_bytes()).status, 200);
    let pay = json!({"queue": "pay.out"});
    assert_eq!(own.post("/api/v1/enqueue", &pay).status, 201);
    assert_eq!(other.post("/api/v1/enqueue", &pay).status, 403);
    assert_eq!(other.post("/api/v1/enqueue", &json!({"queue": "mail"})).status, 201);
    assert_eq!(server.post("/api/v1/enqueue", &pay).status, 201, "an admin always may");
    let open = json!([{"queues": ["a"], "who": "anybody"}]);
    let refused = server.put("/api/v1/enqueue-rules", open.to_string().as_bytes());
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("VALIDATION_ERROR")), "it needs a rate");
}

#[test]
fn a_callback_of_a_batch_is_held_to_the_rules_and_strangers_have_no_batches() {
    let server = Server::start();
    let (own, id) = client_with(&server, &json!({"name": "payroll", "role": "producer"}));
    let other = client_of(&server, "producer", "default");
    set_rules(
        &server,
        &json!([{"queues": ["pay.*"], "who": {"keys": [id]}}, {"queues": ["contact"], "who": "anybody", "rate": {"count": 100, "per": "1h"}}]),
    );
    let batch = json!({"callback_queue": "pay.out"});
    assert_eq!(other.post("/api/v1/batch", &batch).status, 403);
    let complete = json!({"jobs": [{"queue": "mail"}], "batch": batch});
    assert_eq!(other.post("/api/v1/enqueue/batch", &complete).status, 403);
    assert_eq!(own.post("/api/v1/enqueue/batch", &complete).status, 201);
    let made = own.post("/api/v1/batch", &batch);
    assert_eq!(made.status, 201, "{made:?}");
    let stranger = server.without_key();
    for callback in [json!({}), json!({"callback_queue": "contact"})] {
        assert_eq!(stranger.post("/api/v1/batch", &callback).status, 403, "{callback}");
    }
    let path = format!("/api/v1/batch/{}/seal", made.body["batch_id"].as_str().expect("an id"));
    assert_eq!(stranger.post(&path, &json!({})).status, 403);
    let complete = json!({"jobs": [{"queue": "contact"}], "batch": {"callback_queue": "contact"}});
    assert_eq!(stranger.post("/api/v1/enqueue/batch", &complete).status, 403);
}

#[test]
fn a_rate_counts_jobs_and_not_requests_and_one_network_counts_as_one_client() {
    let server = Server::start_on(&Data::new(), &["--behind-proxy"]);
    set_rules(&server, &for_anybody(3));
    let send = |client: &str, jobs: usize| {
        let jobs: Vec<_> = (0..jobs).map(|_| json!({"queue": "contact"})).collect();
        let stranger = server.without_key();
        stranger.post_with("/api/v1/enqueue/batch", &[("X-Forwarded-For", client)], &json!({"jobs": jobs})).status
    };
    assert_eq!(send("203.0.113.1", 4), 400, "more than the rate at once");
    assert_eq!(send("203.0.113.1", 2), 201);
    assert_eq!(send("203.0.113.1", 2), 429, "one is left");
    assert_eq!(send("203.0.113.1", 1), 201);
    assert_eq!(send("2001:db8:0:1::1", 3), 201);
    assert_eq!(send("2001:db8:0:1::2", 1), 429, "of the same network");
    assert_eq!(send("2001:db8:0:2::1", 1), 201);
}

#[test]
fn a_stranger_sees_nothing_of_jobs_that_are_there_and_decides_nothing_about_how_they_run() {
    let server = Server::start();
    set_rules(&server, &for_anybody(100));
    let secret = json!({"queue": "contact", "payload": {"text": "not to be seen"}, "unique_key": "order-7"});
    let id = server.enqueue(&secret);
    let stranger = server.without_key();
    for (path, job) in [
        ("/api/v1/enqueue", json!({"queue": "contact", "unique_key": "order-7"})),
        ("/api/v1/webhooks/contact?unique_key=order-7", json!({})),
    ] {
        let answer = stranger.post(path, &job);
        assert_eq!((answer.status, &answer.body["job_id"]), (200, &json!(id)), "{path}: {answer:?}");
        assert!(!answer.body.to_string().contains("not to be seen"), "{path}: {answer:?}");
    }
    for (field, value) in [
        ("priority", json!("critical")),
        ("scheduled_at", json!("2090-01-01T00:00:00Z")),
        ("parent_id", json!(id)),
        ("depends_on", json!([id])),
        ("checkpoint", json!({"steps": 1})),
        ("target_worker", json!("w1")),
        ("max_retries", json!(1000)),
        ("unique_scope", json!("scope")),
    ] {
        let mut job = json!({"queue": "contact", "unique_key": "mine", "scope": "s"});
        job[field] = value;
        if field != "unique_scope" {
            job.as_object_mut().expect("an object").retain(|name, _| name == "queue" || name == field);
        }
        let refused = stranger.post("/api/v1/enqueue", &job);
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!("FORBIDDEN")), "{field}: {refused:?}");
    }
    assert_eq!(stranger.post("/api/v1/webhooks/contact?priority=high", &json!({})).status, 403);
}

#[test]
fn the_form_of_another_site_enqueues_where_a_rule_lets_anybody_in_whoever_its_visitor_is() {
    let server = Server::start();
    let form = json!({"queue": "contact", "payload": {"text": "hello"}});
    let page = ("Origin", "https://shop.example");
    let stranger = server.without_key();
    assert_eq!(stranger.post_with("/api/v1/enqueue", &[page], &form).status, 403, "there is no rule yet");
    assert_eq!(stranger.preflight("/api/v1/enqueue", "https://shop.example"), (403, None));
    set_rules(&server, &for_anybody(100));
    let sent = stranger.post_with("/api/v1/enqueue", &[page], &form);
    assert_eq!((sent.status, sent.allow_origin.as_deref()), (201, Some("*")), "{sent:?}");
    assert_eq!(stranger.preflight("/api/v1/enqueue", "https://shop.example"), (204, Some("*".to_owned())));
    assert_eq!(stranger.preflight("/api/v1/webhooks/contact", "https://shop.example").0, 204);
    assert_eq!(stranger.preflight("/api/v1/jobs/search", "https://shop.example"), (403, None));
    // The cookies of a visitor who has access give the page none.
    let cookie = format!("windlass_key={}", server.key());
    let sent = stranger.post_with("/api/v1/enqueue", &[page, ("Cookie", &cookie)], &form);
    assert_eq!(sent.status, 201, "{sent:?}");
    assert_eq!(server.job(sent.body["job_id"].as_str().expect("an id"))["created_by"], "anybody");
    let other = json!({"queue": "other"});
    assert_eq!(stranger.post_with("/api/v1/enqueue", &[page, ("Cookie", &cookie)], &other).status, 403);
    for path in ["/api/v1/jobs/search", "/api/v1/queues/contact/pause"] {
        assert_eq!(stranger.post_with(path, &[page, ("Cookie", &cookie)], &json!({})).status, 403, "{path}");
    }
    make_namespace(&server, "acme", &json!({}));
    let to_acme = stranger.post_with("/api/v1/enqueue", &[page, ("X-Windlass-Namespace", "acme")], &form);
    assert_eq!(to_acme.status, 403, "the rule is not acme's");
}

#[test]
fn whoever_a_rule_keeps_out_of_a_queue_gets_no_job_there_by_moving_scheduling_or_acking_either() {
    let server = Server::start();
    let (_, id) = client_with(&server, &json!({"name": "payroll", "role": "producer"}));
    let (operator, worker) = (client_of(&server, "operator", "default"), client_of(&server, "worker", "default"));
    set_rules(&server, &json!([{"queues": ["pay.*"], "who": {"keys": [id]}}]));
    let job = operator.enqueue(&json!({"queue": "mail"}));
    assert_eq!(operator.post(&format!("/api/v1/jobs/{job}/move"), &json!({"queue": "pay.out"})).status, 403);
    let bulk = json!({"action": "move", "move_to_queue": "pay.out", "job_ids": [job]});
    assert_eq!(operator.post("/api/v1/jobs/bulk", &bulk).status, 403);
    let schedule = json!({"name": "nightly", "queue": "pay.out", "cron": "30 2 * * *"});
    assert_eq!(operator.post("/api/v1/schedules", &schedule).status, 403);
    let schedule = json!({"name": "nightly", "queue": "mail", "cron": "30 2 * * *"});
    assert_eq!(operator.post("/api/v1/schedules", &schedule).status, 201);
    assert_eq!(operator.put("/api/v1/schedules/nightly", br#"{"queue": "pay.out"}"#).status, 403);
    let fetched = worker.post("/api/v1/fetch", &json!({"queues": ["mail"], "worker_id": "w", "timeout": 1}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let ack = |queue: &str| worker.post(&format!("/api/v1/ack/{job}"), &json!({"children": [{"queue": queue}]}));
    assert_eq!(ack("pay.out").status, 403);
    assert_eq!(ack("mail.read").status, 200, "no rule decides about that one");
}

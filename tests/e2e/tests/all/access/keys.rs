//! Keys: the first one, others with roles, queues and an end, and what happens without one.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::json;
use windlass_e2e::{Data, Server, eventually, windlass};

use super::{client_of, client_with};

#[test]
fn the_first_start_makes_a_private_key_that_the_command_finds_and_a_restart_keeps() {
    let server = Server::start();
    let file = server.data().path().join("admin.key");
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let key = server.key();
    assert!(key.starts_with("wl_"), "{key}");
    let list = |server: &Server| {
        let mut command = windlass();
        command.env("WINDLASS_URL", server.url("")).args(["key", "list"]).stdout(Stdio::piped());
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(list(&server).contains("the first key"));
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.key(), key);
    assert!(list(&server).contains("the first key"));
}

#[test]
fn without_a_key_nothing_is_told_and_a_wrong_one_is_not_better() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let stranger = server.without_key();
    for path in
        ["/api/v1/queues", &format!("/api/v1/jobs/{id}"), "/api/v1/jobs/none", "/api/v1/no/such/route", "/metrics"]
    {
        let answer = stranger.get(path);
        assert_eq!((answer.status, &answer.body["code"]), (401, &json!("UNAUTHORIZED")), "{path}: {answer:?}");
    }
    assert_eq!(stranger.post("/api/v1/enqueue", &json!({"queue": "q"})).status, 401);
    assert_eq!(stranger.get("/healthz").status, 200);
    let wrong = server.get_with("/api/v1/queues", &[("X-API-Key", "wl_000000000000_wrong")]);
    assert_eq!((wrong.status, &wrong.body["code"]), (401, &json!("UNAUTHORIZED")), "{wrong:?}");
}

#[test]
fn a_key_is_shown_once_and_refused_once_it_is_revoked_or_has_expired() {
    let server = Server::start();
    let (client, id) = client_with(&server, &json!({"name": "ci", "role": "viewer"}));
    assert_eq!(client.get("/api/v1/queues").status, 200);
    let listed = server.get("/api/v1/auth/keys").body;
    let row = listed["keys"].as_array().expect("a list").iter().find(|key| key["id"] == *id).expect("it is listed");
    assert_eq!((&row["role"], &row["namespace"], &row["key"]), (&json!("viewer"), &json!("default"), &json!(null)));
    assert_eq!(server.delete(&format!("/api/v1/auth/keys/{id}")).status, 200);
    assert_eq!(client.get("/api/v1/queues").status, 401);
    assert_eq!(server.delete(&format!("/api/v1/auth/keys/{id}")).status, 404);
    let past = json!({"name": "ci", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"});
    let refused = server.post("/api/v1/auth/keys", &past);
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("VALIDATION_ERROR")), "{refused:?}");
    // After a restart a revoked key is still refused, and the others are known.
    let (other, _) = client_with(&server, &json!({"name": "ci", "role": "viewer"}));
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(server.get("/api/v1/queues").status, 200);
    drop((client, other));
}

#[test]
fn a_key_of_some_queues_uses_those_and_sees_no_others() {
    let server = Server::start();
    let (secret, shown) =
        (server.enqueue(&json!({"queue": "pay.out"})), server.enqueue(&json!({"queue": "mail.send"})));
    let wanted = json!({"name": "mailer", "role": "operator", "queues": ["mail.*"]});
    let (client, _) = client_with(&server, &wanted);
    assert_eq!(client.get(&format!("/api/v1/jobs/{shown}")).status, 200);
    assert_eq!(client.get(&format!("/api/v1/jobs/{secret}")).status, 404);
    assert_eq!(client.post(&format!("/api/v1/jobs/{secret}/cancel"), &json!({})).status, 404);
    assert_eq!(client.post(&format!("/api/v1/jobs/{shown}/move"), &json!({"queue": "pay.out"})).status, 403);
    assert_eq!(client.post("/api/v1/enqueue", &json!({"queue": "mail.read"})).status, 201);
    let refused = client.post("/api/v1/enqueue", &json!({"queue": "pay.out"}));
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("FORBIDDEN")), "{refused:?}");
    let chain = json!({"queue": "mail.send", "chain": {"steps": [{"queue": "mail.send"}, {"queue": "pay.out"}]}});
    assert_eq!(client.post("/api/v1/enqueue", &chain).status, 403, "a later step would get there");
    let queues = client.get("/api/v1/queues").body;
    let names: Vec<_> = queues.as_array().expect("a list").iter().map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, [json!("mail.read"), json!("mail.send")]);
    let found = client.post("/api/v1/jobs/search", &json!({})).body;
    assert_eq!((found["total"].as_u64(), found["jobs"].as_array().map(Vec::len)), (Some(2), Some(2)), "{found}");
    assert_eq!(client.post("/api/v1/queues/pay.out/pause", &json!({})).status, 403);
}

#[test]
fn an_admin_hands_out_no_more_than_they_have() {
    let server = Server::start();
    super::make_namespace(&server, "acme", &json!({}));
    let admin = client_of(&server, "admin", "acme");
    let made = admin.post("/api/v1/auth/keys", &json!({"name": "own", "role": "worker"}));
    assert_eq!((made.status, &made.body["namespace"]), (201, &json!("acme")), "{made:?}");
    for namespace in ["*", "default"] {
        let wanted = json!({"name": "more", "role": "viewer", "namespace": namespace});
        assert_eq!(admin.post("/api/v1/auth/keys", &wanted).status, 403, "{namespace}");
    }
    let listed = admin.get("/api/v1/auth/keys").body;
    let all = listed["keys"].as_array().expect("a list");
    assert!(all.len() == 2 && all.iter().all(|key| key["namespace"] == "acme"), "{listed}");
    assert_eq!(admin.get("/api/v1/namespaces").status, 403);
    assert_eq!(admin.post("/api/v1/pause", &json!({})).status, 403, "that is everybody's server");
}

#[test]
fn a_key_has_a_rate() {
    let server = Server::start();
    let wanted = json!({"name": "slow", "role": "viewer", "rate": {"rate": 3, "period": "1h"}});
    let (client, _) = client_with(&server, &wanted);
    for _ in 0..3 {
        assert_eq!(client.get("/api/v1/queues").status, 200);
    }
    let refused = client.get("/api/v1/queues");
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("RATE_LIMITED")), "{refused:?}");
    assert!(refused.retry_after.is_some(), "{refused:?}");
    assert_eq!(server.get("/api/v1/queues").status, 200);
}

#[test]
fn an_insecure_server_needs_no_key_and_makes_none() {
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    assert!(!server.data().path().join("admin.key").exists());
    assert_eq!(server.without_key().get("/api/v1/queues").status, 200);
    assert_eq!(server.without_key().get("/api/v1/auth/status").body["actor"], "insecure");
}

#[test]
fn streams_end_with_the_key_that_they_were_opened_with() {
    let server = Server::start();
    let (client, id) = client_with(&server, &json!({"name": "dashboard", "role": "viewer"}));
    let job = server.enqueue(&json!({"queue": "mail"}));
    let mut streams = [client.events("/api/v1/events"), client.events(&format!("/api/v1/jobs/{job}/events"))];
    let held = server.enqueue(&json!({"queue": "mail"}));
    let first = streams[0].next().expect("an event");
    assert_eq!(first.data["job_id"], held.as_str(), "{first:?}");
    assert_eq!(server.delete(&format!("/api/v1/auth/keys/{id}")).status, 200);
    server.enqueue(&json!({"queue": "mail", "tags": {"after": "revoked"}}));
    assert_eq!(server.post(&format!("/api/v1/jobs/{job}/hold"), &json!({})).status, 200);
    for stream in &mut streams {
        // The stream of a job begins with what has happened, which was sent before.
        let rest: Vec<_> = stream.by_ref().skip_while(|event| event.kind == "enqueued").collect();
        let kinds: Vec<_> = rest.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["ended"], "nothing that happened later is told");
        assert_eq!(rest[0].data["code"], "SIGNED_OUT");
    }
}

#[test]
fn a_key_works_until_it_expires_and_its_streams_end_then() {
    let server = Server::start();
    // The server says when soon is.
    let later = server.enqueue(&json!({"queue": "later", "delay": "3s"}));
    let soon = server.job(&later)["scheduled_at"].clone();
    let (client, _) = client_with(&server, &json!({"name": "short", "role": "viewer", "expires_at": soon}));
    assert_eq!(client.get("/api/v1/queues").status, 200);
    let mut events = client.events("/api/v1/events");
    eventually("it expires", || (client.get("/api/v1/queues").status == 401).then_some(()));
    server.enqueue(&json!({"queue": "mail"}));
    let last = events.next().expect("why it ends");
    assert_eq!((last.kind.as_str(), &last.data["code"]), ("ended", &json!("SIGNED_OUT")), "{last:?}");
    assert_eq!(events.next(), None);
}

#[test]
fn schedules_versions_grants_and_settings_say_which_key_made_them_also_after_a_restart() {
    let server = Server::start();
    let (ann, by_ann) = client_with(&server, &json!({"name": "ann", "role": "admin"}));
    let (bob, by_bob) = client_with(&server, &json!({"name": "bob", "role": "admin"}));
    let schedule = json!({"name": "nightly", "queue": "mail", "cron": "30 2 * * *"});
    assert_eq!(ann.post("/api/v1/schedules", &schedule).status, 201);
    assert_eq!(bob.put("/api/v1/schedules/nightly", br#"{"cron": "30 3 * * *", "created_by": "eve"}"#).status, 200);
    let component = windlass_e2e::plugin("digest");
    let label = [("Windlass-By", "eve")];
    assert_eq!(ann.put_with("/api/v1/plugins/digest?queues=hash", &label, &component).status, 201);
    let second = windlass_e2e::variant(&component, 2);
    assert_eq!(bob.put("/api/v1/plugins/digest?queues=hash", &second).status, 201);
    assert_eq!(bob.put("/api/v1/plugins/digest/grant", br#"{"http": ["example.com"]}"#).status, 200);
    assert_eq!(ann.post("/api/v1/queues/mail/concurrency", &json!({"max": 3})).status, 200);
    let server = Server::start_on(&server.kill_9(), &[]);
    let schedule = server.get("/api/v1/schedules/nightly").body;
    assert_eq!(schedule["created_by"], by_ann.as_str(), "a change does not make another its creator: {schedule}");
    let plugin = server.get("/api/v1/plugins/digest").body;
    let by: Vec<_> = (0..2).map(|at| plugin["versions"][at]["created_by"].clone()).collect();
    assert_eq!(by, [json!(by_ann), json!(by_bob)], "{plugin}");
    assert_eq!(plugin["versions"][0]["uploaded_by"], "eve", "the label is only that");
    assert_eq!(plugin["grant_created_by"], by_bob.as_str(), "{plugin}");
    assert_eq!(server.get("/api/v1/queues/mail").body["settings_created_by"], by_ann.as_str());
}

//! Two tenants with the same names in everything: neither sees, changes or slows the other.

use serde_json::{Value, json};
use windlass_e2e::{Client, Server};

use super::{client_of, make_namespace};

/// Everything that a tenant has, under the same names for each.
struct Tenant {
    client: Client,
    job: String,
    batch: String,
    bulk: String,
}

fn tenant(server: &Server, name: &str) -> Tenant {
    make_namespace(server, name, &json!({}));
    let client = client_of(server, "admin", name);
    let job = client.post(
        "/api/v1/enqueue",
        &json!({"queue": "mail", "payload": {"of": name}, "tags": {"a": "b"}, "scope": "user:1", "unique_key": "once",
                "unique_scope": "scope"}),
    );
    assert_eq!((job.status, &job.body["unique_existing"]), (201, &json!(false)), "{job:?}");
    let batch = client.post("/api/v1/batch", &json!({"callback_queue": "done"}));
    assert_eq!(batch.status, 201, "{batch:?}");
    let schedule = json!({"name": "nightly", "queue": "mail", "cron": "30 2 * * *"});
    assert_eq!(client.post("/api/v1/schedules", &schedule).status, 201);
    assert_eq!(client.put("/api/v1/secrets/token", format!("secret of {name}").as_bytes()).status, 200);
    let uploaded = client.put("/api/v1/plugins/digest?queues=hash", &windlass_e2e::plugin("digest"));
    assert_eq!(uploaded.status, 201, "{uploaded:?}");
    let bulk = json!({"action": "change_priority", "priority": "high", "filter": {"queue": "mail"}, "async": true});
    let bulk = client.post("/api/v1/jobs/bulk", &bulk);
    assert_eq!(bulk.status, 202, "{bulk:?}");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    Tenant {
        job: text(&job.body["job_id"]),
        batch: text(&batch.body["batch_id"]),
        bulk: text(&bulk.body["bulk_operation_id"]),
        client,
    }
}

#[test]
fn two_tenants_with_the_same_names_in_everything_see_nothing_of_each_other() {
    let server = Server::start();
    let (acme, globex) = (tenant(&server, "acme"), tenant(&server, "globex"));
    for (own, other) in [(&acme, &globex), (&globex, &acme)] {
        let hidden = [
            format!("/api/v1/jobs/{}", other.job),
            format!("/api/v1/jobs/{}/logs", other.job),
            format!("/api/v1/jobs/{}/payload", other.job),
            format!("/api/v1/jobs/{}/children", other.job),
            format!("/api/v1/jobs/{}/tree", other.job),
            format!("/api/v1/jobs/{}/events", other.job),
            format!("/api/v1/jobs/{}/wait?timeout=1ms", other.job),
            format!("/api/v1/flows/{}", other.job),
            format!("/api/v1/batch/{}", other.batch),
            format!("/api/v1/bulk/{}", other.bulk),
        ];
        for path in hidden {
            assert_eq!(own.client.get(&path).status, 404, "{path}");
        }
        for action in ["cancel", "retry", "hold", "approve", "reject", "requeue", "rebuild"] {
            let path = format!("/api/v1/jobs/{}/{action}", other.job);
            assert_eq!(own.client.post(&path, &json!({})).status, 404, "{path}");
        }
        assert_eq!(own.client.delete(&format!("/api/v1/jobs/{}", other.job)).status, 404);
        assert_eq!(own.client.post(&format!("/api/v1/batch/{}/seal", other.batch), &json!({})).status, 404);
        let got = own.client.post("/api/v1/jobs/bulk-get", &json!({"job_ids": [other.job, own.job]})).body;
        assert_eq!(got["jobs"].as_array().map(Vec::len), Some(1), "{got}");
        for filter in [
            json!({}),
            json!({"queue": "mail"}),
            json!({"tags": {"a": "b"}}),
            json!({"scope": "user:1"}),
            json!({"unique_key": "once"}),
            json!({"payload_contains": "of"}),
            json!({"payload_jq": ".of"}),
            json!({"job_id_prefix": "job_"}),
        ] {
            let found = own.client.post("/api/v1/jobs/search", &filter).body;
            let ids: Vec<_> = found["jobs"].as_array().expect("a list").iter().map(|job| job["id"].clone()).collect();
            assert_eq!((found["total"].as_u64(), ids), (Some(1), vec![json!(own.job)]), "{filter}: {found}");
        }
        for (field, value) in
            [("parent_id", json!(other.job)), ("depends_on", json!([other.job])), ("batch_id", json!(other.batch))]
        {
            let mut job = json!({"queue": "mail"});
            job[field] = value;
            let refused = own.client.post("/api/v1/enqueue", &job);
            assert_eq!(refused.status, 400, "{field}: {refused:?}");
        }
        let bulk = json!({"action": "delete", "job_ids": [other.job]});
        let done = own.client.post("/api/v1/jobs/bulk", &bulk).body;
        assert_eq!(done["affected"], 0, "{done}");
        for (path, list) in [
            ("/api/v1/queues", None),
            ("/api/v1/schedules", None),
            ("/api/v1/plugins", Some("plugins")),
            ("/api/v1/secrets", Some("secrets")),
        ] {
            let body = own.client.get(path).body;
            let rows = list.map_or(&body, |list| &body[list]).as_array().cloned().unwrap_or_default();
            let names: Vec<_> = rows.iter().filter(|row| row["name"] == "mail" || list.is_some()).collect();
            assert!(names.len() <= 1, "{path}: {body}");
        }
        let stats = own.client.get("/api/v1/jobs/stats").body;
        assert_eq!(stats["total"].as_u64().or(stats["pending"].as_u64()), Some(1), "{stats}");
    }
    assert_eq!(server.get(&format!("/api/v1/jobs/{}", acme.job)).status, 404, "an admin of all names the namespace");
    let named = server.get_with(
        &format!("/api/v1/jobs/{}", acme.job),
        &[("X-Windlass-Namespace", "acme"), ("X-API-Key", &server.key())],
    );
    assert_eq!((named.status, &named.body["payload"]), (200, &json!({"of": "acme"})));
    let strange = acme.client.get_with("/api/v1/queues", &[("X-Windlass-Namespace", "globex")]);
    assert_eq!(strange.status, 403, "{strange:?}");
}

#[test]
fn an_attempt_of_one_tenant_has_its_own_secrets_and_spawns_only_at_home() {
    let server = Server::start();
    let (acme, globex) = (tenant(&server, "acme"), tenant(&server, "globex"));
    let ran = |tenant: &Tenant| {
        let id = tenant.client.enqueue(&json!({"queue": "hash", "payload": {"text": "hello"}}));
        let job = tenant.client.wait_for(&id, "completed");
        assert_eq!(job["queue"], "hash", "{job:#}");
        assert_eq!(job["plugin"].as_str().or(job["worker"]["plugin"].as_str()), Some("digest"), "{job:#}");
    };
    ran(&acme);
    ran(&globex);
    let removed = acme.client.delete("/api/v1/plugins/digest");
    assert_eq!(removed.status, 200, "{removed:?}");
    ran(&globex);
    let gone = server.delete("/api/v1/namespaces/acme");
    assert_eq!((gone.status, &gone.body["code"]), (400, &json!("VALIDATION_ERROR")), "it must be confirmed");
    let gone = server.delete("/api/v1/namespaces/acme?confirm=true");
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(acme.client.get("/api/v1/queues").status, 401, "its keys are revoked");
    ran(&globex);
    make_namespace(&server, "acme", &json!({}));
    let fresh = client_of(&server, "admin", "acme");
    assert_eq!(fresh.get("/api/v1/queues").body, json!([]), "nothing of it is left");
    assert_eq!(fresh.get(&format!("/api/v1/jobs/{}", acme.job)).status, 404);
}

#[test]
fn a_namespace_stays_within_its_quotas_and_others_go_on() {
    let server = Server::start();
    make_namespace(&server, "small", &json!({"open_jobs": 3, "queues": 2, "stored_bytes": 1000}));
    let client = client_of(&server, "admin", "small");
    let enqueue = |job: &Value| client.post("/api/v1/enqueue", job);
    let ids: Vec<_> = ["a", "b", "a"].map(|queue| enqueue(&json!({"queue": queue}))).into();
    assert!(ids.iter().all(|answer| answer.status == 201), "{ids:?}");
    let refused = enqueue(&json!({"queue": "a"}));
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("QUOTA_EXCEEDED")), "{refused:?}");
    assert_eq!(server.post("/api/v1/enqueue", &json!({"queue": "a"})).status, 201, "others are not limited");
    let id = ids[0].body["job_id"].as_str().expect("an id");
    assert_eq!(client.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(enqueue(&json!({"queue": "c"})).status, 429, "a third queue");
    assert_eq!(enqueue(&json!({"queue": "b", "payload": "x".repeat(2_000)})).status, 429, "too many bytes");
    // The numbers outlive a crash.
    let key = client_of(&server, "admin", "small");
    drop(key);
    let server = Server::start_on(&server.kill_9(), &[]);
    let row = server.get("/api/v1/namespaces").body["namespaces"][1].clone();
    assert_eq!(
        (&row["name"], &row["used"]["open_jobs"], &row["used"]["queues"]),
        (&json!("small"), &json!(2), &json!(2))
    );
    let client = client_of(&server, "admin", "small");
    assert_eq!(client.post("/api/v1/enqueue", &json!({"queue": "a"})).status, 201);
    assert_eq!(client.post("/api/v1/enqueue", &json!({"queue": "a"})).status, 429);
    let more = server.put("/api/v1/namespaces/small/quotas", br#"{"open_jobs": 10}"#);
    assert_eq!(more.status, 200, "{more:?}");
    assert_eq!(client.post("/api/v1/enqueue", &json!({"queue": "a"})).status, 201);
}

#[test]
fn a_stream_shows_the_events_of_its_own_tenant() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    let mut events = acme.events("/api/v1/events");
    server.enqueue(&json!({"queue": "mail"}));
    let own = acme.enqueue(&json!({"queue": "mail"}));
    let first = events.next().expect("an event");
    assert_eq!((first.kind.as_str(), &first.data["job_id"]), ("enqueued", &json!(own)), "{first:?}");
    assert_eq!(first.data["queue"], "mail");
}

#[test]
fn an_instance_that_served_one_tenant_serves_no_other_even_if_their_plugins_are_equal() {
    let server = Server::start();
    let tenants = ["acme", "globex"].map(|name| {
        make_namespace(&server, name, &json!({}));
        let client = client_of(&server, "admin", name);
        let path = "/api/v1/plugins/hostile?queues=hostile";
        let uploaded = client.upload_with(path, &windlass_e2e::plugin("hostile"), "reuse = 5");
        assert_eq!(uploaded.status, 201, "{uploaded:?}");
        client
    });
    let served = |client: &Client| {
        let id = client.enqueue(&json!({"queue": "hostile", "payload": {"try": "served"}}));
        client.wait_for(&id, "completed")["result"].clone()
    };
    let [acme, globex] = &tenants;
    assert_eq!([served(acme), served(acme)], [json!("1"), json!("2")]);
    assert_eq!(served(globex), "1", "nothing that acme's handler left in memory is there");
}

#[test]
fn a_namespace_that_is_made_again_has_nothing_of_the_one_that_was_removed() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    let hook = acme.post("/api/v1/webhook-endpoints", &json!({"url": "https://example.com/"}));
    assert_eq!(hook.status, 201, "{hook:?}");
    let inbound = br#"{"scheme": "github", "secret": "a secret of the old tenant"}"#;
    assert_eq!(acme.put("/api/v1/inbound-webhooks/orders", inbound).status, 200);
    let batch = acme.post("/api/v1/batch", &json!({"callback_queue": "done"})).body["batch_id"].clone();
    let bulk = acme.post("/api/v1/jobs/bulk", &json!({"action": "retry", "filter": {"queue": "none"}, "async": true}));
    let bulk = bulk.body["bulk_operation_id"].clone();
    assert_eq!(acme.put("/api/v1/secrets/token", b"a value of the old tenant").status, 200);
    // Jobs that run are cancelled: one of a plugin, and one whose worker has gone away.
    let uploaded = acme.put("/api/v1/plugins/hostile?queues=hostile", &windlass_e2e::plugin("hostile"));
    assert_eq!(uploaded.status, 201, "{uploaded:?}");
    let id = acme.enqueue(&json!({"queue": "hostile", "payload": {"try": "sleep", "ms": 600_000}}));
    acme.wait_for(&id, "active");
    let removed = server.delete("/api/v1/namespaces/acme?confirm=true");
    assert_eq!(removed.status, 200, "{removed:?}");
    let unsigned = server.without_key().post("/api/v1/webhooks/orders?namespace=acme", &json!({}));
    assert_eq!(unsigned.status, 401, "{unsigned:?}");

    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    for path in ["/api/v1/webhook-endpoints", "/api/v1/inbound-webhooks", "/api/v1/queues", "/api/v1/bulk"] {
        let left = acme.get(path).body;
        let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
        assert!(
            is_empty(&left) || left.as_object().is_some_and(|fields| fields.values().any(is_empty)),
            "{path}: {left}"
        );
    }
    for path in [format!("/api/v1/batch/{batch}"), format!("/api/v1/bulk/{bulk}")] {
        assert_eq!(acme.get(&path.replace('"', "")).status, 404, "{path}");
    }
}

#[test]
fn a_namespace_with_a_job_that_a_worker_holds_is_removed_once_it_has_ended() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let acme = client_of(&server, "admin", "acme");
    let id = acme.enqueue(&json!({"queue": "mail", "lease_duration": "1h"}));
    let fetched = acme.post("/api/v1/fetch", &json!({"queues": ["mail"], "worker_id": "w"}));
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let busy = server.delete("/api/v1/namespaces/acme?confirm=true");
    assert_eq!((busy.status, &busy.body["code"]), (409, &json!("NAMESPACE_BUSY")), "{busy:?}");
    assert_eq!(acme.get("/api/v1/queues").status, 401, "its keys have ended already");
    let again = client_of(&server, "worker", "acme");
    let ack = json!({"lease_token": fetched.body["lease_token"]});
    assert_eq!(again.post(&format!("/api/v1/ack/{id}"), &ack).status, 200);
    let removed = server.delete("/api/v1/namespaces/acme?confirm=true");
    assert_eq!(removed.status, 200, "{removed:?}");
    assert_eq!(again.get("/api/v1/queues").status, 401);
}

#[test]
fn two_tenants_have_signed_webhooks_for_queues_of_the_same_name_also_after_a_restart() {
    let server = Server::start();
    let set = |client: &Client, secret: &str| {
        let body = json!({"scheme": "github", "secret": secret}).to_string();
        assert_eq!(client.put("/api/v1/inbound-webhooks/orders", body.as_bytes()).status, 200);
    };
    for name in ["acme", "globex"] {
        make_namespace(&server, name, &json!({}));
        set(&client_of(&server, "admin", name), &format!("the secret of {name}"));
    }
    set(&server, "the secret of default");
    let server = Server::start_on(&server.kill_9(), &[]);
    for name in ["acme", "globex", "default"] {
        let hooks = client_of(&server, "admin", name).get("/api/v1/inbound-webhooks").body;
        assert_eq!(hooks.as_array().map(Vec::len), Some(1), "{name}: {hooks}");
    }
}

#[test]
fn figures_of_the_whole_server_are_not_shown_to_tenants_and_a_key_of_all_namespaces_sees_all_queues_at_once() {
    let server = Server::start();
    for name in ["acme", "globex"] {
        make_namespace(&server, name, &json!({}));
        client_of(&server, "admin", name).enqueue(&json!({"queue": "mail"}));
    }
    let page = |client: &Client, path: &str| String::from_utf8(client.download(path)).expect("text");
    let of_acme = page(&client_of(&server, "viewer", "acme"), "/metrics");
    assert!(of_acme.contains("windlass_jobs{queue=\"mail\",state=\"pending\"} 1"), "{of_acme}");
    for hidden in
        ["windlass_commit", "windlass_store_bytes", "windlass_workers", "windlass_watchers", "compile_seconds"]
    {
        assert!(!of_acme.contains(hidden), "{hidden}: {of_acme}");
    }
    assert_eq!(client_of(&server, "viewer", "acme").status_of("/metrics?all_namespaces=true"), 403);
    let all = page(&server, "/metrics?all_namespaces=true");
    for name in ["acme", "globex"] {
        assert!(
            all.contains(&format!("windlass_jobs{{namespace=\"{name}\",queue=\"mail\",state=\"pending\"}} 1")),
            "{all}"
        );
    }
    assert!(all.contains("windlass_store_bytes"), "{all}");
}

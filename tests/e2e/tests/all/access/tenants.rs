//! Every route with what another tenant has: it answers as if that did not exist, and shows none of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_e2e::{Client, Server};

use super::{client_of, make_namespace};

/// In every name and text of the tenant who must not be seen.
const MARK: &str = "markofacme";

/// What a tenant has, by the parameter of a path that names it.
type Names = BTreeMap<&'static str, Vec<String>>;

/// A tenant with something of everything, all of which carries the mark.
fn marked_tenant(server: &Server) -> (Client, Names) {
    make_namespace(server, "acme", &json!({}));
    let acme = client_of(server, "admin", "acme");
    let queue = format!("{MARK}.mail");
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned();
    let done = |answer: windlass_e2e::Answer| {
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.body
    };
    let job = json!({"queue": queue, "payload": {MARK: MARK}, "tags": {MARK: MARK}, "scope": format!("user:{MARK}"),
        "unique_key": MARK, "limit_key": MARK});
    let waiting = acme.enqueue(&job);
    // One that a worker fetches, reports about, and lets fail; one that it holds.
    done(acme.post(&format!("/api/v1/queues/{MARK}.walk/settings"), &json!({"rounds": true})));
    let worked = |payload: &Value| {
        let id = acme.enqueue(&json!({"queue": format!("{MARK}.work"), "payload": payload, "max_attempts": 1}));
        let fetch = json!({"queues": [format!("{MARK}.work")], "worker_id": MARK, "hostname": MARK, "timeout": 5});
        let fetched = done(acme.post("/api/v1/fetch", &fetch));
        assert_eq!(fetched["job_id"], id, "{fetched}");
        (id, text(&fetched["lease_token"]))
    };
    let (dead, token) = worked(&json!({"is": MARK}));
    let failed = json!({"error": format!("it broke: {MARK}"), "backtrace": MARK, "lease_token": token});
    done(acme.post(&format!("/api/v1/fail/{dead}"), &failed));
    let (held, token) = worked(&json!({"is": MARK}));
    let beat = json!({"progress": {"message": MARK}, "checkpoint": {"at": MARK}, "lease_token": token});
    done(acme.post("/api/v1/heartbeat", &json!({"jobs": {&held: beat}})));
    let batch = done(acme.post("/api/v1/batch", &json!({"callback_queue": queue, "callback_payload": MARK})));
    let schedule = json!({"name": MARK, "queue": queue, "cron": "30 2 * * *", "payload": MARK});
    done(acme.post("/api/v1/schedules", &schedule));
    done(acme.put(&format!("/api/v1/secrets/{MARK}"), b"a secret"));
    done(acme.put(&format!("/api/v1/plugins/{MARK}?queues={MARK}.hash"), &windlass_e2e::plugin("digest")));
    let hook = json!({"url": format!("https://example.com/{MARK}"), "events": ["dead"]});
    let hook = done(acme.post("/api/v1/webhook-endpoints", &hook));
    let rule = json!([{"queues": [queue], "who": "anybody", "rate": {"count": 5, "per": "1m"}}]);
    done(acme.put("/api/v1/enqueue-rules", rule.to_string().as_bytes()));
    let key = done(acme.post("/api/v1/auth/keys", &json!({"name": MARK, "role": "viewer"})));
    let bulk = json!({"action": "change_priority", "priority": "high", "filter": {"queue": queue}, "async": true});
    let bulk = done(acme.post("/api/v1/jobs/bulk", &bulk));
    let batch = text(&batch["batch_id"]);
    let mut ids = vec![waiting, dead, held];
    ids.extend([batch, text(&bulk["bulk_operation_id"]), text(&hook["id"]), text(&key["id"])]);
    let queues = ["mail", "work", "walk", "hash"].map(|name| format!("{MARK}.{name}")).to_vec();
    let names = BTreeMap::from([("id", ids), ("name", [vec![MARK.to_owned()], queues.clone()].concat())]);
    (acme, names)
}

/// Each operation of the API, as method, path, and whether it answers with a stream that does not end.
fn operations(server: &Server) -> Vec<(String, String, bool)> {
    let document = server.get("/openapi.json").body;
    let paths = document["paths"].as_object().expect("paths").clone();
    let all = paths.into_iter().flat_map(|(path, item)| {
        let operations = item.as_object().expect("methods").clone();
        operations.into_iter().map(move |(method, operation)| {
            let streams = operation["responses"]["200"]["content"]
                .as_object()
                .is_some_and(|content| content.contains_key("text/event-stream"));
            (method.to_uppercase(), path.clone(), streams)
        })
    });
    all.collect()
}

/// The same of a name or id: of its kind, but nobody's.
fn fresh(name: &str) -> String {
    match name.split_once('_') {
        // The last characters of an id are its random part; those of a key's id have no order.
        Some((kind, id)) if !kind.is_empty() && id.len() > 4 => format!("{kind}_{}ZZZZ", &id[..id.len() - 4]),
        _ if name.contains(MARK) => name.replace(MARK, "freshnames"),
        _ => name.chars().rev().collect(),
    }
}

fn ask(client: &Client, method: &str, path: &str) -> (u16, String) {
    let empty = json!({});
    let answer = match method {
        "GET" => client.get(path),
        "DELETE" => client.delete(path),
        "PUT" => client.put(path, b"{}"),
        "POST" => client.post(path, &empty),
        "PATCH" => client.patch(path, &empty),
        other => panic!("{other} {path}"),
    };
    (answer.status, answer.body.to_string())
}

#[test]
fn whatever_a_route_is_asked_about_another_tenant_it_answers_as_if_that_did_not_exist() {
    let server = Server::start();
    let (acme, names) = marked_tenant(&server);
    make_namespace(&server, "globex", &json!({}));
    let globex = client_of(&server, "admin", "globex");
    let jobs = || acme.post("/api/v1/jobs/search", &json!({"sort": "created_at", "order": "asc"})).body["jobs"].clone();
    let before = jobs();
    assert_eq!(before.as_array().map(Vec::len), Some(3), "{before}");
    let mut asked = 0;
    for (method, path, streams) in operations(&server) {
        let Some((start, rest)) = path.split_once('{') else { continue };
        let (parameter, end) = rest.split_once('}').expect("a parameter");
        // What a path names is an id or a name; asking with each of both kinds does no harm.
        let own: Vec<&String> = names.values().flatten().collect();
        for name in own {
            // A second parameter names a part of the first.
            let end = end.replace(['{', '}'], "");
            let [theirs, nobodys] = [name.clone(), fresh(name)].map(|name| (format!("{start}{name}{end}"), name));
            if streams {
                let both = [&theirs.0, &nobodys.0].map(|path| globex.status_of(path));
                assert_eq!(both[0], both[1], "{method} {path} with {parameter} {name}");
                continue;
            }
            let (status, body) = ask(&globex, &method, &theirs.0);
            let (expected_status, expected) = ask(&globex, &method, &nobodys.0);
            assert_eq!(status, expected_status, "{method} {} as another tenant: {body}, not {expected}", theirs.0);
            if !(200..300).contains(&status) {
                assert_eq!(body.replace(&theirs.1, ""), expected.replace(&nobodys.1, ""), "{method} {}", theirs.0);
            }
            asked += 1;
        }
    }
    assert!(asked > 500, "only {asked} requests");
    assert_eq!(jobs(), before, "nothing of it has changed");
}

#[test]
fn no_list_event_or_figure_shows_what_another_tenant_has() {
    let server = Server::start();
    let (acme, _) = marked_tenant(&server);
    make_namespace(&server, "globex", &json!({}));
    let globex = client_of(&server, "admin", "globex");
    let mut seen_by_its_owner = 0;
    let lists = operations(&server);
    for (_, path, _) in
        lists.iter().filter(|(method, path, streams)| method == "GET" && !streams && !path.contains('{'))
    {
        let shows = |client: &Client| String::from_utf8_lossy(&client.download(path)).contains(MARK);
        assert!(!shows(&globex), "GET {path} shows another tenant's");
        seen_by_its_owner += usize::from(shows(&acme));
    }
    // Otherwise the lists would show nothing to anybody.
    assert!(seen_by_its_owner >= 12, "its owner sees it in {seen_by_its_owner} lists only");
    for body in [
        json!({}),
        json!({"payload_contains": MARK}),
        json!({"payload_jq": ".is"}),
        json!({"queue": format!("{MARK}.mail")}),
    ] {
        let found = globex.post("/api/v1/jobs/search", &body).body;
        assert_eq!(found["total"], 0, "{body}: {found}");
    }
    let counted = globex.post("/api/v1/jobs/count", &json!({"group_by": "queue"})).body.to_string();
    assert!(!counted.contains(MARK), "{counted}");
    // All events that are stored, up to one of its own.
    let mut events = globex.events("/api/v1/events?last_event_id=0");
    let own = globex.enqueue(&json!({"queue": "mail"}));
    let first = events.next().expect("an event");
    assert_eq!(first.data["job_id"], own, "the first event that it sees is its own: {first:?}");
}

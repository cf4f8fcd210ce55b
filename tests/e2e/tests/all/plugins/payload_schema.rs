//! The JSON Schema of a plugin's payloads: part of its manifest, shown to whoever sees the plugin.

use std::path::Path;

use serde_json::{Value, json};
use windlass_e2e::Server;

fn manifest_of(server: &Server, plugin: &str) -> Value {
    let shown = server.get(&format!("/api/v1/plugins/{plugin}"));
    assert_eq!(shown.status, 200, "{shown:?}");
    shown.body["versions"][0]["manifest"].clone()
}

#[test]
fn the_schema_of_payloads_is_shown_with_the_plugin_and_outlives_the_server() {
    let server = Server::start();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/digest/windlass.toml");
    let manifest = std::fs::read_to_string(file).expect("the demo's manifest");
    let uploaded = server.upload_with("/api/v1/plugins/digest", &windlass_e2e::plugin("digest"), &manifest);
    assert_eq!(uploaded.status, 201, "{uploaded:?}");
    let server = Server::start_on(&server.kill_9(), &[]);
    let schema = manifest_of(&server, "digest")["payload"].clone();
    assert_eq!((&schema["type"], &schema["properties"]["generate_mb"]["type"]), (&json!("object"), &json!("integer")));
    assert_eq!(schema["properties"]["generate_mb"]["examples"], json!([16]));

    // As JSON, and replaced; a version that is uploaded without a manifest has that of the active one.
    let other = json!({"queues": ["demo.digest"], "payload": {"required": ["text"], "properties": {"text": {"type": "string"}}}});
    let set = server.put("/api/v1/plugins/digest/manifest", other.to_string().as_bytes());
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(manifest_of(&server, "digest")["payload"], other["payload"]);
    let second = windlass_e2e::variant(&windlass_e2e::plugin("digest"), 2);
    assert_eq!(server.put("/api/v1/plugins/digest", &second).status, 201);
    let versions = server.get("/api/v1/plugins/digest").body["versions"].clone();
    assert!(
        versions.as_array().is_some_and(|all| all.iter().all(|one| one["manifest"]["payload"] == other["payload"]))
    );

    // It is for people: a payload is not checked against it.
    let job = server.enqueue(&json!({"queue": "demo.digest", "payload": {"generate_mb": 1}}));
    server.wait_for(&job, "completed");
}

#[test]
fn what_is_no_schema_is_refused_with_what_is_wrong() {
    let server = Server::start();
    server.upload("digest", "demo.digest");
    let long = json!({"description": "x".repeat(17 * 1024)});
    for (schema, says) in [
        (json!("object"), "an object, not a text"),
        (json!({"properties": {"to": "string"}}), "`properties.to` is a schema"),
        (json!({"required": "to"}), "`required` is a list of names"),
        (long, "at most 16384 bytes"),
    ] {
        let manifest = json!({"queues": ["demo.digest"], "payload": schema});
        let answer = server.put("/api/v1/plugins/digest/manifest", manifest.to_string().as_bytes());
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && error.contains("payload") && error.contains(says), "{answer:?}");
    }
    assert_eq!(manifest_of(&server, "digest")["payload"], Value::Null);
}

//! Who may do what: keys and roles, namespaces, rules for enqueueing, and the audit log.

mod audit;
mod keys;
mod namespaces;
mod oidc;
mod quotas;
mod rules;
mod sessions;
mod tenants;
mod walk;
mod workers;

use serde_json::{Value, json};
use windlass_e2e::{Client, Server};

/// A client with a new key, and the key's id.
#[track_caller]
fn client_with(server: &Server, wanted: &Value) -> (Client, String) {
    let made = server.post("/api/v1/auth/keys", wanted);
    assert_eq!(made.status, 201, "{made:?}");
    let text = |field: &str| made.body[field].as_str().expect("text").to_owned();
    (server.without_key().with_key(Some(text("key"))), text("id"))
}

#[track_caller]
pub fn client_of(server: &Server, role: &str, namespace: &str) -> Client {
    client_with(server, &json!({"name": format!("{role} of {namespace}"), "role": role, "namespace": namespace})).0
}

#[track_caller]
pub fn make_namespace(server: &Server, name: &str, quotas: &Value) {
    let made = server.post("/api/v1/namespaces", &json!({"name": name, "quotas": quotas}));
    assert_eq!(made.status, 201, "{made:?}");
}

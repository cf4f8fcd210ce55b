//! All routes with a key of each role, and without one.

use serde_json::{Value, json};
use windlass_e2e::{Client, Server};

use super::{client_of, make_namespace};

const ROLES: [(&str, &[&str]); 6] = [
    ("producer", &["enqueue", "read-job"]),
    ("worker", &["work", "read-job"]),
    ("viewer", &["read", "read-job"]),
    ("operator", &["read", "read-job", "enqueue", "operate"]),
    ("deployer", &["read", "read-job", "enqueue", "deploy"]),
    ("admin", &["read", "read-job", "enqueue", "work", "operate", "deploy", "administer"]),
];

/// Each route as method, path and permission. The path names things that do not exist, so that nothing is changed.
fn routes(server: &Server) -> Vec<(String, String, String)> {
    let document = server.get("/openapi.json").body;
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let needed = operation["x-permission"].as_str().unwrap_or_else(|| panic!("{method} {path} states none"));
            let mut path = path.clone();
            while let Some((before, rest)) = path.clone().split_once('{') {
                let (name, after) = rest.split_once('}').expect("a parameter");
                let none = if name == "id" { "job_01M7HE79N7YRPPE03Y6NMZGWT4" } else { "none" };
                path = format!("{before}{none}{after}");
            }
            routes.push((method.to_uppercase(), path, needed.to_owned()));
        }
    }
    assert!(routes.len() > 100, "only {} routes", routes.len());
    routes
}

fn send(client: &Client, method: &str, path: &str) -> (u16, Value) {
    let answer = match method {
        // Streams do not end by themselves, and pages are no JSON.
        "GET" => return (client.status_of(path), json!("FORBIDDEN")),
        "DELETE" => client.delete(path),
        "PUT" => client.put(path, b"not JSON"),
        "POST" => client.post_bytes(path, b"not JSON"),
        "PATCH" => client.patch(path, &json!("no object")),
        other => panic!("{other} {path}"),
    };
    (answer.status, answer.body["code"].clone())
}

#[test]
fn each_route_lets_the_roles_with_its_permission_in_and_nobody_else() {
    let server = Server::start();
    make_namespace(&server, "acme", &json!({}));
    let routes = routes(&server);
    let stranger = server.without_key();
    for (method, path, needed) in &routes {
        let (status, _) = send(&stranger, method, path);
        assert_eq!(
            status == 401,
            !["public", "anybody"].contains(&needed.as_str()),
            "{method} {path} without a key: {status}"
        );
    }
    for (role, permissions) in ROLES {
        for namespace in ["default", "acme"] {
            let client = client_of(&server, role, namespace);
            for (method, path, needed) in &routes {
                let (status, code) = send(&client, method, path);
                let may = ["public", "anybody", "signed-in"].contains(&needed.as_str())
                    || permissions.contains(&needed.as_str());
                let refused = status == 403 && code == "FORBIDDEN" || status == 401;
                assert_eq!(refused, !may, "{method} {path} ({needed}) as {role} of {namespace}: {status} {code}");
                assert!(status < 500, "{method} {path} as {role}: {status}");
            }
        }
    }
}

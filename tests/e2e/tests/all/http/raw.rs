//! Results and payloads as raw bytes, and the root page of the server.

use std::process::Stdio;

use serde_json::json;
use windlass_e2e::{Server, windlass};

/// Sends a request; returns the status, the headers and the bytes.
fn get(server: &Server, path: &str, accept: &str) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    // A redirection is an answer here.
    let agent: ureq::Agent = config.max_redirects(0).max_redirects_will_error(false).build().into();
    let request = agent.get(server.url(path)).header("accept", accept).header("x-api-key", server.key());
    let mut response = request.call().expect("an answer");
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
    (response.status().as_u16(), headers, response.body_mut().read_to_vec().expect("a body"))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value.as_str())
}

/// A job that a worker completes with exactly this result.
fn completed(server: &Server, result: &str) -> String {
    let made = server.post_bytes("/api/v1/enqueue", br#"{"queue": "q", "payload": {"n":  1.50}}"#);
    let id = made.body["job_id"].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned();
    server.post("/api/v1/fetch", &json!({"queues": ["q"], "timeout": 5}));
    let ack = format!(r#"{{"result": {result}}}"#);
    assert_eq!(server.post_bytes(&format!("/api/v1/ack/{id}"), ack.as_bytes()).status, 200);
    id
}

#[test]
fn a_result_is_returned_unchanged_with_its_own_content_type() {
    let server = Server::start();
    let id = completed(&server, r#"{"html": "<script>alert(1)</script>"}"#);
    let (status, headers, bytes) = get(&server, &format!("/api/v1/jobs/{id}/result"), "*/*");
    assert_eq!((status, header(&headers, "content-type")), (200, "application/json"));
    assert_eq!(bytes, br#"{"html": "<script>alert(1)</script>"}"#);
    assert_eq!(header(&headers, "x-content-type-options"), "nosniff");
    assert!(header(&headers, "content-security-policy").contains("sandbox"), "{headers:?}");
    assert!(header(&headers, "content-disposition").contains(&format!("{id}-result.json")), "{headers:?}");
    let (status, _, bytes) = get(&server, &format!("/api/v1/jobs/{id}/payload"), "*/*");
    assert_eq!((status, &bytes[..]), (200, &br#"{"n":  1.50}"#[..]));
}

#[test]
fn a_job_without_a_result_reports_its_state() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    let answer = server.get(&format!("/api/v1/jobs/{id}/result"));
    assert_eq!((answer.status, &answer.body["code"]), (404, &json!("NOT_FOUND")));
    assert!(answer.body["error"].as_str().is_some_and(|why| why.contains("pending")), "{answer:?}");
    assert_eq!(server.get(&format!("/api/v1/jobs/{}/result", id.replace("job_01", "job_02"))).status, 404);
}

#[test]
fn the_command_writes_a_result_to_a_file_or_to_its_output() {
    let server = Server::start();
    let id = completed(&server, "[1,  2]");
    let run = |args: &[&str]| {
        let mut command = windlass();
        command.env("WINDLASS_URL", server.url("")).args(["job", "result"]).args(args).stdout(Stdio::piped());
        command.output().expect("it runs")
    };
    assert_eq!(run(&[&id]).stdout, b"[1,  2]");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    assert!(run(&[&id, "-o", file.to_str().expect("text")]).status.success());
    assert_eq!(std::fs::read(&file).expect("the file"), b"[1,  2]");
    let waiting = server.enqueue(&json!({"queue": "q"}));
    let refused = run(&[&waiting]);
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has no result"), "{refused:?}");
}

#[test]
fn the_root_answers_a_person_and_a_program() {
    let server = Server::start();
    let (status, headers, _) = get(&server, "/", "text/html,*/*;q=0.8");
    assert_eq!((status, header(&headers, "location")), (303, "/ui/"), "a browser goes to the console");
    for accept in ["application/json", "*/*"] {
        let (status, headers, bytes) = get(&server, "/", accept);
        let body: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!((status, header(&headers, "content-type")), (200, "application/json"));
        assert_eq!((&body["name"], &body["docs"]), (&json!("windlass"), &json!("/docs")));
        assert_eq!(body["console"], json!("/ui/"));
    }
}

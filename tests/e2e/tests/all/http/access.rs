//! Who has access.

use serde_json::json;
use windlass_e2e::{Data, Server, eventually, windlass};

const KEY: &str = "a-key-that-is-only-for-the-tests";

#[test]
fn a_key_is_required_once_one_is_set() {
    let server = Server::start_on(&Data::new(), &["--api-key", KEY]);
    let refused = server.get("/api/v1/queues");
    assert_eq!((refused.status, &refused.body["code"]), (401, &json!("UNAUTHORIZED")));
    assert!(refused.body["error"].as_str().is_some_and(|why| why.contains("X-API-Key")), "{refused:?}");
    let wrong = server.get_with("/api/v1/queues", &[("X-API-Key", "another-key-of-the-server")]);
    assert_eq!((wrong.status, &wrong.body["code"]), (401, &json!("UNAUTHORIZED")));
    let bearer = format!("Bearer {KEY}");
    let cookie = format!("theme=dark; windlass_key={KEY}");
    for header in [("X-API-Key", KEY), ("Authorization", &bearer), ("Cookie", &cookie)] {
        assert_eq!(server.get_with("/api/v1/queues", &[header]).status, 200, "{header:?}");
    }
    assert_eq!(server.get("/healthz").status, 200, "whether it lives is no secret");
    assert!(!server.said().contains(KEY), "the key is not logged");
}

#[test]
fn a_page_of_another_site_is_refused() {
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    let body = json!({"queue": "q"});
    let foreign = server.post_with("/api/v1/enqueue", &[("Origin", "https://evil.example")], &body);
    assert_eq!((foreign.status, &foreign.body["code"]), (403, &json!("FORBIDDEN")));
    let own = server.url("");
    assert_eq!(server.post_with("/api/v1/enqueue", &[("Origin", &own)], &body).status, 201);
}

#[test]
fn an_address_that_others_can_reach_is_not_served_without_a_key() {
    let start = |flags: &[&str]| {
        let data = Data::new();
        let mut command = windlass();
        command.args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(data.path()).args(flags);
        Server::spawn(command, &data)
    };
    let closed = start(&["--behind-proxy"]).expect("TLS is in front");
    let (_, port) = closed.url("").rsplit_once(':').map(|(_, port)| ((), port.to_owned())).expect("a port");
    let stranger = windlass_e2e::Client::new(format!("http://127.0.0.1:{port}"));
    assert_eq!(stranger.get("/api/v1/queues").status, 401);
    let open = start(&["--insecure"]).expect("it was told so");
    eventually("a warning", || open.said().contains("requires no key").then_some(()));
    start(&["--api-key", KEY, "--behind-proxy"]).expect("it has a key, and TLS in front");
    for short in ["short", "twenty-three-characters"] {
        let Err(refused) = start(&["--api-key", short, "--behind-proxy"]) else {
            panic!("{short}: it should not start")
        };
        assert!(refused.said.contains("api_key") && refused.said.contains("openssl rand"), "{refused:?}");
    }
}

#[test]
fn wrong_keys_are_throttled_and_the_right_one_is_not() {
    let server = Server::start_on(&Data::new(), &["--api-key", KEY, "--behind-proxy"]);
    let ask = |key: &str, client: &str| {
        let forwarded = format!("198.51.100.9, {client}");
        server.get_with("/api/v1/queues", &[("X-API-Key", key), ("X-Forwarded-For", &forwarded)])
    };
    let statuses: Vec<u16> = (0..10).map(|n| ask(&format!("wrong-{n}"), "203.0.113.1").status).collect();
    assert!(statuses.starts_with(&[401; 5]) && statuses[5..].contains(&429), "{statuses:?}");
    let refused = eventually("it is throttled", || {
        let answer = ask("wrong", "203.0.113.1");
        (answer.status == 429).then_some(answer)
    });
    assert_eq!(refused.body["code"], "RATE_LIMITED");
    assert!(refused.retry_after.as_ref().and_then(|wait| wait.parse::<u64>().ok()) > Some(0), "{refused:?}");
    assert_eq!(ask("wrong", "203.0.113.2").status, 401, "another client of the same proxy");
    assert_eq!(ask(KEY, "203.0.113.1").status, 200, "its right key counts");
    assert_eq!(ask("wrong", "203.0.113.1").status, 401, "and makes the wrong ones forgotten");
}

#[test]
fn a_key_in_a_file_is_in_no_list_of_processes() {
    let place = Data::new();
    let file = place.path().join("api.key");
    std::fs::write(&file, format!("{KEY}\n")).expect("a file");
    let path = file.to_str().expect("a path in text");
    let server = Server::start_on(&Data::new(), &["--api-key-file", path]);
    assert_eq!(server.get("/api/v1/queues").status, 401);
    assert_eq!(server.get_with("/api/v1/queues", &[("X-API-Key", KEY)]).status, 200);
    let arguments = std::fs::read(format!("/proc/{}/cmdline", server.pid()));
    assert!(arguments.is_err() || !String::from_utf8_lossy(&arguments.expect("read")).contains(KEY));
    assert!(server.said().contains("chmod 600"), "others can read the file");

    let list = |file: &str| {
        let mut command = windlass();
        command.args(["queue", "list", "--url", &server.url("")]).env("WINDLASS_API_KEY_FILE", file);
        command.output().expect("the command runs")
    };
    assert!(list(path).status.success());
    let missing = list("/no/such/file");
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && said.contains("cannot be read"), "{said}");

    let Err(refused) = Server::try_start(&Data::new(), &["--api-key-file", "/no/such/file"]) else {
        panic!("it should not have started")
    };
    assert!(refused.said.contains("--api-key-file"), "{refused:?}");
}

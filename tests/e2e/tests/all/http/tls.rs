//! Encrypted connections: who is served, how certificates are replaced, and what is refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_e2e::{Certificates, Client, DEADLINE, Data, Refused, Server, eventually, windlass};

#[track_caller]
fn start(certificates: &Certificates, flags: &[&str]) -> Server {
    let started = Server::try_start_tls(&Data::new(), certificates, flags);
    started.unwrap_or_else(|refused| panic!("the server did not start: {refused:#?}"))
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url("").trim_start_matches("https://")).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream
}

/// Whether a new client is served.
fn is_served(client: &Client) -> bool {
    client.try_headers("/healthz").is_ok()
}

#[test]
fn a_server_with_a_certificate_speaks_https_to_those_who_trust_it() {
    let certificates = Certificates::new();
    let server = start(&certificates, &[]);
    assert!(server.url("").starts_with("https://"), "{}", server.url(""));
    assert_eq!(server.get("/healthz").status, 200);
    let id = server.enqueue(&json!({"queue": "q", "payload": "x".repeat(1 << 20)}));
    assert_eq!(server.job(&id)["payload"].as_str().map(str::len), Some(1 << 20));
    let mut events = server.events(&format!("/api/v1/jobs/{id}/events"));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert!(events.any(|event| event.kind == "cancelled"), "the stream goes on to the end");
    let stranger = Certificates::new();
    assert!(!is_served(&stranger.client(server.url(""))), "a client that trusts another authority");
}

#[test]
fn a_client_without_encryption_is_told_to_use_it() {
    let server = start(&Certificates::new(), &[]);
    let plain = Client::new(server.url("").replace("https://", "http://"));
    let refused = plain.post("/api/v1/enqueue", &json!({"queue": "q"}));
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("TLS_REQUIRED")));
    assert!(refused.body["error"].as_str().is_some_and(|why| why.contains("https://")), "{refused:?}");
    assert_eq!(server.get("/api/v1/queues").body, json!([]));
}

#[test]
fn a_new_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let (old, new) = (Certificates::new(), Certificates::new());
    let server = start(&old, &[]);
    let (trusts_old, trusts_new) = (|| old.client(server.url("")), || new.client(server.url("")));
    assert!(is_served(&trusts_old()) && !is_served(&trusts_new()));
    std::fs::write(old.file("key.pem"), "nothing").expect("room");
    eventually("the broken pair is refused", || {
        server.said().contains("the certificate from before stays in use").then_some(())
    });
    assert!(is_served(&trusts_old()));
    old.replace("cert.pem", &new);
    old.replace("key.pem", &new);
    eventually("the new pair is used", || is_served(&trusts_new()).then_some(()));
    assert!(!is_served(&trusts_old()));
}

#[test]
fn a_hangup_reads_the_certificate_again_at_once() {
    let certificates = Certificates::new();
    let server = start(&certificates, &[]);
    assert!(!server.said().contains("new connections use"), "{}", server.said());
    // The files are unchanged, so only the signal can be the reason.
    server.signal("HUP");
    eventually("it is read again", || server.said().contains("new connections use").then_some(()));
    assert!(is_served(&certificates.client(server.url(""))));
}

#[test]
fn with_an_authority_for_clients_only_those_with_a_certificate_of_it_are_served() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let authority = certificates.file("ca.pem").display().to_string();
    let server = start(&certificates, &["--tls-client-ca", &authority]);
    assert!(!is_served(&certificates.client(server.url(""))), "without a certificate");
    assert!(is_served(&certificates.known_client(server.url(""))));
    // One of another authority, shown to a server that is trusted.
    for file in ["client.pem", "client.key"] {
        certificates.replace(file, &others);
    }
    assert!(!is_served(&certificates.known_client(server.url(""))));
}

#[test]
fn a_connection_that_does_not_finish_its_handshake_gives_way_and_is_closed_soon() {
    let certificates = Certificates::new();
    let server = start(&certificates, &["--max-connections", "2", "--client-timeout", "3600"]);
    // The first bytes of a handshake, and no more.
    let mut silent: Vec<TcpStream> = (0..2).map(|_| connect(&server)).collect();
    for stream in &mut silent {
        stream.write_all(&[22, 3, 1, 2, 0]).expect("sent");
    }
    assert_eq!(certificates.client(server.url("")).get("/healthz").status, 200, "the oldest gives way");
    for mut stream in silent {
        // One gave way, the other has had its time.
        let ended = stream.read(&mut [0; 64]);
        assert!(matches!(ended, Ok(0)) || ended.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_no_server_starts() {
    let certificates = Certificates::new();
    std::fs::write(certificates.file("key.pem"), "nothing").expect("room");
    let refused = Server::try_start_tls(&Data::new(), &certificates, &[]).expect_err("there is no key");
    assert!(refused.said.contains("key.pem"), "{refused:?}");
    let flags = certificates.flags();
    let refused = Server::try_start(&Data::new(), &[&flags[0], &flags[1]]).expect_err("half a pair");
    assert!(refused.said.contains("tls_key"), "{refused:?}");
}

#[test]
fn no_address_that_others_can_reach_is_served_without_encryption() {
    let start = |flags: &[&str]| -> Result<Server, Refused> {
        let data = Data::new();
        let mut command = windlass();
        command.args(["serve", "--listen", "0.0.0.0:0", "--api-key", "a-key-that-is-only-for-the-tests", "--data"]);
        command.arg(data.path()).args(flags);
        Server::spawn(command, &data)
    };
    let refused = start(&[]).expect_err("it would be plain");
    for way in ["--tls-cert", "--behind-proxy", "127.0.0.1", "--insecure"] {
        assert!(refused.said.contains(way), "{way}: {refused:?}");
    }
    let warning = "requests are not encrypted";
    let open = start(&["--insecure"]).expect("it was told so");
    eventually("a warning", || open.said().contains(warning).then_some(()));
    let proxied = start(&["--behind-proxy"]).expect("TLS ends in front of it");
    assert!(!proxied.said().contains(warning), "{}", proxied.said());
    let certificates = Certificates::new();
    let flags = certificates.flags();
    let encrypted = start(&flags.each_ref().map(String::as_str)).expect("it has a certificate");
    let client = certificates.client(encrypted.url("").replace("0.0.0.0", "127.0.0.1"));
    assert_eq!(client.get("/healthz").status, 200);
}

/// Runs the command against a server, with what it needs for https.
fn run(server: &Server, flags: &[&str], arguments: &[&str]) -> Output {
    let mut command = windlass();
    command.env("WINDLASS_URL", server.url("")).args(arguments).args(flags).stdout(Stdio::piped());
    command.output().expect("it runs")
}

#[test]
fn the_command_speaks_https_and_shows_its_certificate() {
    let certificates = Certificates::new();
    let file = |name: &str| certificates.file(name).display().to_string();
    let (authority, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let server = start(&certificates, &["--tls-client-ca", &authority]);
    let known = certificates.known_client(server.url("")).with_key(Some(server.key()));
    let flags = ["--ca-file", &authority, "--client-cert", &cert, "--client-key", &key];
    assert_eq!(known.put("/api/v1/plugins/digest?queues=digest", &windlass_e2e::plugin("digest")).status, 201);
    let enqueued = run(&server, &flags, &["enqueue", "digest", r#"{"text": "hello"}"#, "--output", "json"]);
    let enqueued: Value = serde_json::from_slice(&enqueued.stdout).unwrap_or_else(|_| panic!("{enqueued:?}"));
    let id = enqueued["job_id"].as_str().expect("an id");
    for command in [&["job", "watch", id][..], &["job", "logs", id, "--follow"], &["status"]] {
        let ran = run(&server, &flags, command);
        assert!(ran.status.success(), "{command:?}: {ran:?}");
    }
    let said = |flags: &[&str]| String::from_utf8(run(&server, flags, &["status"]).stderr).expect("text");
    let untrusted = said(&[]);
    assert!(untrusted.contains("--ca-file") && untrusted.contains("UnknownIssuer"), "{untrusted}");
    let unknown = said(&flags[..2]);
    assert!(unknown.contains("--client-cert"), "{unknown}");
    let half = said(&flags[..4]);
    assert!(half.contains("--client-key"), "{half}");
}

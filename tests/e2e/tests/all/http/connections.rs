//! Concurrent connections: those without requests never block those that have some, however few files the server may
//! open.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use windlass_e2e::{Certificates, Client, DEADLINE, Data, Server, eventually, windlass};

fn address(server: &Server) -> String {
    let url = server.url("");
    url.split("://").nth(1).unwrap_or_else(|| panic!("no address in {url}")).to_owned()
}

/// Lets this process open as many files as a crowd needs.
fn allow_many_files() {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.unwrap_or(u64::MAX).min(8_192);
    if now.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: now.maximum };
        setrlimit(Resource::Nofile, raised).expect("it is below the hard limit");
    }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(address(server)).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream
}

/// A server that is started under the limits that a shell's `ulimit` sets.
fn start_under(ulimit: &str, flags: &[&str]) -> Server {
    let data = Data::new();
    let own = windlass();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {ulimit}; exec \"$@\""), "bash"]).arg(own.get_program());
    command.args(["serve", "--insecure", "--listen", "127.0.0.1:0", "--data"]).arg(data.path()).args(flags);
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    Server::spawn(command, &data).unwrap_or_else(|refused| panic!("the server did not start: {refused:#?}"))
}

#[test]
fn hundreds_of_half_sent_requests_do_not_block_other_clients() {
    const HALF_OPEN: usize = 400;
    let server = start_under("-n 256", &[]);
    // Each of these bodies is a separate file in the store.
    let large = json!({"queue": "q", "payload": "x".repeat(100_000)});
    let (done, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut streams = VecDeque::new();
            while !done.load(Ordering::Relaxed) {
                let mut stream = connect(&server);
                // It may already be closed in favour of the next one.
                let _ = stream.write_all(b"POST /api/v1/enqueue HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
                streams.push_back(stream);
                opened.fetch_add(1, Ordering::Relaxed);
                if streams.len() > HALF_OPEN {
                    streams.pop_front();
                }
            }
        });
        eventually("they are there", || (opened.load(Ordering::Relaxed) >= HALF_OPEN).then_some(()));
        for n in 0..50 {
            // A new client has a new connection.
            let answer = Client::new(server.url("")).post("/api/v1/enqueue", &large);
            if answer.status != 201 {
                done.store(true, Ordering::Relaxed);
                panic!("enqueue {n}: {answer:?}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.queue("q")["pending"], 50);
}

/// How often a slow connection sends a byte.
const BETWEEN_BYTES: Duration = Duration::from_millis(50);

/// Keeps a thousand connections busy with almost nothing: some send no byte, some a byte of a request now and then.
/// Those that the server closes are opened again.
fn crowd(server: &Server, beginning: &[u8], done: &Receiver<()>, opened: &AtomicUsize) {
    let open = || {
        let mut stream = TcpStream::connect(address(server)).ok()?;
        opened.fetch_add(1, Ordering::Relaxed);
        stream.write_all(beginning).ok()?;
        Some(stream)
    };
    let mut streams: Vec<Option<TcpStream>> = (0..1_000).map(|_| None).collect();
    while done.recv_timeout(BETWEEN_BYTES) == Err(RecvTimeoutError::Timeout) {
        for (n, slot) in streams.iter_mut().enumerate() {
            let is_open = slot.as_mut().is_some_and(|stream| n % 3 == 0 || stream.write_all(b"x").is_ok());
            if !is_open {
                *slot = open();
            }
        }
    }
}

/// A client with a new connection for each request works beside the crowd.
fn work_beside_a_crowd(server: &Server, beginning: &[u8], client: impl Fn() -> Client) {
    let opened = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Dropped at the end, also if this panics.
        let (_busy, done) = mpsc::channel();
        let opened = &opened;
        scope.spawn(move || crowd(server, beginning, &done, opened));
        eventually("they are there", || (opened.load(Ordering::Relaxed) >= 1_000).then_some(()));
        for n in 0..30 {
            let answer = client().post("/api/v1/enqueue", &json!({"queue": "q", "payload": n}));
            assert_eq!(answer.status, 201, "enqueue {n}: {answer:?}");
        }
    });
    assert_eq!(client().queue("q")["pending"], 30);
}

#[test]
fn a_thousand_slow_connections_do_not_keep_out_a_client_that_works() {
    allow_many_files();
    let server = Server::start_on(&Data::new(), &["--insecure"]);
    let beginning = b"POST /api/v1/enqueue HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
    work_beside_a_crowd(&server, beginning, || Client::new(server.url("")));
    let certificates = Certificates::new();
    let server = Server::try_start_tls(&Data::new(), &certificates, &["--insecure"]).expect("it starts");
    // The head of a handshake that goes on for 512 bytes.
    work_beside_a_crowd(&server, &[22, 3, 1, 2, 0], || certificates.client(server.url("")));
}

#[test]
fn a_connection_that_shows_no_key_gives_way_to_one_that_does() {
    const KEY: &str = "a-key-that-is-only-for-the-tests";
    let flags = ["--api-key", KEY, "--max-connections", "2", "--client-timeout", "3600"];
    let server = Server::start_on(&Data::new(), &flags);
    let mut open: Vec<TcpStream> = (0..2).map(|_| connect(&server)).collect();
    for stream in &mut open {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        stream.read_exact(&mut [0; 15]).expect("it is served");
    }
    let answer = Client::new(server.url("")).get_with("/api/v1/queues", &[("X-API-Key", KEY)]);
    assert_eq!(answer.status, 200, "{answer:?}");
    // A refused request ends its connection, although the client would keep it.
    let mut refused = connect(&server);
    refused.write_all(b"GET /api/v1/queues HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let mut said = String::new();
    refused.read_to_string(&mut said).expect("it is closed in order");
    assert!(said.starts_with("HTTP/1.1 401 ") && said.contains("connection: close"), "{said}");
}

#[test]
fn only_a_number_of_connections_that_was_asked_for_is_missed() {
    let warning = "connections can be open at once, not";
    let server = start_under("-n 256", &[]);
    assert!(!server.said().contains(warning), "{}", server.said());
    let server = start_under("-n 256", &["--max-connections", "5000"]);
    assert!(server.said().contains("WARN") && server.said().contains(warning), "{}", server.said());
}

#[test]
fn the_limit_on_open_files_is_raised_as_far_as_possible() {
    let server = start_under("-Sn 64", &[]);
    assert!(server.said().contains("files may be open at once; it was 64"), "{}", server.said());
    let held: Vec<TcpStream> = (0..60).map(|_| connect(&server)).collect();
    assert_eq!(server.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(100_000)})).status, 201);
    drop(held);
}

#[test]
fn an_address_that_uses_all_its_connections_is_refused_with_a_response() {
    let server = Server::start_on(&Data::new(), &["--insecure", "--max-connections-per-address", "1"]);
    let mut first = connect(&server);
    first.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    first.read_exact(&mut [0; 15]).expect("it is served");
    let mut second = connect(&server);
    second.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    second.shutdown(std::net::Shutdown::Write).expect("connected");
    let mut said = String::new();
    second.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 429 ") && said.contains("retry-after: 1"), "{said}");
    let body: Value = serde_json::from_str(said.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!(body["code"], "OVERLOADED");
    assert!(body["error"].as_str().is_some_and(|why| why.contains("--max-connections-per-address")), "{body}");
    drop(first);
    eventually("its place is free again", || {
        let answered = Client::new(server.url("")).get("/healthz").status;
        (answered == 200).then_some(())
    });
}

#[test]
fn a_connection_without_a_request_is_closed_soon() {
    // The timeout of later requests does not apply to the first.
    let server = Server::start_on(&Data::new(), &["--insecure", "--client-timeout", "3600"]);
    let mut silent = connect(&server);
    assert_eq!(silent.read(&mut [0; 1]).expect("it is closed in order"), 0);
    assert_eq!(server.get("/healthz").status, 200);
}

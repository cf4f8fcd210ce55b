//! The files of the console, as the server sends them. What they do in a browser is tested in `tests/console`.

use std::io::{Read, Write};
use std::net::TcpStream;

use windlass_e2e::{DEADLINE, Data, Server};

/// The head and the body of a response, without decompressing it.
fn get(server: &Server, path: &str, fields: &str) -> (String, Vec<u8>) {
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("a response");
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").expect("the end of the head");
    (String::from_utf8_lossy(&bytes[..end]).to_lowercase(), bytes[end + 4..].to_vec())
}

#[test]
fn every_address_of_the_console_is_answered_with_its_page_and_needs_no_key() {
    let server = Server::start_on(&Data::new(), &["--api-key", "a-key-that-is-long-enough"]);
    let (head, page) = get(&server, "/ui/", "");
    assert!(head.starts_with("http/1.1 200") && head.contains("content-type: text/html; charset=utf-8"), "{head}");
    for deep in ["/ui/queues", "/ui/queues/emails.send.js", "/ui/~acme/jobs/job_1?tab=log", "/ui/queues/a%2Fb"] {
        assert_eq!(get(&server, deep, "").1, page, "{deep}");
    }
    assert!(get(&server, "/ui", "").0.contains("location: /ui/"));
    // The page loads its files by these names.
    let text = String::from_utf8(page.clone()).expect("text");
    for file in ["/ui/app.js", "/ui/style.css", "/ui/icon.svg"] {
        assert!(text.contains(file), "{text}");
        assert!(get(&server, file, "").0.starts_with("http/1.1 200"), "{file}");
    }
    let (head, _) = get(&server, "/ui/none.js", "");
    assert!(head.starts_with("http/1.1 404"), "{head}");
    // A path that leads out of the folder names no file of it.
    assert_eq!(get(&server, "/ui/../../Cargo.toml", "").1, page);
}

#[test]
fn the_console_runs_no_code_and_talks_to_no_server_but_its_own() {
    let server = Server::start();
    let (head, page) = get(&server, "/ui/", "");
    let policy = head.lines().find(|line| line.starts_with("content-security-policy:")).expect("a policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http:"), "{policy}");
    let text = String::from_utf8(page).expect("text");
    assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains("<script>"), "{text}");
}

#[test]
fn a_file_is_sent_compressed_and_only_once() {
    let server = Server::start();
    let (head, plain) = get(&server, "/ui/app.js", "");
    assert!(!head.contains("content-encoding"), "{head}");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    let (head, packed) = get(&server, "/ui/app.js", "accept-encoding: gzip, br\r\n");
    assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{head}");
    assert!(packed.len() * 2 < plain.len(), "{} of {}", packed.len(), plain.len());
    let (head, nothing) = get(&server, "/ui/app.js", &format!("if-none-match: {tag}\r\n"));
    assert!(head.starts_with("http/1.1 304") && nothing.is_empty(), "{head}");
}

#[test]
fn a_folder_can_take_the_place_of_the_built_in_files() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("index.html"), "mine").expect("written");
    let path = folder.path().to_str().expect("text").to_owned();
    let server = Server::start_on(&Data::new(), &["--insecure", "--ui-dir", &path]);
    assert_eq!(get(&server, "/ui/queues", "").1, b"mine");
    std::fs::write(folder.path().join("index.html"), "changed").expect("written");
    assert_eq!(get(&server, "/ui/", "").1, b"changed");
    let (head, body) = get(&server, "/ui/app.js", "");
    assert!(head.starts_with("http/1.1 404") && String::from_utf8_lossy(&body).contains("make ui"), "{head}");
}

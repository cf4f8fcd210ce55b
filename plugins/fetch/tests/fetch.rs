//! The handler against the fake server: natively, without wasm.

use std::cell::Cell;
use std::rc::Rc;

use fetch::{Order, Outcome, fetch};
use windlass::Reason;
use windlass::http::{Request, Response};
use windlass::testing::Fake;

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn order(urls: &[&str]) -> Order {
    Order { urls: urls.iter().map(ToString::to_string).collect(), checkpoint_ms: Some(0) }
}

fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

fn with(mut response: Response, name: &str, value: &str) -> Response {
    response.headers.push((name.to_owned(), value.to_owned()));
    response
}

#[test]
fn each_address_is_downloaded_and_hashed() {
    let mut fake = Fake::new().http(|request| match request.url.as_str() {
        "http://a/x" => Response::new(200, "hello"),
        _ => Response::new(404, "gone"),
    });
    let Outcome { files, bytes } = fake.run(fetch, &order(&["http://a/x", "http://a/y"])).expect("two answers");
    assert_eq!((files[0].sha256.as_str(), files[0].status, files[0].bytes), (HELLO, 200, 5));
    assert_eq!((files[1].status, bytes), (404, 9));
}

#[test]
fn a_download_that_broke_off_goes_on_in_the_middle() {
    let fake = Fake::new().http(|request| match header(request, "range") {
        None => with(with(Response::new(200, "hel"), "content-length", "5"), "etag", "\"1\""),
        Some("bytes=3-") if header(request, "if-range") == Some("\"1\"") => {
            with(Response::new(206, "lo"), "content-length", "2")
        }
        Some(other) => panic!("{other}"),
    });
    let mut fake = fake;
    let error = fake.run(fetch, &order(&["http://a/x"])).expect_err("three bytes of five");
    assert!(error.message().contains("broke off") && !error.is_fatal(), "{error}");
    let outcome = fake.run(fetch, &order(&["http://a/x"])).expect("the rest");
    let file = &outcome.files[0];
    assert_eq!((file.sha256.as_str(), file.bytes, file.resumed, file.status), (HELLO, 5, 1, 200));
}

#[test]
fn a_file_that_cannot_go_on_begins_again() {
    let asked = Rc::new(Cell::new(0));
    let times = Rc::clone(&asked);
    let mut fake = Fake::new().http(move |_| {
        times.set(times.get() + 1);
        let body = if times.get() == 1 { "hel" } else { "hello" };
        with(Response::new(200, body), "content-length", "5")
    });
    fake.run(fetch, &order(&["http://a/x"])).expect_err("three bytes of five");
    let outcome = fake.run(fetch, &order(&["http://a/x"])).expect("all of it");
    assert_eq!((outcome.files[0].sha256.as_str(), outcome.files[0].resumed), (HELLO, 0));
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let mut fake = Fake::new().http(|request| match request.url.as_str() {
        "http://a/x" => with(Response::new(302, ""), "location", "/y"),
        "http://a/y" => with(Response::new(301, ""), "location", "https://b/z"),
        "https://b/z" => Response::new(200, "hello"),
        _ => with(Response::new(302, ""), "location", "/again"),
    });
    assert_eq!(fake.run(fetch, &order(&["http://a/x"])).expect("there").files[0].sha256, HELLO);
    let mut fake = Fake::new().http(|_| with(Response::new(302, ""), "location", "/again"));
    assert!(fake.run(fetch, &order(&["http://a/loop"])).expect_err("never there").is_fatal());
}

#[test]
fn a_busy_server_says_when() {
    let mut fake = Fake::new().http(|_| with(Response::new(503, ""), "retry-after", "7"));
    let error = fake.run(fetch, &order(&["http://a/x"])).expect_err("busy");
    assert_eq!(error.delay().map(|delay| delay.as_secs()), Some(7));
}

#[test]
fn it_stops_when_asked_and_keeps_what_is_done() {
    let mut fake = Fake::new().http(|_| Response::new(200, "hello"));
    fake.cancel_after(2, Reason::Shutdown);
    let urls = ["http://a/1", "http://a/2", "http://a/3"];
    assert!(fake.run(fetch, &order(&urls)).expect_err("asked").is_cancelled());
    fake.resume();
    assert_eq!(fake.run(fetch, &order(&urls)).expect("all three").files.len(), 3);
}

//! Outbound HTTP: to granted hosts at allowed addresses, within limits; everything else is refused with an explanation.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OnceCell;
use windlass_executor::{Attempt, AttemptEnd, CancelReason, Config, Executor, HostRule, Outcome, Permissions, Plugin};

use crate::origin::Origin;
use crate::support::{
    Running, assert_contains, built, compiled, error, neighbour_still_runs, start, start_on, wording,
};

async fn guest() -> Plugin {
    static COMPILED: OnceCell<Plugin> = OnceCell::const_new();
    COMPILED.get_or_init(|| compiled(built("hostile-http"))).await.clone()
}

/// Hosts by name and port; those that begin with `!` may be at a private address.
fn hosts(patterns: &[&str]) -> Permissions {
    let rule = |text: &&str| HostRule {
        pattern: text.trim_start_matches('!').parse().unwrap_or_else(|why: String| panic!("{why}")),
        private: text.starts_with('!'),
    };
    Permissions { http: patterns.iter().map(rule).collect(), wording: wording(), ..Permissions::default() }
}

fn granted(origin: &Origin) -> Permissions {
    hosts(&[&format!("!{}", origin.address)])
}

async fn begun(order: Value, change: impl FnOnce(&mut Attempt)) -> Running {
    start(&guest().await, &order.to_string(), change)
}

async fn tried(order: Value, permissions: &Permissions) -> AttemptEnd {
    let running = begun(order, |attempt| attempt.permissions = permissions.clone()).await;
    neighbour_still_runs().await;
    running.ended().await
}

#[track_caller]
fn result(ended: AttemptEnd) -> String {
    match ended.outcome {
        Outcome::Completed { result } => serde_json::from_slice(&result).expect("a text"),
        other => panic!("it did not complete: {other:?}"),
    }
}

fn get(url: String) -> Value {
    json!({"try": "get", "url": url})
}

#[tokio::test]
async fn a_granted_host_answers_and_gets_its_own_name_in_the_host_header() {
    let origin = Origin::start().await;
    let port = origin.address.port();
    let ended = tried(get(origin.url("/hello")), &granted(&origin)).await;
    assert!(ended.usage.host_calls > 5, "calls of wasi:http count as well: {:?}", ended.usage);
    assert_eq!(result(ended), format!("200 hello, 127.0.0.1:{port}"));
    let by_name = hosts(&[&format!("!localhost:{port}")]);
    let ended = tried(get(format!("http://localhost:{port}/hello")), &by_name).await;
    assert_eq!(result(ended), format!("200 hello, localhost:{port}"));
}

#[tokio::test]
async fn a_body_is_sent_up_to_its_limit() {
    let origin = Origin::start().await;
    let order = |bytes| json!({"try": "post", "url": origin.url("/count"), "bytes": bytes});
    assert_eq!(result(tried(order(100_000), &granted(&origin)).await), "200 100000");
    let running = begun(order(100_000), |attempt| {
        attempt.permissions = granted(&origin);
        attempt.limits.http.request_bytes = 50_000;
    });
    let running = running.await;
    neighbour_still_runs().await;
    assert_contains(error(&running.ended().await), "HttpRequestBodySize");
}

#[tokio::test]
async fn without_a_grant_nothing_is_sent_and_the_error_says_what_to_grant() {
    let origin = Origin::start().await;
    let port = origin.address.port();
    let running = begun(get(origin.url("/hello")), |attempt| attempt.permissions = hosts(&[])).await;
    let host = std::sync::Arc::clone(&running.host);
    let ended = running.ended().await;
    assert_contains(error(&ended), "refused: ErrorCode::HttpRequestDenied");
    assert_contains(error(&ended), &format!("to allow it: PrivateHttp(\"127.0.0.1:{port}\")"));
    assert_eq!(error(&ended).matches("is not granted").count(), 1, "{}", error(&ended));
    assert_contains(&host.texts().join("\n"), "is not granted");
    assert_eq!(origin.asked.load(Ordering::SeqCst), 0);
    neighbour_still_runs().await;
}

#[tokio::test]
async fn a_private_address_is_refused_by_any_name_and_spelling() {
    let origin = Origin::start().await;
    let port = origin.address.port();
    let everything = hosts(&["*", &format!("*:{port}")]);
    // Some systems resolve the last two to 127.0.0.1 as well.
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.1", "2130706433"]
    {
        let ended = tried(get(format!("http://{host}:{port}/hello")), &everything).await;
        assert!(matches!(ended.outcome, Outcome::Failed { .. }), "{host}: {:?}", ended.outcome);
    }
    let ended = tried(get(format!("http://localhost:{port}/hello")), &everything).await;
    assert_contains(error(&ended), "refused: ErrorCode::DestinationIpProhibited");
    assert_contains(error(&ended), &format!("to allow it: PrivateHttp(\"localhost:{port}\")"));
    let ended = tried(get("http://169.254.169.254/latest/meta-data/".to_owned()), &everything).await;
    assert_contains(error(&ended), "169.254.169.254 is a link-local address");
    let ended = tried(get("http://168.63.129.16/metadata/instance".to_owned()), &everything).await;
    assert_contains(error(&ended), "168.63.129.16 is an address of a cloud's own services");
    assert_eq!(origin.asked.load(Ordering::SeqCst), 0, "nothing has connected");
}

#[tokio::test]
async fn a_redirect_is_checked_like_any_other_request() {
    let (open, inner) = (Origin::start().await, Origin::start().await);
    let there = inner.address.to_string();
    let follow = |to: &str| json!({"try": "get", "url": open.url(&format!("/to/{to}/hello")), "follow": true});
    let ended = tried(follow(&there), &granted(&open)).await;
    assert_contains(error(&ended), "refused: ErrorCode::HttpRequestDenied");
    assert_contains(error(&ended), &there);
    let public = hosts(&[&format!("!{}", open.address), &format!("*:{}", inner.address.port())]);
    let ended = tried(follow(&format!("localhost:{}", inner.address.port())), &public).await;
    assert_contains(error(&ended), "DestinationIpProhibited");
    assert_eq!(inner.asked.load(Ordering::SeqCst), 0);
    let both = hosts(&[&format!("!{}", open.address), &format!("!{there}")]);
    assert_eq!(result(tried(follow(&there), &both).await), format!("200 hello, {there}"));
}

#[tokio::test]
async fn https_is_checked_against_the_authorities_that_are_trusted() {
    let (origin, authority) = Origin::encrypted().await;
    let port = origin.address.port();
    let permissions = hosts(&[&format!("!localhost:{port}"), &format!("!127.0.0.1:{port}")]);
    let stranger = tried(get(format!("https://localhost:{port}/hello")), &permissions).await;
    assert_contains(error(&stranger), "TlsCertificateError");

    let config = Config { instances: 4, trusted: vec![authority], ..Config::default() };
    let executor = Executor::new(config).expect("an executor");
    let plugin = executor.compile(built("hostile-http")).await.expect("a good component");
    let on = |url: String| {
        let order = get(url).to_string();
        start_on(&executor, &plugin, &order, Default::default(), |attempt| attempt.permissions = permissions.clone())
    };
    let ended = on(format!("https://localhost:{port}/hello")).ended().await;
    assert_eq!(result(ended), format!("200 hello, localhost:{port}"));
    let running = on(format!("https://127.0.0.1:{port}/hello"));
    let host = std::sync::Arc::clone(&running.host);
    assert_contains(error(&running.ended().await), "TlsCertificateError");
    assert_contains(&host.texts().join("\n"), "HTTPS to `127.0.0.1:");
}

#[tokio::test]
async fn a_response_that_does_not_arrive_times_out() {
    let origin = Origin::start().await;
    let short = Duration::from_millis(100);
    for (path, expected) in [
        ("/silent", "ConnectionReadTimeout"),
        ("/drip-head", "ConnectionReadTimeout"),
        ("/stuck", "cut off: "),
        ("/drip", "cut off: "),
    ] {
        let running = begun(get(origin.url(path)), |attempt| {
            attempt.permissions = granted(&origin);
            attempt.limits.http.first_byte = short;
            attempt.limits.http.between_bytes = short;
            attempt.limits.http.total = 3 * short;
        });
        let running = running.await;
        neighbour_still_runs().await;
        assert_contains(error(&running.ended().await), expected);
    }
    let order = json!({"try": "get", "url": origin.url("/silent"), "first_byte_ms": 20});
    assert_contains(error(&tried(order, &granted(&origin)).await), "ConnectionReadTimeout");
    origin.until_closed().await;
}

#[tokio::test]
async fn an_endless_response_is_cut_at_its_limit() {
    let origin = Origin::start().await;
    for (path, expected) in [
        ("/endless", "body size exceeds limit"),
        ("/huge", "HttpResponseBodySize"),
        ("/endless-head", "HttpResponseHeaderSectionSize"),
        ("/garbage", "HttpProtocolError"),
    ] {
        let order = json!({"try": "count", "url": origin.url(path)});
        let running = begun(order, |attempt| {
            attempt.permissions = granted(&origin);
            attempt.limits.http.response_bytes = 1 << 20;
        });
        let running = running.await;
        neighbour_still_runs().await;
        let ended = running.ended().await;
        assert_contains(error(&ended), expected);
    }
    origin.until_closed().await;
}

#[tokio::test]
async fn the_processor_time_of_a_request_is_charged_to_the_guest() {
    let origin = Origin::start().await;
    let order = json!({"try": "count", "url": origin.url("/endless")});
    let running = begun(order, |attempt| {
        attempt.permissions = granted(&origin);
        attempt.limits.cpu_time = Some(Duration::from_millis(50));
    });
    let ended = running.await.ended().await;
    assert_contains(error(&ended), "the handler used up its processor time of 50ms");
    origin.until_closed().await;
}

#[tokio::test]
async fn a_guest_that_waits_for_a_response_is_stopped_by_force_and_its_connection_closed() {
    let origin = Origin::start().await;
    for path in ["/silent", "/drip"] {
        let running = begun(get(origin.url(path)), |attempt| attempt.permissions = granted(&origin)).await;
        while origin.open.load(Ordering::SeqCst) == 0 {
            neighbour_still_runs().await;
        }
        running.stop(CancelReason::User, Duration::from_millis(20));
        let ended = running.ended().await;
        assert!(matches!(ended.outcome, Outcome::Stopped { reason: CancelReason::User, cooperative: false, .. }));
        assert!(ended.usage.wall_ms > ended.usage.cpu_ms, "waiting is not computing: {:?}", ended.usage);
        origin.until_closed().await;
    }
    let timed = |attempt: &mut Attempt| {
        attempt.permissions = granted(&origin);
        attempt.limits.stall_timeout = Some(Duration::from_millis(50));
    };
    let ended = begun(get(origin.url("/silent")), timed).await.ended().await;
    assert_contains(error(&ended), "no progress, checkpoint or log for 50ms");
    origin.until_closed().await;
}

#[tokio::test]
async fn open_requests_are_limited() {
    let origin = Origin::start().await;
    let order = json!({"try": "many", "url": origin.url("/stuck"), "count": 300});
    let running = begun(order, |attempt| {
        attempt.permissions = granted(&origin);
        attempt.limits.http.at_once = 8;
        attempt.limits.http.connect = Duration::from_millis(500);
    });
    let running = running.await;
    neighbour_still_runs().await;
    assert_eq!(result(running.ended().await), "8 open; refused: ErrorCode::ConnectionLimitReached");
    assert_eq!(origin.asked.load(Ordering::SeqCst), 8);
    origin.until_closed().await;
}

#[tokio::test]
async fn requests_that_are_never_sent_take_limited_memory() {
    let nothing = Permissions::default();
    let order = json!({"try": "hoard", "count": 10_000, "path_bytes": 8_000});
    let ended = tried(order, &nothing).await;
    assert_contains(error(&ended), "it holds 1000 HTTP requests and lists of headers that it has not sent");
    assert_eq!(result(tried(json!({"try": "hoard", "count": 900, "path_bytes": 8_000}), &nothing).await), "holds 900");
    assert_eq!(result(tried(json!({"try": "long", "bytes": 60}), &nothing).await), "method scheme host path");
    assert_eq!(result(tried(json!({"try": "long", "bytes": 500}), &nothing).await), "host path");
    assert_eq!(result(tried(json!({"try": "long", "bytes": 5_000}), &nothing).await), "path");
    assert_eq!(result(tried(json!({"try": "long", "bytes": 50_000}), &nothing).await), "");
}

#[tokio::test]
async fn too_many_headers_are_refused() {
    let origin = Origin::start().await;
    let order = |count| json!({"try": "headers", "url": origin.url("/hello"), "count": count});
    assert_eq!(result(tried(order(100), &granted(&origin)).await), "200");
    assert_contains(error(&tried(order(200), &granted(&origin)).await), "HttpRequestHeaderSectionSize");
    assert_contains(error(&tried(order(10_000), &granted(&origin)).await), "exceeds limit");
}

#[tokio::test]
async fn a_trap_with_an_open_response_has_its_backtrace_and_closes_the_connection() {
    let origin = Origin::start().await;
    let ended = tried(json!({"try": "panic", "url": origin.url("/stuck")}), &granted(&origin)).await;
    assert_contains(error(&ended), "an answer of 200 is open");
    let Outcome::Failed { backtrace: Some(backtrace), .. } = &ended.outcome else { panic!("no backtrace") };
    assert_contains(backtrace, "hostile_http");
    origin.until_closed().await;
}

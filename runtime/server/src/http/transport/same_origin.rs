//! Whether a request comes from a page of this server, by what its browser says. A page of another site can make a
//! visitor's browser send requests here, with the cookies that it has for this server.

use axum::http::{HeaderMap, HeaderValue, Method, header};

use crate::http::transport::error::{Error, Result};

/// The header that the console sends with each request that changes something. A page of another site cannot add it.
const CONSOLE: &str = "x-windlass-console";

/// Whether requests with this method change nothing.
pub fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Refuses what comes from a page of another site.
pub fn check_foreign(method: &Method, headers: &HeaderMap) -> Result<()> {
    if !is_foreign(method, headers) {
        return Ok(());
    }
    Err(Error::forbidden(
        "the request comes from a web page of another site; only pages of this server may send it without a key",
    ))
}

/// Refuses a change that is asked for with a session, unless it certainly comes from a page of this server: the browser
/// must say so, and the page must have sent a header that needs no other site's permission only there.
pub fn check_console(headers: &HeaderMap, is_https: bool) -> Result<()> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let own = format!("{}://{host}", if is_https { "https" } else { "http" });
    let says = |name: &str, value: &str| headers.get(name).is_some_and(|sent| sent.as_bytes() == value.as_bytes());
    if says(CONSOLE, "1") && (says("origin", &own) || says("sec-fetch-site", "same-origin")) {
        return Ok(());
    }
    Err(Error::forbidden(format!(
        "a change with a session must come from a page of this server: send the header X-Windlass-Console: 1, and Origin: {own} or \
         Sec-Fetch-Site: same-origin, which browsers add; programs send a key instead, as X-API-Key"
    )))
}

/// Whether a browser says that the request comes from a page of another origin. Following a link from there to here is
/// allowed, because the other page cannot read the response.
pub fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let own = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let from = origin.windows(3).position(|part| part == b"://").map_or(origin, |at| &origin[at + 3..]);
        host == Some(from)
    };
    if !headers.get_all(header::ORIGIN).iter().all(own) {
        return true;
    }
    let says =
        |name: &'static str, value: &str| headers.get(name).is_some_and(|sent| sent.as_bytes() == value.as_bytes());
    let follows_link = || {
        (method == Method::GET || method == Method::HEAD)
            && says("sec-fetch-mode", "navigate")
            && says("sec-fetch-dest", "document")
    };
    (says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site")) && !follows_link()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(request: &str, headers: &[(&'static str, &str)], expected: bool) {
        let (method, _) = request.split_once(' ').expect("a method and a path");
        let mut map = HeaderMap::new();
        map.append("host", HeaderValue::from_static("localhost:7070"));
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let method: Method = method.parse().expect("a method");
        assert_eq!(is_foreign(&method, &map), expected, "{request} {headers:?}");
    }

    #[test]
    fn a_change_with_a_session_needs_the_exact_origin_and_the_header() {
        let check = |sent: &[(&'static str, &'static str)], is_https| {
            let mut map = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost:7070"))]);
            for (name, value) in sent {
                map.append(*name, HeaderValue::from_static(value));
            }
            check_console(&map, is_https).is_ok()
        };
        let (console, own) = (("x-windlass-console", "1"), ("origin", "http://localhost:7070"));
        assert!(check(&[console, own], false));
        assert!(check(&[console, ("sec-fetch-site", "same-origin")], true));
        assert!(check(&[console, ("origin", "https://localhost:7070")], true));
        assert!(!check(&[console, own], true), "that is another scheme");
        assert!(!check(&[console, ("origin", "http://localhost:7071")], false));
        assert!(!check(&[console, ("sec-fetch-site", "same-site")], false));
        for lacking in [&[own][..], &[console], &[("x-windlass-console", "0"), own], &[]] {
            assert!(!check(lacking, false), "{lacking:?}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_recognised_by_what_its_browser_says() {
        let post = "POST /api/v1/enqueue";
        check(post, &[], false);
        check(post, &[("origin", "http://localhost:7070")], false);
        for origin in
            ["https://evil.example", "null", "http://localhost:3000", "", "http://localhost:7070.evil.example"]
        {
            check(post, &[("origin", origin)], true);
        }
        check(post, &[("origin", "http://localhost:7070"), ("origin", "https://evil.example")], true);
        check(post, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], true);
        check(post, &[("sec-fetch-site", "same-site")], true);
        check(post, &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:7070")], false);
        check(post, &[("sec-fetch-site", "none")], false);
    }

    #[test]
    fn a_person_may_follow_a_link_but_not_a_frame_or_a_form() {
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        check("GET /docs", &link, false);
        check("POST /api/v1/enqueue", &link, true);
        let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        check("GET /docs", &frame, true);
    }
}

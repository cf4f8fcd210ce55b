//! What a request proves its sender with: a key in a header or a cookie, or the session of a browser.

use axum::http::{HeaderMap, header};

/// The cookie with a key, for browsers, whose EventSource cannot send a custom header.
const KEY: &str = "windlass_key";
/// The cookie with a session.
pub const SESSION: &str = "windlass_session";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    Key(&'a str),
    Session(&'a str),
}

/// What a page of another site cannot make a browser send.
pub fn in_header(headers: &HeaderMap) -> Option<Credentials<'_>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let key = text("x-api-key").or_else(|| {
        let (scheme, key) = text("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    key.map(Credentials::Key)
}

pub fn in_cookie(headers: &HeaderMap) -> Option<Credentials<'_>> {
    cookie(headers, SESSION).map(Credentials::Session).or_else(|| cookie(headers, KEY).map(Credentials::Key))
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().expect("a name"), HeaderValue::from_static(value))])
    }

    #[test]
    fn a_key_is_read_from_either_header_or_the_cookie() {
        let key = Some(Credentials::Key("k"));
        assert_eq!(in_header(&headers("x-api-key", "k")), key);
        assert_eq!(in_header(&headers("authorization", "bearer k")), key);
        assert_eq!(in_header(&headers("authorization", "Basic k")), None);
        assert_eq!(in_cookie(&headers("cookie", "a=b; windlass_key=k")), key);
        assert_eq!(in_cookie(&headers("cookie", "windlass_keys=k")), None);
    }

    #[test]
    fn a_session_goes_before_the_cookie_with_a_key() {
        let both = headers("cookie", "windlass_key=k; windlass_session=s");
        assert_eq!(in_cookie(&both), Some(Credentials::Session("s")));
        assert_eq!(in_header(&both), None);
    }
}

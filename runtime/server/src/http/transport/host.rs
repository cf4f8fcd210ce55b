//! The host names that requests may use. A page on any site can make a browser send requests here, under a name of its
//! own that resolves to this machine (DNS rebinding). To the browser they are requests of that page to its own site, so
//! `Origin` does not help, but the name in `Host` does. It is checked before anything else, for every path.
//!
//! Called for every request, so it allocates nothing unless it refuses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use axum::http::{HeaderMap, Uri, header};
use serde::{Deserialize, Deserializer, de};

use crate::http::transport::error::{Error, Result};

/// The longest name in DNS.
const NAME_BYTES: usize = 253;

/// An additional name for this server, from `--allowed-host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHost {
    /// `*`: any name.
    Any,
    /// `*.example.com`: every name that ends in `.example.com`.
    Below(String),
    Name(String),
    Address(IpAddr),
}

/// The names and addresses that requests may use, on any port.
#[derive(Clone, Debug)]
pub struct Hosts {
    allowed: Vec<AllowedHost>,
    /// It listens on all addresses of the machine, which it does not know. Any address is allowed then, because only
    /// names can be rebound.
    any_address: bool,
}

/// A host as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl Hosts {
    /// `listen` is the setting, `address` what it resolved to, and `allowed` the additional names.
    pub fn new(listen: &str, address: SocketAddr, allowed: &[AllowedHost]) -> Hosts {
        let mut allowed = allowed.to_vec();
        if let Some(named @ (AllowedHost::Name(_) | AllowedHost::Address(_))) = listened(listen) {
            allowed.push(named);
        }
        allowed.push(AllowedHost::Address(address.ip().to_canonical()));
        if !address.ip().is_loopback() {
            allowed.extend(machine_name());
        }
        Hosts { allowed, any_address: address.ip().is_unspecified() }
    }

    /// Refuses a request that names no host, several, or one that is not this server's.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Error::field(
                "Host",
                "a request must have this header exactly once, with the name of the server",
            ));
        };
        self.check_one(host.as_bytes())?;
        // A request to a proxy has the whole address in its first line, which takes precedence.
        match uri.authority() {
            Some(authority) => self.check_one(authority.as_str().as_bytes()),
            None => Ok(()),
        }
    }

    fn check_one(&self, host: &[u8]) -> Result<()> {
        let Some(named) = std::str::from_utf8(host).ok().and_then(named) else {
            return Err(Error::field("Host", "is not the name or address of a host, such as localhost:7070"));
        };
        if self.has(named) {
            return Ok(());
        }
        let name = match named {
            Named::Name(name) => name.to_owned(),
            Named::Address(address) => address.to_string(),
        };
        Err(Error::wrong_host(format!(
            "`{name}` is not a name of this server; if it should be one, start the server with --allowed-host {name}"
        )))
    }

    fn has(&self, named: Named<'_>) -> bool {
        let known = match named {
            Named::Name(name) => name.eq_ignore_ascii_case("localhost"),
            Named::Address(address) => self.any_address || address.is_loopback(),
        };
        known || self.allowed.iter().any(|allowed| allowed.matches(named))
    }
}

impl AllowedHost {
    fn matches(&self, named: Named<'_>) -> bool {
        match (self, named) {
            (AllowedHost::Any, _) => true,
            (AllowedHost::Name(own), Named::Name(name)) => own.eq_ignore_ascii_case(name),
            (AllowedHost::Below(suffix), Named::Name(name)) => {
                let start = name.len().checked_sub(suffix.len());
                start.is_some_and(|start| start > 0 && name.as_bytes()[start..].eq_ignore_ascii_case(suffix.as_bytes()))
            }
            (AllowedHost::Address(own), Named::Address(address)) => *own == address,
            (AllowedHost::Name(_) | AllowedHost::Below(_), Named::Address(_))
            | (AllowedHost::Address(_), Named::Name(_)) => false,
        }
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<AllowedHost, String> {
        let wrong = || {
            format!(
                "`{text}` is not the name of a host; write one such as windlass.example.com or *.example.com, without a port"
            )
        };
        if text == "*" {
            return Ok(AllowedHost::Any);
        }
        if let Some(parent) = text.strip_prefix("*.") {
            return if is_name(parent) { Ok(AllowedHost::Below(format!(".{parent}"))) } else { Err(wrong()) };
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(AllowedHost::Address(address.to_canonical()));
        }
        if is_name(text) { Ok(AllowedHost::Name(text.to_owned())) } else { Err(wrong()) }
    }
}

impl<'de> Deserialize<'de> for AllowedHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<AllowedHost, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The host of `--listen`, which may be a name, if it is valid.
fn listened(listen: &str) -> Option<AllowedHost> {
    listen.rsplit_once(':').and_then(|(host, _)| host.parse().ok())
}

/// The name of this machine.
fn machine_name() -> Option<AllowedHost> {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok())?;
    let name = text.trim();
    is_name(name).then(|| AllowedHost::Name(name.to_owned()))
}

/// Parses `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`; `None` for anything else.
fn named(host: &str) -> Option<Named<'_>> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        let good = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return good.then(|| Named::Address(IpAddr::V6(address).to_canonical()));
    }
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    if !is_port(port) {
        return None;
    }
    // Only names start with a letter, and most requests use one of a few names.
    let is_digits = name.as_bytes().first().is_some_and(u8::is_ascii_digit);
    match name.parse::<Ipv4Addr>() {
        Ok(address) if is_digits => Some(Named::Address(address.into())),
        _ => is_name(name).then(|| Named::Name(name.strip_suffix('.').unwrap_or(name))),
    }
}

/// An empty port means the default of the scheme.
fn is_port(port: &str) -> bool {
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_name(name: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let labels = name.strip_suffix('.').unwrap_or(name);
    name.len() <= NAME_BYTES + 1 && labels.split('.').all(|label| !label.is_empty() && label.bytes().all(part))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, StatusCode};
    use axum::response::IntoResponse;

    use super::*;

    fn hosts(listen: &str, allowed: &[&str]) -> Hosts {
        let address =
            if listen.starts_with(|first: char| first.is_ascii_alphabetic()) { "127.0.0.1:7070" } else { listen };
        let allowed: Vec<AllowedHost> = allowed.iter().map(|text| text.parse().expect("a host")).collect();
        Hosts::new(listen, address.parse().expect("an address"), &allowed)
    }

    /// The status that a request with these `Host` headers is refused with; 200 when it is not.
    fn status(hosts: &Hosts, named: &[&str]) -> u16 {
        let mut headers = HeaderMap::new();
        for host in named {
            headers.append(header::HOST, HeaderValue::from_bytes(host.as_bytes()).expect("a header"));
        }
        let checked = hosts.check(&Uri::from_static("/healthz"), &headers);
        checked.map_or_else(|error| error.into_response().status(), |()| StatusCode::OK).as_u16()
    }

    #[track_caller]
    fn check(hosts: &Hosts, expected: u16, named: &[&str]) {
        for host in named {
            assert_eq!(status(hosts, &[host]), expected, "{host:?} on {hosts:?}");
        }
    }

    const LOOPBACK: [&str; 9] = [
        "localhost",
        "localhost:7070",
        "LocalHost:9",
        "localhost.",
        "127.0.0.1:7070",
        "127.9.8.7",
        "[::1]:7070",
        "[::1]",
        "[::ffff:127.0.0.1]:1",
    ];

    #[test]
    fn a_server_on_the_loopback_address_has_loopback_names_and_no_others() {
        let own = hosts("127.0.0.1:7070", &[]);
        check(&own, 200, &LOOPBACK);
        let others =
            ["evil.example:7070", "localhost.evil.example", "evil-localhost", "10.0.0.1:7070", "[::2]", "127.1"];
        check(&own, 421, &others);
    }

    #[test]
    fn a_host_that_is_missing_doubled_or_malformed_is_a_bad_request() {
        let own = hosts("127.0.0.1:7070", &["*"]);
        assert_eq!(status(&own, &[]), 400);
        assert_eq!(status(&own, &["localhost", "localhost"]), 400);
        let malformed = [
            "",
            " ",
            ":7070",
            "local host",
            "localhost:port",
            "localhost:123456",
            "a@localhost",
            "localhost/x",
            "[::1",
            "[::1]7",
            "[localhost]",
            "::1",
            "a..b",
            ".localhost",
            "b\u{fc}cher.example",
        ];
        check(&own, 400, &malformed);
        check(&own, 400, &[&"a".repeat(300)]);
    }

    #[test]
    fn the_listen_address_and_what_was_allowed_are_names_of_the_server() {
        check(&hosts("192.168.7.7:80", &[]), 200, &["192.168.7.7", "192.168.7.7:80", "127.0.0.1", "localhost"]);
        check(&hosts("192.168.7.7:80", &[]), 421, &["192.168.7.8", "evil.example"]);
        check(&hosts("windlass.internal:7070", &[]), 200, &["windlass.internal:7070", "127.0.0.1"]);
        let added = hosts("127.0.0.1:7070", &["jobs.example.com", "*.corp.example", "10.1.1.1", "fd00::1"]);
        check(&added, 200, &["jobs.example.com", "JOBS.example.com:443", "a.corp.example", "a.b.corp.example:1"]);
        check(&added, 200, &["10.1.1.1:1", "[fd00::1]:7070", "localhost"]);
        check(&added, 421, &["corp.example", "evilcorp.example", "a.jobs.example.com", "example.com", "10.1.1.2"]);
        check(&hosts("127.0.0.1:7070", &["*"]), 200, &["anything.example", "10.1.1.2"]);
    }

    #[test]
    fn on_all_addresses_any_address_is_allowed_and_no_other_name() {
        for listen in ["0.0.0.0:7070", "[::]:7070"] {
            let all = hosts(listen, &[]);
            check(&all, 200, &["10.0.0.1:7070", "[fe80::1]", "203.0.113.9", "127.0.0.1"]);
            check(&all, 200, &LOOPBACK);
            check(&all, 421, &["evil.example", "evil.example:7070"]);
            if let Some(AllowedHost::Name(name)) = machine_name() {
                check(&all, 200, &[&name]);
            }
        }
    }

    #[test]
    fn the_address_in_the_first_line_counts_as_well() {
        let own = hosts("127.0.0.1:7070", &[]);
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        assert!(own.check(&Uri::from_static("http://localhost:7070/x"), &headers).is_ok());
        assert!(own.check(&Uri::from_static("http://evil.example/x"), &headers).is_err());
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let error = hosts("127.0.0.1:7070", &[]).check_one(b"jobs.example.com:443").expect_err("another host");
        assert!(format!("{error:?}").contains("--allowed-host jobs.example.com"), "{error:?}");
    }

    #[test]
    fn a_text_that_is_not_a_host_cannot_be_allowed() {
        for wrong in ["", "a b", "http://a.example", "a.example:80", "*.", "a.*", "**", "[::1"] {
            assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong:?}");
        }
    }
}

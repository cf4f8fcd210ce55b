//! Where requests come from: the other side of a connection, and the client of a request, which a proxy may stand in
//! front of.
//!
//! `AccessControl` gets a `Peer` for each connection, and asks it about each request.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};

use crate::http::transport::connections::ConnectionSlot;

/// The address of the client that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientAddress(IpAddr);

/// The other side of one connection.
#[derive(Clone)]
pub struct Peer {
    /// The slot that the connection has.
    pub slot: Arc<ConnectionSlot>,
    address: IpAddr,
    /// TLS ends in this server.
    encrypted: bool,
    /// The other side is a proxy, whose headers about its own client are true.
    is_proxy: bool,
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

impl ClientAddress {
    pub fn new(address: IpAddr) -> ClientAddress {
        ClientAddress(address.to_canonical())
    }

    pub fn ip(self) -> IpAddr {
        self.0
    }

    /// What limits count as one client: an IPv4 address, or a /64 network of IPv6 addresses, because one client can use
    /// them all.
    pub fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Peer {
    pub fn new(slot: Arc<ConnectionSlot>, address: IpAddr, encrypted: bool, is_proxy: bool) -> Peer {
        Peer { slot, address, encrypted, is_proxy }
    }

    /// The client of a request: behind a proxy, the last address in `X-Forwarded-For`, which is the one that the proxy
    /// itself has seen. Those before it are what the client says, and may be invented.
    pub fn client(&self, headers: &HeaderMap) -> ClientAddress {
        let forwarded = if self.is_proxy { last(headers, &FORWARDED_FOR).and_then(address) } else { None };
        ClientAddress::new(forwarded.unwrap_or(self.address))
    }

    /// Whether the client uses https.
    pub fn is_https(&self, headers: &HeaderMap) -> bool {
        let by_proxy =
            || self.is_proxy && last(headers, &FORWARDED_PROTO).is_some_and(|word| word.eq_ignore_ascii_case("https"));
        self.encrypted || by_proxy()
    }
}

/// The last element of a header that is a list, which may be sent in several lines.
fn last<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let line = headers.get_all(name).iter().next_back()?.to_str().ok()?;
    line.rsplit(',').next().map(str::trim)
}

/// Parses an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::http::transport::connections::ConnectionSlots;

    async fn peer(is_proxy: bool) -> Peer {
        let address = IpAddr::from([192, 0, 2, 1]);
        let slot = ConnectionSlots::new(1, 1).take(address).await.expect("a slot");
        Peer::new(slot, address, false, is_proxy)
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[tokio::test]
    async fn behind_a_proxy_the_client_is_the_last_forwarded_address() {
        let proxy = peer(true).await;
        for (forwarded, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:5123", "203.0.113.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:5123", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            // What cannot be read is not a client; the proxy is known, at least.
            ("203.0.113.7, unknown", "192.0.2.1"),
            ("", "192.0.2.1"),
        ] {
            let client = proxy.client(&headers(&[("x-forwarded-for", forwarded)]));
            assert_eq!(client.to_string(), expected, "{forwarded:?}");
        }
        let two = headers(&[("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.7")]);
        assert_eq!(proxy.client(&two).to_string(), "203.0.113.7");
        assert_eq!(proxy.client(&headers(&[])).to_string(), "192.0.2.1");
    }

    #[tokio::test]
    async fn without_a_proxy_nobody_can_claim_another_address_or_encryption() {
        let direct = peer(false).await;
        let claims = headers(&[("x-forwarded-for", "203.0.113.7"), ("x-forwarded-proto", "https")]);
        assert_eq!(direct.client(&claims).to_string(), "192.0.2.1");
        assert!(!direct.is_https(&claims));
        let proxy = peer(true).await;
        assert!(proxy.is_https(&claims) && proxy.is_https(&headers(&[("x-forwarded-proto", "HTTPS")])));
        assert!(!proxy.is_https(&headers(&[("x-forwarded-proto", "http")])) && !proxy.is_https(&headers(&[])));
    }

    #[test]
    fn a_network_of_ipv6_addresses_counts_as_one() {
        let network = |text: &str| ClientAddress::new(text.parse().expect("an address")).network();
        assert_eq!(network("2001:db8:1:2:3::4"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::4"), network("2001:db8:1:3::4"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}

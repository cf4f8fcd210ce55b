//! Where outbound HTTP may go: patterns of hosts, and which addresses are never reachable.
//!
//! A name is only a promise. Whoever connects must resolve it, ask [`reach`] about the address, and connect to that
//! very address: a second lookup could answer differently.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `api.example.com`, `*.example.com`, `10.0.0.7`, `[fd00::1]` or `*`, and perhaps `:port`. Without a port it means the
/// usual ones, 80 and 443. `*.example.com` is every name below `example.com`, and not that name itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Any,
    /// Every name that ends in this, which begins with a dot.
    Below(String),
    Exactly(String),
}

const USUAL_PORTS: [u16; 2] = [80, 443];

/// Where a host lies, as far as its name alone says. Nothing is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// At a public address: it is one.
    Public,
    /// On this machine or in its networks: such an address, or a name that is used for nothing else.
    Private,
    /// Nowhere, whatever is granted.
    Never(&'static str),
    /// Only a lookup would tell.
    Unknown,
}

/// Names that the public internet does not have: whoever uses them means a neighbour.
const LOCAL_NAMES: [&str; 8] =
    ["localhost", "local", "internal", "lan", "home.arpa", "intranet", "localdomain", "home"];

impl HostPattern {
    /// The pattern of one host at one port, as short as it can be written.
    pub fn exactly(host: &str, port: u16) -> HostPattern {
        let port = Some(port).filter(|port| !USUAL_PORTS.contains(port));
        HostPattern { host: Host::Exactly(normal(host)), port }
    }

    /// Whether it covers every host, at some port.
    pub(crate) fn is_any(&self) -> bool {
        self.host == Host::Any
    }

    pub(crate) fn whereabouts(&self) -> HostKind {
        let name = match &self.host {
            Host::Any => return HostKind::Unknown,
            Host::Below(suffix) => suffix.trim_start_matches('.'),
            Host::Exactly(name) => name,
        };
        if let Ok(address) = name.parse::<IpAddr>() {
            return match reach(address) {
                Reach::Public => HostKind::Public,
                Reach::Private(_) => HostKind::Private,
                Reach::Never(kind) => HostKind::Never(kind),
            };
        }
        // A name without a dot is one of a local network: that of another container, for example.
        let is_single = matches!(self.host, Host::Exactly(_)) && !name.contains('.');
        let is_local = LOCAL_NAMES
            .iter()
            .any(|local| name.strip_suffix(local).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
        if is_single || is_local { HostKind::Private } else { HostKind::Unknown }
    }

    /// Whether a request to this host and port fits the pattern.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        let port_fits = self.port.map_or_else(|| USUAL_PORTS.contains(&port), |own| own == port);
        let host = normal(host);
        let host_fits = match &self.host {
            Host::Any => true,
            Host::Below(suffix) => below(&host, suffix),
            Host::Exactly(own) => *own == host,
        };
        port_fits && host_fits
    }

    /// Whether all that `other` covers is covered by this one, too.
    pub fn includes(&self, other: &HostPattern) -> bool {
        let port_fits = match (self.port, other.port) {
            (None, None) => true,
            (None, Some(port)) => USUAL_PORTS.contains(&port),
            (Some(_), None) => false,
            (Some(own), Some(port)) => own == port,
        };
        let host_fits = match (&self.host, &other.host) {
            (Host::Any, _) => true,
            (Host::Below(suffix), Host::Below(other)) => other.ends_with(suffix.as_str()),
            (Host::Below(suffix), Host::Exactly(host)) => below(host, suffix),
            (Host::Exactly(own), Host::Exactly(host)) => own == host,
            (Host::Below(_), Host::Any) | (Host::Exactly(_), Host::Any | Host::Below(_)) => false,
        };
        port_fits && host_fits
    }
}

/// A suffix begins with its dot, so that `*.example.com` is not `badexample.com`. An address is below nothing.
fn below(host: &str, suffix: &str) -> bool {
    host.len() > suffix.len() && host.ends_with(suffix) && host.parse::<IpAddr>().is_err()
}

/// Names are the same in any case and with or without the dot at their end; an address has one spelling.
fn normal(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase(),
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<HostPattern, String> {
        let wrong = || {
            format!(
                "{text:?} is not a host; write `api.example.com`, `*.example.com` or `10.0.0.7:8080`, without scheme or path"
            )
        };
        let (host, port) = match text.rfind(':') {
            // A colon inside brackets, or one of many, belongs to an address.
            Some(at) if !text.ends_with(']') && (text.starts_with('[') || text.find(':') == Some(at)) => {
                (&text[..at], Some(text[at + 1..].parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong)?))
            }
            _ => (text, None),
        };
        if host == "*" {
            return Ok(HostPattern { host: Host::Any, port });
        }
        let (name, wildcard) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
        let name = normal(name);
        let is_address = name.parse::<IpAddr>().is_ok();
        let is_name = name.len() <= 253
            && name.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            });
        if !(is_name || is_address) || wildcard && is_address {
            return Err(wrong());
        }
        Ok(HostPattern { host: if wildcard { Host::Below(format!(".{name}")) } else { Host::Exactly(name) }, port })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Below(suffix) => write!(f, "*{suffix}")?,
            Host::Exactly(host) if host.contains(':') => write!(f, "[{host}]")?,
            Host::Exactly(host) => f.write_str(host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HostPattern, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Who may be reached under an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A host of the public internet.
    Public,
    /// This machine or its neighbours: only by a grant that says so.
    Private(&'static str),
    /// No single host at all, whatever is granted.
    Never(&'static str),
}

/// What kind of address this is. What is not known to be public is not public.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [0, ..] => Reach::Never("an unspecified address"),
        [224..=239, ..] => Reach::Never("a multicast address"),
        [240..=255, ..] => Reach::Never("a reserved or broadcast address"),
        [127, ..] => Reach::Private("a loopback address"),
        [169, 254, ..] => Reach::Private("a link-local address"),
        // Public by their number, and reachable only from inside the cloud that they belong to: Azure's own services,
        // and the service networks of IBM Cloud. The metadata services of other clouds are at addresses that are not
        // public anyway.
        [168, 63, 129, 16] | [161, 26, ..] | [166, 8..=11, ..] => {
            Reach::Private("an address of a cloud's own services")
        }
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Reach::Private("a private address"),
        [100, 64..=127, ..] => Reach::Private("a carrier's shared address"),
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Reach::Private("an address set aside for special use")
        }
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    // An IPv4 address in other clothes is what it is: mapped, translated (NAT64) or tunnelled (6to4).
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        reach_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Reach::Never("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Private("a loopback address"),
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            v4(high, low)
        }
        [0xff00..=0xffff, ..] => Reach::Never("a multicast address"),
        [0xfe80..=0xfebf, ..] => Reach::Private("a link-local address"),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Reach::Private("a private address"),
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            Reach::Private("an address set aside for special use")
        }
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Private("an address set aside for special use"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn a_pattern_covers_what_it_says_and_no_more() {
        let table = [
            ("api.example.com", "API.Example.com.", 443, true),
            ("api.example.com", "api.example.com", 80, true),
            ("api.example.com", "api.example.com", 8080, false),
            ("api.example.com:8080", "api.example.com", 8080, true),
            ("api.example.com:8080", "api.example.com", 443, false),
            ("api.example.com", "api.example.com.evil.org", 443, false),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "badexample.com", 443, false),
            ("*", "anything.org", 443, true),
            ("*", "anything.org", 22, false),
            ("10.0.0.7:8080", "10.0.0.7", 8080, true),
            ("*.7", "10.0.0.7", 443, false),
            ("[::1]:9000", "[0:0:0:0:0:0:0:1]", 9000, true),
            ("::1", "::1", 80, true),
        ];
        for (text, host, port, expected) in table {
            assert_eq!(pattern(text).covers(host, port), expected, "{text} and {host}:{port}");
        }
    }

    #[test]
    fn a_pattern_includes_narrower_ones() {
        let table = [
            ("*", "*.example.com", true),
            ("*.example.com", "*.eu.example.com", true),
            ("*.eu.example.com", "*.example.com", false),
            ("*.example.com", "api.example.com:443", true),
            ("*.example.com", "api.example.com:8080", false),
            ("api.example.com:443", "api.example.com", false),
            ("api.example.com", "*", false),
        ];
        for (wide, narrow, expected) in table {
            assert_eq!(pattern(wide).includes(&pattern(narrow)), expected, "{wide} and {narrow}");
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_can_be_written_again() {
        for text in ["api.example.com", "*.example.com:8443", "*", "[fd00::1]:80", "127.0.0.1:9000"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        for wrong in [
            "",
            "https://example.com",
            "a b",
            "example.com/path",
            "example.com:0",
            "a.com:port",
            "*.*.com",
            "*.10.0.0.1",
            "a..b",
        ] {
            assert!(wrong.parse::<HostPattern>().expect_err(wrong).contains("*.example.com"), "{wrong}");
        }
    }

    #[test]
    fn the_services_that_clouds_offer_to_their_machines_are_not_public() {
        let aws = ["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fd00:ec2::23"];
        let azure = ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "2002:a83f:8110::1"];
        let others = ["100.100.100.200", "192.0.0.192", "fd20:ce::254", "169.254.42.42", "161.26.0.10", "166.8.0.1"];
        for address in aws.into_iter().chain(azure).chain(others) {
            assert!(matches!(reach(address.parse().expect(address)), Reach::Private(_)), "{address}");
        }
        for neighbour in ["168.63.129.15", "168.63.128.16", "166.12.0.1", "161.27.0.1"] {
            assert_eq!(reach(neighbour.parse().expect(neighbour)), Reach::Public, "{neighbour}");
        }
    }

    #[test]
    fn only_public_addresses_are_public() {
        let public =
            ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"];
        for address in public {
            assert_eq!(reach(address.parse().expect(address)), Reach::Public, "{address}");
        }
        let private = [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2001::1",
            "2001:db8::1",
            "3fff:1::1",
            "::7f00:1",
            "4000::1",
        ];
        for address in private {
            assert!(matches!(reach(address.parse().expect(address)), Reach::Private(_)), "{address}");
        }
        for address in ["0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "::ffff:0.0.0.0"] {
            assert!(matches!(reach(address.parse().expect(address)), Reach::Never(_)), "{address}");
        }
    }
}

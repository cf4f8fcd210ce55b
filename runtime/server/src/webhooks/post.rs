//! One POST to an external address: the name is resolved once, every address it has is checked, and the connection is
//! made to a checked one. Redirects are not followed, because they would bypass the check.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use windlass_core::plugin::egress::{Reach, reach};

use crate::limits;

/// The address of a webhook.
#[derive(Debug)]
pub struct Target {
    https: bool,
    host: String,
    port: u16,
    /// The value of the `Host` header.
    authority: String,
    path: String,
}

/// Why a delivery failed.
#[derive(Debug)]
pub enum DeliveryError {
    /// Retrying is pointless.
    Never(String),
    /// A retry may succeed.
    Perhaps(String),
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    /// Who answered: the host, and the port if it is not the usual one.
    pub from: String,
    /// The beginning of the body.
    pub body: Vec<u8>,
}

impl Target {
    pub fn parse(url: &str) -> Result<Target, String> {
        let wrong = || {
            format!("{url:?} is not an address that events can be sent to; write one such as https://example.com/hooks")
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("the address must not contain a user name or password; use `secret` instead".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong());
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let port = authority.port_u16().unwrap_or(if https { 443 } else { 80 });
        Ok(Target { https, host, port, authority: authority.as_str().to_owned(), path })
    }

    /// An IP address can be checked before connecting.
    pub fn check_literal(&self, private: bool) -> Result<(), String> {
        match self.host.parse::<IpAddr>() {
            Ok(address) => allowed(address, private),
            Err(_) => Ok(()),
        }
    }

    async fn addresses(&self, private: bool) -> Result<Vec<SocketAddr>, DeliveryError> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let found: Vec<SocketAddr> = match found {
            Ok(found) => found.collect(),
            Err(error) => return Err(DeliveryError::Perhaps(format!("{} cannot be resolved: {error}", self.host))),
        };
        for address in &found {
            allowed(address.ip(), private).map_err(DeliveryError::Never)?;
        }
        if found.is_empty() {
            return Err(DeliveryError::Perhaps(format!("{} has no address", self.host)));
        }
        Ok(found)
    }
}

fn allowed(address: IpAddr, private: bool) -> Result<(), String> {
    match reach(address) {
        Reach::Public => Ok(()),
        Reach::Private(_) if private => Ok(()),
        Reach::Private(what) => {
            Err(format!("{address} is {what}; start the server with --webhooks-private to allow it"))
        }
        Reach::Never(what) => Err(format!("{address} is {what}; nothing can be delivered there")),
    }
}

/// Sends the body and waits for the answer, whatever it is.
pub async fn post(
    url: &str,
    private: bool,
    headers: impl Iterator<Item = (&'static str, String)>,
    body: String,
) -> Result<Answer, DeliveryError> {
    let target = Target::parse(url).map_err(DeliveryError::Never)?;
    let addresses = target.addresses(private).await?;
    let perhaps = |error: &dyn std::fmt::Display| DeliveryError::Perhaps(format!("{}: {error}", target.authority));
    let stream = TcpStream::connect(&addresses[..]).await.map_err(|error| perhaps(&error))?;
    let mut request = Request::post(&target.path).header("host", &target.authority);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body.into())).map_err(|error| DeliveryError::Never(error.to_string()))?;
    let answered = if target.https {
        let name = ServerName::try_from(target.host.clone());
        let name = name.map_err(|error| DeliveryError::Never(format!("{}: {error}", target.host)))?;
        let stream = TlsConnector::from(Arc::clone(&TLS)).connect(name, stream).await;
        exchange(stream.map_err(|error| perhaps(&error))?, request).await
    } else {
        exchange(stream, request).await
    };
    let (status, body) = answered.map_err(|error| perhaps(&error))?;
    Ok(Answer { status, from: target.authority.clone(), body })
}

async fn exchange<S>(stream: S, request: Request<Full<bytes::Bytes>>) -> Result<(StatusCode, Vec<u8>), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = beginning(response.into_body()).await;
    drop(sender);
    connection.abort();
    Ok((status, body))
}

/// The beginning of a body, of which a little more is read. One that breaks off is as long as it got.
async fn beginning(mut body: Incoming) -> Vec<u8> {
    let (mut kept, mut read) = (Vec::new(), 0);
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        read += data.len();
        let room = limits::DELIVERY_EXCERPT - kept.len();
        kept.extend_from_slice(&data[..data.len().min(room)]);
        if read > limits::DELIVERY_ANSWER {
            break;
        }
    }
    kept
}

/// The roots that browsers trust.
static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_host_port_and_path() {
        let target = Target::parse("https://example.com/hooks?a=1").expect("an address");
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("example.com", 443, "/hooks?a=1"));
        let target = Target::parse("http://[::1]:8080").expect("an address");
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("::1", 8080, "/"));
        for wrong in ["", "example.com", "ftp://example.com", "http://", "http://u:p@example.com/", "/hooks"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn private_addresses_are_refused_unless_they_are_allowed() {
        for inner in ["http://127.0.0.1/", "http://10.1.2.3/", "http://[::1]/", "http://169.254.169.254/latest"] {
            let target = Target::parse(inner).expect("an address");
            let why = target.check_literal(false).expect_err(inner);
            assert!(why.contains("--webhooks-private"), "{why}");
            assert!(target.check_literal(true).is_ok(), "{inner}");
        }
        assert!(Target::parse("http://0.0.0.0/").expect("an address").check_literal(true).is_err());
        assert!(Target::parse("http://93.184.216.34/").expect("an address").check_literal(false).is_ok());
    }

    #[tokio::test]
    async fn a_name_of_a_private_address_is_refused_when_it_is_resolved() {
        let refused = post("http://localhost:9/", false, std::iter::empty(), String::new()).await;
        assert!(matches!(refused, Err(DeliveryError::Never(_))), "{refused:?}");
    }
}

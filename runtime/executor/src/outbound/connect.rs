//! From a host name to a connection: resolved once, every address checked, encrypted if the guest asks for it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use wasmtime_wasi_http::Error;

use crate::limits::{HTTP_ADDRESSES, HTTP_SHORTAGE};
use crate::outbound::Journal;
use crate::outbound::client::{Client, Target};
use crate::shortage::is_shortage;

/// A connection, encrypted or not.
pub(super) type Stream = Box<dyn ByteStream>;

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Trusts the public authorities and the given ones. Sessions are never resumed, because a server could link requests
/// by them.
pub(super) fn tls(trusted: &[Vec<u8>]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for certificate in trusted {
        roots.add(CertificateDer::from(certificate.as_slice())).map_err(|error| error.to_string())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

impl Client {
    pub(super) async fn connect(&self, target: &Target) -> Result<Stream, Error> {
        let plain = self.reach_in_time(target).await?;
        // The guest waits for each response, so delaying small packets gains nothing.
        let _ = plain.set_nodelay(true);
        if !target.tls {
            return Ok(Box::new(plain));
        }
        let name = match target.host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(target.host.clone()).map_err(|_| Error::HttpRequestUriInvalid)?,
        };
        let connector = TlsConnector::from(Arc::clone(&self.network.tls));
        match connector.connect(name, plain).await {
            Ok(encrypted) => Ok(Box::new(encrypted)),
            Err(error) => {
                let Target { host, port, .. } = target;
                self.journal.log(format!("HTTPS to `{host}:{port}` failed: {error}"));
                Err(if is_certificate(&error) { Error::TlsCertificateError } else { Error::TlsProtocolError })
            }
        }
    }

    /// Connects, and retries while this machine is short of file descriptors or memory. The caller sets a timeout.
    async fn reach_in_time(&self, target: &Target) -> Result<TcpStream, Error> {
        let mut shortage = Shortage { journal: &self.journal, why: None };
        loop {
            match self.reach(target).await {
                Err(Error::Connect(error)) if is_shortage(&error) => {
                    let Target { host, port, .. } = target;
                    shortage.why = Some(format!("this server could not connect to `{host}:{port}`: {error}"));
                    sleep(HTTP_SHORTAGE).await;
                }
                reached => {
                    shortage.why = None;
                    return reached;
                }
            }
        }
    }

    /// Connects to the first address of the host that is allowed and accepts.
    async fn reach(&self, target: &Target) -> Result<TcpStream, Error> {
        let (mut failed, mut refused) = (None, None);
        for address in self.addresses(target).await?.into_iter().take(HTTP_ADDRESSES) {
            match self.hosts.address(&target.host, target.port, address.ip()) {
                Ok(()) => match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed = Some(error),
                },
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        match (failed, refused) {
            (Some(error), _) => Err(Error::Connect(error)),
            (None, Some(refused)) => {
                self.journal.refuse(refused);
                Err(Error::DestinationIpProhibited)
            }
            (None, None) => Err(Error::DnsError { rcode: Some("no address".to_owned()), info_code: None }),
        }
    }

    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, target.port)]);
        }
        let unknown = |why: String| Error::DnsError { rcode: Some(why), info_code: None };
        let lookups = Arc::clone(&self.network.lookups);
        let turn = lookups.acquire_owned().await.map_err(|_| Error::ConfigurationError)?;
        let (host, port) = (target.host.clone(), target.port);
        let found = tokio::task::spawn_blocking(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
            // Held until the system has answered, even if the request has been dropped.
            drop(turn);
            found
        });
        match found.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) if is_shortage(&error) => Err(Error::Connect(error)),
            Ok(Err(error)) => Err(unknown(error.to_string())),
            Err(_) => Err(unknown("the lookup was interrupted".to_owned())),
        }
    }
}

/// What this machine lacks for a request. It is reported when the request is abandoned for that reason.
struct Shortage<'a> {
    journal: &'a Journal,
    why: Option<String>,
}

impl Drop for Shortage<'_> {
    fn drop(&mut self) {
        if let Some(why) = &self.why {
            self.journal.shortage(why);
        }
    }
}

fn is_certificate(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented))
}

//! Requests to the provider: bounded in time and size, over TLS, or without it to a provider on this machine. Redirects
//! are not followed, because the answer of another server would be taken for the provider's.
//!
//! The operator names the provider, so its address may be a private one.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse, IssuerUrl};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::limits;

/// Sends requests to one provider.
pub struct Fetch {
    tls: TlsConnector,
    /// The issuer is on this machine, and speaks without TLS.
    plain: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(String);

/// Why the certificates of `--oidc-ca` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the file {} of --oidc-ca has no certificates in PEM that can be used: {why}", path.display())]
pub struct AuthorityError {
    path: PathBuf,
    why: String,
}

impl Fetch {
    /// Trusts the authorities that browsers trust, and those in the file.
    pub fn new(issuer: &IssuerUrl, ca: Option<&Path>) -> Result<Fetch, AuthorityError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = ca {
            let wrong = |why: String| AuthorityError { path: path.to_owned(), why };
            let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let before = roots.len();
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.len() == before {
                return Err(wrong("it has none".to_owned()));
            }
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Fetch { tls: TlsConnector::from(Arc::new(config)), plain: issuer.url().scheme() == "http" })
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let uri = request.uri().clone();
        let sent = timeout(limits::OIDC_TIME, self.exchange(request)).await;
        let why = match sent {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(why)) => why,
            Err(_) => format!("no answer within {} seconds", limits::OIDC_TIME.as_secs()),
        };
        // The query may hold what others should not read.
        let place = format!("{}://{}{}", uri.scheme_str().unwrap_or_default(), host_and_port(&uri), uri.path());
        Err(FetchError(format!("{place}: {why}")))
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, String> {
        let uri = request.uri();
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if self.plain => false,
            _ => return Err("the provider must be asked over https; only one on this machine may use http".to_owned()),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let found = lookup_host((host.as_str(), port)).await.map_err(|error| error.to_string())?;
        let found: Vec<SocketAddr> = found.collect();
        if !https && !found.iter().all(|address| address.ip().is_loopback()) {
            return Err("only a provider on this machine may be asked without TLS".to_owned());
        }
        let request = in_origin_form(request).ok_or("that is no address")?;
        let stream = TcpStream::connect(&found[..]).await.map_err(|error| error.to_string())?;
        if https {
            let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
            let stream = self.tls.connect(name, stream).await.map_err(|error| error.to_string())?;
            answer(stream, request).await
        } else {
            answer(stream, request).await
        }
    }
}

impl<'c> AsyncHttpClient<'c> for Fetch {
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, FetchError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

fn host_and_port(uri: &Uri) -> &str {
    uri.authority().map(|authority| authority.as_str()).unwrap_or_default()
}

/// As HTTP/1.1 sends it: the path alone, and the host as a header.
fn in_origin_form(request: HttpRequest) -> Option<Request<Full<Bytes>>> {
    let (mut parts, body) = request.into_parts();
    let host = HeaderValue::from_str(host_and_port(&parts.uri)).ok()?;
    parts.headers.insert(HOST, host);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().ok()?;
    Some(Request::from_parts(parts, Full::new(body.into())))
}

async fn answer<S>(stream: S, request: Request<Full<Bytes>>) -> Result<HttpResponse, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, limits::OIDC_ANSWER).collect().await.map_err(|error| error.to_string());
    connection.abort();
    Ok(HttpResponse::from_parts(parts, body?.to_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(issuer: &str) -> Fetch {
        Fetch::new(&IssuerUrl::new(issuer.to_owned()).expect("an address"), None).expect("the usual authorities")
    }

    async fn why(fetch: &Fetch, address: &str) -> String {
        let request = openidconnect::http::Request::get(address).body(Vec::new()).expect("a request");
        fetch.call(request).await.expect_err("nothing answers there").to_string()
    }

    #[tokio::test]
    async fn without_tls_only_a_provider_on_this_machine_is_asked() {
        let (local, public) = (fetch("http://127.0.0.1:9"), fetch("https://id.example.com"));
        let refused = why(&public, "http://127.0.0.1:9/token?code=secret").await;
        assert!(refused.contains("over https") && !refused.contains("secret"), "{refused}");
        assert!(why(&local, "http://192.0.2.1/token").await.contains("without TLS"));
        assert!(why(&local, "ftp://127.0.0.1/token").await.contains("over https"));
    }

    #[test]
    fn a_file_without_certificates_is_no_authority() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("ca.pem");
        let issuer = IssuerUrl::new("https://id.example.com".to_owned()).expect("an address");
        assert!(Fetch::new(&issuer, Some(&path)).is_err(), "there is no file");
        std::fs::write(&path, "no certificate").expect("a file");
        let why = Fetch::new(&issuer, Some(&path)).err().expect("it has none").to_string();
        assert!(why.contains("--oidc-ca") && why.contains("ca.pem"), "{why}");
    }
}

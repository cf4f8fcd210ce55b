//! A small HTTP server for guests, with every bad habit a server can have. The path selects which.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Duration, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

pub struct Origin {
    pub address: SocketAddr,
    /// Connections accepted so far, and those that are open.
    pub asked: Arc<AtomicUsize>,
    pub open: Arc<AtomicUsize>,
}

impl Origin {
    pub async fn start() -> Origin {
        Origin::serve(None).await
    }

    /// An HTTPS server for `localhost`, and the certificate of the authority that signed its own.
    pub async fn encrypted() -> (Origin, Vec<u8>) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&key).expect("a certificate");
        let issuer = rcgen::Issuer::new(authority, key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let own = own.signed_by(&key, &issuer).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], key)
            .expect("a key that fits");
        (Origin::serve(Some(TlsAcceptor::from(Arc::new(config)))).await, certificate.der().to_vec())
    }

    async fn serve(tls: Option<TlsAcceptor>) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let origin = Origin { address, asked: Arc::default(), open: Arc::default() };
        let (asked, open) = (Arc::clone(&origin.asked), Arc::clone(&origin.open));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                asked.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                let (tls, open) = (tls.clone(), Arc::clone(&open));
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                let _ = answer(stream).await;
                            }
                        }
                        None => drop(answer(stream).await),
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        origin
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits until no connection is open.
    pub async fn until_closed(&self) {
        let closed = async {
            while self.open.load(Ordering::SeqCst) > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("a connection stayed open");
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> std::io::Result<()> {
    let (head, mut body) = head(&mut stream).await?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or("nobody").to_owned();
    let (what, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    match what {
        "hello" => stream.write_all(&whole(&format!("hello, {host}"))).await?,
        "to" => {
            let head = format!("HTTP/1.1 302 Found\r\nlocation: http://{rest}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
        }
        "silent" => until_closed(&mut stream).await,
        // A byte now and then, for ever.
        "drip" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(b".").await?;
                sleep(Duration::from_millis(10)).await;
            }
        }
        // The same in the middle of the head.
        "drip-head" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?;
            loop {
                stream.write_all(b".").await?;
                sleep(Duration::from_millis(10)).await;
            }
        }
        "stuck" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await?;
            until_closed(&mut stream).await;
        }
        "endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 65_536]).await?;
            }
        }
        "endless-head" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 4_096]).await?;
            }
        }
        "huge" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n").await?;
            until_closed(&mut stream).await;
        }
        "count" => {
            let end = b"0\r\n\r\n";
            while !body.ends_with(end) {
                let mut more = [0; 16_384];
                match stream.read(&mut more).await? {
                    0 => return Ok(()),
                    n => body.extend_from_slice(&more[..n]),
                }
            }
            let count = body.iter().filter(|byte| **byte == b'x').count();
            stream.write_all(&whole(&count.to_string())).await?;
        }
        "garbage" => stream.write_all(b"\0\x01\x02 what is this\r\n\r\n").await?,
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await?,
    }
    stream.shutdown().await
}

/// The head of a request, and the bytes that arrived after it.
async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body));
        }
        let mut more = [0; 4_096];
        match stream.read(&mut more).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&more[..n]),
        }
    }
}

fn whole(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

/// Waits until the client has closed the connection.
async fn until_closed<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut bytes = [0; 1];
    while matches!(stream.read(&mut bytes).await, Ok(n) if n > 0) {}
}

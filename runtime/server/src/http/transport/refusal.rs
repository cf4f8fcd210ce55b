//! Refusals of whole connections, written by hand, because no request was read that a route could handle.

use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::http::transport::headers;
use crate::limits;

/// Refuses connections, a few at the same time.
pub struct Refusals(Arc<Semaphore>);

impl Refusals {
    pub fn new() -> Refusals {
        Refusals(Arc::new(Semaphore::new(limits::REFUSALS)))
    }

    /// Responds that the address has too many connections. If too many must be refused at once, some are closed without
    /// a response.
    pub fn too_many(&self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let Ok(turn) = Arc::clone(&self.0).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let refused = async {
                match tls {
                    None => respond(stream, &too_many()).await,
                    Some(tls) => respond(tls.accept(stream).await?, &too_many()).await,
                }
            };
            let _ = timeout(limits::REFUSAL_TIME, refused).await;
            drop(turn);
        });
    }
}

/// Whether the client begins to speak without encryption.
pub async fn is_plain(stream: &TcpStream) -> bool {
    // What a TLS client sends first is a handshake record.
    const HANDSHAKE: u8 = 22;
    let mut first = [HANDSHAKE];
    stream.peek(&mut first).await.is_ok() && first[0].is_ascii_alphabetic()
}

/// Responds to a client that speaks plain HTTP to a server with TLS.
pub async fn not_encrypted(stream: TcpStream) {
    let _ = timeout(limits::REFUSAL_TIME, respond(stream, &tls_required())).await;
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, response: &str) -> io::Result<()> {
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    // If it were closed with unread data, it would break before the client reads the response.
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

fn too_many() -> String {
    let body = json!({
        "error": "this address has as many connections as one may have, and uses them; close some, or start the server with a larger \
                  --max-connections-per-address",
        "code": "OVERLOADED",
        "retry_after_ms": 1000,
    });
    whole(StatusCode::TOO_MANY_REQUESTS, "retry-after: 1\r\n", &body)
}

fn tls_required() -> String {
    let body = json!({
        "error": "this server speaks only https; send the request again with https:// at the beginning of the address",
        "code": "TLS_REQUIRED",
    });
    whole(StatusCode::BAD_REQUEST, "", &body)
}

fn whole(status: StatusCode, more: &str, body: &serde_json::Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}{}connection: close\r\ncontent-length: {length}\r\n\r\n{body}",
        headers::by_hand()
    )
}

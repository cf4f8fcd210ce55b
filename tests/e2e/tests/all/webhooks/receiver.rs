//! An address that events are sent to: it keeps what it gets, and verifies signatures as Standard Webhooks describes
//! them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use windlass_e2e::DEADLINE;

/// What lets a server send to the addresses of its own machine.
pub const PRIVATE: &[&str] = &["--webhooks-private"];

/// One delivery as it came.
pub struct Delivery {
    headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
    pub body: Value,
}

impl Delivery {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn id(&self) -> &str {
        self.header("webhook-id").expect("an id")
    }

    /// Whether one of its signatures was made with this secret.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret")).expect("Base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length");
        mac.update(self.id().as_bytes());
        mac.update(b".");
        mac.update(self.header("webhook-timestamp").expect("a time").as_bytes());
        mac.update(b".");
        mac.update(&self.bytes);
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        self.signatures().any(|signature| signature == expected)
    }

    pub fn signatures(&self) -> impl Iterator<Item = &str> {
        self.header("webhook-signature").into_iter().flat_map(|all| all.split(' '))
    }
}

/// An address that answers each delivery with the next of these statuses, and 200 after them.
pub fn address(statuses: &'static [u16]) -> (String, Receiver<Delivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook?x=1", listener.local_addr().expect("an address"));
    let (sender, deliveries) = mpsc::channel();
    let mut statuses = statuses.iter().copied();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let status = statuses.next().unwrap_or(200);
            if let Some(delivery) = receive(stream, status)
                && sender.send(delivery).is_err()
            {
                return;
            }
        }
    });
    (url, deliveries)
}

/// Reads one delivery, and answers it with a body that names the status.
pub fn receive(mut stream: TcpStream, status: u16) -> Option<Delivery> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    assert_eq!(line.trim_end(), "POST /hook?x=1 HTTP/1.1");
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length: usize = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = format!("it is {status}");
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
    write!(stream, "{head}{answer}").ok()?;
    Some(Delivery { headers, body: serde_json::from_slice(&body).expect("JSON"), bytes: body })
}

#[track_caller]
pub fn next(deliveries: &Receiver<Delivery>) -> Delivery {
    deliveries.recv_timeout(DEADLINE).expect("a delivery")
}

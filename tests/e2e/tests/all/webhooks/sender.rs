//! Services that send signed webhooks: the headers with which each signs a body.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use windlass_e2e::{Answer, Server};

pub type Headers = Vec<(&'static str, String)>;

/// The time in seconds.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn github(secret: &str, delivery: &str, body: &[u8]) -> Headers {
    let signature = format!("sha256={}", hex(&mac(secret.as_bytes(), &[body])));
    vec![("X-Hub-Signature-256", signature), ("X-GitHub-Delivery", delivery.to_owned())]
}

pub fn stripe(secret: &str, at: u64, body: &[u8]) -> Headers {
    let signature = hex(&mac(secret.as_bytes(), &[format!("{at}.").as_bytes(), body]));
    vec![("Stripe-Signature", format!("t={at},v1={signature}"))]
}

pub fn standard(secret: &str, id: &str, at: u64, body: &[u8]) -> Headers {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret")).expect("Base64");
    let signature = STANDARD.encode(mac(&key, &[format!("{id}.{at}.").as_bytes(), body]));
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", format!("v1,{signature}")),
    ]
}

/// Sends a body to a queue, without a key.
pub fn send(server: &Server, queue: &str, headers: &Headers, body: &[u8]) -> Answer {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    server.post_bytes_with(&format!("/api/v1/webhooks/{queue}"), &headers, body)
}

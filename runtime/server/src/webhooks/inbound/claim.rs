//! What the head of a signed request claims, by the scheme of its sender: the signatures, the time, and the id of the
//! delivery.

use axum::http::HeaderMap;
use windlass_core::quantity::Span;
use windlass_core::{InboundHook, SignatureScheme, Time};

use crate::limits;
use crate::webhooks::signature::Signature;
use crate::webhooks::{inbound::Verifier, standard};

/// What a request claims. It is worth nothing before the signature is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// One of them has to be right.
    pub(super) signatures: Vec<Signature>,
    /// What is signed before the body.
    pub(super) before_body: Vec<u8>,
    /// The id of the delivery, where it is signed.
    pub(super) id: Option<String>,
    signed_at: Option<Time>,
}

/// Why a request is not accepted, as its sender gets to know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the request has no `{0}` header, and this queue accepts only signed requests; check that a secret is set at the sender, and \
         that this queue was set up for the way in which it signs"
    )]
    Unsigned(&'static str),
    #[error("`{0}` cannot be read; it should be {1}")]
    Malformed(&'static str, &'static str),
    #[error(
        "the signature does not match; check that the sender has the secret that was set for this queue, and that nothing between the \
         two changes the body"
    )]
    Wrong,
    #[error(
        "the request was signed {0} {1}, and at most {2} are accepted; check the clocks of both sides, and send it again with a new \
         signature"
    )]
    Untimely(Span, &'static str, Span),
}

const GITHUB: &str = "X-Hub-Signature-256";
const STRIPE: &str = "Stripe-Signature";
/// The names of the three headers of Standard Webhooks, and those that a service with many customers gives them.
const STANDARD: [[&str; 3]; 2] =
    [[standard::ID, standard::TIMESTAMP, standard::SIGNATURE], ["svix-id", "svix-timestamp", "svix-signature"]];

impl Verifier {
    /// Reads the head of a request, and refuses it where its body need not be read for that.
    pub fn read(&self, headers: &HeaderMap, now: Time) -> Result<Claim, Refused> {
        let claim = match self.hook.scheme {
            SignatureScheme::GitHub => github(headers),
            SignatureScheme::Stripe => stripe(headers),
            SignatureScheme::Standard => of_standard(headers),
        }?;
        claim.check_time(&self.hook, now)?;
        Ok(claim)
    }
}

impl Claim {
    fn check_time(&self, hook: &InboundHook, now: Time) -> Result<(), Refused> {
        let Some(at) = self.signed_at.filter(|at| !hook.accepts_time(*at, now)) else { return Ok(()) };
        let most = Span(hook.tolerance.unwrap_or_default());
        Err(match at > now {
            true => Refused::Untimely(Span(at.since(now)), "in the future", most),
            false => Refused::Untimely(Span(now.since(at)), "ago", most),
        })
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Refused> {
    let value = headers.get(name).ok_or(Refused::Unsigned(name))?;
    value.to_str().map_err(|_| Refused::Malformed(name, "ASCII text"))
}

/// The body alone is signed.
fn github(headers: &HeaderMap) -> Result<Claim, Refused> {
    let value = header(headers, GITHUB)?;
    let signature = value.strip_prefix("sha256=").and_then(windlass_core::parse_digest);
    let signature = signature.ok_or(Refused::Malformed(GITHUB, "`sha256=` and 64 hexadecimal digits"))?;
    Ok(Claim { signatures: vec![signature], before_body: Vec::new(), id: None, signed_at: None })
}

/// The time and the body are signed; the id of the event is part of the body.
fn stripe(headers: &HeaderMap) -> Result<Claim, Refused> {
    let malformed = Refused::Malformed(STRIPE, "`t=` and a time in seconds, `,v1=` and 64 hexadecimal digits");
    let value = header(headers, STRIPE)?;
    let pairs = || value.split(',').filter_map(|pair| pair.trim().split_once('='));
    let time = pairs().find(|(name, _)| *name == "t").map(|(_, time)| time).ok_or(malformed.clone())?;
    let signatures = pairs().filter(|(name, _)| *name == "v1").filter_map(|(_, hex)| windlass_core::parse_digest(hex));
    let signatures: Vec<Signature> = signatures.collect();
    let signed_at = seconds(time).filter(|_| !signatures.is_empty()).ok_or(malformed)?;
    let before_body = format!("{time}.").into_bytes();
    Ok(Claim { signatures, before_body, id: None, signed_at: Some(signed_at) })
}

/// The id, the time and the body are signed.
fn of_standard(headers: &HeaderMap) -> Result<Claim, Refused> {
    let names = STANDARD.into_iter().find(|names| headers.contains_key(names[0])).unwrap_or(STANDARD[0]);
    let [id, time, signature] = names;
    let (id_value, time_value) = (header(headers, id)?, header(headers, time)?);
    let signatures = standard::signatures(header(headers, signature)?);
    // With a full stop in it, the end of the id would not be clear in what is signed.
    let fits = (1..=limits::IDEMPOTENCY_KEY).contains(&id_value.len()) && !id_value.contains('.');
    if !fits {
        return Err(Refused::Malformed(id, "1 to 255 characters without a full stop"));
    }
    let signed_at = seconds(time_value).ok_or(Refused::Malformed(time, "a time in seconds"))?;
    if signatures.is_empty() {
        return Err(Refused::Malformed(signature, "`v1,` and a signature in Base64"));
    }
    let before_body = standard::before_body(id_value, time_value);
    Ok(Claim { signatures, before_body, id: Some(id_value.to_owned()), signed_at: Some(signed_at) })
}

/// A time in seconds since 1970: digits alone, so that there is one way to write it.
fn seconds(text: &str) -> Option<Time> {
    let digits = !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u64 = text.parse().ok().filter(|_| digits)?;
    Some(Time(seconds.saturating_mul(1_000)))
}

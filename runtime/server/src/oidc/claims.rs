//! Whether a token of the provider is good, and what it makes its bearer.
//!
//! Signatures are checked with the provider's public keys alone: a token without a signature, or with one that a shared
//! secret makes, is refused whatever it says about itself.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use openidconnect::core::{
    CoreGenderClaim, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
};
use openidconnect::{
    AdditionalClaims, ClaimsVerificationError, ClientId, IdToken, IdTokenVerifier, IssuerUrl, JsonWebTokenType, Nonce,
    NonceVerifier, SignatureVerificationError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::Time;
use windlass_core::access::{Actor, GroupRole, KeyNamespaces, Role, role_of, shown_name};

use super::provider::with_causes;
use crate::limits;

/// Somebody whom the provider vouches for, and what their groups make them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// What the audit log calls them.
    pub actor: String,
    pub name: String,
    pub role: Role,
    pub namespaces: KeyNamespaces,
    /// Until when the token is accepted.
    pub until: Option<Time>,
}

/// Why a token makes its bearer nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotVouched {
    /// Nothing is known of the provider yet.
    Unavailable(String),
    /// It was good, and no longer is or not yet.
    NotNow(String),
    /// The provider has no such key, as far as is known.
    UnknownSigner,
    /// It is not this provider's, or not meant for this server.
    Wrong(String),
    /// It is good, and none of the groups has a role.
    NoRole { actor: String, name: String, groups: Vec<String> },
}

/// What is checked.
pub struct Verifier<'a> {
    pub issuer: &'a IssuerUrl,
    pub audience: &'a str,
    pub keys: &'a CoreJsonWebKeySet,
    /// The claim with the groups.
    pub claim: &'a str,
    pub roles: &'a [GroupRole],
    pub now: Time,
}

/// Claims that the library has no field for.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Further {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl AdditionalClaims for Further {}

/// A token of the provider.
pub type Token = IdToken<Further, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

/// Signatures that are made with a private key and checked with a public one.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// How tokens call their own kind: nothing in particular, or access tokens.
const KINDS: [&str; 2] = ["JWT", "at+jwt"];

impl Verifier<'_> {
    /// Who the bearer of a token is, a program's.
    pub fn token(&self, text: &str) -> Result<Vouched, NotVouched> {
        let token: Token = text.parse().map_err(|error: serde_json::Error| NotVouched::Wrong(error.to_string()))?;
        // Such a token may be meant for others, too: they do not get more by it than its bearer has.
        let claims = self.claims(&token, |_: Option<&Nonce>| Ok(()), true)?;
        self.bearer(&claims)
    }

    /// The claims of a good token. `shared` says whether it may be meant for others, too.
    pub fn claims(&self, token: &Token, nonce: impl NonceVerifier, shared: bool) -> Result<Value, NotVouched> {
        let verifier = IdTokenVerifier::new_public_client(
            ClientId::new(self.audience.to_owned()),
            self.issuer.clone(),
            self.keys.clone(),
        );
        let kinds = KINDS.iter().filter_map(|kind| JsonWebTokenType::new((*kind).to_owned()).normalize().ok());
        let late = moment(self.now + limits::OIDC_SKEW);
        let early = moment(self.now - limits::OIDC_SKEW);
        let verifier = verifier
            .set_allowed_algs(ALGORITHMS)
            .set_allowed_jose_types(kinds)
            .set_other_audience_verifier_fn(move |_| shared)
            .set_issue_time_verifier_fn(move |issued| {
                if issued <= late { Ok(()) } else { Err("the token is from the future".to_owned()) }
            })
            .set_time_fn(move || early);
        let claims = token.claims(&verifier, nonce).map_err(not_vouched)?;
        let claims = serde_json::to_value(claims).map_err(|error| NotVouched::Wrong(error.to_string()))?;
        match claims.get("nbf").map(|time| time.as_f64()) {
            None => Ok(claims),
            Some(Some(seconds)) if seconds <= late.timestamp() as f64 => Ok(claims),
            Some(Some(_)) => Err(NotVouched::NotNow("the token is not valid yet".to_owned())),
            Some(None) => Err(NotVouched::Wrong("its `nbf` is not a time".to_owned())),
        }
    }

    /// What claims make their bearer.
    pub fn bearer(&self, claims: &Value) -> Result<Vouched, NotVouched> {
        let text = |name: &str| claims[name].as_str().unwrap_or_default();
        let subject = text("sub");
        if subject.is_empty() || subject.len() > limits::OIDC_SUBJECT || subject.chars().any(char::is_control) {
            let why = format!("its subject is not 1 to {} bytes without control characters", limits::OIDC_SUBJECT);
            return Err(NotVouched::Wrong(why));
        }
        let actor = format!("{}{subject}", Actor::OIDC);
        let names = [text("name"), text("preferred_username"), text("email"), subject];
        let name = shown_name(names).unwrap_or_else(|| actor.clone());
        let groups = groups(claims, self.claim);
        let until = claims["exp"].as_f64().map(|seconds| Time((seconds * 1_000.0) as u64) + limits::OIDC_SKEW);
        match role_of(self.roles, &groups) {
            Some(row) => Ok(Vouched { actor, name, role: row.role, namespaces: row.namespaces.clone(), until }),
            None => Err(NotVouched::NoRole { actor, name, groups }),
        }
    }
}

/// The groups that claims name: a text or a list of texts under the name, or where it leads to as a path with dots.
pub fn groups(claims: &Value, name: &str) -> Vec<String> {
    // Whoever may write any address into their own profile has not shown that it is theirs.
    if name == "email" && claims["email_verified"] != true {
        return Vec::new();
    }
    let by_path = || name.split('.').try_fold(claims, |place, part| place.get(part));
    match claims.get(name).or_else(by_path) {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Whether claims say anything about groups, even that there are none.
pub fn mentions(claims: &Value, name: &str) -> bool {
    claims.get(name).is_some() || name.split('.').try_fold(claims, |place, part| place.get(part)).is_some()
}

fn not_vouched(error: ClaimsVerificationError) -> NotVouched {
    match error {
        // These are found only after the signature was right.
        ClaimsVerificationError::Expired(why) => NotVouched::NotNow(why),
        ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey) => {
            NotVouched::UnknownSigner
        }
        other => NotVouched::Wrong(with_causes(&other)),
    }
}

fn moment(time: Time) -> DateTime<Utc> {
    let millis = i64::try_from(time.millis()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(millis).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_found_by_name_or_by_path_and_as_one_or_several() {
        let claims = json!({
            "groups": ["sre", 7, "all"], "hd": "example.com", "realm_access": {"roles": ["admin"]},
            "https://example.com/groups": ["far"], "email": "ann@example.com", "email_verified": true,
        });
        let found = |name: &str| groups(&claims, name).join(" ");
        assert_eq!(
            (found("groups"), found("hd"), found("realm_access.roles")),
            ("sre all".into(), "example.com".into(), "admin".into())
        );
        assert_eq!((found("https://example.com/groups"), found("email")), ("far".into(), "ann@example.com".into()));
        for none in ["none", "realm_access", "realm_access.roles.x", "groups.0", ""] {
            assert_eq!(found(none), "", "{none}");
        }
        for unverified in [json!({"email": "ann@example.com"}), json!({"email": "a@b.c", "email_verified": false})] {
            assert!(groups(&unverified, "email").is_empty(), "{unverified}");
        }
        assert!(mentions(&json!({"groups": []}), "groups") && !mentions(&json!({}), "groups"));
    }

    #[test]
    fn a_bearer_is_called_by_name_and_recorded_by_subject() {
        let roles = ["sre=operator@acme".parse().expect("a row")];
        let issuer = IssuerUrl::new("https://id.example.com".to_owned()).expect("an address");
        let keys = CoreJsonWebKeySet::default();
        let verifier =
            Verifier { issuer: &issuer, audience: "w", keys: &keys, claim: "groups", roles: &roles, now: Time(0) };
        let ann = verifier.bearer(&json!({"sub": "u-1", "name": "Ann", "groups": ["sre"]})).expect("a role");
        assert_eq!((ann.actor.as_str(), ann.name.as_str(), ann.role), ("oidc:u-1", "Ann", Role::Operator));
        assert_eq!(ann.namespaces.as_str(), "acme");
        let plain = verifier.bearer(&json!({"sub": "u-1", "name": 7, "groups": "sre"})).expect("a role");
        assert_eq!(plain.name, "u-1");
        let none = verifier.bearer(&json!({"sub": "u-1", "groups": ["x"]}));
        assert!(matches!(none, Err(NotVouched::NoRole { groups, .. }) if groups == ["x"]));
        for wrong in ["", "a\u{1b}b", &"x".repeat(limits::OIDC_SUBJECT + 1)] {
            let refused = verifier.bearer(&json!({"sub": wrong, "groups": ["sre"]}));
            assert!(matches!(refused, Err(NotVouched::Wrong(_))), "{wrong:?}");
        }
    }
}

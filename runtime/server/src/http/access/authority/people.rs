//! People and programs whom the OpenID Connect provider vouches for: a program's token is looked at with each request,
//! and a person who has come back from the provider gets a session.

use std::net::IpAddr;
use std::time::Instant;

use axum::http::Request;
use windlass_core::access::{Actor, KeyNamespaces, SessionOf};
use windlass_core::{AllowedQueues, Time};
use windlass_store::{Caller, Clock};

use super::identity::Identity;
use super::sessions::Begun;
use super::{Authority, Refused};
use crate::http::transport::credentials::{Credentials, in_header};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::peer::ClientAddress;
use crate::limits;
use crate::oidc::{NotVouched, Oidc, Vouched};

impl Authority {
    /// The provider, if there is one.
    pub fn oidc(&self) -> Option<&Oidc> {
        self.0.oidc.as_ref()
    }

    /// Begins the session of a person. Their role is fixed for its length.
    pub async fn sign_in_person(&self, person: Vouched, issuer: &str, address: Option<IpAddr>) -> Result<Begun> {
        if let KeyNamespaces::One(namespace) = &person.namespaces {
            self.existing(namespace.clone())?;
        }
        address.into_iter().for_each(|address| self.0.returns.right(ClientAddress::new(address)));
        let of = SessionOf::Person { actor: person.actor.clone(), issuer: issuer.to_owned() };
        self.begin_session(of, Identity::of_vouched(person), None, address).await
    }

    /// Who sends a token, as far as the provider's keys tell that are known now.
    pub(super) fn identify_token(&self, oidc: &Oidc, token: &str, now: Time) -> std::result::Result<Identity, Refused> {
        let why = match oidc.check_token(token, now) {
            Ok(vouched) => return Ok(Identity::of_vouched(vouched)),
            Err(why) => why,
        };
        Err(match why {
            NotVouched::Unavailable(why) => Refused::Other(Error::provider_unavailable(why, limits::OIDC_RETRY)),
            NotVouched::NotNow(why) => {
                Refused::Other(Error::unauthorized(format!("the token is not valid now: {why}; ask for a new one")))
            }
            NotVouched::NoRole { name, .. } => Refused::Other(Error::forbidden(format!(
                "none of the groups of `{name}` has a role here; an administrator of the server can give one a role with --oidc-role"
            ))),
            NotVouched::UnknownSigner => Refused::WrongKey(Error::unauthorized(format!(
                "the token is signed with a key that {} does not publish",
                oidc.issuer()
            ))),
            NotVouched::Wrong(why) => {
                Refused::WrongKey(Error::unauthorized(format!("the token is not accepted: {why}")))
            }
        })
    }

    /// The provider, if a request was refused because its token is signed with a key that the provider may have made
    /// just now.
    pub fn may_know_later<B>(&self, request: &Request<B>) -> Option<Oidc> {
        let oidc = self.0.oidc.as_ref()?;
        let Some(Credentials::Key(sent)) = in_header(request.headers()) else { return None };
        let new = oidc.is_token(sent) && oidc.may_have_new_key(sent, self.0.clock.now());
        new.then(|| oidc.clone())
    }

    /// Refuses somebody who comes back from the provider, from an address that has sent too much that was wrong.
    pub fn check_guess(&self, address: Option<IpAddr>) -> Result<()> {
        let client = address.map(ClientAddress::new);
        match client.and_then(|client| self.0.returns.check(client, Instant::now()).err()) {
            Some(wait) => Err(Error::rate_limited(
                "too many came back to this address with what the provider does not accept; wait, and sign in again",
                wait,
            )),
            None => Ok(()),
        }
    }

    /// Somebody came back from the provider with what it did not accept.
    pub fn wrong_guess(&self, address: Option<IpAddr>) {
        address.into_iter().for_each(|address| self.0.returns.wrong(ClientAddress::new(address), Instant::now()));
    }

    /// Writes into the audit log that somebody whom the provider knows has no role here.
    pub fn note_no_role(&self, actor: &str, address: Option<IpAddr>) {
        let actor = Actor { id: actor.to_owned(), role: None, address };
        let caller =
            Caller { allowed: AllowedQueues::default(), actor, everywhere: false, session: None, token_until: None };
        self.note_denied(&caller, "sign in: no group has a role");
    }
}

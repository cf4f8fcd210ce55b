//! Sessions of browsers: begun with a key or by a server that vouches for a person, and ended by either side.
//!
//! The cookie holds an id and 256 random bits, whose hash is stored. That of whoever signs in with the key that the
//! server was started with covers that key, so that the session ends when the server is started with another.

use std::net::IpAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use windlass_core::access::{Actor, KeyNamespaces, Session, SessionOf};
use windlass_core::queue_pattern::QueuePattern;
use windlass_core::{AllowedQueues, Time};
use windlass_store::{AccessChange, Caller, Clock};

use super::identity::{By, Identity};
use super::{Authority, Refused};
use crate::http::access::key_text;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::peer::ClientAddress;
use crate::limits;

/// A session that has just begun.
pub struct Begun {
    /// What the browser keeps.
    pub cookie: String,
    pub caller: Caller,
    pub expires_at: Time,
}

/// What there is to say about somebody who was recognised.
pub struct SignedIn {
    pub name: String,
    pub namespaces: KeyNamespaces,
    /// Until when the key or the session is valid.
    pub expires_at: Option<Time>,
}

impl Authority {
    /// Begins the session of whoever has this key. Wrong keys are throttled, as in any request.
    pub async fn sign_in(&self, key: &str, address: Option<IpAddr>) -> Result<Begun> {
        let client = address.map(ClientAddress::new);
        self.check_throttle(client, key)?;
        let now = self.0.clock.now();
        let identity = match self.identify_key(key, now) {
            Ok(identity) => identity,
            Err(Refused::WrongKey(error)) => {
                self.wrong_key(client);
                self.note_wrong_key(client);
                return Err(error);
            }
            Err(Refused::NotPermitted(_, error) | Refused::Other(error)) => return Err(error),
        };
        self.right_key(client);
        let until = self.read(|known| known.keys.get(&identity.id).and_then(|key| key.expires_at));
        let of = match identity.by {
            By::Key => SessionOf::Key(identity.id.clone()),
            By::StartKey => SessionOf::StartKey,
            By::Provider => {
                return Err(Error::field(
                    "key",
                    "is a token; programs send it with each request, and people sign in with a browser",
                ));
            }
        };
        self.begin_session(of, identity, until, address).await
    }

    /// Begins a session that lasts until this time at most.
    pub(super) async fn begin_session(
        &self,
        of: SessionOf,
        identity: Identity,
        until: Option<Time>,
        address: Option<IpAddr>,
    ) -> Result<Begun> {
        let no_randomness = || Error::internal("the system has no randomness for a session");
        let made = key_text::SESSION.make().ok_or_else(no_randomness)?;
        let now = self.0.clock.now();
        let latest = now + limits::SESSION;
        let expires_at = until.map_or(latest, |until| until.min(latest));
        let sha256 = match (&of, &self.0.start_key, key_text::SESSION.read(&made.key)) {
            (SessionOf::StartKey, Some(key), Some(cookie)) => cookie.sha256_with(key.text()),
            _ => made.sha256,
        };
        let session = Session {
            id: made.id.clone(),
            sha256,
            of,
            name: identity.name,
            role: identity.role,
            namespaces: identity.namespaces,
            queues: identity.queues.to_vec(),
            created_at: now,
            expires_at,
        };
        let caller = Caller {
            allowed: AllowedQueues {
                namespace: session.namespaces.choose(None).unwrap_or_default(),
                patterns: identity.queues,
            },
            actor: Actor { id: identity.id, role: Some(session.role), address },
            everywhere: session.namespaces == KeyNamespaces::All,
            session: Some(made.id.into()),
            token_until: None,
        };
        let store = self.0.store.of_caller(Arc::new(caller.clone()));
        store.change_access(AccessChange::AddSession(Box::new(session))).await?;
        self.refresh().await?;
        Ok(Begun { cookie: made.key, caller, expires_at })
    }

    /// Ends the session of a caller, if there is one.
    pub async fn sign_out(&self, caller: &Arc<Caller>) -> Result<()> {
        let Some(id) = caller.session.as_deref() else { return Ok(()) };
        let store = self.0.store.of_caller(Arc::clone(caller));
        store.change_access(AccessChange::EndSession { id: id.to_owned() }).await?;
        Ok(self.refresh().await?)
    }

    pub(super) fn identify_session(&self, cookie: &str, now: Time) -> Result<Identity> {
        let Some(sent) = key_text::SESSION.read(cookie) else { return Err(ended()) };
        let session = self.read(|known| known.sessions.get(sent.id).cloned()).ok_or_else(ended)?;
        let (hash, rate) = match &session.of {
            SessionOf::Key(id) => {
                let key = self.read(|known| known.keys.get(id).cloned()).ok_or_else(ended)?;
                (sent.sha256(), key.rate)
            }
            SessionOf::StartKey => (sent.sha256_with(self.0.start_key.as_ref().ok_or_else(ended)?.text()), None),
            SessionOf::Person { issuer, .. } => {
                self.0.oidc.as_ref().filter(|oidc| oidc.still_gives(&session, issuer)).ok_or_else(ended)?;
                (sent.sha256(), None)
            }
        };
        if session.is_expired(now) || !bool::from(hash.ct_eq(&session.sha256)) {
            return Err(ended());
        }
        let queues: Arc<[QueuePattern]> = session.queues.clone().into();
        Ok(Identity {
            id: session.of.actor().to_owned(),
            role: session.role,
            namespaces: session.namespaces.clone(),
            queues,
            rate,
            name: session.name.clone(),
            by: match session.of {
                SessionOf::Key(_) => By::Key,
                SessionOf::StartKey => By::StartKey,
                SessionOf::Person { .. } => By::Provider,
            },
            session: Some(session.id.as_str().into()),
            until: None,
        })
    }

    /// What there is to say about a caller who was recognised; none for anybody else.
    pub fn signed_in(&self, caller: &Caller) -> Option<SignedIn> {
        caller.actor.role?;
        let of_session = |session: &Arc<Session>| SignedIn {
            name: session.name.clone(),
            namespaces: session.namespaces.clone(),
            expires_at: Some(session.expires_at),
        };
        let id = caller.actor.id.as_str();
        let known = self.read(|known| match &caller.session {
            Some(session) => known.sessions.get(session.as_ref()).map(of_session),
            None => known.keys.get(id).map(|key| SignedIn {
                name: key.name.clone(),
                namespaces: key.namespaces.clone(),
                expires_at: key.expires_at,
            }),
        });
        let of_caller = || SignedIn {
            name: id.to_owned(),
            namespaces: match caller.everywhere {
                true => KeyNamespaces::All,
                false => KeyNamespaces::One(caller.allowed.namespace.clone()),
            },
            expires_at: None,
        };
        Some(known.unwrap_or_else(of_caller))
    }

    /// Whether a caller who was admitted would be admitted again: for streams that stay open.
    pub fn still_admits(&self, caller: &Caller) -> bool {
        let now = self.0.clock.now();
        let id = caller.actor.id.as_str();
        // These end with the server.
        let is_of_start = [Actor::STARTED_WITH, Actor::INSECURE].contains(&id);
        self.read(|known| match &caller.session {
            Some(session) => known.sessions.get(session.as_ref()).is_some_and(|session| !session.is_expired(now)),
            None => match caller.token_until {
                Some(until) => now < until,
                None => is_of_start || known.keys.get(id).is_some_and(|key| !key.is_expired(now)),
            },
        })
    }

    pub(super) async fn sweep_sessions(&self) -> std::result::Result<(), windlass_store::Error> {
        let now = self.0.clock.now();
        if self.read(|known| known.sessions.values().any(|session| session.is_expired(now))) {
            self.0.store.change_access(AccessChange::RemoveExpiredSessions).await?;
            self.refresh().await?;
        }
        Ok(())
    }
}

fn ended() -> Error {
    Error::unauthorized("the session has ended; sign in again")
}

//! Finds out who sends a request. Keys, sessions, rules and namespaces are held in memory, as the store has them.

mod enqueueing;
mod identity;
mod people;
mod rates;
mod sessions;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use axum::http::{Method, Request};
use subtle::ConstantTimeEq;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;
use tracing::warn;
use windlass_core::access::{Actor, ApiKey, AuditNote, EnqueueRule, KeyNamespaces, Permission, Role, Session, Who};
use windlass_core::limits::Rate;
use windlass_core::queue_pattern::QueuePattern;
use windlass_core::{AllowedQueues, Namespace, Time};
use windlass_store::{AccessChange, Caller, Clock, Store};

pub use self::enqueueing::Way;
use self::identity::{By, Identity};
use self::rates::Rates;
use crate::clock::SystemClock;
use crate::http::access::key_text;
use crate::http::transport::credentials::Credentials;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::peer::ClientAddress;
use crate::http::transport::throttle::Throttle;
use crate::oidc::Oidc;
use crate::{Shutdown, limits};

/// The header with which an admin of all namespaces chooses one.
const NAMESPACE_HEADER: &str = "x-windlass-namespace";
/// The same in the query, of a GET with a session.
pub const NAMESPACE_PARAMETER: &str = "namespace";

/// The key that the server was started with: that of an admin of all namespaces.
#[derive(Clone)]
pub struct StartKey(Arc<str>);

impl StartKey {
    pub fn new(key: &str) -> StartKey {
        StartKey(key.into())
    }

    fn text(&self) -> &str {
        &self.0
    }

    /// Takes equally long for a wrong key and for the right one.
    fn matches(&self, sent: &str) -> bool {
        self.0.as_bytes().ct_eq(sent.as_bytes()).into()
    }
}

/// Knows everybody who may send requests. Cheap to clone.
#[derive(Clone)]
pub struct Authority(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Arc<SystemClock>,
    start_key: Option<StartKey>,
    /// Who vouches for people and programs without keys.
    oidc: Option<Oidc>,
    /// Whoever can connect may do everything.
    open: bool,
    known: RwLock<Known>,
    /// Held while `known` is read from the store, so that an older reading never replaces a newer one.
    refreshing: AsyncMutex<()>,
    throttle: Throttle,
    /// The same for people who come back from the provider, whom wrong keys of others do not keep out.
    returns: Throttle,
    /// Of keys and namespaces, and of those that rules let in with a key.
    rates: Rates,
    /// Of the addresses of strangers, apart from those above: there may be any number of addresses.
    strangers: Rates,
    /// When each key was last used, until that is written.
    used: Mutex<HashMap<String, Time>>,
    /// Refusals that have been noted lately.
    denied: Mutex<HashSet<(String, String)>>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<String, Arc<ApiKey>>,
    sessions: HashMap<String, Arc<Session>>,
    rules: BTreeMap<Namespace, Arc<[EnqueueRule]>>,
    /// Those that were made, with the rate of their requests.
    namespaces: HashMap<Namespace, Option<Rate>>,
}

/// Why somebody is not let in.
pub enum Refused {
    /// Nobody has the key.
    WrongKey(Error),
    /// They are known, and may not do this.
    NotPermitted(Box<Caller>, Error),
    Other(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Other(error)
    }
}

impl Authority {
    pub async fn load(
        store: Store,
        clock: Arc<SystemClock>,
        start_key: Option<StartKey>,
        oidc: Option<Oidc>,
        open: bool,
    ) -> std::result::Result<Authority, windlass_store::Error> {
        let authority = Authority(Arc::new(Inner {
            store,
            clock,
            start_key,
            oidc,
            open,
            known: RwLock::default(),
            refreshing: AsyncMutex::default(),
            throttle: Throttle::default(),
            returns: Throttle::default(),
            rates: Rates::default(),
            strangers: Rates::default(),
            used: Mutex::default(),
            denied: Mutex::default(),
        }));
        authority.refresh().await?;
        Ok(authority)
    }

    /// Reads keys, sessions, rules and namespaces again, after one of them has changed.
    pub async fn refresh(&self) -> std::result::Result<(), windlass_store::Error> {
        let _alone = self.0.refreshing.lock().await;
        let store = self.0.store.frozen();
        let keys = store.api_keys().await?.into_iter().map(|key| (key.id.clone(), Arc::new(key))).collect();
        let sessions = store.sessions().await?;
        let sessions = sessions.into_iter().map(|session| (session.id.clone(), Arc::new(session))).collect();
        let rules = store.enqueue_rules().await?;
        let rules = rules.into_iter().map(|(namespace, rules)| (namespace, rules.into())).collect();
        let namespaces = store.namespaces().await?.into_iter().map(|row| (row.name, row.quotas.requests)).collect();
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Known { keys, sessions, rules, namespaces };
        Ok(())
    }

    /// Writes now and then when keys were used, and removes sessions that have expired, until the server stops.
    pub async fn note_use(self, shutdown: Shutdown) {
        loop {
            let stops = tokio::select! {
                () = sleep(limits::KEY_USE_EVERY) => false,
                () = shutdown.requested() => true,
            };
            lock(&self.0.denied).clear();
            let used: Vec<_> = lock(&self.0.used).drain().collect();
            if !used.is_empty()
                && let Err(error) = self.0.store.change_access(AccessChange::KeysUsed(used)).await
            {
                warn!("when keys were last used cannot be written: {error}");
            }
            if let Err(error) = self.sweep_sessions().await {
                warn!("sessions that have expired cannot be removed: {error}");
            }
            if stops {
                return;
            }
        }
    }

    /// Whether the caller is an admin of all namespaces.
    pub fn is_everywhere(&self, caller: &Caller) -> bool {
        caller.actor.role == Some(Role::Admin) && caller.everywhere
    }

    /// Whether no key is needed at all.
    pub fn is_open(&self) -> bool {
        self.0.open
    }

    /// Refuses another key of a client that has sent too many wrong ones, unless it is right.
    pub fn check_throttle(&self, client: Option<ClientAddress>, key: &str) -> Result<()> {
        let wait = client.and_then(|client| self.0.throttle.check(client, Instant::now()).err());
        match wait {
            Some(wait) if self.identify_key(key, self.0.clock.now()).is_err() => Err(Error::rate_limited(
                "too many wrong keys came from this address; wait, and send the right one",
                wait,
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A client has sent a wrong key.
    pub fn wrong_key(&self, client: Option<ClientAddress>) {
        client.into_iter().for_each(|client| self.0.throttle.wrong(client, Instant::now()));
    }

    /// A client has sent a right one.
    pub fn right_key(&self, client: Option<ClientAddress>) {
        client.into_iter().for_each(|client| self.0.throttle.right(client));
    }

    /// Who sends a request with these credentials, or without any. Refused if they may not send it.
    pub fn admit<B>(
        &self,
        sent: Option<Credentials<'_>>,
        request: &Request<B>,
        needed: Permission,
        address: Option<IpAddr>,
    ) -> std::result::Result<Caller, Refused> {
        let named = namespace_of(sent, request)?;
        let now = self.0.clock.now();
        if self.0.open {
            let allowed = AllowedQueues::of(self.existing(named.unwrap_or_default())?);
            let actor = Actor { id: Actor::INSECURE.to_owned(), role: Some(Role::Admin), address };
            return Ok(Caller { allowed, actor, everywhere: true, session: None, token_until: None });
        }
        let Some(sent) = sent else { return Ok(self.without_key(named, needed, address)?) };
        if needed == Permission::Public {
            return Ok(anybody(AllowedQueues::default(), address));
        }
        let identity = match (self.identify(sent, now), sent) {
            // A page asks whether it is signed in: a session that has ended is the same as none.
            (Err(Refused::Other(_)), Credentials::Session(_)) if needed == Permission::Anybody => {
                return Ok(anybody(AllowedQueues::default(), address));
            }
            (identity, _) => identity?,
        };
        self.admit_as(identity, named, needed, address, now)
    }

    /// Whether somebody who was recognised may send a request.
    fn admit_as(
        &self,
        identity: Identity,
        named: Option<Namespace>,
        needed: Permission,
        address: Option<IpAddr>,
        now: Time,
    ) -> std::result::Result<Caller, Refused> {
        let Some(namespace) = identity.namespaces.choose(named) else {
            let why = format!("this key or sign-in is for the namespace `{}` alone", identity.namespaces.as_str());
            return Err(Error::forbidden(why).into());
        };
        let namespace = self.existing(namespace)?;
        let everywhere = identity.namespaces == KeyNamespaces::All;
        let is_key = identity.by == By::Key;
        let caller = |namespace, patterns, actor| Caller {
            allowed: AllowedQueues { namespace, patterns },
            actor,
            everywhere,
            session: identity.session,
            token_until: identity.until,
        };
        let actor = Actor { id: identity.id, role: Some(identity.role), address };
        if !identity.role.may(needed, everywhere) && !self.a_rule_lets_in(&namespace, &actor, needed) {
            let error = not_permitted(&identity.name, identity.role, needed);
            return Err(Refused::NotPermitted(Box::new(caller(namespace, identity.queues, actor)), error));
        }
        let shares = [(identity.rate, actor.id.as_str()), (self.requests_of(&namespace), namespace.as_str())];
        for (rate, of) in shares {
            rate.map_or(Ok(()), |rate| self.0.rates.count(&[(of.to_owned(), rate, 1)], now))?;
        }
        if is_key {
            lock(&self.0.used).insert(actor.id.clone(), now);
        }
        Ok(caller(namespace, identity.queues, actor))
    }

    /// Somebody without a key: lets them see what is public, and enqueue where a rule lets anybody in.
    fn without_key(&self, named: Option<Namespace>, needed: Permission, address: Option<IpAddr>) -> Result<Caller> {
        match needed {
            Permission::Public | Permission::Anybody => Ok(anybody(AllowedQueues::default(), address)),
            Permission::Enqueue => {
                let namespace = named.unwrap_or_default();
                let rules = self.rules_of(&namespace);
                let open = rules.iter().filter(|rule| rule.who == Who::Anybody);
                let patterns: Arc<[QueuePattern]> = open.flat_map(|rule| rule.queues.iter().cloned()).collect();
                if patterns.is_empty() {
                    Err(no_key())
                } else {
                    Ok(anybody(AllowedQueues { namespace, patterns }, address))
                }
            }
            _ => Err(no_key()),
        }
    }

    fn identify(&self, sent: Credentials<'_>, now: Time) -> std::result::Result<Identity, Refused> {
        match sent {
            Credentials::Key(key) => self.identify_key(key, now),
            Credentials::Session(cookie) => Ok(self.identify_session(cookie, now)?),
        }
    }

    fn identify_key(&self, sent: &str, now: Time) -> std::result::Result<Identity, Refused> {
        if let Some(key) = key_text::KEY.read(sent) {
            let found = self.read(|known| known.keys.get(key.id).cloned());
            let right = found.filter(|found| bool::from(found.sha256.ct_eq(&key.sha256())));
            return match right {
                Some(key) if key.is_expired(now) => {
                    let why =
                        format!("the key `{}` has expired; ask an admin for another: windlass key create", key.name);
                    Err(Error::unauthorized(why).into())
                }
                Some(key) => Ok(Identity::of_key(&key)),
                None => Err(Refused::WrongKey(wrong_key())),
            };
        }
        if self.0.start_key.as_ref().is_some_and(|key| key.matches(sent)) {
            return Ok(Identity::of_start_key());
        }
        match self.0.oidc.as_ref().filter(|oidc| oidc.is_token(sent)) {
            Some(oidc) => self.identify_token(oidc, sent, now),
            None => Err(Refused::WrongKey(wrong_key())),
        }
    }

    /// Writes into the audit log that somebody was not let do something: the same only once in a while.
    pub fn note_denied(&self, caller: &Caller, target: &str) {
        let (actor, namespace) = (caller.actor.clone(), caller.allowed.namespace.clone());
        let note = AuditNote { actor, namespace, action: "request", target: target.to_owned() };
        self.note_once((caller.actor.id.clone(), target.to_owned()), note);
    }

    /// Writes into the audit log that somebody has sent a wrong key: of each network only once in a while.
    pub fn note_wrong_key(&self, client: Option<ClientAddress>) {
        let actor = Actor { id: Actor::ANYBODY.to_owned(), role: None, address: client.map(ClientAddress::ip) };
        let of = client.map(|client| client.network().to_string()).unwrap_or_default();
        let target = "a wrong key".to_owned();
        self.note_once(
            (of, target.clone()),
            AuditNote { actor, namespace: Namespace::default(), action: "sign-in", target },
        );
    }

    fn note_once(&self, of: (String, String), note: AuditNote) {
        let mut denied = lock(&self.0.denied);
        let new = denied.len() < limits::DENIALS_NOTED && denied.insert(of);
        drop(denied);
        if !new {
            return;
        }
        let store = self.0.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.deny(note).await {
                warn!("a refusal cannot be written into the audit log: {error}");
            }
        });
    }

    pub fn has(&self, namespace: &Namespace) -> bool {
        namespace.is_default() || self.read(|known| known.namespaces.contains_key(namespace))
    }

    fn existing(&self, namespace: Namespace) -> Result<Namespace> {
        if self.has(&namespace) {
            return Ok(namespace);
        }
        Err(Error::not_found(format!(
            "there is no namespace `{namespace}`; create it with `windlass namespace create`"
        )))
    }

    fn requests_of(&self, namespace: &Namespace) -> Option<Rate> {
        self.read(|known| known.namespaces.get(namespace).copied().flatten())
    }

    fn rules_of(&self, namespace: &Namespace) -> Arc<[EnqueueRule]> {
        self.read(|known| known.rules.get(namespace).cloned().unwrap_or_default())
    }

    fn read<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.0.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn anybody(allowed: AllowedQueues, address: Option<IpAddr>) -> Caller {
    let actor = Actor { id: Actor::ANYBODY.to_owned(), role: None, address };
    Caller { allowed, actor, everywhere: false, session: None, token_until: None }
}

/// The namespace that a request chooses. A page cannot add headers to a stream of events, so with a session the query
/// may name it.
fn namespace_of<B>(sent: Option<Credentials<'_>>, request: &Request<B>) -> Result<Option<Namespace>> {
    if let Some(header) = request.headers().get(NAMESPACE_HEADER) {
        let text = header.to_str().unwrap_or_default();
        return Ok(Some(Namespace::parse("X-Windlass-Namespace", text)?));
    }
    if request.method() != Method::GET || !matches!(sent, Some(Credentials::Session(_))) {
        return Ok(None);
    }
    let mut pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    match pairs.find(|(name, _)| name == NAMESPACE_PARAMETER) {
        Some((_, text)) => Ok(Some(Namespace::parse(NAMESPACE_PARAMETER, &text)?)),
        None => Ok(None),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are inserted and removed in one step, so a poisoned lock holds nothing inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_key() -> Error {
    Error::unauthorized(
        "this server requires a key; send it as `X-API-Key: KEY` or `Authorization: Bearer KEY`. The first key is in the file \
         admin.key of the data folder",
    )
}

fn wrong_key() -> Error {
    Error::unauthorized("the key is wrong, or was revoked; `windlass key list` shows which keys there are to an admin")
}

fn not_permitted(name: &str, role: Role, needed: Permission) -> Error {
    let may = Role::ALL.into_iter().filter(|role| role.may(needed, false)).map(Role::as_str).collect::<Vec<_>>();
    let who = if may.is_empty() { "an admin of all namespaces (`*`)".to_owned() } else { may.join(", ") };
    Error::forbidden(format!(
        "`{name}` has the role {role}, and this needs the permission `{}`: {who}",
        needed.as_str()
    ))
}

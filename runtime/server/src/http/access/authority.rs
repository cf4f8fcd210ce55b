//! Finds out who sends a request. Keys, rules and namespaces are held in memory, as the store has them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use axum::http::HeaderMap;
use subtle::ConstantTimeEq;
use tokio::time::sleep;
use tracing::warn;
use windlass_core::access::{Actor, ApiKey, AuditNote, EnqueueRule, KeyNamespaces, Permission, Role, Who};
use windlass_core::limits::{Admission, Limiter, Rate};
use windlass_core::queue_pattern::QueuePattern;
use windlass_core::{AllowedQueues, Namespace, QueueName, Time};
use windlass_store::{AccessChange, Caller, Clock, Store};

use crate::clock::SystemClock;
use crate::http::access::key_text;
use crate::http::transport::error::{Error, Result};
use crate::{Shutdown, limits};

/// The header with which an admin of all namespaces chooses one.
const NAMESPACE_HEADER: &str = "x-windlass-namespace";

/// The key that the server was started with: that of an admin of all namespaces.
#[derive(Clone)]
pub struct StartKey(Arc<str>);

impl StartKey {
    pub fn new(key: &str) -> StartKey {
        StartKey(key.into())
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
    /// Whoever can connect may do everything.
    open: bool,
    known: RwLock<Known>,
    limiters: Mutex<HashMap<String, Limiter>>,
    /// When each key was last used, until that is written.
    used: Mutex<HashMap<String, Time>>,
    /// Refusals that have been noted lately.
    denied: Mutex<HashSet<(String, String)>>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<String, Arc<ApiKey>>,
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

/// Somebody who was recognised, before it is known what they may do.
struct Identity {
    id: String,
    role: Role,
    namespaces: KeyNamespaces,
    queues: Arc<[QueuePattern]>,
    rate: Option<Rate>,
    name: String,
}

impl Authority {
    pub async fn load(
        store: Store,
        clock: Arc<SystemClock>,
        start_key: Option<StartKey>,
        open: bool,
    ) -> std::result::Result<Authority, windlass_store::Error> {
        let authority = Authority(Arc::new(Inner {
            store,
            clock,
            start_key,
            open,
            known: RwLock::default(),
            limiters: Mutex::default(),
            used: Mutex::default(),
            denied: Mutex::default(),
        }));
        authority.refresh().await?;
        Ok(authority)
    }

    /// Reads keys, rules and namespaces again, after one of them has changed.
    pub async fn refresh(&self) -> std::result::Result<(), windlass_store::Error> {
        let store = self.0.store.frozen();
        let keys = store.api_keys().await?.into_iter().map(|key| (key.id.clone(), Arc::new(key))).collect();
        let rules = store.enqueue_rules().await?;
        let rules = rules.into_iter().map(|(namespace, rules)| (namespace, rules.into())).collect();
        let namespaces = store.namespaces().await?.into_iter().map(|row| (row.name, row.quotas.requests)).collect();
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Known { keys, rules, namespaces };
        Ok(())
    }

    /// Writes now and then when keys were used, until the server stops.
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
            if stops {
                return;
            }
        }
    }

    /// Whether the caller is an admin of all namespaces.
    pub fn is_everywhere(&self, caller: &Caller) -> bool {
        let id = caller.actor.id.as_str();
        let of_key = |known: &Known| known.keys.get(id).is_some_and(|key| key.namespaces == KeyNamespaces::All);
        caller.actor.role == Some(Role::Admin)
            && (id == Actor::INSECURE || id == Actor::STARTED_WITH || self.read(of_key))
    }

    /// Whether no key is needed at all.
    pub fn is_open(&self) -> bool {
        self.0.open
    }

    /// Who sends a request with this key, or without one. Refused if they may not send it.
    pub fn admit(
        &self,
        sent: Option<&str>,
        headers: &HeaderMap,
        needed: Permission,
        address: Option<IpAddr>,
    ) -> std::result::Result<Caller, Refused> {
        let named = namespace_of(headers)?;
        let now = self.0.clock.now();
        if self.0.open {
            let allowed = AllowedQueues::of(self.existing(named.unwrap_or_default())?);
            let actor = Actor { id: Actor::INSECURE.to_owned(), role: Some(Role::Admin), address };
            return Ok(Caller { allowed, actor });
        }
        let Some(sent) = sent else { return Ok(self.without_key(named, needed, address)?) };
        if needed == Permission::Public {
            return Ok(anybody(AllowedQueues::default(), address));
        }
        let identity = self.identify(sent, now)?;
        let Some(namespace) = identity.namespaces.choose(named) else {
            let why = format!("this key is for the namespace `{}` alone", identity.namespaces.as_str());
            return Err(Error::forbidden(why).into());
        };
        let namespace = self.existing(namespace)?;
        let everywhere = identity.namespaces == KeyNamespaces::All;
        let actor = Actor { id: identity.id, role: Some(identity.role), address };
        if !identity.role.may(needed, everywhere) && !self.a_rule_lets_in(&namespace, &actor, needed) {
            let error = not_permitted(&identity.name, identity.role, needed);
            let allowed = AllowedQueues { namespace, patterns: identity.queues };
            return Err(Refused::NotPermitted(Box::new(Caller { allowed, actor }), error));
        }
        let shares = [(identity.rate, actor.id.as_str()), (self.requests_of(&namespace), namespace.as_str())];
        for (rate, of) in shares {
            self.count(rate, of, now)?;
        }
        if actor.id != Actor::STARTED_WITH {
            lock(&self.0.used).insert(actor.id.clone(), now);
        }
        Ok(Caller { allowed: AllowedQueues { namespace, patterns: identity.queues }, actor })
    }

    /// Somebody without a key: lets them see what is public, and enqueue where a rule lets anybody in.
    fn without_key(&self, named: Option<Namespace>, needed: Permission, address: Option<IpAddr>) -> Result<Caller> {
        match needed {
            Permission::Public => Ok(anybody(AllowedQueues::default(), address)),
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

    /// Whether somebody has this key.
    pub fn recognises(&self, sent: Option<&str>) -> bool {
        sent.is_some_and(|sent| self.identify(sent, self.0.clock.now()).is_ok())
    }

    fn identify(&self, sent: &str, now: Time) -> std::result::Result<Identity, Refused> {
        if let Some(key) = key_text::read(sent) {
            let found = self.read(|known| known.keys.get(key.id).cloned());
            let right = found.filter(|found| bool::from(found.sha256.ct_eq(&key.sha256())));
            return match right {
                Some(key) if key.is_expired(now) => {
                    let why =
                        format!("the key `{}` has expired; ask an admin for another: windlass key create", key.name);
                    Err(Error::unauthorized(why).into())
                }
                Some(key) => Ok(Identity {
                    id: key.id.clone(),
                    role: key.role,
                    namespaces: key.namespaces.clone(),
                    queues: key.queues.clone().into(),
                    rate: key.rate,
                    name: key.name.clone(),
                }),
                None => Err(Refused::WrongKey(wrong_key())),
            };
        }
        match &self.0.start_key {
            Some(key) if key.matches(sent) => Ok(Identity {
                id: Actor::STARTED_WITH.to_owned(),
                role: Role::Admin,
                namespaces: KeyNamespaces::All,
                queues: Arc::default(),
                rate: None,
                name: Actor::STARTED_WITH.to_owned(),
            }),
            Some(_) | None => Err(Refused::WrongKey(wrong_key())),
        }
    }

    /// A rule may let a role or a key enqueue that could not otherwise.
    fn a_rule_lets_in(&self, namespace: &Namespace, actor: &Actor, needed: Permission) -> bool {
        let lets_in = |rule: &EnqueueRule| rule.lets_in(actor.role, Some(&actor.id));
        needed == Permission::Enqueue && self.rules_of(namespace).iter().any(lets_in)
    }

    /// Refuses an enqueue that the rules of the namespace do not allow, or allow no more of now.
    pub fn check_enqueue(&self, caller: &Caller, queues: &[&QueueName]) -> Result<()> {
        let Caller { allowed, actor } = caller;
        let rules = self.rules_of(&allowed.namespace);
        let key = actor.role.map(|_| actor.id.as_str());
        let mut counted = Vec::new();
        for queue in queues {
            let permitted = match rules.iter().enumerate().find(|(_, rule)| rule.covers(queue)) {
                Some((at, rule)) => {
                    counted.push((at, rule.rate));
                    rule.lets_in(actor.role, key)
                }
                None => actor.role.is_some_and(|role| role.may(Permission::Enqueue, false)),
            };
            if !permitted {
                return Err(not_to(queue));
            }
        }
        let address = || actor.address.map(|address| address.to_string()).unwrap_or_default();
        let who = key.map_or_else(address, str::to_owned);
        // Only what is allowed is counted.
        let now = self.0.clock.now();
        counted
            .into_iter()
            .try_for_each(|(at, rate)| self.count(rate, &format!("{}/{at}/{who}", allowed.namespace), now))
    }

    /// Counts one request of somebody against a rate.
    fn count(&self, rate: Option<Rate>, of: &str, now: Time) -> Result<()> {
        let Some(rate) = rate else { return Ok(()) };
        let mut limiters = lock(&self.0.limiters);
        if limiters.len() >= limits::KEY_LIMITERS {
            limiters.retain(|_, limiter| !limiter.is_idle(Some(rate), now));
        }
        let limiter = limiters.entry(of.to_owned()).or_default();
        match limiter.admit(None, Some(rate), now) {
            Admission::Go => {
                // What is counted are requests, none of which lasts.
                limiter.start(Some(rate), now);
                limiter.end();
                Ok(())
            }
            Admission::Full => Ok(()),
            Admission::Until(at) => {
                Err(Error::rate_limited("too many requests; wait, or ask an admin for a higher rate", at.since(now)))
            }
        }
    }

    /// Writes into the audit log that somebody was not let do something: the same only once in a while.
    pub fn note_denied(&self, caller: &Caller, target: &str) {
        let mut denied = lock(&self.0.denied);
        let new = denied.len() < limits::DENIALS_NOTED && denied.insert((caller.actor.id.clone(), target.to_owned()));
        drop(denied);
        if !new {
            return;
        }
        let (actor, namespace) = (caller.actor.clone(), caller.allowed.namespace.clone());
        let (note, store) =
            (AuditNote { actor, namespace, action: "request", target: target.to_owned() }, self.0.store.clone());
        tokio::spawn(async move {
            if let Err(error) = store.deny(note).await {
                warn!("a refusal cannot be written into the audit log: {error}");
            }
        });
    }

    fn existing(&self, namespace: Namespace) -> Result<Namespace> {
        if namespace.is_default() || self.read(|known| known.namespaces.contains_key(&namespace)) {
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
    Caller { allowed, actor: Actor { id: Actor::ANYBODY.to_owned(), role: None, address } }
}

fn namespace_of(headers: &HeaderMap) -> Result<Option<Namespace>> {
    let Some(header) = headers.get(NAMESPACE_HEADER) else { return Ok(None) };
    let text = header.to_str().unwrap_or_default();
    Ok(Some(Namespace::parse("X-Windlass-Namespace", text)?))
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

fn not_to(queue: &QueueName) -> Error {
    Error::forbidden(format!(
        "an enqueue rule does not let you enqueue to `{queue}`; GET /enqueue-rules shows the rules"
    ))
}

fn not_permitted(name: &str, role: Role, needed: Permission) -> Error {
    let may = Role::ALL.into_iter().filter(|role| role.may(needed, false)).map(Role::as_str).collect::<Vec<_>>();
    let who = if may.is_empty() { "an admin of all namespaces (`*`)".to_owned() } else { may.join(", ") };
    Error::forbidden(format!(
        "the key `{name}` has the role {role}, and this needs the permission `{}`: {who}",
        needed.as_str()
    ))
}

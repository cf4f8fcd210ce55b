//! Enqueue rules: who may bring jobs into which queues, and how often. The one place that applies them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::Request;
use windlass_core::access::{Actor, EnqueueRule, Permission, Who};
use windlass_core::{Namespace, QueueName};
use windlass_store::{Caller, Clock};

use super::{Authority, namespace_of};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::peer::ClientAddress;

/// How jobs come into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They are enqueued, which the rate of a rule counts.
    Enqueued,
    /// A worker that acks a job reports them as its children, which counts too.
    Children,
    /// They are moved there, or a schedule will enqueue them: by somebody who operates the queues, and not counted.
    Operated,
}

impl Way {
    /// What the role needs where no rule decides.
    fn permission(self) -> Permission {
        match self {
            Way::Enqueued => Permission::Enqueue,
            Way::Children => Permission::Work,
            Way::Operated => Permission::Operate,
        }
    }
}

impl Authority {
    /// Refuses jobs for queues that the rules of the namespace keep from the caller, or of which they allow no more
    /// now. A queue is named once for each job.
    pub fn check_enqueue(&self, caller: &Caller, queues: &[&QueueName], way: Way) -> Result<()> {
        let Caller { allowed, actor, .. } = caller;
        let rules = self.rules_of(&allowed.namespace);
        let key = actor.role.map(|_| actor.id.as_str());
        let mut jobs: BTreeMap<usize, u32> = BTreeMap::new();
        for queue in queues {
            let permitted = match rules.iter().enumerate().find(|(_, rule)| rule.covers(queue)) {
                Some((at, rule)) => {
                    *jobs.entry(at).or_default() += 1;
                    rule.lets_in(actor.role, key)
                }
                None => actor.role.is_some_and(|role| role.may(way.permission(), false)),
            };
            if !permitted {
                return Err(not_to(queue));
            }
        }
        if way == Way::Operated {
            return Ok(());
        }
        // A client can have any number of addresses in its own network.
        let address = || actor.address.map(|address| ClientAddress::new(address).network().to_string());
        let who = key.map_or_else(|| address().unwrap_or_default(), str::to_owned);
        let rated = jobs.into_iter().filter_map(|(at, many)| Some((at, rules.get(at)?.rate?, many)));
        let counted: Vec<_> =
            rated.map(|(at, rate, many)| (format!("{}/{at}/{who}", allowed.namespace), rate, many)).collect();
        let rates = if key.is_some() { &self.0.rates } else { &self.0.strangers };
        rates.count(&counted, self.0.clock.now())
    }

    /// Whether pages of any site may send a request, because a rule of its namespace lets anybody enqueue.
    pub fn lets_pages_in<B>(&self, request: &Request<B>, needed: Permission) -> bool {
        let namespace = || namespace_of(None, request).ok().map(Option::unwrap_or_default);
        needed == Permission::Enqueue && namespace().is_some_and(|namespace| self.lets_anybody_in(Some(&namespace)))
    }

    /// Whether a rule of a namespace lets somebody without a key enqueue; of any namespace if none is named.
    pub fn lets_anybody_in(&self, namespace: Option<&Namespace>) -> bool {
        let any = |rules: &Arc<[EnqueueRule]>| rules.iter().any(|rule| rule.who == Who::Anybody);
        self.read(|known| match namespace {
            Some(namespace) => known.rules.get(namespace).is_some_and(any),
            None => known.rules.values().any(any),
        })
    }

    /// A rule may let a role or a key enqueue that could not otherwise.
    pub(super) fn a_rule_lets_in(&self, namespace: &Namespace, actor: &Actor, needed: Permission) -> bool {
        let lets_in = |rule: &EnqueueRule| rule.lets_in(actor.role, Some(&actor.id));
        needed == Permission::Enqueue && self.rules_of(namespace).iter().any(lets_in)
    }
}

fn not_to(queue: &QueueName) -> Error {
    Error::forbidden(format!(
        "an enqueue rule does not let you enqueue to `{queue}`; GET /enqueue-rules shows the rules"
    ))
}

//! Enqueue rules: who besides the keys with the permission may enqueue to which queues, and how often. With them the
//! form of a web site can feed one queue, and do nothing else.

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::limits::Rate;
use crate::queue_pattern::QueuePattern;
use crate::{QueueName, Refusal, bounds};

/// Who may enqueue to some queues. The first rule whose queues cover the job's queue decides; without one the role
/// decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnqueueRule {
    pub queues: Vec<QueuePattern>,
    pub who: Who,
    /// For each address, or each key, that the rule lets in.
    pub rate: Option<Rate>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Who {
    /// Also without a key.
    Anybody,
    Roles(Vec<Role>),
    /// Keys by their ids.
    Keys(Vec<String>),
}

impl EnqueueRule {
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=bounds::KEY_QUEUES).contains(&self.queues.len()) {
            return Err(Refusal::invalid("queues", format!("1 to {} patterns", bounds::KEY_QUEUES)));
        }
        let named = match &self.who {
            Who::Anybody => 1,
            Who::Roles(roles) => roles.len(),
            Who::Keys(keys) => keys.len(),
        };
        if !(1..=bounds::RULE_NAMES).contains(&named) {
            return Err(Refusal::invalid("who", format!("`anybody`, or 1 to {} roles or keys", bounds::RULE_NAMES)));
        }
        if self.who == Who::Anybody && self.rate.is_none() {
            let why = "a rule that lets anybody in needs a rate, such as {\"rate\": 10, \"period\": \"1m\"}";
            return Err(Refusal::invalid("rate", why));
        }
        self.rate.as_ref().map_or(Ok(()), |rate| rate.check("rate"))
    }

    pub fn covers(&self, queue: &QueueName) -> bool {
        self.queues.iter().any(|pattern| pattern.covers(queue))
    }

    /// Whether the rule lets a caller with this role and key in; none of both for somebody without a key.
    pub fn lets_in(&self, role: Option<Role>, key: Option<&str>) -> bool {
        match &self.who {
            Who::Anybody => true,
            Who::Roles(roles) => role.is_some_and(|role| role == Role::Admin || roles.contains(&role)),
            Who::Keys(keys) => role == Some(Role::Admin) || key.is_some_and(|key| keys.iter().any(|one| one == key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn rule(queues: &[&str], who: Who) -> EnqueueRule {
        let queues = queues.iter().map(|text| text.parse().expect("a pattern")).collect();
        EnqueueRule { queues, who, rate: Some(Rate { count: 10, per: Duration::from_secs(60) }) }
    }

    #[test]
    fn a_rule_for_anybody_needs_a_rate() {
        let open = rule(&["contact"], Who::Anybody);
        assert!(open.check().is_ok());
        assert!(EnqueueRule { rate: None, ..open }.check().is_err());
        assert!(EnqueueRule { rate: None, ..rule(&["a"], Who::Roles(vec![Role::Worker])) }.check().is_ok());
        assert!(rule(&[], Who::Anybody).check().is_err());
        assert!(rule(&["a"], Who::Roles(Vec::new())).check().is_err());
        assert!(rule(&["a"], Who::Keys(vec!["k".into(); bounds::RULE_NAMES + 1])).check().is_err());
    }

    #[test]
    fn a_rule_lets_in_whom_it_names_and_always_an_admin() {
        let anybody = rule(&["contact"], Who::Anybody);
        assert!(anybody.lets_in(None, None) && anybody.lets_in(Some(Role::Viewer), Some("k")));
        let workers = rule(&["contact"], Who::Roles(vec![Role::Worker]));
        assert!(workers.lets_in(Some(Role::Worker), Some("k")) && workers.lets_in(Some(Role::Admin), Some("k")));
        assert!(!workers.lets_in(Some(Role::Producer), Some("k")) && !workers.lets_in(None, None));
        let keys = rule(&["contact"], Who::Keys(vec!["k1".into()]));
        assert!(keys.lets_in(Some(Role::Viewer), Some("k1")) && keys.lets_in(Some(Role::Admin), Some("k2")));
        assert!(!keys.lets_in(Some(Role::Producer), Some("k2")) && !keys.lets_in(None, None));
    }

    #[test]
    fn a_rule_covers_the_queues_of_its_patterns() {
        let rule = rule(&["contact", "form.*"], Who::Anybody);
        let covers = |queue: &str| rule.covers(&queue.parse().expect("a name"));
        assert!(covers("contact") && covers("form.a") && !covers("contact2") && !covers("forms"));
    }
}

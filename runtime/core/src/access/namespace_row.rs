//! What is stored of a namespace: its quotas.

use serde::{Deserialize, Serialize};

use crate::limits::Rate;
use crate::{Namespace, Refusal, Time};

/// A namespace that was made. `default` exists without being made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceRow {
    pub name: Namespace,
    pub quotas: Quotas,
    pub created_at: Time,
    pub created_by: Option<String>,
}

/// How much of the server a namespace may use. What is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Jobs that have not ended.
    pub open_jobs: Option<u64>,
    pub queues: Option<u32>,
    /// Payloads, checkpoints and results of all stored jobs.
    pub stored_bytes: Option<u64>,
    /// Attempts that run at once in the server.
    pub slots: Option<u32>,
    /// Requests to the server, those of all its keys together.
    pub requests: Option<Rate>,
}

/// What a namespace uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub open_jobs: u64,
    pub queues: u32,
    pub stored_bytes: u64,
}

impl Quotas {
    pub fn check(&self) -> Result<(), Refusal> {
        let none = [
            ("open_jobs", self.open_jobs == Some(0)),
            ("queues", self.queues == Some(0)),
            ("stored_bytes", self.stored_bytes == Some(0)),
            ("slots", self.slots == Some(0)),
        ];
        if let Some((field, _)) = none.into_iter().find(|(_, zero)| *zero) {
            return Err(Refusal::invalid(field, "at least 1; leave it out for no limit"));
        }
        self.requests.as_ref().map_or(Ok(()), |rate| rate.check("requests"))
    }

    /// Refuses so many more jobs of so many bytes, and so many new queues.
    pub fn admit(&self, namespace: &Namespace, used: Used, more: Used) -> Result<(), Refusal> {
        let over =
            |limit: Option<u64>, used: u64, more: u64| more > 0 && limit.is_some_and(|limit| used + more > limit);
        let quota = if over(self.open_jobs, used.open_jobs, more.open_jobs) {
            format!("{} open jobs", self.open_jobs.unwrap_or_default())
        } else if over(self.queues.map(u64::from), used.queues.into(), more.queues.into()) {
            format!("{} queues", self.queues.unwrap_or_default())
        } else if over(self.stored_bytes, used.stored_bytes, more.stored_bytes) {
            format!("{} stored bytes", self.stored_bytes.unwrap_or_default())
        } else {
            return Ok(());
        };
        let why = format!(
            "namespace `{namespace}` has reached its quota of {quota}; wait until jobs have ended, or raise the quota"
        );
        Err(Refusal::OverQuota { why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_admits_up_to_its_number_and_no_more() {
        let quotas = Quotas { open_jobs: Some(10), queues: Some(2), stored_bytes: Some(100), ..Quotas::default() };
        let used = Used { open_jobs: 9, queues: 1, stored_bytes: 90 };
        let acme: Namespace = "acme".parse().expect("a namespace");
        let admits = |open_jobs, queues, stored_bytes| {
            quotas.admit(&acme, used, Used { open_jobs, queues, stored_bytes }).is_ok()
        };
        assert!(admits(1, 1, 10) && admits(0, 0, 0));
        assert!(!admits(2, 0, 0) && !admits(0, 2, 0) && !admits(0, 0, 11));
        let full = Used { open_jobs: 20, queues: 5, stored_bytes: 500 };
        assert!(quotas.admit(&acme, full, Used::default()).is_ok(), "nothing more is nothing wrong");
        assert!(Quotas::default().admit(&acme, full, full).is_ok());
        let refusal = quotas.admit(&acme, used, Used { open_jobs: 2, ..Used::default() }).expect_err("over");
        assert!(refusal.to_string().contains("`acme` has reached its quota of 10 open jobs"), "{refusal}");
    }

    #[test]
    fn a_quota_of_nothing_is_refused() {
        assert!(Quotas::default().check().is_ok());
        for quotas in [
            Quotas { open_jobs: Some(0), ..Quotas::default() },
            Quotas { queues: Some(0), ..Quotas::default() },
            Quotas { stored_bytes: Some(0), ..Quotas::default() },
            Quotas { slots: Some(0), ..Quotas::default() },
        ] {
            assert!(quotas.check().is_err(), "{quotas:?}");
        }
    }
}

//! Reads of keys, enqueue rules, namespaces and the audit log.

use windlass_core::access::{ApiKey, AuditEntry, AuditHead, EnqueueRule, NamespaceRow, Session};
use windlass_core::{Namespace, Time};

use crate::disk::Space;
use crate::disk::{codec, keys};
use crate::read::row;
use crate::store::Store;
use crate::{DataKeyRow, Error, limits};

/// Which entries of the audit log are wanted. What is absent does not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Entries after this one.
    pub after: u64,
    /// Entries before this one.
    pub before: Option<u64>,
    /// The newest first, instead of the oldest.
    pub newest_first: bool,
    pub actor: Option<String>,
    /// The whole action, or how it begins up to a dot: `plugin` finds `plugin.upload`.
    pub action: Option<String>,
    pub target: Option<String>,
    pub since: Option<Time>,
    pub namespace: Option<Namespace>,
    pub limit: usize,
}

/// Part of the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    pub entries: Vec<AuditEntry>,
    /// The number to continue after, if there may be more; to continue before, if the newest came first.
    pub next: Option<u64>,
}

impl Store {
    /// The data keys of all namespaces that have one.
    pub async fn data_keys(&self) -> Result<Vec<DataKeyRow>, Error> {
        self.read(|view| {
            let rows = view.under(Space::Access, &keys::data_keys());
            let rows = rows.map(|pair| codec::decode::<DataKeyRow>(Space::Access, &pair?.1));
            rows.filter(|row| !row.as_ref().is_ok_and(|row| row.wrapped.is_empty())).collect()
        })
        .await
    }

    pub async fn api_keys(&self) -> Result<Vec<ApiKey>, Error> {
        self.read(|view| {
            let rows = view.under(Space::Access, &keys::api_keys());
            rows.map(|pair| codec::decode(Space::Access, &pair?.1)).collect()
        })
        .await
    }

    /// The sessions that nobody has ended; some may have expired.
    pub async fn sessions(&self) -> Result<Vec<Session>, Error> {
        self.read(|view| {
            let rows = view.under(Space::Access, &keys::sessions());
            rows.map(|pair| codec::decode(Space::Access, &pair?.1)).collect()
        })
        .await
    }

    /// The enqueue rules of every namespace that has some.
    pub async fn enqueue_rules(&self) -> Result<Vec<(Namespace, Vec<EnqueueRule>)>, Error> {
        self.read(|view| {
            let rows = view.under(Space::Access, b"r");
            rows.map(|pair| codec::decode(Space::Access, &pair?.1)).collect()
        })
        .await
    }

    /// The namespaces that were made, without `default`.
    pub async fn namespaces(&self) -> Result<Vec<NamespaceRow>, Error> {
        self.read(|view| {
            let rows = view.under(Space::Access, &keys::namespaces());
            rows.map(|pair| codec::decode(Space::Access, &pair?.1)).collect()
        })
        .await
    }

    /// The bytes of all bodies that each namespace stores, of those that were made.
    pub async fn stored_bytes(&self) -> Result<Vec<(Namespace, u64)>, Error> {
        self.read(|view| {
            let rows = view.under(Space::Access, &keys::usages());
            rows.map(|pair| codec::decode(Space::Access, &pair?.1)).collect()
        })
        .await
    }

    /// Where the audit log stands.
    pub async fn audit_head(&self) -> Result<AuditHead, Error> {
        Ok(row(&self.view().await?, Space::Access, &keys::audit_head())?.unwrap_or_default())
    }

    /// The hash of one entry: what the next one continues. That of a log without entries for 0, and none for one that
    /// was removed.
    pub async fn audit_hash(&self, seq: u64) -> Result<Option<[u8; 32]>, Error> {
        let view = self.view().await?;
        let entry: Option<AuditEntry> = row(&view, Space::Audit, &keys::audit(seq))?;
        let head: AuditHead = row(&view, Space::Access, &keys::audit_head())?.unwrap_or_default();
        Ok(entry.map(|entry| entry.hash).or((seq == 0 && head.from <= 1).then_some([0; 32])))
    }

    /// A page of the audit log.
    pub async fn audit_log(&self, filter: AuditFilter) -> Result<AuditPage, Error> {
        self.read(move |view| {
            let limit = filter.limit.clamp(1, limits::AUDIT_PAGE);
            let mut page = AuditPage::default();
            let from = keys::audit(filter.after.saturating_add(1));
            let until = filter.before.map_or([u8::MAX; 9].to_vec(), |seq| keys::audit(seq).to_vec());
            let mut rows = view.range(Space::Audit, &from, &until);
            let next = || if filter.newest_first { rows.next_back() } else { rows.next() };
            for (looked_at, pair) in std::iter::from_fn(next).enumerate() {
                let entry: AuditEntry = codec::decode(Space::Audit, &pair?.1)?;
                let seq = entry.seq;
                if filter.admits(&entry) {
                    page.entries.push(entry);
                }
                if page.entries.len() >= limit || looked_at >= limits::AUDIT_LOOK {
                    page.next = Some(seq);
                    break;
                }
            }
            Ok(page)
        })
        .await
    }
}

impl AuditFilter {
    fn admits(&self, entry: &AuditEntry) -> bool {
        let action = |wanted: &String| {
            entry.action == *wanted
                || entry.action.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        self.actor.as_ref().is_none_or(|actor| entry.actor.id == *actor)
            && self.action.as_ref().is_none_or(action)
            && self.target.as_ref().is_none_or(|target| entry.target == *target)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.namespace.as_ref().is_none_or(|namespace| entry.namespace == *namespace)
    }
}

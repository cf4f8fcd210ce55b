//! Keys, sessions, enqueue rules and namespaces: stored by the engine, so that a change and its audit entry are one
//! commit.

use std::collections::BTreeMap;

use windlass_core::access::{ApiKey, EnqueueRule, NamespaceRow, Session, SessionOf};
use windlass_core::{Namespace, Refusal, Time, bounds};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::engine::requests::operation::{Answer, Operation};

#[derive(Clone, Debug)]
pub enum AccessChange {
    AddKey(Box<ApiKey>),
    RevokeKey {
        id: String,
    },
    /// Somebody has signed in.
    AddSession(Box<Session>),
    EndSession {
        id: String,
    },
    /// Those that have expired are removed.
    RemoveExpiredSessions,
    /// When keys were last used.
    KeysUsed(Vec<(String, Time)>),
    SetRules {
        namespace: Namespace,
        rules: Vec<EnqueueRule>,
    },
    /// `replace` says whether it must be there, or must not.
    PutNamespace {
        row: Box<NamespaceRow>,
        replace: bool,
    },
    RemoveNamespace {
        name: Namespace,
    },
}

impl<D: Disk> Operation<D> for AccessChange {
    type Answer = ();

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(match self {
            AccessChange::AddKey(key) => {
                ("key.create", format!("{} ({}, {} of {})", key.id, key.name, key.role, key.namespaces.as_str()))
            }
            AccessChange::RevokeKey { id } => ("key.revoke", id.clone()),
            AccessChange::AddSession(session) => ("session.begin", format!("{} ({})", session.id, session.name)),
            AccessChange::EndSession { id } => ("session.end", id.clone()),
            AccessChange::KeysUsed(_) | AccessChange::RemoveExpiredSessions => return None,
            AccessChange::SetRules { namespace, .. } => ("enqueue-rules.set", namespace.to_string()),
            AccessChange::PutNamespace { row, replace: false } => ("namespace.create", row.name.to_string()),
            AccessChange::PutNamespace { row, .. } => ("namespace.quotas", row.name.to_string()),
            AccessChange::RemoveNamespace { name } => ("namespace.remove", name.to_string()),
        })
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        let done = engine.change_access(self);
        engine.release.settle(answer, done)
    }
}

impl<D: Disk> Engine<D> {
    fn change_access(&mut self, change: AccessChange) -> Result<(), Failure> {
        match change {
            AccessChange::AddKey(key) => self.add_key(&key)?,
            AccessChange::RevokeKey { id } => {
                self.delete_access(keys::api_key(&id), "key", &id)?;
                let of = SessionOf::Key(id);
                self.end_sessions(|session| session.of == of)?;
            }
            AccessChange::AddSession(session) => self.add_session(&session)?,
            AccessChange::EndSession { id } => self.delete_access(keys::session(&id), "session", &id)?,
            AccessChange::RemoveExpiredSessions => {
                let now = self.now;
                self.end_sessions(|session| session.is_expired(now))?;
            }
            AccessChange::KeysUsed(used) => self.note_keys_used(used)?,
            AccessChange::SetRules { namespace, rules } => {
                if rules.len() > bounds::ENQUEUE_RULES {
                    return Err(Refusal::invalid("rules", format!("at most {}", bounds::ENQUEUE_RULES)).into());
                }
                rules.iter().try_for_each(EnqueueRule::check)?;
                self.put_access(keys::enqueue_rules(&namespace), &(namespace.clone(), rules));
            }
            AccessChange::PutNamespace { row, replace } => self.put_namespace(*row, replace)?,
            AccessChange::RemoveNamespace { name } => self.remove_namespace(&name)?,
        }
        self.unsaved.require_commit();
        Ok(())
    }

    fn add_key(&mut self, key: &ApiKey) -> Result<(), Failure> {
        if self.count_keys()? >= bounds::API_KEYS {
            let why = format!("there are {} keys, and there can be no more; revoke some", bounds::API_KEYS);
            return Err(Refusal::invalid("name", why).into());
        }
        self.put_access(keys::api_key(&key.id), key);
        Ok(())
    }

    fn note_keys_used(&mut self, used: Vec<(String, Time)>) -> Result<(), DiskError> {
        for (id, at) in used {
            let key = keys::api_key(&id);
            if let Some(bytes) = self.written(Space::Access, key.clone())? {
                let row: ApiKey = codec::decode(Space::Access, &bytes)?;
                self.put_access(key, &ApiKey { last_used_at: Some(at), ..row });
            }
        }
        Ok(())
    }

    fn put_namespace(&mut self, row: NamespaceRow, replace: bool) -> Result<(), Failure> {
        row.quotas.check()?;
        let key = keys::namespace(&row.name);
        let known = row.name.is_default() || self.written(Space::Access, key.clone())?.is_some();
        match (known, replace) {
            (true, false) => {
                return Err(Refusal::Exists { what: "namespace", name: row.name.to_string() }.into());
            }
            (false, true) => return Err(Refusal::not_found("namespace", &row.name).into()),
            (true, true) | (false, false) => {}
        }
        self.put_access(key, &row);
        self.quotas.set(row.name, row.quotas);
        Ok(())
    }

    /// Deletes a row that must be there; `what` and `name` are said if it is not.
    fn delete_access(&mut self, key: Vec<u8>, what: &'static str, name: &str) -> Result<(), Failure> {
        if self.written(Space::Access, key.clone())?.is_none() {
            return Err(Refusal::not_found(what, name).into());
        }
        self.unsaved.batch.delete(Space::Access, key);
        Ok(())
    }

    pub(super) fn put_access(&mut self, key: Vec<u8>, row: &impl serde::Serialize) {
        self.unsaved.batch.put(Space::Access, key, codec::encode(row));
    }

    /// Stores a session, in place of the oldest one if the same key or person has too many.
    fn add_session(&mut self, session: &Session) -> Result<(), Failure> {
        if let SessionOf::Key(id) = &session.of
            && self.written(Space::Access, keys::api_key(id))?.is_none()
        {
            return Err(Refusal::not_found("key", id).into());
        }
        let now = self.now;
        self.end_sessions(|session| session.is_expired(now))?;
        let known = self.written_sessions()?;
        let own = known.iter().filter(|(_, other)| other.of == session.of);
        if own.clone().count() >= bounds::SESSIONS_OF_ONE {
            let oldest = own.min_by_key(|(_, other)| other.created_at).map(|(key, _)| key.clone());
            oldest.into_iter().for_each(|key| self.unsaved.batch.delete(Space::Access, key));
        } else if known.len() >= bounds::SESSIONS {
            let why = format!("there are {} sessions, and there can be no more; try again later", bounds::SESSIONS);
            return Err(Refusal::invalid("key", why).into());
        }
        self.put_access(keys::session(&session.id), session);
        Ok(())
    }

    pub(super) fn end_sessions(&mut self, ends: impl Fn(&Session) -> bool) -> Result<(), DiskError> {
        let known = self.written_sessions()?;
        for (key, _) in known.into_iter().filter(|(_, session)| ends(session)) {
            self.unsaved.batch.delete(Space::Access, key);
        }
        Ok(())
    }

    /// All sessions, as this group or an earlier one has written them.
    fn written_sessions(&self) -> Result<BTreeMap<Vec<u8>, Session>, DiskError> {
        let prefix = keys::sessions();
        let mut rows = BTreeMap::new();
        self.disk.each(Space::Access, &prefix, &mut |key, value| drop(rows.insert(key.to_vec(), value.to_vec())))?;
        for ((space, key), value) in &self.unsaved.batch.writes {
            if *space != Space::Access || !key.starts_with(&prefix) {
                continue;
            }
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        let read = |(key, value): (Vec<u8>, Vec<u8>)| Ok((key, codec::decode(Space::Access, &value)?));
        rows.into_iter().map(read).collect()
    }

    fn count_keys(&self) -> Result<usize, DiskError> {
        let mut count = 0;
        self.disk.each(Space::Access, &keys::api_keys(), &mut |_, _| count += 1)?;
        Ok(count)
    }
}

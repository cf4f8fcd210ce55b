//! Keys and sessions: they outlive a restart, end together, and their number is bounded.

use std::time::Duration;

use windlass_core::access::{ApiKey, KeyNamespaces, NewKey, Role, Session, SessionOf};
use windlass_core::{Refusal, Time, bounds};
use windlass_store::{AccessChange, Error};

use super::test_store::TestStore;

const HOUR: Duration = Duration::from_secs(3600);

fn key(id: &str, now: Time) -> ApiKey {
    let new = NewKey {
        name: "ci".into(),
        role: Role::Viewer,
        namespaces: KeyNamespaces::All,
        queues: vec!["mail.*".parse().expect("a pattern")],
        rate: None,
        expires_at: None,
    };
    new.make(id.into(), [7; 32], None, now)
}

fn session(id: &str, of: SessionOf, now: Time) -> Session {
    Session {
        id: id.into(),
        sha256: [9; 32],
        of,
        name: "ci".into(),
        role: Role::Viewer,
        namespaces: KeyNamespaces::All,
        queues: Vec::new(),
        created_at: now,
        expires_at: now + HOUR,
    }
}

fn person(name: &str) -> SessionOf {
    SessionOf::Person { actor: format!("oidc:{name}"), issuer: "https://login.example.com".into() }
}

async fn change(test: &TestStore, change: AccessChange) -> Result<(), Error> {
    test.store.change_access(change).await
}

async fn add(test: &TestStore, id: &str, of: SessionOf) -> Result<(), Error> {
    change(test, AccessChange::AddSession(Box::new(session(id, of, test.now())))).await
}

async fn sessions(test: &TestStore) -> Vec<String> {
    test.store.sessions().await.expect("reads").into_iter().map(|session| session.id).collect()
}

#[tokio::test]
async fn keys_and_sessions_are_there_after_a_restart_as_they_were() {
    let mut test = TestStore::new();
    let (key, session) = (key("k1", test.now()), session("s1", SessionOf::Key("k1".into()), test.now()));
    change(&test, AccessChange::AddKey(Box::new(key.clone()))).await.expect("a key");
    change(&test, AccessChange::AddSession(Box::new(session.clone()))).await.expect("a session");
    test.reopen().await;
    assert_eq!(test.store.api_keys().await.expect("reads"), [key]);
    assert_eq!(test.store.sessions().await.expect("reads"), [session]);
}

#[tokio::test]
async fn a_revoked_key_takes_its_sessions_with_it_and_gets_no_new_ones() {
    let mut test = TestStore::new();
    let own = || SessionOf::Key("k1".into());
    for id in ["k1", "k2"] {
        change(&test, AccessChange::AddKey(Box::new(key(id, test.now())))).await.expect("a key");
    }
    add(&test, "s1", own()).await.expect("a session");
    add(&test, "s2", own()).await.expect("a session");
    add(&test, "s3", SessionOf::Key("k2".into())).await.expect("a session");
    add(&test, "s4", SessionOf::StartKey).await.expect("a session");
    change(&test, AccessChange::RevokeKey { id: "k1".into() }).await.expect("it was there");
    assert_eq!(sessions(&test).await, ["s3", "s4"]);
    let refused = add(&test, "s5", own()).await.expect_err("the key is gone");
    assert!(matches!(refused, Error::Refused(Refusal::NotFound { what: "key", .. })), "{refused}");
    test.reopen().await;
    assert_eq!(sessions(&test).await, ["s3", "s4"]);
    assert_eq!(test.store.api_keys().await.expect("reads").len(), 1);
}

#[tokio::test]
async fn a_session_ends_once_and_an_expired_one_is_removed() {
    let test = TestStore::new();
    add(&test, "s1", person("ann")).await.expect("a session");
    let end = || AccessChange::EndSession { id: "s1".into() };
    change(&test, end()).await.expect("it was there");
    let refused = change(&test, end()).await.expect_err("it has ended");
    assert!(matches!(refused, Error::Refused(Refusal::NotFound { what: "session", .. })), "{refused}");
    add(&test, "s2", person("ann")).await.expect("a session");
    test.clock.advance(HOUR / 2);
    add(&test, "s3", person("bob")).await.expect("a session");
    test.clock.advance(HOUR / 2);
    change(&test, AccessChange::RemoveExpiredSessions).await.expect("they are removed");
    assert_eq!(sessions(&test).await, ["s3"]);
    test.clock.advance(HOUR / 2);
    add(&test, "s4", person("ann")).await.expect("a session");
    assert_eq!(sessions(&test).await, ["s4"], "a new one makes room too");
}

#[tokio::test]
async fn one_person_has_so_many_sessions_and_the_oldest_makes_room() {
    let test = TestStore::new();
    add(&test, "other", person("bob")).await.expect("a session");
    for number in 0..=bounds::SESSIONS_OF_ONE {
        test.clock.advance(Duration::from_secs(1));
        add(&test, &format!("s{number:03}"), person("ann")).await.expect("a session");
    }
    let left = sessions(&test).await;
    assert_eq!(left.len(), bounds::SESSIONS_OF_ONE + 1);
    assert!(left.contains(&"other".to_owned()) && left.contains(&"s001".to_owned()), "{left:?}");
    assert!(!left.contains(&"s000".to_owned()), "{left:?}");
}

//! Bad input of every kind is a clear error that names the field, and changes nothing.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::limits::Rate;
use windlass_core::{NewJob, PolicyChoice, Refusal, Settings, State, Unique, UniqueScope, Until, bounds};
use windlass_store::Error;

use super::test_store::{TestStore, job, queue, secs};

#[tokio::test]
async fn a_job_that_cannot_be_is_refused_by_field() {
    let test = TestStore::new();
    let unique =
        |key: &str, period: Duration, within| Some(Unique { key: key.into(), within, until: Until::End, period });
    let policy = |policy: PolicyChoice| NewJob { policy, ..job("mail") };
    let none = PolicyChoice::default;
    let cases = [
        ("queue", NewJob::default()),
        ("scope", NewJob { scope: Some(String::new()), ..job("mail") }),
        ("scope", NewJob { scope: Some("a\0b".into()), ..job("mail") }),
        ("limit_key", NewJob { limit_key: Some("k".repeat(bounds::LIMIT_KEY_BYTES + 1)), ..job("mail") }),
        ("target_worker", NewJob { target_worker: Some(String::new()), ..job("mail") }),
        ("tags", NewJob { tags: vec![("k".into(), "v".into()); bounds::TAGS + 1], ..job("mail") }),
        ("tags", NewJob { tags: vec![(String::new(), "v".into())], ..job("mail") }),
        ("unique_key", NewJob { unique: unique("", secs(1), UniqueScope::Queue), ..job("mail") }),
        ("unique_period", NewJob { unique: unique("k", Duration::ZERO, UniqueScope::Queue), ..job("mail") }),
        ("unique_scope", NewJob { unique: unique("k", secs(1), UniqueScope::Scope), ..job("mail") }),
        ("max_attempts", policy(PolicyChoice { max_attempts: Some(u32::MAX), ..none() })),
        ("lease", policy(PolicyChoice { lease: Some(Duration::ZERO), ..none() })),
        ("expire_after", policy(PolicyChoice { expire_after: Some(Duration::ZERO), ..none() })),
        ("attempt_timeout", policy(PolicyChoice { attempt_timeout: Some(Duration::MAX), ..none() })),
        ("delay", NewJob { delay: Some(Duration::MAX), ..job("mail") }),
        ("scheduled_at", NewJob { scheduled_at: Some(windlass_core::Time::MAX), ..job("mail") }),
    ];
    for (wrong, new) in cases {
        let refused = test.try_put(new.clone()).await;
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::Invalid { field, .. })) if field == wrong),
            "{wrong}: {new:?} gave {refused:?}"
        );
    }
    assert_eq!(test.count("mail", State::Pending).await, 0);
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused_by_field_and_change_nothing() {
    let test = TestStore::new();
    type Change = fn(&mut Settings);
    let cases: [(&str, Change); 4] = [
        ("rate_limit", |settings| settings.rate = Some(Rate { count: 0, per: secs(1) })),
        ("key_rate_limit", |settings| settings.key_rate = Some(Rate { count: 1, per: Duration::ZERO })),
        ("ageing", |settings| settings.ageing = Some(Duration::ZERO)),
        ("lease", |settings| settings.defaults.lease = Some(Duration::ZERO)),
    ];
    for (wrong, change) in cases {
        let refused = test.store.configure(queue("mail"), change).await;
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::Invalid { field, .. })) if field == wrong),
            "{wrong}: {refused:?}"
        );
    }
    assert!(test.store.queues().await.expect("reads").is_empty());
}

#[tokio::test]
async fn a_large_body_is_a_file_of_its_own_and_reads_back_whole() {
    let mut test = TestStore::new();
    let large = Bytes::from(vec![7; 3 * 1024 * 1024]);
    let body = test.store.keep(large.clone()).await.expect("there is room");
    let id = test.put(NewJob { payload: Some(body), ..job("mail") }).await;
    test.reopen().await;
    let job = test.job(id).await;
    let found = test.store.body(&job, windlass_core::BodyKind::Payload).await.expect("reads");
    assert_eq!(found, Some(large));
}

#[tokio::test]
async fn a_queue_s_defaults_fill_what_a_job_leaves_open() {
    let test = TestStore::new();
    test.set("mail", |settings| {
        settings.defaults.max_attempts = Some(7);
        settings.defaults.lease = Some(secs(33));
    })
    .await;
    let own = PolicyChoice { max_attempts: Some(2), ..PolicyChoice::default() };
    let id = test.put(NewJob { policy: own, ..job("mail") }).await;
    let policy = test.job(id).await.policy;
    assert_eq!((policy.max_attempts, policy.lease), (2, secs(33)));
}

//! Webhooks: their latest deliveries, their two secrets, and the queues whose incoming requests must be signed.

use std::time::Duration;

use windlass_core::{
    Delivery, DeliveryCause, DeliveryLog, InboundSettings, Refusal, SignatureScheme, SigningSecrets, Time, Webhook,
    WebhookEdit, bounds,
};
use windlass_store::{Error, InboundChange, WebhookChange};

use super::test_store::{TestStore, job, queue};

const ID: &str = "hook_1";

async fn change(test: &TestStore, change: WebhookChange) {
    test.store.change_webhook(change).await.expect("a good change");
}

async fn add(test: &TestStore) {
    let hook = Webhook {
        id: ID.into(),
        url: "https://example.com/".into(),
        events: vec!["*".into()],
        secrets: SigningSecrets::new(vec![1]),
        enabled: true,
        retry_limit: 3,
        created_at: Time::ZERO,
        updated_at: Time::ZERO,
        delivered_up_to: 0,
        delivered: 0,
        failed: 0,
        last_error: None,
        log: DeliveryLog::default(),
        namespace: Default::default(),
    };
    change(test, WebhookChange::Add(Box::new(hook))).await;
}

fn delivery(test: &TestStore, seq: u64) -> Delivery {
    Delivery {
        message_id: format!("{ID}:{seq}"),
        seq: Some(seq),
        kind: "completed".into(),
        cause: DeliveryCause::Event,
        at: test.now(),
        attempt: 1,
        status: Some(200),
        duration_ms: 5,
        error: None,
        next_attempt_at: None,
    }
}

fn delivered(up_to: u64, deliveries: Vec<Delivery>) -> WebhookChange {
    let delivered = deliveries.len() as u64;
    WebhookChange::Delivered { id: ID.into(), up_to, delivered, failed: 0, last_error: None, deliveries }
}

async fn seqs(test: &TestStore) -> Vec<u64> {
    let stored = test.store.deliveries(ID).await.expect("reads");
    stored.iter().filter_map(|delivery| delivery.seq).collect()
}

#[tokio::test]
async fn the_latest_deliveries_are_stored_and_older_ones_go() {
    let mut test = TestStore::new();
    add(&test).await;
    let most = bounds::DELIVERIES;
    let page = (1..=most).map(|seq| delivery(&test, seq)).collect();
    change(&test, delivered(most, page)).await;
    assert_eq!(seqs(&test).await, (1..=most).collect::<Vec<_>>());
    change(&test, WebhookChange::Tried { id: ID.into(), delivery: delivery(&test, most + 1) }).await;
    test.reopen().await;
    assert_eq!(seqs(&test).await, (2..=most + 1).collect::<Vec<_>>());
    let hook = test.store.webhooks().await.expect("reads").remove(0);
    assert_eq!((hook.delivered_up_to, hook.delivered), (most, most), "what is tried again is not delivered yet");

    test.pass(bounds::DELIVERY_AGE).await;
    change(&test, WebhookChange::Tried { id: ID.into(), delivery: delivery(&test, 7) }).await;
    assert_eq!(seqs(&test).await, [7]);
    change(&test, WebhookChange::Remove { id: ID.into() }).await;
    assert_eq!(seqs(&test).await, Vec::<u64>::new());
}

#[tokio::test]
async fn deliveries_of_one_webhook_are_not_those_of_another_whose_id_begins_the_same() {
    let test = TestStore::new();
    add(&test).await;
    change(&test, delivered(1, vec![delivery(&test, 1)])).await;
    assert!(test.store.deliveries("hook_").await.expect("reads").is_empty());
    assert!(test.store.deliveries("hook_10").await.expect("reads").is_empty());
}

#[tokio::test]
async fn a_new_secret_has_the_one_before_it_beside_it_until_its_time_is_over() {
    let mut test = TestStore::new();
    add(&test).await;
    let keep = Duration::from_secs(60);
    change(&test, WebhookChange::Rotate { id: ID.into(), encrypted: vec![2], keep }).await;
    test.reopen().await;
    let hook = test.store.webhooks().await.expect("reads").remove(0);
    assert_eq!(hook.secrets.all().collect::<Vec<_>>(), [&[2], &[1]]);
    assert_eq!(hook.secrets.previous_at(test.now()).map(|previous| previous.until), Some(test.now() + keep));
    test.pass(keep).await;
    // Whatever is written next leaves it out.
    change(&test, delivered(1, Vec::new())).await;
    let hook = test.store.webhooks().await.expect("reads").remove(0);
    assert_eq!(hook.secrets, SigningSecrets::new(vec![2]));
}

#[tokio::test]
async fn an_edit_is_checked_and_one_that_enables_skips_what_happened_meanwhile() {
    let test = TestStore::new();
    add(&test).await;
    let edit = |enabled| WebhookChange::Edit {
        id: ID.into(),
        edit: WebhookEdit { enabled: Some(enabled), ..WebhookEdit::default() },
    };
    change(&test, edit(false)).await;
    test.put(job("mail")).await;
    change(&test, edit(true)).await;
    let up_to = test.store.webhooks().await.expect("reads").remove(0).delivered_up_to;
    assert!(test.store.events_after(up_to, 10).await.expect("reads").is_empty(), "delivered up to {up_to}");
    let wrong = WebhookEdit { events: Some(vec!["nonsense".into()]), ..WebhookEdit::default() };
    let refused = test.store.change_webhook(WebhookChange::Edit { id: ID.into(), edit: wrong }).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Invalid { field: "events", .. }))), "{refused:?}");
    let gone = test.store.change_webhook(WebhookChange::Edit { id: "x".into(), edit: WebhookEdit::default() }).await;
    assert!(matches!(gone, Err(Error::Refused(Refusal::NotFound { .. }))), "{gone:?}");
}

#[tokio::test]
async fn a_queue_whose_requests_must_be_signed_is_known_after_a_restart_until_it_is_removed() {
    let mut test = TestStore::new();
    let set = |secret: Option<u8>| InboundChange::Set {
        queue: queue("hooks"),
        settings: InboundSettings {
            scheme: SignatureScheme::Stripe,
            secret: secret.map(|byte| vec![byte]),
            keep_previous: Duration::from_secs(60),
            tolerance: None,
        },
    };
    let refused = test.store.change_inbound(set(None)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Invalid { field: "secret", .. }))), "{refused:?}");
    test.store.change_inbound(set(Some(1))).await.expect("good settings");
    test.store.change_inbound(set(Some(2))).await.expect("good settings");
    test.reopen().await;
    test.store.change_inbound(set(None)).await.expect("its secrets stay");
    let hook = test.store.inbound_hooks().await.expect("reads").remove(0);
    assert_eq!((hook.queue.as_str(), hook.scheme), ("hooks", SignatureScheme::Stripe));
    assert_eq!(hook.secrets.all().collect::<Vec<_>>(), [&[2], &[1]]);
    let remove = || InboundChange::Remove { queue: queue("hooks") };
    test.store.change_inbound(remove()).await.expect("it is there");
    test.reopen().await;
    assert!(test.store.inbound_hooks().await.expect("reads").is_empty());
    let gone = test.store.change_inbound(remove()).await;
    assert!(matches!(gone, Err(Error::Refused(Refusal::NotFound { .. }))), "{gone:?}");
}

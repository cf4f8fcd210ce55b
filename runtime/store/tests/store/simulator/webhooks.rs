//! Addresses that events are sent to: what was delivered is counted, and the latest deliveries are stored without a
//! gap. Changes come alone in their group.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{Delivery, DeliveryCause, DeliveryLog, SigningSecrets, Time, Webhook, WebhookEdit, bounds};
use windlass_store::WebhookChange;
use windlass_store::disk::{Space, keys};

use super::causes::Causes;
use super::check::Stored;
use super::commands::{Asked, Request};
use super::disk::SimDisk;
use super::model::Model;
use super::world::World;

/// What was delivered to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelHook {
    delivered_up_to: u64,
    delivered: u64,
    failed: u64,
    enabled: bool,
    secrets: SigningSecrets,
    log: DeliveryLog,
}

#[derive(Default)]
pub struct Hooks {
    hooks: BTreeMap<String, ModelHook>,
    /// By address and number: all that were stored and not removed since.
    deliveries: BTreeMap<(String, u64), Delivery>,
}

const HOOKS: [&str; 2] = ["hook_a", "hook_b"];

impl World {
    pub fn webhook(&mut self) -> (Request, Asked) {
        let id = (*self.rng.pick(&HOOKS).expect("there are some")).to_owned();
        let change = match self.rng.below(16) {
            0..3 => WebhookChange::Add(Box::new(new_hook(id, self.now))),
            3..9 => WebhookChange::Delivered {
                id,
                up_to: self.rng.below(100),
                delivered: self.rng.below(4),
                failed: self.rng.below(2),
                last_error: None,
                deliveries: (0..self.rng.below(4)).map(|_| self.delivery()).collect(),
            },
            9..11 => WebhookChange::Tried { id, delivery: self.delivery() },
            11..13 => {
                let enabled = Some(self.rng.chance(50));
                WebhookChange::Edit { id, edit: WebhookEdit { enabled, ..WebhookEdit::default() } }
            }
            13..15 => {
                let encrypted = vec![self.rng.below(200) as u8];
                WebhookChange::Rotate { id, encrypted, keep: Duration::from_secs(self.rng.below(3) * 1_000) }
            }
            _ => WebhookChange::Remove { id },
        };
        let (request, answer) = Request::new(change.clone());
        (request, Asked::Webhook { change, answer })
    }

    /// Now and then one that is too old as soon as it is stored.
    fn delivery(&mut self) -> Delivery {
        let old = self.rng.chance(15);
        Delivery {
            message_id: format!("m{}", self.rng.below(1_000)),
            seq: Some(self.rng.below(100)),
            kind: "completed".into(),
            cause: DeliveryCause::Event,
            at: if old { Time::ZERO } else { self.now },
            attempt: 1,
            status: Some(200),
            duration_ms: 3,
            error: None,
            next_attempt_at: None,
        }
    }
}

fn new_hook(id: String, now: Time) -> Webhook {
    Webhook {
        id,
        url: "https://example.com/".into(),
        events: vec!["*".into()],
        secrets: SigningSecrets::new(vec![0]),
        enabled: true,
        retry_limit: 3,
        created_at: now,
        updated_at: now,
        delivered_up_to: 0,
        delivered: 0,
        failed: 0,
        last_error: None,
        log: DeliveryLog::default(),
        namespace: Default::default(),
    }
}

impl From<&Webhook> for ModelHook {
    fn from(hook: &Webhook) -> ModelHook {
        ModelHook {
            delivered_up_to: hook.delivered_up_to,
            delivered: hook.delivered,
            failed: hook.failed,
            enabled: hook.enabled,
            secrets: hook.secrets.clone(),
            log: hook.log,
        }
    }
}

impl Model {
    /// What was asked either happened or, when the commit failed, did not; nothing else changes these rows.
    pub fn adopt_hooks(&mut self, disk: &SimDisk, stored: &Stored, causes: &Causes) {
        let found: BTreeMap<String, ModelHook> =
            stored.webhooks.iter().map(|hook| (hook.id.clone(), ModelHook::from(hook))).collect();
        if found != self.hooks.hooks {
            let change = causes.webhook.as_ref().unwrap_or_else(|| panic!("nobody changed a webhook: {found:?}"));
            let expected = self.hooks.after(change, &found, stored.meta.now);
            assert_eq!(found, expected, "what was delivered to webhooks");
            self.hooks.hooks = expected;
        }
        self.hooks.forget(&found, stored.meta.now);
        self.hooks.check_deliveries(disk);
    }
}

impl Hooks {
    /// What the change makes of the rows. Up to which event it was delivered, and which deliveries were removed, is as
    /// `found`: the first depends on events that are not looked at here, the second is checked by itself.
    fn after(
        &mut self,
        change: &WebhookChange,
        found: &BTreeMap<String, ModelHook>,
        now: Time,
    ) -> BTreeMap<String, ModelHook> {
        let mut expected = self.hooks.clone();
        match change.clone() {
            WebhookChange::Add(hook) => {
                // Only later events are delivered to it.
                let delivered_up_to = found.get(&hook.id).map_or(0, |hook| hook.delivered_up_to);
                expected.insert(hook.id.clone(), ModelHook { delivered_up_to, ..ModelHook::from(&*hook) });
            }
            WebhookChange::Remove { id } => {
                self.deliveries.retain(|(of, _), _| *of != id);
                expected.remove(&id);
            }
            WebhookChange::Edit { id, edit } => {
                if let Some(hook) = expected.get_mut(&id) {
                    let again = edit.enabled == Some(true) && !hook.enabled;
                    hook.delivered_up_to = if again {
                        found.get(&id).map_or(0, |hook| hook.delivered_up_to)
                    } else {
                        hook.delivered_up_to
                    };
                    hook.enabled = edit.enabled.unwrap_or(hook.enabled);
                }
            }
            WebhookChange::Rotate { id, encrypted, keep } => {
                if let Some(hook) = expected.get_mut(&id) {
                    hook.secrets.rotate(encrypted, keep, now).expect("a good span");
                }
            }
            WebhookChange::Delivered { id, up_to, delivered, failed, deliveries, .. } => {
                if let Some(hook) = expected.get_mut(&id) {
                    hook.delivered_up_to = hook.delivered_up_to.max(up_to);
                    hook.delivered += delivered;
                    hook.failed += failed;
                }
                self.add(&mut expected, found, &id, deliveries);
            }
            WebhookChange::Tried { id, delivery } => self.add(&mut expected, found, &id, vec![delivery]),
        }
        let changed = of(change);
        if let Some(hook) = expected.get_mut(changed) {
            hook.secrets.drop_expired(now);
        }
        expected
    }

    fn add(
        &mut self,
        expected: &mut BTreeMap<String, ModelHook>,
        found: &BTreeMap<String, ModelHook>,
        id: &str,
        deliveries: Vec<Delivery>,
    ) {
        let Some(hook) = expected.get_mut(id) else { return };
        for delivery in deliveries {
            self.deliveries.insert((id.to_owned(), hook.log.next), delivery);
            hook.log.next += 1;
        }
        let first = found.get(id).map_or(0, |hook| hook.log.first);
        assert!(first >= hook.log.first, "a delivery that was removed came back");
        hook.log.first = first;
    }

    /// Those that were removed had to go: there were too many, or they were too old.
    fn forget(&mut self, found: &BTreeMap<String, ModelHook>, now: Time) {
        self.deliveries.retain(|(id, number), delivery| {
            let Some(hook) = found.get(id) else { panic!("deliveries of {id}, which is gone, are in the model") };
            let kept = *number >= hook.log.first;
            let surplus = hook.log.next - number > bounds::DELIVERIES;
            assert!(kept || surplus || delivery.is_past_keeping(now), "{delivery:?} of {id} was removed too early");
            kept
        });
    }

    fn check_deliveries(&self, disk: &SimDisk) {
        let found: Vec<Vec<u8>> = disk.all(Space::Deliveries).into_iter().map(|(key, _)| key).collect();
        let expected: Vec<Vec<u8>> = self.deliveries.keys().map(|(id, number)| keys::delivery(id, *number)).collect();
        assert_eq!(found, expected, "the stored deliveries of webhooks");
        for (id, hook) in &self.hooks {
            let here = self.deliveries.range((id.clone(), 0)..=(id.clone(), u64::MAX)).map(|((_, number), _)| *number);
            assert!(here.eq(hook.log.numbers()), "the stored deliveries of {id} have a gap: {hook:?}");
        }
    }
}

fn of(change: &WebhookChange) -> &str {
    match change {
        WebhookChange::Add(hook) => &hook.id,
        WebhookChange::Edit { id, .. }
        | WebhookChange::Rotate { id, .. }
        | WebhookChange::Delivered { id, .. }
        | WebhookChange::Tried { id, .. }
        | WebhookChange::Remove { id } => id,
    }
}

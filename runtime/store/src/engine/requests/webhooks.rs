//! Webhooks: addresses that events are sent to with their latest deliveries, and queues that take signed requests.
//! Which events were delivered is reported by the server, which sends them.

use windlass_core::{Delivery, InboundHook, Refusal, Webhook};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::{InboundChange, WebhookChange, limits};

impl<D: Disk> Engine<D> {
    pub(crate) fn change_webhook(&mut self, change: WebhookChange) -> Result<(), Failure> {
        let hook = match change {
            WebhookChange::Add(hook) => self.new_webhook(*hook)?,
            WebhookChange::Edit { id, edit } => {
                self.catalogue.known_webhook(&id)?.edited(edit, self.events.last(), self.now)?
            }
            WebhookChange::Rotate { id, encrypted, keep } => {
                let mut hook = self.catalogue.known_webhook(&id)?;
                hook.secrets.rotate(encrypted, keep, self.now)?;
                hook.updated_at = self.now;
                hook
            }
            WebhookChange::Delivered { id, up_to, delivered, failed, last_error, deliveries } => {
                let mut hook = self.catalogue.known_webhook(&id)?;
                hook.note_delivered(up_to, delivered, failed, last_error);
                self.log_deliveries(hook, deliveries)?
            }
            WebhookChange::Tried { id, delivery } => {
                let hook = self.catalogue.known_webhook(&id)?;
                self.log_deliveries(hook, vec![delivery])?
            }
            WebhookChange::Remove { id } => return Ok(self.remove_webhook(&id)?),
        };
        self.put_webhook(hook);
        Ok(())
    }

    fn new_webhook(&self, hook: Webhook) -> Result<Webhook, Refusal> {
        hook.check()?;
        if self.catalogue.known_webhook(&hook.id).is_ok() {
            return Err(Refusal::Exists { what: "webhook", name: hook.id });
        }
        if self.catalogue.count_webhooks() >= limits::WEBHOOKS {
            let why = format!("there are {} webhooks, and there can be no more; remove one", limits::WEBHOOKS);
            return Err(Refusal::invalid("url", why));
        }
        Ok(Webhook { created_at: self.now, updated_at: self.now, delivered_up_to: self.events.last(), ..hook })
    }

    fn put_webhook(&mut self, mut hook: Webhook) {
        hook.secrets.drop_expired(self.now);
        self.catalogue.put_webhook(hook, &mut self.unsaved.batch);
        self.unsaved.require_commit();
    }

    pub(super) fn remove_webhook(&mut self, id: &str) -> Result<(), Refusal> {
        let hook = self.catalogue.known_webhook(id)?;
        for number in hook.log.numbers() {
            self.unsaved.batch.delete(Space::Deliveries, keys::delivery(id, number));
        }
        self.catalogue.drop_webhook(id, &mut self.unsaved.batch);
        self.unsaved.require_commit();
        Ok(())
    }

    /// Stores deliveries behind those that are stored, and removes the oldest as far as there are too many or they are
    /// too old.
    fn log_deliveries(&mut self, mut hook: Webhook, deliveries: Vec<Delivery>) -> Result<Webhook, DiskError> {
        for delivery in deliveries {
            let key = keys::delivery(&hook.id, hook.log.add());
            self.unsaved.batch.put(Space::Deliveries, key, codec::encode(&delivery.bounded()));
        }
        while let Some(number) = hook.log.surplus() {
            self.unsaved.batch.delete(Space::Deliveries, keys::delivery(&hook.id, number));
            hook.log.first += 1;
        }
        while self.is_delivery_past_keeping(&hook)? {
            self.unsaved.batch.delete(Space::Deliveries, keys::delivery(&hook.id, hook.log.first));
            hook.log.first += 1;
        }
        Ok(hook)
    }

    /// Whether the oldest stored delivery is too old, or cannot be read.
    fn is_delivery_past_keeping(&self, hook: &Webhook) -> Result<bool, DiskError> {
        if self.paused.is_some() || hook.log.numbers().is_empty() {
            return Ok(false);
        }
        let key = keys::delivery(&hook.id, hook.log.first);
        if self.unsaved.batch.writes.contains_key(&(Space::Deliveries, key.clone())) {
            // Of this very group.
            return Ok(false);
        }
        let row = match self.disk.get(Space::Deliveries, &key) {
            Ok(Some(row)) => codec::decode::<Delivery>(Space::Deliveries, &row),
            Ok(None) => return Ok(true),
            Err(error) => Err(error),
        };
        match row {
            Ok(delivery) => Ok(delivery.is_past_keeping(self.now)),
            Err(error) if error.is_damage() => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn change_inbound(&mut self, change: InboundChange) -> Result<(), Refusal> {
        match change {
            InboundChange::Set { queue, settings } => {
                let old = self.catalogue.inbound_hook(&queue);
                if old.is_none() && self.catalogue.count_inbound_hooks() >= limits::INBOUND_HOOKS {
                    let most = limits::INBOUND_HOOKS;
                    let why = format!("there are {most} inbound webhooks, and there can be no more; remove one");
                    return Err(Refusal::invalid("queue", why));
                }
                let hook = InboundHook::set(old, queue, settings, self.now)?;
                self.catalogue.put_inbound_hook(hook, &mut self.unsaved.batch);
            }
            InboundChange::Remove { queue } => {
                if self.catalogue.inbound_hook(&queue).is_none() {
                    return Err(Refusal::not_found("inbound webhook", queue));
                }
                self.catalogue.drop_inbound_hook(&queue, &mut self.unsaved.batch);
            }
        }
        self.unsaved.require_commit();
        Ok(())
    }
}

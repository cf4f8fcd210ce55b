//! What producers use: enqueueing, over the API and by incoming webhooks.

pub(crate) mod enqueue;
pub(crate) mod idempotency;
pub(crate) mod inbound;
mod served_by;

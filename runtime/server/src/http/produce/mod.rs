//! What producers use: enqueueing, over the API and by incoming webhooks.

pub(crate) mod enqueue;
pub(crate) mod idempotency;
pub(crate) mod inbound;
pub(crate) mod permitted;
mod served_by;

//! What producers use: enqueueing, over the API and by webhooks from elsewhere.

pub(crate) mod enqueue;
pub(crate) mod inbound;
mod served_by;

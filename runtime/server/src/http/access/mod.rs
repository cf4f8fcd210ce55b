//! Who sends a request, and whether they may: keys, the routes' permissions, rates, and rules for enqueueing without a
//! key.
//!
//! Reading order: `authority` (who is it?), `key_text` (how a key looks), `route_table` (what a route needs). The order
//! of all checks at the door is in `transport::auth`.

mod authority;
pub(crate) mod key_text;
mod route_table;

pub use authority::{Authority, NAMESPACE_PARAMETER, Refused, StartKey, Way};
pub use route_table::RouteTable;
